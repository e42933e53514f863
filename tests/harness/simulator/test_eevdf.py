"""The simulated Linux scheduler: fairness, prompt wake-ups, and agreement with plain Python."""

import numpy as np
import pytest
from compiled_only import takes_minutes
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import policies
from harness.simulator.processes.local import eevdf
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
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


DETOURS = {"detour_gap_us": 30_000.0, "detour_length_us": 100.0}


def run(jobs, on, **options):
    waits = Options(blocking=options.pop("blocking", "spin"))
    return simulate(jobs, on, policies.create("none", {}), waits, seed=3, **options)


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


def test_a_process_pays_for_its_switch():
    """A slice of 4.5 ms, looked at every ms, lasts 5 ms, and a switch of 1 ms is a part of it."""
    turns = {}
    for switch_us in (0.0, 1000.0):
        on = machine(tick_us=1000.0, slice_us=4500.0, context_switch_us=switch_us)
        outcome = run(computing(2), on)
        turns[switch_us] = outcome.makespan_ns / outcome.switches.sum() / 1e6
    assert turns == pytest.approx({0.0: 5.0, 1000.0: 5.0}, rel=0.05)


def test_an_interactive_process_waits_for_no_more_than_a_turn_of_each_other():
    """It is eligible when it wakes, and its deadline is among the first."""
    thinker = SimulatedJob(2, Program(processes=1, granularity_us=200, phases=100), think_us=20_000)
    outcome = run([*computing(2, phases=4000), thinker], machine())
    assert max(outcome.jobs[2].bursts_ns) < 200_000 + 2 * eevdf.TICK_NS + 4 * 5_000
    assert sum(outcome.jobs[2].bursts_ns) / 100 < eevdf.TICK_NS


@takes_minutes
def test_blocking_at_once_costs_switches_and_no_coordination_costs_more():
    program = Program(granularity_us=100, imbalance=0.25, dedicated_s=0.3)
    jobs = [SimulatedJob(number, program) for number in range(3)]
    alone = run(jobs[:1], machine(2)).makespan_ns
    spinning = run(jobs, machine(2, **DETOURS)).makespan_ns
    blocking = run(jobs, machine(2, **DETOURS), blocking="immediate").makespan_ns
    assert spinning > 1.5 * 3 * alone
    assert 0.9 * 3 * alone < blocking < 1.5 * 3 * alone


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(["spin", "immediate", "fixed", "global-adaptive"]),
    st.integers(1, 3),
    st.floats(0, 2),
    st.integers(0, 3),
    st.sampled_from([{}, DETOURS, {"detour_gap_us": 100.0, "detour_length_us": 100.0}]),
)
def test_time_is_conserved_and_the_same_seed_gives_the_same(blocking, count, imbalance, repeat, detours):
    program = Program(pattern="NEWS", granularity_us=200, imbalance=imbalance, phases=30)
    jobs = [SimulatedJob(number, program) for number in range(count)]
    outcomes = [run(jobs, machine(2, **detours), blocking=blocking, repeat=repeat) for _ in range(2)]
    for outcome in outcomes:
        assert not outcome.failure
        assert (outcome.spent_ns.sum(axis=1) == outcome.end_ns).all()
    assert np.array_equal(outcomes[0].spent_ns, outcomes[1].spent_ns)
    assert outcomes[0].jobs == outcomes[1].jobs


def test_detours_take_their_share_of_the_time():
    """A lone process that computes for 2 s loses to 2000 detours of 0.1 ms what they take."""
    alone = run(computing(1, phases=4000), machine())
    disturbed = run(computing(1, phases=4000), machine(detour_gap_us=1000.0, detour_length_us=100.0))
    assert disturbed.makespan_ns - alone.makespan_ns == pytest.approx(0.2e9, rel=0.15)


@takes_minutes
def test_detours_let_spinning_jobs_meet_by_chance():
    """Three jobs in random turns on two processors run together for a third of the time.

    Undisturbed they keep the turns that they begin with, in step or out of step for ever.
    """
    program = Program(granularity_us=100, imbalance=0.25, dedicated_s=0.5)
    jobs = [SimulatedJob(number, program) for number in range(3)]
    alone_ns = run(jobs[:1], machine(2)).makespan_ns

    def slowdowns(**detours):
        on = machine(2, **detours)
        return [run(jobs, on, repeat=repeat).makespan_ns / 3 / alone_ns for repeat in range(8)]

    disturbed, undisturbed = slowdowns(**DETOURS), slowdowns()
    assert all(2 < slowdown < 4 for slowdown in disturbed)
    assert max(undisturbed) > 10
