"""Messaging between real ranks; runs under ``mpiexec -n N`` for any N."""

import os
import resource
import signal
import subprocess
import time
from typing import ClassVar

import pytest
from mpi4py import MPI

from workloads import execute
from workloads.doorbell import NetworkBell
from workloads.execute import Execution, LaunchedProgram
from workloads.messaging import Messenger
from workloads.program import Program
from workloads.record import Recorder
from workloads.waiting_rules import UNKNOWN_NS, waiting_rule

pytestmark = pytest.mark.mpi

COMM = MPI.COMM_WORLD
PHASES = 50
BELLS = pytest.mark.parametrize("network", [False, True], ids=["futex", "datagram"])


def rule(name, context_switch_us=5.0):
    return waiting_rule(name, context_switch_us=context_switch_us, latency_us=2.0, imbalance_us=20.0)


class Job:
    """A messenger with its recorder, closed at the end of the block on all ranks."""

    def __init__(self, name, **options):
        self.recorder = Recorder()
        self.messenger = Messenger(COMM, rule(name), self.recorder, **options)

    def __enter__(self):
        return self.messenger, self.recorder

    def __exit__(self, *error):
        self.messenger.close()


class NotedReceive:
    """A receive that notes the steps of its end."""

    def __init__(self, receive, steps):
        self._receive = receive
        self._steps = steps

    def __getattr__(self, name):
        self._steps.append(name)
        return getattr(self._receive, name)


class NotedComm(MPI.Intracomm):
    """A communicator that notes the steps of the end of its receive, and its own."""

    steps: ClassVar = []

    def Recv_init(self, *where):
        return NotedReceive(super().Recv_init(*where), self.steps)

    def Free(self):
        self.steps.append("communicator")
        super().Free()


@pytest.mark.parametrize("name", ["spin", "immediate"])
def test_a_closed_messenger_has_completed_its_receive_and_keeps_no_communicator(name):
    """A cancelled request is freed only when it is complete, and MPI has some thousand communicators."""
    messenger = Messenger(NotedComm(COMM), rule(name), Recorder())
    messenger.barrier(learning=False)
    COMM.Barrier()
    NotedComm.steps.clear()
    messenger.close()
    assert NotedComm.steps == ["Cancel", "Wait", "Free", "communicator"]


@BELLS
@pytest.mark.parametrize("name", ["spin", "immediate", "global-adaptive"])
def test_nobody_leaves_a_barrier_before_all_have_arrived(name, network):
    with Job(name, network=network) as (messenger, recorder):
        for late in range(3 * COMM.size):
            if late % COMM.size == COMM.rank:
                time.sleep(0.003)
            arrived = time.monotonic_ns()
            messenger.barrier(learning=True)
            left = time.monotonic_ns()
            assert COMM.allreduce(arrived, MPI.MAX) <= COMM.allreduce(left, MPI.MIN)
        assert recorder.barriers.counts().spun + recorder.barriers.counts().blocked == 3 * COMM.size


def test_all_ranks_go_by_the_same_estimate():
    with Job("global-adaptive") as (messenger, _):
        for late in range(3 * COMM.size):
            if late % COMM.size == COMM.rank:
                time.sleep(0.002)
            messenger.barrier(learning=True)
            assert len(set(COMM.allgather(messenger.estimate_ns))) == 1
        assert COMM.size == 1 or messenger.estimate_ns > 0


class Watch:
    """An observer that keeps what it is shown after each phase but the last."""

    def __init__(self):
        self.seen = []

    def phase_over(self, received):
        self.seen.append(received())


@pytest.mark.parametrize("pattern", ["BARRIER", "NEWS", "TRANSPOSE"])
def test_an_observer_sees_the_messages_that_the_simulator_counts(pattern):
    program = Program(pattern, processes=COMM.size, granularity_us=20, imbalance=1, phases=12)
    with Job("immediate") as (messenger, recorder):
        watch = Watch()
        launched = LaunchedProgram(COMM, program, rule, (1, 0, 0), 0.0, observer=watch)
        Execution(launched, messenger, recorder).run()
        one = program.messages_to(COMM.rank)
        assert watch.seen == [(one * phases).tolist() for phases in range(1, 12)]


@pytest.mark.parametrize(
    "name, network",
    [("spin", False), ("immediate", False), ("immediate", True), ("fixed", False), ("fixed", True)],
)
def test_every_read_is_answered_by_its_target(name, network):
    rounds = 10 if name == "spin" else 50  # ranks that outnumber the processors spin for whole time slices
    with Job(name, network=network) as (messenger, recorder):
        for _ in range(rounds):
            for step in range(1, COMM.size + 1):
                messenger.read((COMM.rank + step) % COMM.size)
            messenger.barrier(learning=False)
        answered = recorder.reads.counts().spun + recorder.reads.counts().blocked
        assert answered == rounds * (COMM.size - 1)
        assert messenger.served == answered


