"""CPU quotas in the simulator: what they cost, and what they leave alone."""

from dataclasses import replace
from itertools import pairwise

import pytest

from coordinator import policies
from harness.simulator.processes.local.eevdf import TICK_NS
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import IDLE
from harness.simulator.processes.simulate import simulate
from workloads.options import Options, Remedy
from workloads.program import Program
from workloads.validation import InputError

MACHINE = SimulatedMachine(2, 0.0, latency_us=0.0, local="eevdf", messages_to_self=False)


def simulated(
    quota,
    *,
    jobs=1,
    waiting="spin",
    imbalance=1.5,
    policy="none",
    period_ms=100.0,
    machine=MACHINE,
    **options,
):
    """Jobs of two processes of which each computes for about a second."""
    program = Program("BARRIER", 2, granularity_us=1000, imbalance=imbalance, phases=1000)
    limits = Options(waiting, quota_processors=quota, quota_period_ms=period_ms)
    work = [SimulatedJob(number, program) for number in range(jobs)]
    return simulate(work, machine, policies.create(policy, options), limits, timeline=True)


def used(outcome, since_ns, until_ns):
    """CPU time of all processes between two times."""
    total = 0
    for p in range(2):
        rows = [row for row in outcome.timeline.tolist() if row[1] == p]
        ends = [row[0] for row in rows[1:]] + [outcome.end_ns]
        for (begin, _, process, category, _), end in zip(rows, ends, strict=True):
            if process >= 0 and category != IDLE:
                total += max(0, min(end, until_ns) - max(begin, since_ns))
    return total


@pytest.mark.parametrize("period_ms", [20.0, 100.0])
@pytest.mark.parametrize("quota", [0.5, 1.0, 1.5])
def test_in_each_period_the_processes_use_the_quota_up_to_a_tick_which_they_owe(quota, period_ms):
    result = simulated(quota, period_ms=period_ms)
    period_ns = round(period_ms * 1e6)
    whole = result.end_ns // period_ns
    assert whole > 8
    for n in range(1, 10):
        over_ns = used(result, 0, n * period_ns) - n * quota * period_ns
        assert 0 <= over_ns <= 2 * TICK_NS


def test_processors_stop_one_after_the_other_and_who_blocks_leaves_the_budget_to_the_others():
    """Both take slices of 5 ms, so the one that runs out first may find nothing where the other still has."""
    spinning = simulated(1.0, imbalance=0.0)
    stops = [first_stop_ns(spinning, p) for p in range(2)]
    assert 44e6 < min(stops) < max(stops) < 56e6
    alone = simulated(1.0, imbalance=2.0, waiting="immediate")
    assert max(first_stop_ns(alone, p) for p in range(2)) > max(stops)


def test_spinning_uses_the_quota_and_blocking_does_not():
    """With a quota of one processor only work counts: two seconds for those that block."""
    spun = simulated(1.0)
    blocked = simulated(1.0, waiting="immediate")
    cpu_s = [sum(outcome.jobs[0].cpu_ns) / 1e9 for outcome in (spun, blocked)]
    assert spun.end_ns / 1e9 == pytest.approx(cpu_s[0], rel=0.03)
    assert blocked.end_ns / 1e9 == pytest.approx(cpu_s[1], rel=0.03)
    assert cpu_s[0] > 1.2 * cpu_s[1]
    assert spun.throttled == pytest.approx(0.5, abs=0.02)
    assert 0 < blocked.throttled < spun.throttled


def first_stop_ns(outcome, p):
    """When processor ``p`` idles for 10 ms for the first time."""
    rows = [row for row in outcome.timeline.tolist() if row[1] == p]
    idle = (one[0] for one, after in pairwise(rows) if one[2] < 0 and after[0] - one[0] > 10e6)
    return next(idle)


def test_under_a_quota_that_one_spinning_process_uses_up_the_way_out_is_told():
    machine = replace(MACHINE, context_switch_us=5.0, latency_us=2.0)
    failures = {
        rule: simulated(0.05, waiting=rule, machine=machine).failure for rule in ("spin", "immediate")
    }
    assert failures["spin"].endswith("spinning uses the quota up: give more, or let ranks block (waiting)")
    assert failures["immediate"] == ""


def test_a_quota_of_as_many_processors_hardly_stops_any():
    result = simulated(2)
    free = simulated(0)
    assert result.end_ns == pytest.approx(free.end_ns, rel=0.01)


@pytest.mark.parametrize("quota", [0, 3.5])
def test_a_quota_of_more_than_all_processors_changes_nothing(quota):
    result = simulated(quota)
    free = simulated(0)
    assert result.end_ns == free.end_ns
    assert result.throttled == 0
    assert result.timeline.tolist() == free.timeline.tolist()


def test_slots_go_on_by_the_clock_while_processors_stand_still():
    """The budget ends with the first of two slots: the second job gets nothing before the first one's end."""
    result = simulated(1.0, jobs=2, imbalance=0.0, policy="gang", quantum_ms=50)
    first, second = (sum(job.cpu_ns) for job in result.jobs)
    ends = [job.finish_ns for job in result.jobs]
    assert ends[0] < ends[1]
    assert used(result, 0, ends[0]) == pytest.approx(first, rel=0.1)
    assert result.end_ns / 1e9 == pytest.approx((first + second) / 1e9, rel=0.1)


@pytest.mark.parametrize(
    "given, key",
    [
        ({"quota_processors": 0.005}, "quota_processors"),
        ({"quota_processors": 1e-9}, "quota_processors"),
        ({"quota_processors": -1}, "quota_processors"),
        ({"quota_period_ms": 0.5}, "quota_period_ms"),
        ({"quota_processors": 1, "remedy": Remedy("activations")}, "remedy.kind"),
        ({"quota_processors": 1, "local": "rr"}, "local"),
    ],
)
def test_quotas_that_linux_refuses_are_refused(given, key):
    with pytest.raises(InputError) as caught:
        Options(**given)
    assert caught.value.key == key
