"""Dynamic coscheduling: who waits in vain gets its peer's processor, in turn, and nothing stays raised."""

import os
import subprocess
import sys
from time import monotonic_ns

import pytest

from coordinator import policies
from coordinator.host.priority import levels
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from harness.spec.scheduler import scheduler_of
from workloads.coscheduling import Coscheduling, Turns, run_next
from workloads.program import Program
from workloads.validation import InputError

PATIENCE_NS = 50_000
LEAST_RUN_NS = 1_000_000
AT_NS = 10**12


def takes(turns, job, own, other, now_ns):
    return turns.takes(job, own, other, now_ns, PATIENCE_NS, LEAST_RUN_NS)


def test_a_processor_on_which_nobody_waits_in_vain_is_left_alone(tmp_path):
    turns = Turns(tmp_path)
    assert not takes(turns, 0, 0, 1, AT_NS)
    turns.spins_in_vain(1, 1, AT_NS)
    assert not takes(turns, 0, 0, 1, AT_NS + 2 * PATIENCE_NS + 1), "long ago: somebody computes there now"
    assert takes(turns, 0, 0, 1, AT_NS + 2 * PATIENCE_NS)


def test_of_two_jobs_one_gets_both_processors_and_the_other_one_next_time(tmp_path):
    first, second = Turns(tmp_path), Turns(tmp_path)  # two ranks: the page is common
    for now_ns, winner in ((AT_NS, 0), (AT_NS + LEAST_RUN_NS, 1), (AT_NS + 2 * LEAST_RUN_NS, 0)):
        first.spins_in_vain(0, 0, now_ns)
        second.spins_in_vain(1, 1, now_ns)
        assert takes(second, 1, 1, 0, now_ns) == (winner == 1)
        assert takes(first, 0, 0, 1, now_ns) == (winner == 0)


def test_a_job_keeps_for_a_while_what_a_message_has_brought(tmp_path):
    turns = Turns(tmp_path)
    turns.spins_in_vain(1, 1, AT_NS)
    assert takes(turns, 0, 0, 1, AT_NS)
    later_ns = AT_NS + LEAST_RUN_NS
    for at_ns in (later_ns - 1, later_ns):
        turns.spins_in_vain(0, 0, at_ns)
        turns.spins_in_vain(1, 0, at_ns)
        assert [takes(turns, 1, 2, other, at_ns) for other in (0, 1)] == [at_ns == later_ns, False]


def test_no_job_is_a_rival_of_its_own(tmp_path):
    turns = Turns(tmp_path)
    turns.spins_in_vain(1, 3, AT_NS)
    assert not takes(turns, 3, 0, 1, AT_NS)


SLEEPER = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.mark.skipif(levels() is None, reason="needs realtime scheduling")
def test_nothing_stays_raised_even_if_a_rank_dies_halfway():
    with subprocess.Popen(SLEEPER, stdin=subprocess.PIPE) as peer:
        priority = levels().ranks
        os.sched_setscheduler(peer.pid, os.SCHED_RR, os.sched_param(priority + 1))  # killed after this
        run_next(peer.pid, priority)
        assert os.sched_getscheduler(peer.pid) == os.SCHED_RR
        assert os.sched_getparam(peer.pid).sched_priority == priority
        os.sched_setscheduler(peer.pid, os.SCHED_OTHER, os.sched_param(0))
        run_next(peer.pid, priority)
        assert os.sched_getscheduler(peer.pid) == os.SCHED_OTHER, "it is no rank of ours"
        peer.communicate()
    run_next(peer.pid, priority)  # it has ended: no error


def test_the_policy_needs_turns_whose_order_it_can_change():
    assert scheduler_of({"policy": "dynamic-coscheduling"}).options.local == "rr"
    with pytest.raises(InputError, match="SCHED_RR"):
        scheduler_of({"policy": "dynamic-coscheduling", "local": "other"})
    with pytest.raises(InputError, match="bind"):
        scheduler_of({"policy": "dynamic-coscheduling", "bind": False})
    with pytest.raises(InputError, match="queue"):
        simulate([job(0)], SimulatedMachine(2, local="eevdf"), policies.create("dynamic-coscheduling", {}))


MACHINE = SimulatedMachine(2, context_switch_us=5, latency_us=3, local="round-robin", quantum_ms=10)


def job(number, granularity_us=100.0, pattern="BARRIER", processes=2):
    program = Program(pattern, processes, granularity_us, imbalance=0.25, phases=round(3e4 / granularity_us))
    return SimulatedJob(number, program)


