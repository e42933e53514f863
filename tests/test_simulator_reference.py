"""The compiled kernel agrees with the plain reference, event for event."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive_simulator.simulation import NaiveSimulation

from coordinator import policies
from harness.simulator.machine import SimulatedJob, SimulatedMachine
from harness.simulator.simulate import simulate
from workloads.blocking import RULES
from workloads.program import Program


@st.composite
def machines(draw):
    cost = st.sampled_from([0.0, 0.0, 0.0, 0.5, 3.0])
    return SimulatedMachine(
        processors=draw(st.integers(1, 5)),
        context_switch_us=draw(st.sampled_from([0.0, 5.0, 50.0, 200.0])),
        latency_us=draw(st.sampled_from([0.0, 1.0, 10.0, 100.0])),
        wakeup_us=draw(st.sampled_from([0.0, 20.0])),
        idle_wakeup_us=draw(st.sampled_from([None, 50.0])),
        local=draw(st.sampled_from(["svr4", "round-robin", "rr", "fifo", "eevdf"])),
        reads_served_by=draw(st.sampled_from(["process", "process", "network"])),
        timers=draw(st.sampled_from(["independent", "synchronised"])),
        send_us=draw(cost),
        receive_us=draw(cost),
        serve_us=draw(cost),
        poll_us=draw(cost),
        messages_to_self=draw(st.booleans()),
        handles_when_waiting=draw(st.booleans()),
        spin_clock=draw(st.sampled_from(["processor", "wall"])),
        slot_cost_us=draw(st.sampled_from([(), (300.0, 50.0)])),
        lateness_us=draw(st.sampled_from([(), (100.0, 300.0, 700.0)])),
        detour_gap_us=draw(st.sampled_from([0.0, 0.0, 500.0, 5000.0])),
        detour_length_us=draw(st.sampled_from([5.0, 200.0])),
    )


@st.composite
def jobs(draw, processors):
    made = []
    for number in range(draw(st.integers(1, 4))):
        thinks = draw(st.sampled_from([False, False, False, True]))
        pattern = draw(st.sampled_from(["BARRIER", "NEWS", "TRANSPOSE"]))
        program = Program(
            pattern="BARRIER" if thinks else pattern,
            processes=1 if thinks else draw(st.integers(1, processors)),
            granularity_us=draw(st.sampled_from([20.0, 100.0, 1000.0, 15000.0])),
            imbalance=draw(st.sampled_from([0.0, 0.25, 1.5, 2.0])),
            read_gap_us=draw(st.sampled_from([0.0, 8.0])),
            read_imbalance=draw(st.sampled_from([0.0, 1.0])),
            opening_barrier=pattern == "BARRIER" or thinks or draw(st.booleans()),
            read=draw(st.sampled_from(["message", "rma"])),
            phases=draw(st.integers(1, 70)),
        )
        made.append(
            SimulatedJob(
                number,
                program,
                arrival_s=draw(st.sampled_from([0.0, 0.0, 0.003, 0.02])),
                moldable=draw(st.booleans()),
                think_us=draw(st.sampled_from([0.0, 5000.0])) if thinks else None,
            )
        )
    return made


SCHEDULERS = st.sampled_from(
    [
        ("none", {}),
        ("implicit", {}),
        ("gang", {"quantum_ms": 1}),
        ("gang", {"quantum_ms": 20}),
        ("partitioned", {}),
        ("batch", {}),
    ]
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_compiled_equals_reference(data):
    machine = data.draw(machines())
    workload = data.draw(jobs(machine.processors))
    name, options = data.draw(SCHEDULERS)
    blocking = data.draw(st.sampled_from(list(RULES)))
    seed = data.draw(st.integers(0, 99))
    policy = policies.create(name, options)
    outcome = simulate(workload, machine, policy, blocking=blocking, seed=seed, timeline=True)
    if outcome.failure:
        assert machine.local == "fifo"  # the only one under which processes can spin for ever
        return
    naive = NaiveSimulation(workload, machine, policy, blocking, seed=seed).run()
    compare(outcome, naive)


def compare(outcome, naive):
    timeline = [tuple(row) for row in outcome.timeline.tolist()]
    for place, (ours, theirs) in enumerate(zip(timeline, naive.timeline, strict=False)):
        assert ours == theirs, f"entry {place} of the timeline"
    assert len(timeline) == len(naive.timeline)
    assert outcome.failure == ""
    assert (outcome.messages, outcome.timers) == (naive.messages, naive.timers)
    assert outcome.switches.tolist() == [processor.switches for processor in naive.processors]
    for ours, theirs in zip(outcome.jobs, sorted(naive.jobs, key=lambda job: job.number), strict=True):
        assert ours.finish_ns == theirs.finish_ns
        assert ours.cpu_ns == tuple(process.cpu_ns for process in theirs.processes)
        assert ours.bursts_ns == tuple(theirs.bursts_ns if theirs.think_us else ())
        for kind, waits in (("read", ours.reads), ("barrier", ours.barriers)):
            assert [waits.spun, waits.spun_ns] == theirs.waits[kind, False]
            assert [waits.blocked, waits.blocked_ns] == theirs.waits[kind, True]
