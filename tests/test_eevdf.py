"""The simulated Linux scheduler: fairness, prompt wake-ups, and agreement with plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import policies
from harness.simulator.local import eevdf
from harness.simulator.machine import SimulatedJob, SimulatedMachine
from harness.simulator.simulate import simulate
from workloads.program import Program


def machine(processors=1, **options):
    return SimulatedMachine(
        **{
            "processors": processors,
            "context_switch_us": 5.0,
            "latency_us": 1.0,
            "local": "eevdf",
            "timers": "synchronised",
            "messages_to_self": False,
            "handles_when_waiting": True,
            "spin_clock": "wall",
            **options,
        }
    )


def run(jobs, on, **options):
    return simulate(jobs, on, policies.create("none", {}), seed=3, **options)


def computing(count, granularity_us=500.0, phases=400):
    """Jobs of one process each that only compute."""
    program = Program(processes=1, granularity_us=granularity_us, phases=phases)
    return [SimulatedJob(number, program) for number in range(count)]


def test_three_computing_processes_finish_together():
    """Equal shares: each has a third of the processor, give or take a tick's turn each."""
    outcome = run(computing(3), machine())
    finishes = [job.finish_ns for job in outcome.jobs]
    assert max(finishes) - min(finishes) <= 3 * eevdf.TICK_NS
    assert outcome.makespan_ns >= 3 * 400 * 500_000


def test_a_process_is_not_interrupted_between_ticks():
    """A slice of 1.4 ms is looked at every 4 ms, so that is how long turns last."""
    outcome = run(computing(2), machine())
    turns = outcome.makespan_ns / eevdf.TICK_NS
    assert outcome.switches.sum() == pytest.approx(turns, rel=0.1)


def test_an_interactive_process_waits_for_no_more_than_a_turn_of_each_other():
    """It is eligible when it wakes, and its deadline is among the first."""
    thinker = SimulatedJob(2, Program(processes=1, granularity_us=200, phases=100), think_us=20_000)
    outcome = run([*computing(2, phases=4000), thinker], machine())
    assert outcome.jobs[2].longest_burst_ns < 200_000 + 2 * eevdf.TICK_NS + 4 * 5_000
    assert outcome.jobs[2].bursts_ns / 100 < eevdf.TICK_NS


def test_blocking_at_once_costs_switches_and_no_coordination_costs_more():
    program = Program(granularity_us=100, imbalance=0.25, dedicated_s=0.3)
    jobs = [SimulatedJob(number, program) for number in range(3)]
    alone = run(jobs[:1], machine(2)).makespan_ns
    spinning = run(jobs, machine(2)).makespan_ns
    blocking = run(jobs, machine(2), blocking="immediate").makespan_ns
    assert spinning > 1.5 * 3 * alone
    assert 0.9 * 3 * alone < blocking < 1.5 * 3 * alone


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(["spin", "immediate", "fixed", "global-adaptive"]),
    st.integers(1, 3),
    st.floats(0, 2),
    st.integers(0, 3),
)
def test_time_is_conserved_and_the_same_seed_gives_the_same(blocking, count, imbalance, repeat):
    program = Program(pattern="NEWS", granularity_us=200, imbalance=imbalance, phases=30)
    jobs = [SimulatedJob(number, program) for number in range(count)]
    outcomes = [run(jobs, machine(2), blocking=blocking, repeat=repeat) for _ in range(2)]
    for outcome in outcomes:
        assert not outcome.failure
        assert (outcome.spent_ns.sum(axis=1) == outcome.end_ns).all()
    assert np.array_equal(outcomes[0].spent_ns, outcomes[1].spent_ns)
    assert outcomes[0].jobs == outcomes[1].jobs
