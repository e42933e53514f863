"""When global-adaptive learns, and by what it spins meanwhile: ranks and the simulator, on the same waits."""

from itertools import pairwise

import mpi4py
import pytest

mpi4py.rc.initialize = mpi4py.rc.finalize = False  # no MPI here: ranks exchange their messages in memory

from coordinator import policies  # noqa: E402
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine  # noqa: E402
from harness.simulator.processes.model import COMPUTING, IDLE, SYNCHRONIZING  # noqa: E402
from harness.simulator.processes.simulate import simulate  # noqa: E402
from workloads import messaging, waiting_rules  # noqa: E402
from workloads.options import Options  # noqa: E402
from workloads.program import Program  # noqa: E402
from workloads.record import Recorder  # noqa: E402

SWITCH_US = 100.0
LATENCY_US = 10.0


def rule(estimate):
    return waiting_rules.waiting_rule(
        "global-adaptive", context_switch_us=SWITCH_US, latency_us=LATENCY_US, imbalance_estimate=estimate
    )


class Ranks:
    """All ranks of a job in one thread: who would wait lets the rank below arrive at the barrier first."""

    def __init__(self, size, monkeypatch, estimate="longest-wait"):
        self.rule = rule(estimate)
        self.active = 0
        self.clock = [[] for _ in range(size)]
        self.queues = [[] for _ in range(size)]
        monkeypatch.setattr(messaging, "perf_counter_ns", lambda: self.clock[self.active].pop(0))
        monkeypatch.setattr(messaging.Messenger, "_make_bells", lambda *_: None)
        comms = [Comm(self, rank, size) for rank in range(size)]
        self.arrived_ns = [0] * size
        self.messengers = [
            messaging.Messenger(comm, self.rule, Recorder(), clock=self.now_ns) for comm in comms
        ]

    def now_ns(self):
        """By the clock that all ranks share."""
        return self.arrived_ns[self.active]

    def limits_ns(self):
        return [
            waiting_rules.barrier_limit(self.rule, messenger.estimate_ns) for messenger in self.messengers
        ]

    def pass_barrier(self, waited_ns, learning=True, arrived_ns=None):
        """Everybody waits as long as ``waited_ns`` says, and arrives when ``arrived_ns`` does."""
        self.arrived_ns = arrived_ns or self.arrived_ns
        self.clock = [[0, waited] for waited in waited_ns]
        self.learning = learning
        self.arrive(len(self.messengers) - 1)

    def arrive(self, rank):
        before = self.active
        self.active = rank
        self.messengers[rank].barrier(learning=self.learning)
        self.active = before


class Comm:
    def __init__(self, ranks, rank, size):
        self.ranks = ranks
        self.rank = rank
        self.size = size

    def Dup(self):
        return self

    def Barrier(self):
        pass

    def Recv_init(self, buffer, source, tag):
        self.buffer = buffer
        return self

    def Start(self):
        pass

    def Send(self, message, target, tag):
        self.ranks.queues[target].append(list(message))

    def Test(self):
        if not self.ranks.queues[self.rank]:
            self.ranks.arrive(self.rank - 1)
        for place, value in enumerate(self.ranks.queues[self.rank].pop(0)):
            self.buffer[place] = value
        return True


def simulated_waits(program, estimate=waiting_rules.DEFAULT_ESTIMATE, **arguments):
    """Of each barrier but the last when each process came, waited, and spun if it blocked."""
    machine = SimulatedMachine(
        processors=program.processes,
        context_switch_us=SWITCH_US,
        latency_us=LATENCY_US,
        messages_to_self=False,
        handles_when_waiting=True,
        spin_clock="wall",
    )
    outcome = simulate(
        [SimulatedJob(0, program)],
        machine,
        policies.create("implicit", {}),
        options=Options(waiting="global-adaptive", imbalance_estimate=estimate),
        timeline=True,
        **arguments,
    )
    return list(zip(*(waits_of(outcome, p) for p in range(program.processes)), strict=True))


def waits_of(outcome, processor):
    rows = [(time, category) for time, p, _, category, _ in outcome.timeline.tolist() if p == processor]
    waits = []
    began_ns = 0
    spun_ns = None
    for (time, category), (later, following) in pairwise(rows):
        if category == SYNCHRONIZING:
            began_ns = time
            spun_ns = later - time if following == IDLE else None
        elif category != COMPUTING and following == COMPUTING and began_ns:
            waits.append((began_ns, later - began_ns, spun_ns))
        if category == SYNCHRONIZING and following == COMPUTING:
            waits.append((began_ns, later - began_ns, None))
    return waits


@pytest.mark.parametrize("estimate", waiting_rules.ESTIMATES)
def test_ranks_and_simulated_processes_spin_equally_long_after_the_same_waits(monkeypatch, estimate):
    program = Program(
        processes=4, granularity_us=300.0, imbalance=1.5, imbalance_kind="exponential", phases=150
    )
    barriers = simulated_waits(program, estimate=estimate, seed=4)
    assert len(barriers) == 149
    ranks = Ranks(4, monkeypatch, estimate)
    blocked = 0
    limits = set()
    for barrier in barriers:
        for limit_ns, (_, waited_ns, spun_ns) in zip(ranks.limits_ns(), barrier, strict=True):
            assert waited_ns <= limit_ns if spun_ns is None else spun_ns == limit_ns
            blocked += spun_ns is not None
            limits.add(limit_ns)
        arrived_ns, waits, _ = zip(*barrier, strict=True)
        ranks.pass_barrier(list(waits), arrived_ns=list(arrived_ns))
    assert blocked >= 15
    assert len(limits) >= 5


def test_a_closing_barrier_carries_it_sooner(monkeypatch):
    ranks = Ranks(2, monkeypatch)
    for waited_ns, learning, estimate_ns in (
        ([5, 9], True, -1),
        ([1, 1], False, -1),
        ([3, 2], True, -1),
        ([1, 1], False, 9),
    ):
        ranks.pass_barrier(waited_ns, learning)
        assert [messenger.estimate_ns for messenger in ranks.messengers] == [estimate_ns] * 2
