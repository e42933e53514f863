"""Round robin by job: turns in inverse proportion to the number of processes, equal service to jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Decision, Job, Machine, Slot
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from harness.spec.experiment import load
from workloads.program import Program

MS = 1_000_000


def session(jobs, processors, quantum_ms=10):
    return Session(policies.create("rr-job", {"quantum_ms": quantum_ms}), Machine(processors), jobs)


def served_ns(plan, job):
    """The service of a job in one round: the sum over its processes."""
    place = plan.decision.placements[job]
    return sum(
        slot.length_ns * slot.allows(job, rank, processor)
        for slot in plan.decision.slots
        for rank, processor in enumerate(place)
    )


def test_a_job_of_one_process_has_a_processor_and_that_of_two_takes_turns_on_the_other():
    run = session([Job(0, 1), Job(1, 2)], 2)
    assert run.arrive(0, 0).decision.slots == (Slot(((0,), ())),)
    plan = run.arrive(1, 0)
    assert plan.decision.placements == {0: (0,), 1: (1, 1)}
    runs = ((0,), (1,))
    assert plan.decision.slots == (
        Slot(runs, 10 * MS, ((0, 0), (1, 0))),
        Slot(runs, 10 * MS, ((0, 0), (1, 1))),
    )


def test_in_the_other_order_they_have_equal_service_too():
    run = session([Job(0, 2), Job(1, 1)], 2)
    run.arrive(0, 0)
    plan = run.arrive(1, 0)
    assert plan.decision.placements == {0: (0, 1), 1: (0,)}
    assert [slot.runs for slot in plan.decision.slots] == [((0,), (0,)), ((1,), ())]
    assert [slot.length_ns for slot in plan.decision.slots] == [10 * MS, 20 * MS]


def test_nobody_is_stopped_while_no_two_processes_are_on_one_processor():
    run = session([Job(0, 2), Job(1, 1)], 4)
    run.arrive(0, 0)
    plan = run.arrive(1, 5)
    assert plan.decision.slots == (Slot(((0,), (0,), (1,), ())),)


def test_a_busy_stream_of_arrivals_starves_nobody():
    jobs = [Job(number, 2) for number in range(12)]
    run = session(jobs, 2)
    ran = set()
    for number in range(12):
        now_ns = number * 4 * MS  # faster than a turn
        plan = run.arrive(number, now_ns)
        ran |= plan.decision.running(plan.cycle.slot_at(now_ns)[0])
    assert {0, 1, 2, 3} <= ran


def test_a_round_goes_on_where_it_was_interrupted():
    run = session([Job(number, 2) for number in range(3)], 2)
    run.arrive(0, 0)
    run.arrive(1, 0)
    plan = run.arrive(2, 14 * MS)  # job 1 is 4 ms into its turn
    assert plan.decision.running(0) == {1}
    assert plan.cycle.slot_at(14 * MS) == (0, 20 * MS)
    assert [sorted(plan.decision.running(i)) for i in range(3)] == [[1], [2], [0]]


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 50)), min_size=2, max_size=8),
    st.randoms(use_true_random=False),
)
def test_every_job_has_the_same_service_in_a_round(processors, rows, random):
    """But for the rounding of turns to nanoseconds, or while nobody is stopped."""
    jobs = [Job(number, processes) for number, (processes, _) in enumerate(rows)]
    run, now_ns, here = session(jobs, processors), 0, []
    for job, (_, wait_ms) in zip(jobs, rows, strict=True):
        now_ns += wait_ms * MS
        run.arrive(job.number, now_ns)
        here.append(job.number)
        if len(here) > 2 and random.random() < 0.3:
            run.depart(here.pop(random.randrange(len(here))), now_ns)
        if run.plan.decision.slots[0].length_ns is not None:
            served = [served_ns(run.plan, number) for number in here]
            assert max(served) - min(served) <= 8
            assert max(served) <= processors * 10 * MS


def test_a_slot_may_name_only_processes_that_have_a_place():
    class Absurd:
        folds = follows_phases = False

        def decide(self, view, why):
            return Decision({0: (0,)}, (Slot(((0,),), 5, ((0, 1),)),))

    with pytest.raises(ValueError, match="rank 1 of job 0"):
        Session(Absurd(), Machine(1), [Job(0, 1)]).arrive(0, 0)


def test_the_jobs_of_the_experiment_have_equal_work():
    one, other = (job.program for job in load("rr-job").cells[0].jobs())
    assert {one.processes, other.processes} == {1, 2}
    assert one.processes * one.granularity_us == other.processes * other.granularity_us
    assert one.phases == other.phases == 1


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "equal"), [("rr-job", True), ("gang", False)])
@pytest.mark.parametrize("processes", [(1, 2), (2, 1)])
def test_jobs_of_one_and_of_two_processes_get_equal_service_within_3_percent(policy, equal, processes):
    """Both have 400 ms of work, and processes that do not wait for each other."""
    jobs = [
        SimulatedJob(number, Program("BARRIER", count, granularity_us=4e5 / count, imbalance=0, phases=1))
        for number, count in enumerate(processes)
    ]
    machine = SimulatedMachine(processors=2, context_switch_us=5, latency_us=1)
    outcome = simulate(jobs, machine, policies.create(policy, {"quantum_ms": 2}))
    first, last = sorted(job.finish_ns for job in outcome.jobs)
    assert (last / first < 1.03) == equal
