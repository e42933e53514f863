"""The locks of critical sections: one at a time, in order, and nobody sleeps through its turn."""

import ctypes
import mmap
import os
import shutil
import time
from contextlib import contextmanager

import pytest
from threads import PATIENCE_S, ended, together

from coordinator import policies
from coordinator.drive import preflight
from coordinator.workload import ParallelJob, Workload
from harness.predict.process_level import simulated_job
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from harness.spec.experiment import load
from harness.spec.jobs import described, job_group, rebuilt
from workloads import execute, locks, native
from workloads.locks import ASLEEP, INSIDE, LINE_BYTES, OUTSIDE, QUEUED, SectionLocks
from workloads.locks.lock_program import LOCKS, LockProgram
from workloads.options import Remedy
from workloads.program import Draws
from workloads.validation import InputError, LockstepError
from workloads.waiting_rules import FOREVER_NS

KINDS = pytest.mark.parametrize("kind", LOCKS.values(), ids=LOCKS)
IN_ORDER = pytest.mark.parametrize("kind", [LOCKS["ticket"], LOCKS["mcs"]], ids=["ticket", "mcs"])
LIMITS = pytest.mark.parametrize("limit_ns", [0, 20_000, FOREVER_NS], ids=["asleep", "both", "spinning"])


@contextmanager
def ranks(count, kind, limit_ns, places=1, against="none"):
    """The locks of ``count`` ranks, each on a mapping of its own; and each rank's state as others see it."""
    file = os.memfd_create("locks")
    given = count, places, kind, limit_ns, Remedy(against)
    made = [SectionLocks(file, rank, *given) for rank in range(count)]
    page = mmap.mmap(file, 0)
    yield made, lambda rank: ctypes.c_int32.from_buffer_copy(page, rank * LINE_BYTES).value
    for one in made:
        one.close()
    page.close()
    os.close(file)


class Ranks:
    """The communicator of two ranks of a node, one after the other in a thread: rank 0 first."""

    size = 2
    rank = 0
    said = None

    def bcast(self, value, root):
        self.said = self.said if self.rank else value
        return self.said

    def Barrier(self): ...


@pytest.mark.parametrize("left", ["no name", "a file of ranks that were killed", "no file"])
def test_the_ranks_of_a_job_share_an_empty_page_that_is_theirs_alone(left, tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "one_node", lambda _: True)
    page = None if left == "no name" else tmp_path / "locks"
    ranks = Ranks()
    if left.startswith("a file"):
        page.write_bytes(b"inside")
    launched = execute.LaunchedProgram(ranks, group().program, None, (1, 0, 0), 0.0, page=page)
    files = []
    for ranks.rank in range(2):
        files.append(execute.page_of(launched))
    stats = [os.fstat(file) for file in files]
    assert stats[0] == stats[1] and stats[0].st_size == 0
    assert not any(os.get_inheritable(file) for file in files)
    os.write(files[0], b"rank 0")
    assert os.pread(files[1], 9, 0) == b"rank 0"
    os.write(files[1], b"rank 1")
    assert os.pread(files[0], 9, 0) == b"rank 1"
    if page is not None:
        assert os.path.samestat(page.stat(), stats[0]) and page.stat().st_mode & 0o777 == 0o600
    for file in files:
        os.close(file)
    monkeypatch.setattr(execute, "one_node", lambda _: False)
    with pytest.raises(LockstepError, match="at most as many processes as a node has processors"):
        execute.page_of(launched)


@KINDS
@LIMITS
@pytest.mark.parametrize("against", ["none", "conscious"])
def test_one_is_inside_at_a_time_and_all_get_in(kind, limit_ns, against):
    count = 3
    sections = 60
    places = 2
    inside = [[] for _ in range(places)]
    entered = [0] * places
    with ranks(count, kind, limit_ns, places, against) as (made, _):

        def run(rank):
            for section in range(sections):
                place = (rank + section) % places
                made[rank].enter(place)
                inside[place].append(rank)
                seen = entered[place]
                alone = inside[place] == [rank]
                time.sleep(0)  # others try to get in
                entered[place] = seen + alone
                inside[place].remove(rank)
                made[rank].leave(place)

        assert ended(together(*(lambda rank=rank: run(rank) for rank in range(count))))
        assert sum(entered) == count * sections
        assert [one.rechecks for one in made] == [0] * count, "a wake-up was lost"


@IN_ORDER
@LIMITS
def test_who_comes_first_is_served_first(kind, limit_ns):
    order = [2, 0, 3, 1]
    served = []
    threads = []
    with ranks(5, kind, limit_ns) as (made, state):
        made[4].enter(0)

        def run(rank):
            made[rank].enter(0)
            served.append(rank)
            made[rank].leave(0)

        deadline = time.monotonic() + PATIENCE_S
        for rank in order:
            threads += together(lambda rank=rank: run(rank))
            while state(rank) not in (QUEUED, ASLEEP) and time.monotonic() < deadline:
                time.sleep(0)
        assert state(4) == INSIDE
        made[4].leave(0)
        assert ended(threads)
        assert served == order
        assert [state(rank) for rank in range(5)] == [OUTSIDE] * 5


