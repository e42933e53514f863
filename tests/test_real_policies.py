"""The policies of the papers on real processes, with jobs that arrive over time."""

import pytest
from runs import workload

from coordinator.driver import run_workload
from coordinator.view import ExecutionTime

CASES = [
    ("gang", {"quantum_ms": 20, "packing": "continuous", "unify": True}),
    ("gang", {"quantum_ms": 20, "packing": "undivided"}),
    ("gang", {"quantum_ms": 20, "packing": "buddy", "fill": "processes"}),
    ("two-queue", {"quantum_ms": 20, "service": 2}),
    ("multilevel-two-queue", {"quanta_ms": [20, 40], "slots": [1, 0], "insert": True}),
    ("dqt", {"quantum_ms": 20}),
    ("fair-dqt", {"quantum_ms": 20}),
    ("easy", {}),
    ("aep", {"order": 2}),
    ("dyn-equi", {}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "options"), CASES, ids=str)
def test_jobs_that_arrive_over_time_run_to_their_end(policy, options):
    result = run_workload(workload(policy, jobs=3, phases=500, arrival_s=0.05, options=options), None)
    assert result.failure == ""
    for number, job in enumerate(result.jobs):
        assert job.failure == ""
        assert job.finish_ns > job.start_ns >= job.arrival_ns == number * 50_000_000
    ranks = {job: sum(rank["job"] == job for rank in result.ranks) for job in range(3)}
    assert ranks == {job.number: job.processes for job in result.jobs}


@pytest.mark.slow
def test_the_shortest_estimated_demand_goes_first():
    jobs = workload("sdf", jobs=3, phases=500).jobs
    known = [
        type(job)(job.number, job.program, 0.01 * job.number, ExecutionTime(work_s))
        for job, work_s in zip(jobs, (9.0, 5.0, 1.0), strict=True)
    ]
    made = workload("sdf", jobs=3, phases=500)
    result = run_workload(type(made)(tuple(known), made.policy, made.processors), None)
    starts = {job.number: job.start_ns for job in result.jobs}
    assert result.failure == ""
    assert starts[0] < starts[2] < starts[1]
