"""The do-not-preempt bit: who is in a critical section is stopped a little later, but is stopped."""

import json
import os
import signal
import time
from types import SimpleNamespace

import pytest
from runs import eventually, running, workload

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.node.section_remedies import DoNotPreempt, SectionPages
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from harness.spec.naming import scheduler_name
from harness.spec.scheduler import scheduler_of
from workloads.locks import INSIDE, OUTSIDE, SectionLocks, SectionMarks, page_file
from workloads.locks.lock_program import LOCKS, LockProgram
from workloads.locks.remedies import Remedy
from workloads.options import Options

REMEDY = Remedy("defer", deferrals=3, deferral_us=50)


class Recording:
    """A mechanism that only says what it is asked for."""

    def __init__(self):
        self.deeds = []

    def adopt(self, process, job, rank):
        self.deeds.append(("adopt", job, rank))

    def hold(self, process):
        self.deeds.append("hold")

    def run(self, process):
        self.deeds.append("run")

    free = run


@pytest.fixture
def page(tmp_path):
    """The page of job 0, of two ranks; ``put`` sets the state of rank 1."""
    file = os.open(page_file(tmp_path, 0), os.O_RDWR | os.O_CREAT)
    locks = SectionLocks(file, 1, 2, 1, LOCKS["ticket"], 0)
    yield SimpleNamespace(
        folder=tmp_path, locks=locks, put=lambda state: os.pwrite(file, state.to_bytes(4, "little"), 128)
    )
    locks.close()
    os.close(file)


def held(page, *states):
    """What becomes of a rank that has these states when it is looked at; the last one remains."""
    mechanism, coming = Recording(), list(states)

    def step(deed=None):
        if deed:
            mechanism.deeds.append(deed)
        if coming:
            page.put(coming.pop(0))

    spared = DoNotPreempt(mechanism, SectionPages(page.folder), REMEDY, lambda _: step("pause"))
    hold, mechanism.hold = mechanism.hold, lambda process: (hold(process), step())
    process = object()
    spared.adopt(process, 0, 1)
    step()
    spared.hold(process)
    return mechanism.deeds[1:]


def test_a_process_outside_of_sections_is_held_at_once(page):
    assert held(page, OUTSIDE) == ["hold"]


def test_a_process_in_a_section_is_held_when_it_has_left(page):
    assert held(page, INSIDE, INSIDE, OUTSIDE) == ["pause", "pause", "hold"]


def test_a_process_that_stays_in_its_section_is_held_after_the_last_time(page):
    assert held(page, INSIDE) == ["pause"] * REMEDY.deferrals + ["hold"]


def test_a_process_that_enters_as_it_is_held_runs_on(page):
    assert held(page, OUTSIDE, INSIDE, OUTSIDE) == ["hold", "run", "pause", "hold"]


def test_a_process_that_sleeps_for_its_turn_is_held_at_once(page):
    page.locks.enter(0)
    assert SectionMarks(page_file(page.folder, 0)).inside(1)
    page.locks.leave(0)
    assert not SectionMarks(page_file(page.folder, 0)).inside(1)
    assert held(page, 3) == ["hold"]


def test_a_job_without_locks_is_held_at_once(tmp_path):
    mechanism = Recording()
    spared = DoNotPreempt(mechanism, SectionPages(tmp_path), REMEDY, time.sleep)
    spared.adopt(1, 4, 0)
    spared.hold(1)
    page_file(tmp_path, 4).touch()  # a page that its ranks have not filled yet
    spared.hold(1)
    assert mechanism.deeds == [("adopt", 4, 0), "hold", "hold"]


def test_a_job_that_starts_again_has_a_new_page(page):
    mechanism = Recording()
    spared = DoNotPreempt(
        mechanism, SectionPages(page.folder), REMEDY, lambda _: mechanism.deeds.append("pause")
    )
    page.put(INSIDE)
    spared.adopt(1, 0, 1)
    spared.hold(1)
    page_file(page.folder, 0).unlink()
    spared.adopt(2, 0, 1)
    spared.hold(2)
    assert mechanism.deeds[-2:] == [("adopt", 0, 1), "hold"]


def test_its_name_says_how_often_and_its_identity_is_older_without_it():
    table = {"policy": "gang", "quantum_ms": 10}
    spared = scheduler_of({**table, "do_not_preempt": 3, "put_off_us": 20})
    assert scheduler_name(spared.table) == "gang 10 ms, do not preempt 3 x 20 us"
    assert "remedy" not in scheduler_of(table).identity


def spun_us(remedy):
    """Mean wait for the lock of one of two jobs under gang; it includes the slots of the other."""
    program = LockProgram(processes=2, granularity_us=47, imbalance=0.5, section_us=20, phases=100)
    machine = SimulatedMachine(processors=2, context_switch_us=5, latency_us=2)
    jobs = [SimulatedJob(number, program) for number in range(2)]
    outcome = simulate(jobs, machine, policies.create("gang", {"quantum_ms": 0.5}), Options(remedy=remedy))
    waits = outcome.jobs[0].barriers
    return waits.spun_ns / waits.spun / 1e3


@pytest.mark.slow  # it compiles the simulator
def test_simulated_processes_wait_less_if_no_slot_ends_in_a_section():
    assert spun_us(Remedy("defer")) < 0.5 * spun_us(Remedy())


@pytest.mark.slow
def test_real_ranks_finish_and_leave_nothing():
    slots = {"options": {"quantum_ms": 5}, "remedy": {"kind": "defer", "deferrals": 3}}
    result = run_workload(workload("gang", granularity_us=47, section_us=20, **slots))
    assert [job.failure for job in result.jobs] == ["", ""]
    assert len(result.switches) > 10


@pytest.mark.slow
@pytest.mark.parametrize("part", ["rank", "agent"])
def test_nothing_is_left_when_a_part_is_killed_as_ranks_hold_locks(part):
    how = {"section_us": 500, "granularity_us": 20, "phases": 3000, "blocking": "fixed"}
    with running(policy="gang", remedy={"kind": "defer"}, **how) as run:
        eventually(run.holds)
        os.kill(run.part(part), signal.SIGKILL)
        out, _ = run.driver.communicate(timeout=60)
        assert eventually(lambda: not run.remains())
        assert any(json.loads(out)["jobs"]), "a job has failed, and says why"