@pytest.mark.parametrize("granularity_us", [100.0, 1000.0])
@pytest.mark.parametrize("pattern", ["BARRIER", "NEWS"])
def test_simulated_jobs_that_spin_share_two_processors_at_no_loss(pattern, granularity_us):
    policy = policies.create("dynamic-coscheduling", {})
    alone = simulate([job(0, granularity_us, pattern)], MACHINE, policy).end_ns
    outcome = simulate([job(n, granularity_us, pattern) for n in range(3)], MACHINE, policy)
    assert outcome.failure == ""
    assert outcome.end_ns < 1.15 * 3 * alone


def test_a_sequential_job_keeps_its_turns():
    """Nobody waits for it, so no message gets it a processor; but none takes its processor either."""
    sequential = SimulatedJob(2, Program(processes=1, granularity_us=1e5, phases=1))
    outcome = simulate([job(0), job(1), sequential], MACHINE, policies.create("dynamic-coscheduling", {}))
    finish_ns = {one.number: one.finish_ns for one in outcome.jobs}
    assert finish_ns[2] < 1.8e8, "its own 0.1 s, and what the others need of its processor"


class Kernel:
    """Ranks 0 to 2 on processors of their own, with class and priority; notes whom somebody raises."""

    def __init__(self, priorities):
        self.priorities = dict(enumerate(priorities))
        self.changes = []

    def __getattr__(self, name):
        assert not name.startswith("sched_set")
        return getattr(os, name)

    def sched_getaffinity(self, pid):
        return {pid}

    def sched_getscheduler(self, pid):
        return os.SCHED_RR if self.priorities[pid] else os.SCHED_OTHER

    def sched_getparam(self, pid):
        return os.sched_param(self.priorities[pid])

    def sched_setscheduler(self, pid, policy, parameters):
        assert policy == os.SCHED_RR
        self.priorities[pid] = parameters.sched_priority
        self.changes.append((pid, parameters.sched_priority))


@pytest.mark.parametrize(
    "priorities, changes",
    [
        pytest.param((10, 10, 10), [(1, 11), (1, 10), (2, 11), (2, 10)], id="as usual"),
        pytest.param((11, 10, 10), [(1, 11), (1, 10), (0, 10), (2, 11), (2, 10)], id="it is raised itself"),
        pytest.param((10, 11, 11), [(1, 11), (1, 10), (2, 11), (2, 10)], id="peers were left raised"),
        pytest.param((10, 0, 10), [(2, 11), (2, 10)], id="the agent has not yet come to the first peer"),
    ],
)
def test_a_rank_raises_its_peers_for_a_moment_only(tmp_path, monkeypatch, priorities, changes):
    kernel = Kernel(priorities)
    monkeypatch.setattr("workloads.coscheduling.os", kernel)
    looking = Coscheduling({1: 1, 2: 2}, tmp_path, 7, 1e6, 0.1)
    turns = Turns(tmp_path)
    for peer, rival in ((1, 8), (2, 9)):
        turns.spins_in_vain(peer, rival, monotonic_ns())
        turns.spins_in_vain(rival * 10, 7, monotonic_ns())  # the second rival is served after job 7
        assert takes(turns, rival, 99, rival * 10, monotonic_ns()) == (rival == 9)
        looking.look([peer])
    assert kernel.changes == changes


class Interrupted:
    """The page of one rank; another rank acts after the given number of its accesses."""

    def __init__(self, words, after, act):
        self.words = words
        self.left = after
        self.act = act

    def _step(self):
        if self.left == 0:
            self.act()
        self.left -= 1

    def __getitem__(self, place):
        self._step()
        return self.words[place]

    def __setitem__(self, place, value):
        self._step()
        self.words[place] = value


@pytest.mark.parametrize("after", range(12))
@pytest.mark.parametrize("mine", [0, 1])
def test_two_jobs_never_take_each_others_processor_at_once(tmp_path, after, mine):
    """Else each would lose its own processor while the other one's process is raised."""
    turns, others, other = Turns(tmp_path), Turns(tmp_path), 1 - mine
    for processor in (0, 1):
        turns.spins_in_vain(processor, processor, AT_NS)
    took = []
    turns.words = Interrupted(
        turns.words, after, lambda: took.append(takes(others, other, other, mine, AT_NS))
    )
    took.append(takes(turns, mine, mine, other, AT_NS))
    assert took.count(True) <= 1
