"""Process control: how it divides the processors, and what jobs do with their shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import workload
from sessions import session

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.view import Job
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import COMPUTING
from harness.simulator.processes.simulate import simulate
from workloads.program import Program
from workloads.validation import InputError


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(1, 8), st.booleans()), min_size=1, max_size=8),
    st.data(),
)
def test_nobody_waits_and_no_job_that_can_help_it_has_more_processes_than_processors(processors, kinds, data):
    jobs = [Job(number, size, malleable=can) for number, (size, can) in enumerate(kinds)]
    run = session("process-control", jobs, processors)
    here = []
    for job in jobs:
        here.append(job)
        plan = run.arrive(job.number).decide(0)
        if len(here) > 1 and data.draw(st.booleans()):
            plan = run.depart(here.pop(data.draw(st.integers(0, len(here) - 1))).number).decide(0)
        places = plan.decision.placements
        assert places.keys() == {one.number for one in here}
        shares = {one.number: len(places[one.number]) for one in here if one.malleable}
        for one in here:
            place = places[one.number]
            assert (1 <= len(place) <= one.processes) if one.malleable else len(place) == one.processes
            assert not one.malleable or len(set(place)) == len(place)
            assert all(one.number in plan.decision.slots[0].runs[p] for p in place)
            if one.malleable and len(place) < one.processes:
                assert max(shares.values()) <= len(place) + 1, "nobody has more than an equal share"
        if all(one.malleable for one in here) and len(here) <= processors:
            taken = [p for place in places.values() for p in place]
            assert len(set(taken)) == len(taken), "nobody shares a processor"
            assert len(taken) == min(processors, sum(one.processes for one in here))


def tasks(policy, *counts, **how):
    """A workload of jobs, each with a queue of so many tasks of about 1 ms."""
    programs = [{"pattern": "TASKS", "imbalance": 0.5, "phases": n} for n in counts]
    return workload(policy, granularity_us=1000, programs=programs, **how)


@pytest.mark.slow
def test_a_job_suspends_processes_while_another_is_there():
    """Job 0 has both processors, one while job 1 runs, and both again."""
    work = tasks("process-control", 1000, 60, processes=4, arrival_s=0.05, timeout_s=180.0)
    result = run_workload(work, None)
    assert result.failure == ""
    sizes = {rank.job: rank.sizes for rank in result.ranks if rank.rank == 0}
    assert [running for _, running in sizes[0]] == [2, 1, 2]
    assert [running for _, running in sizes[1]] == [1]
    for job, count in enumerate((1000, 60)):
        ranks = [rank for rank in result.ranks if rank.job == job]
        assert len(ranks) == 4
        assert sum(rank.phases for rank in ranks) == count
        computing_ns = sum(rank.computing_ns for rank in ranks)
        assert 0.9 * count * 1e6 <= computing_ns < 1.5 * count * 1e6
        assert all(rank.phases == 0 for rank in ranks if rank.rank >= 2), "never more than processors"


@pytest.mark.slow
def test_other_policies_run_a_queue_of_tasks_too():
    result = run_workload(tasks("gang", 100, 50), None)
    assert result.failure == ""
    taken = [sum(rank.phases for rank in result.ranks if rank.job == job) for job in (0, 1)]
    assert taken == [100, 50]


def simulated(policy, *sizes, timeline=False):
    """Jobs of 300 tasks of about 1 ms, one after another, each with so many processes, on two processors."""
    jobs = [
        SimulatedJob(
            number,
            Program("TASKS", size, granularity_us=1000, imbalance=1, phases=300),
            arrival_s=0.05 * number,
        )
        for number, size in enumerate(sizes)
    ]
    machine = SimulatedMachine(processors=2, context_switch_us=20, latency_us=2, local="eevdf")
    return simulate(jobs, machine, policies.create(policy, {}), timeline=timeline)


def test_twice_as_many_processes_as_processors_cost_nothing_under_process_control():
    as_many, twice = (simulated("process-control", size, size) for size in (2, 4))
    assert as_many.failure == twice.failure == ""
    for job, other in zip(as_many.jobs, twice.jobs, strict=True):
        assert other.finish_ns == pytest.approx(job.finish_ns, rel=0.01)
    free = simulated("none", 4, 4)
    assert free.switches.sum() > 4 * twice.switches.sum(), "the local scheduler preempts"


def test_no_more_processes_run_than_processors_from_a_task_after_each_decision_on():
    """Job 1 comes at 50 ms: from 52 ms on at the latest, one process of each job runs at any time."""
    outcome = simulated("process-control", 4, 4, timeline=True)
    ends = sorted(job.finish_ns for job in outcome.jobs)
    for time_ns in range(52_000_000, ends[0], 1_000_000):
        now = {p: (q, what) for at_ns, p, q, what, _ in outcome.timeline.tolist() if at_ns <= time_ns}
        running = [q // 4 for q, what in now.values() if what == COMPUTING]
        assert len(set(running)) == len(running)
    for job in outcome.jobs:
        assert sum(process.phases for process in job.processes) == 300
        assert all(process.phases == 0 for process in job.processes[2:])
    assert outcome.spent_ns.sum(axis=1).tolist() == [outcome.end_ns] * 2
    assert (outcome.spent_ns >= 0).all()


def test_the_queue_is_on_one_host():
    with pytest.raises(InputError, match="cannot move between hosts"):
        run_workload(tasks("process-control", 10, 10, hosts=("a", "b")), None)


def test_processes_that_share_tasks_need_not_say_that_they_come_and_go():
    with pytest.raises(InputError, match="come and go anyway"):
        Program("TASKS", phases=10, malleable=True)


def test_tasks_stay_as_they_are_on_fewer_processes():
    program = Program("TASKS", processes=4, granularity_us=500, dedicated_s=0.1)
    assert program.phase_count() == 800
    fewer = program.on(2)
    assert (fewer.processes, fewer.phase_count(), fewer.granularity_us) == (2, 800, 500)
