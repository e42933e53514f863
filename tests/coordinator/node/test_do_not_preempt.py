"""The do-not-preempt bit: who is in a critical section is stopped a little later, but is stopped."""

import json
import os
import signal
import time
from types import SimpleNamespace

import pytest
from runs import eventually, running

from coordinator import policies
from coordinator.node.section_remedies import DoNotPreempt, SectionPages
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.locks import ASLEEP, INSIDE, OUTSIDE, SectionLocks, SectionMarks, page_file
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


@pytest.mark.parametrize(
    ("states", "deeds"),
    [
        ([OUTSIDE], ["hold"]),
        ([INSIDE, INSIDE, OUTSIDE], ["pause", "pause", "hold"]),
        ([INSIDE], ["pause"] * REMEDY.deferrals + ["hold"]),
        ([OUTSIDE, INSIDE, OUTSIDE], ["hold", "run", "pause", "hold"]),
        ([ASLEEP], ["hold"]),
    ],
    ids=[
        "outside",
        "until it has left",
        "after the last time",
        "enters as it is held",
        "sleeps for its turn",
    ],
)
def test_a_process_is_held_when_it_is_outside_of_sections(page, states, deeds):
    assert held(page, *states) == deeds


def test_a_section_that_is_entered_and_left_is_seen(page):
    page.locks.enter(0)
    assert SectionMarks(page_file(page.folder, 0)).inside(1)
    page.locks.leave(0)
    assert not SectionMarks(page_file(page.folder, 0)).inside(1)


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
@pytest.mark.parametrize("part", ["rank", "agent"])
def test_nothing_is_left_when_a_part_is_killed_as_ranks_hold_locks(part):
    how = {"section_us": 500, "granularity_us": 20, "phases": 3000, "blocking": "fixed"}
    with running(policy="gang", remedy={"kind": "defer"}, **how) as run:
        eventually(run.holds)
        os.kill(run.part(part), signal.SIGKILL)
        out, _ = run.driver.communicate(timeout=60)
        assert eventually(lambda: not run.remains())
        assert any(json.loads(out)["jobs"]), "a job has failed, and says why"