@pytest.mark.parametrize("name", ["spin", "immediate"])
def test_a_stopped_target_answers_only_after_it_runs_again(name):
    with Job(name) as (messenger, _):
        if COMM.rank == 1:
            subprocess.Popen(["/bin/sh", "-c", f"sleep 0.3; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        elif COMM.rank == 0 and COMM.size > 1:
            begin = time.monotonic()
            messenger.read(1)
            assert 0.25 < time.monotonic() - begin < 5
        messenger.barrier(learning=False)


def test_one_sided_reads_need_no_service():
    with Job("immediate", one_sided=True) as (messenger, recorder):
        for step in range(1, COMM.size + 1):
            messenger.read((COMM.rank + step) % COMM.size)
        messenger.barrier(learning=False)
        assert messenger.served == 0
        assert recorder.reads.counts().spun == COMM.size - 1


@pytest.mark.parametrize("late, network", [(0, False), (1, True)])
def test_a_blocked_rank_uses_no_processor(late, network):
    """Over a block of 0.7 s, in which it looks for itself once, its CPU time grows by less than 1 % of that.

    Interrupts and a hypervisor count as CPU time, too: some milliseconds on a shared host.
    """
    late %= COMM.size
    with Job("immediate", network=network) as (messenger, recorder):
        messenger.barrier(learning=False)
        before = resource.getrusage(resource.RUSAGE_THREAD)
        cpu_ns = time.thread_time_ns()
        if COMM.rank == late and COMM.size > 1:
            time.sleep(0.7)
        messenger.barrier(learning=False)
        spent_ms = (time.thread_time_ns() - cpu_ns) / 1e6
        switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before.ru_nvcsw
        if COMM.rank != late:
            assert spent_ms < 7
            assert switches >= 1
            assert recorder.barriers.counts().blocked >= 1
        assert messenger.rechecks == 0


def test_a_message_that_is_announced_but_late_leaves_the_processor_to_others(monkeypatch):
    """Its sender may need the processor to send it."""
    with Job("immediate", network=True) as (messenger, _):
        monkeypatch.setattr(NetworkBell, "arm", lambda bell, received: False)
        begin = time.monotonic()
        cpu_ns = time.thread_time_ns()
        if COMM.rank == COMM.size - 1:
            time.sleep(0.3)
        messenger.barrier(learning=False)
        assert (time.thread_time_ns() - cpu_ns) / 1e9 < 0.5 * (time.monotonic() - begin) or COMM.size == 1


@BELLS
def test_no_wake_up_is_lost(network):
    """A lost one would be found by the sleeper's own look, which is counted."""
    with Job("immediate", network=network) as (messenger, _):
        begin = time.monotonic()
        for _ in range(500):
            messenger.barrier(learning=False)
            messenger.read((COMM.rank + 1) % COMM.size)
        messenger.barrier(learning=False)
        assert messenger.rechecks == 0
        assert time.monotonic() - begin < 60


@pytest.mark.parametrize("first", range(2))
def test_the_root_observes_the_spread_of_arrivals(first):
    """By clocks that say whole milliseconds of their own, so that no other time can play a part."""
    place = (COMM.rank + first) % COMM.size
    arrivals = iter(
        [time for turn in range(3) for time in (turn * 10**9 + place * 10**6, COMM.rank * 10**12)]
    )
    messenger = Messenger(COMM, spread_rule(), Recorder(), clock=lambda: next(arrivals))
    for _ in range(3):
        messenger.barrier(learning=True)
        messenger.barrier(learning=False)  # a closing barrier, whose arrivals teach nothing
        assert messenger.estimate_ns == (10**6 * (COMM.size - 1) or UNKNOWN_NS)  # one has no imbalance
    messenger.close()


def spread_rule():
    return waiting_rule(
        "global-adaptive", context_switch_us=5.0, latency_us=2.0, imbalance_estimate="arrival-spread"
    )


@pytest.mark.parametrize(
    "options",
    [
        {"pattern": "BARRIER"},
        {"pattern": "NEWS"},
        {"pattern": "TRANSPOSE"},
        {"pattern": "NEWS", "read": "rma"},
        {"pattern": "NEWS", "opening_barrier": False},
        {"pattern": "TRANSPOSE", "imbalance_kind": "exponential", "read_imbalance": 1.0},
        {"pattern": "NEWS", "working_set_bytes": 100_000},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["local-adaptive", "global-adaptive"])
def test_programs_run_and_account_for_every_wait(options, name):
    program = Program(processes=COMM.size, granularity_us=50, imbalance=0.5, phases=PHASES, **options)
    recorder = Recorder()
    messenger = Messenger(COMM, rule(name), recorder, one_sided=program.read == "rma")
    launched = LaunchedProgram(COMM, program, rule, (1, 0, 0), memory_step_ns=1000.0)
    record = Execution(launched, messenger, recorder).run()
    messenger.close()
    waits = record.waits
    others = sum(target != COMM.rank for target in program.reads()[COMM.rank])
    assert waits.barrier.spun + waits.barrier.blocked == PHASES * program.barriers_per_phase
    assert waits.read.spun + waits.read.blocked == PHASES * others
    for kind in waits.kinds:
        assert sum(kind.spun_histogram) == kind.spun
        assert sum(kind.blocked_histogram) == kind.blocked
    charged = record.computing_ns + record.communicating_ns + record.synchronizing_ns
    assert charged == pytest.approx(record.cpu_ns, rel=0.02, abs=2e6)
    assert record.rechecks == 0


def burn(amount_ns):
    end_ns = time.thread_time_ns() + amount_ns
    while time.thread_time_ns() < end_ns:
        pass


class SlowDraws(execute.Draws):
    """Compute times that take as long to draw as half of a phase."""

    def compute_ns(self, count):
        burn(2_000_000)
        return super().compute_ns(count)


def test_what_a_rank_does_between_two_phases_is_a_part_of_the_next_one(monkeypatch):
    """Else a phase would take longer than its program says, and than a simulated one."""
    monkeypatch.setattr(execute, "BLOCK_PHASES", 1)
    monkeypatch.setattr(execute, "Draws", SlowDraws)
    program = Program(processes=COMM.size, granularity_us=4000, phases=10)
    with Job("spin") as (messenger, recorder):
        launched = LaunchedProgram(COMM, program, rule, (1, 0, 0), memory_step_ns=0.0)
        record = Execution(launched, messenger, recorder).run()
    assert 40e6 <= record.computing_ns < 50e6  # 58 if it came on top
    assert record.cpu_ns >= record.computing_ns