@KINDS
def test_a_wait_is_measured_and_a_sleeper_sleeps(kind):
    with ranks(2, kind, 0) as (made, state):
        made[0].enter(0)
        assert made[0].last_wait()[1] == 0
        (thread,) = together(lambda: made[1].enter(0))
        deadline = time.monotonic() + PATIENCE_S
        while state(1) not in (QUEUED, ASLEEP) and time.monotonic() < deadline:
            time.sleep(0)
        time.sleep(0.01)
        made[0].leave(0)
        assert ended([thread])
        waited_ns, blocks = made[1].last_wait()
        assert waited_ns >= 10_000_000
        assert blocks >= 1


def test_without_a_compiler_the_message_says_what_needs_none(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        native.NativeError, match=r"no C compiler cc .* install one .* other than LOCK need none"
    ):
        locks.library()


def test_a_library_that_was_made_is_not_made_again(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    messages = []
    assert locks.library(messages.append) == locks.library(messages.append)
    assert len(messages) == 1


PROGRAM = {"pattern": "lock", "processes": 2, "granularity_us": 80, "section_us": 20, "phases": 10}


def group(**program):
    return job_group({"program": {**PROGRAM, **program}}, "jobs[0]")


def test_a_program_survives_its_record():
    program = group(locks=3, lock="mcs").program
    assert rebuilt(described(program)) == program
    assert rebuilt(described(program)).label == (
        "LOCK, 2 processes, g = 80 us, v = 0 g, sections of 20 us under 3 mcs locks"
    )


@pytest.mark.parametrize(
    "program, message",
    [
        ({"sectoin_us": 20}, "did you mean 'section_us'"),
        ({"lock": "tickte"}, "did you mean 'ticket'"),
        ({"pattern": "LOK"}, "did you mean 'LOCK'"),
        ({"pattern": "NEWS"}, r"program.\w+ = .*: needs the pattern LOCK, and this one is NEWS"),
        ({"read_gap_us": 3}, "LOCK has neither barriers nor reads"),
        ({"malleable": True}, "LOCK has neither barriers nor reads, and keeps its processes"),
        ({"locks": 0}, r"locks = 0: must be a whole number from 1 to"),
        ({"section_us": 0}, r"section_us = 0: must be a number"),
    ],
)
def test_a_wrong_program_is_refused_with_its_key(program, message):
    with pytest.raises(InputError, match=message):
        group(**program)


def test_an_experiment_over_hosts_refuses_a_job_that_is_larger_than_one(tmp_path):
    file = tmp_path / "locks.toml"
    file.write_text(
        'name = "locks"\nhosts = ["a:4", "b:2"]\n[[jobs]]\n'
        'program = { pattern = "LOCK", processes = 4, phases = 10 }\n[[schedulers]]\npolicy = "gang"\n'
    )
    with pytest.raises(
        InputError, match="need a page of one host, and one has 2 processors; give the job fewer"
    ):
        load(str(file))
    assert load(str(file), settings=["program.processes=2"]).nodes


def test_the_expected_time_counts_sections_or_the_lock_if_all_queue():
    program = group().program
    assert program.phase_us() == 100
    assert group(granularity_us=5, processes=4).program.phase_us() == 80
    assert program.on(1).phases == 10
    assert (program.on(1).granularity_us, program.on(1).section_us) == (160, 40)


def test_locks_are_drawn_alike_in_blocks_of_any_size():
    program = group(locks=5).program
    once, twice = (Draws(program, 1, (7, 0, 3)) for _ in range(2))
    drawn = once.among(5, 64).tolist()
    assert drawn == twice.among(5, 40).tolist() + twice.among(5, 24).tolist()
    assert set(drawn) == set(range(5))


def test_the_compiler_is_asked_for_before_a_run(monkeypatch):
    def fail(*_):
        raise native.NativeError("no C compiler")

    monkeypatch.setattr(locks, "library", fail)
    job = ParallelJob(0, group().program)
    workload = Workload((job,), policies.create("none", {}), (min(os.sched_getaffinity(0)),))
    with pytest.raises(native.NativeError):
        preflight.launch_plan(workload)


@pytest.mark.slow  # it compiles the simulator
@pytest.mark.parametrize("kind", LOCKS)
def test_simulated_processes_queue_up_for_one_lock(kind):
    program = LockProgram(lock=kind, processes=3, granularity_us=40, section_us=10, phases=1)
    machine = SimulatedMachine(processors=3, context_switch_us=0, latency_us=0, local="fifo")
    (outcome,) = simulate([SimulatedJob(0, program)], machine, policies.create("none", {})).jobs
    assert outcome.response_ns == 70_000
    assert (outcome.barriers.spun, outcome.barriers.spun_ns) == (3, 10_000 + 20_000)
    assert sorted(outcome.cpu_ns) == [50_000, 60_000, 70_000]


def test_a_job_with_locks_can_be_simulated():
    assert simulated_job(ParallelJob(0, group().program)).program.locks == 1
