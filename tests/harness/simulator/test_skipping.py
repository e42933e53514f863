"""Skipped events change no number: a timeline leaves none out, and the outcome is the same."""

import numpy as np
import pytest
from compiled_only import PLAIN, takes_minutes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator import policies
from harness.simulator.processes import kernel
from harness.simulator.processes import simulate as front_door
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import PAUSED
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program
from workloads.waiting_rules import ESTIMATES, RULES

PATTERNS = ("BARRIER", "NEWS", "TRANSPOSE")
SCHEDULERS = (
    ("implicit", {}),
    ("implicit", {}),
    ("gang", {"quantum_ms": 1}),
    ("gang", {"quantum_ms": 7}),
    ("gang", {"quantum_ms": 500}),
    ("two-queue", {}),
)


def jobs(**program):
    return [SimulatedJob(number, Program(**program), arrival_s=0.004 * (number > 1)) for number in range(3)]


def both(workload, machine, scheduler, **how):
    name, options = scheduler
    return [
        simulate(workload, machine, policies.create(name, options), timeline=timeline, **how)
        for timeline in (False, True)
    ]


def assert_same(one, other):
    """Equal to the last bit, but for the timeline."""
    for name, value in vars(one).items():
        if name != "timeline":
            assert np.array_equal(value, getattr(other, name)), name


machines = st.builds(
    SimulatedMachine,
    processors=st.just(4),
    context_switch_us=st.sampled_from([0.0, 50.0, 200.0]),
    switch_deviation_us=st.sampled_from([(), (-8.0, 25.0)]),
    idle_times_us=st.just((200.0,)),
    switch_after_idle_us=st.sampled_from([(), (), ((40.0, 90.0),)]),
    overrun_us=st.sampled_from([(), (), (3.0, 5.5)]),
    send_after_idle_us=st.sampled_from([(), (), ((7.0,),)]),
    latency_us=st.sampled_from([0.0, 1.0, 10.0, 100.0]),
    local=st.sampled_from(["svr4", "svr4", "svr4", "round-robin", "fifo", "eevdf"]),
    timers=st.sampled_from(["independent", "synchronised"]),
    tick_us=st.sampled_from([0.0, 500.0, 1000.0]),
    reads_served_by=st.sampled_from(["process", "process", "network"]),
    messages_to_self=st.sampled_from([True, True, True, False]),
    handles_when_waiting=st.sampled_from([False, False, False, True]),
    receive_us=st.sampled_from([0.0, 0.0, 0.0, 3.0]),
    switch_delay_us=st.sampled_from([(), (100.0, 300.0, 700.0)]),
    tick_delay_us=st.sampled_from([(), (), (15.0, 90.0)]),
    os_noise_interval_us=st.sampled_from([0.0, 0.0, 5000.0]),
    os_noise_length_us=st.just(200.0),
)
programs = st.fixed_dictionaries(
    {
        "pattern": st.sampled_from(PATTERNS),
        "processes": st.sampled_from([4, 4, 4, 4, 3, 1]),
        "granularity_us": st.sampled_from([20.0, 100.0, 1000.0, 15000.0]),
        "imbalance": st.sampled_from([0.0, 0.25, 1.5, 2.0]),
        "imbalance_kind": st.sampled_from(["uniform", "exponential"]),
        "read_gap_us": st.sampled_from([0.0, 8.0, 8.0]),
        "read_imbalance": st.sampled_from([0.0, 0.0, 1.0]),
        "phases": st.integers(1, 20 if PLAIN else 400),
    }
)


@pytest.mark.slow
@settings(max_examples=20 if PLAIN else 100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    machine=machines,
    program=programs,
    scheduler=st.sampled_from(SCHEDULERS),
    how=st.fixed_dictionaries(
        {
            "options": st.builds(
                Options,
                waiting=st.sampled_from(["spin", *RULES]),
                imbalance_estimate=st.sampled_from(list(ESTIMATES)),
            ),
            "seed": st.integers(0, 99),
            "timeout_s": st.sampled_from([0.1, 0.5]),
        }
    ),
)
def test_skipping_changes_no_number(machine, program, scheduler, how):
    assert_same(*both(jobs(**program), machine, scheduler, **how))


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["NEWS", "TRANSPOSE"])
@pytest.mark.parametrize("policy", ["dynamic-coscheduling", "working-sets"])
def test_where_processes_are_looked_at_no_look_is_skipped(policy, pattern):
    workload = jobs(pattern=pattern, processes=4, granularity_us=1000.0, imbalance=0.25, phases=60)
    assert_same(*both(workload, SimulatedMachine(4, local="round-robin"), (policy, {}), options=Options()))


@takes_minutes
def test_most_events_of_coscheduled_jobs_are_skipped(monkeypatch):
    """The kernel goes through events one by one, and returns after a million of them."""
    statuses = []

    def watched(state):
        statuses.append(advance(state))
        return statuses[-1]

    advance = front_door.advance
    monkeypatch.setattr(front_door, "advance", watched)
    workload = jobs(pattern="TRANSPOSE", processes=32, granularity_us=100, imbalance=1.0, dedicated_s=0.5)
    gang = policies.create("gang", {"quantum_ms": 100})
    outcome = simulate(workload, SimulatedMachine(), gang, options=Options(waiting="spin"))
    assert outcome.events > 4 * kernel.EVENTS
    assert PAUSED not in statuses
