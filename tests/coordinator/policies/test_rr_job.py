"""Round robin by job: turns in inverse proportion to the number of processes, equal service to jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import MS, session

from coordinator import policies
from coordinator.view import Job, Slot
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.program import Program


def served_ns(plan, job):
    """The service of a job in one round: the sum over its processes."""
    place = plan.decision.placements[job]
    return sum(
        slot.length_ns * slot.allows(job, rank, processor)
        for slot in plan.decision.slots
        for rank, processor in enumerate(place)
    )


def test_a_job_of_one_process_has_a_processor_and_that_of_two_takes_turns_on_the_other():
    run = session("rr-job", [1, 2], quantum_ms=10)
    assert run.arrive(0).decide(0).decision.slots == (Slot(((0,), ())),)
    plan = run.arrive(1).decide(0)
    assert plan.decision.placements == {0: (0,), 1: (1, 1)}
    runs = ((0,), (1,))
    assert plan.decision.slots == (
        Slot(runs, 10 * MS, ((0, 0), (1, 0))),
        Slot(runs, 10 * MS, ((0, 0), (1, 1))),
    )


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 50)), min_size=2, max_size=8),
    st.randoms(use_true_random=False),
)
def test_every_job_has_the_same_service_in_a_round(processors, rows, random):
    """But for the rounding of turns to nanoseconds, or while nobody is stopped."""
    jobs = [Job(number, processes) for number, (processes, _) in enumerate(rows)]
    run = session("rr-job", jobs, processors, quantum_ms=10)
    now_ns = 0
    here = []
    for job, (_, wait_ms) in zip(jobs, rows, strict=True):
        now_ns += wait_ms * MS
        run.arrive(job.number).decide(now_ns)
        here.append(job.number)
        if len(here) > 2 and random.random() < 0.3:
            run.depart(here.pop(random.randrange(len(here)))).decide(now_ns)
        if run.plan.decision.slots[0].length_ns is not None:
            served = [served_ns(run.plan, number) for number in here]
            assert max(served) - min(served) <= 8
            assert max(served) <= processors * 10 * MS


@pytest.mark.slow
@pytest.mark.parametrize("policy, equal", [("rr-job", True), ("gang", False)])
def test_jobs_of_one_and_of_two_processes_get_equal_service_within_3_percent(policy, equal):
    """Both have 400 ms of work, and processes that do not wait for each other."""
    jobs = [
        SimulatedJob(number, Program("BARRIER", count, granularity_us=4e5 / count, imbalance=0, phases=1))
        for number, count in enumerate((1, 2))
    ]
    machine = SimulatedMachine(processors=2, context_switch_us=5, latency_us=1)
    outcome = simulate(jobs, machine, policies.create(policy, {"quantum_ms": 2}))
    first, last = sorted(job.finish_ns for job in outcome.jobs)
    assert (last / first < 1.03) == equal
