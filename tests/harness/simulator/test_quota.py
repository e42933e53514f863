"""CPU quotas in the simulator: what they cost, and what they leave alone."""

from dataclasses import replace

import pytest

from coordinator import policies
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options, Remedy
from workloads.program import Program
from workloads.validation import InputError

MACHINE = SimulatedMachine(2, 0.0, latency_us=0.0, local="eevdf", messages_to_self=False)


def simulated(
    quota,
    *,
    jobs=1,
    blocking="spin",
    imbalance=1.5,
    policy="none",
    period_ms=100.0,
    machine=MACHINE,
    **options,
):
    """Jobs of two processes of which each computes for about a second."""
    program = Program("BARRIER", 2, granularity_us=1000, imbalance=imbalance, phases=1000)
    limits = Options(blocking, quota_processors=quota, quota_period_ms=period_ms)
    work = [SimulatedJob(number, program) for number in range(jobs)]
    return simulate(work, machine, policies.create(policy, options), limits, timeline=True)


def test_spinning_uses_the_quota_and_blocking_does_not():
    """With a quota of one processor only work counts: two seconds for those that block."""
    spun, blocked = simulated(1.0), simulated(1.0, blocking="immediate")
    cpu_s = [sum(outcome.jobs[0].cpu_ns) / 1e9 for outcome in (spun, blocked)]
    assert spun.end_ns / 1e9 == pytest.approx(cpu_s[0], rel=0.03)
    assert blocked.end_ns / 1e9 == pytest.approx(cpu_s[1], rel=0.03)
    assert cpu_s[0] > 1.2 * cpu_s[1]
    assert spun.throttled == pytest.approx(0.5, abs=0.02)
    assert 0 < blocked.throttled < spun.throttled


def test_under_a_quota_that_one_spinning_process_uses_up_the_way_out_is_told():
    machine = replace(MACHINE, context_switch_us=5.0, latency_us=2.0)
    found = {rule: simulated(0.05, blocking=rule, machine=machine).failure for rule in ("spin", "immediate")}
    assert found["spin"].endswith("spinning uses the quota up: give more, or let ranks block (blocking)")
    assert found["immediate"] == ""


@pytest.mark.parametrize("quota", [0, 3.5])
def test_a_quota_of_more_than_all_processors_changes_nothing(quota):
    found, free = simulated(quota), simulated(0)
    assert found.end_ns == free.end_ns
    assert found.throttled == 0
    assert found.timeline.tolist() == free.timeline.tolist()


@pytest.mark.parametrize(
    ("given", "key"),
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
