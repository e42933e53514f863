"""The policies of the papers on real processes, with jobs that arrive over time."""

from dataclasses import replace

import pytest
from runs import workload

from coordinator.drive.driver import run_workload
from coordinator.view import ExecutionTime
from workloads.validation import InputError

CASES = [
    ("gang", {"quantum_ms": 20, "packing": "continuous", "unify": True}),
    ("gang", {"quantum_ms": 20, "packing": "undivided"}),
    ("gang", {"quantum_ms": 20, "packing": "buddy", "fill": "processes"}),
    ("gang", {"quantum_ms": 20, "rows": 1, "share": "sequential"}),
    ("dhc", {"quantum_ms": 20}),
    ("rr-job", {"quantum_ms": 20}),
    ("two-queue", {"quantum_ms": 20, "service": 2}),
    ("multilevel-two-queue", {"quanta_ms": [20, 40], "slots": [1, 0], "insert": True}),
    ("dqt", {"quantum_ms": 20}),
    ("fair-dqt", {"quantum_ms": 20}),
    ("easy", {}),
    ("aep", {"order": 2}),
    ("square-root", {}),
    ("process-control", {}),
    ("processor-sets", {"hold_ms": 20}),
    ("working-sets", {"quantum_ms": 20, "observe_ms": 20}),
    ("dyn-equi", {}),
    ("hypercube", {"mapping": "bipartition"}),
    ("mesh", {"allocator": "multiple-buddy"}),
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


@pytest.mark.slow
def test_a_malleable_job_shares_its_processors_while_another_is_there():
    """Job 0 has both processors, one while job 1 runs, and both again; what it had is on record."""
    made = workload("dyn-equi", jobs=2, granularity_us=1000, arrival_s=0.05, timeout_s=180.0)
    counts = (500, 60)
    malleable = [
        replace(job, program=replace(job.program, malleable=True, phases=count))
        for job, count in zip(made.jobs, counts, strict=True)
    ]
    result = run_workload(replace(made, jobs=tuple(malleable)), None)
    assert result.failure == ""
    sizes = {
        rank["job"]: [active for _, active in rank["sizes"]] for rank in result.ranks if rank["rank"] == 0
    }
    assert sizes == {0: [2, 1, 2], 1: [1]}
    assert [job.processes for job in result.jobs] == [2, 2]
    computing = {job: sum(r["computing_ns"] for r in result.ranks if r["job"] == job) for job in (0, 1)}
    # Whoever does it, the phases are the work of two processes of 1 ms each.
    for job, count in enumerate(counts):
        assert 2 * count * 1e6 <= computing[job] < 1.5 * 2 * count * 1e6


def test_a_malleable_job_stays_on_one_host():
    made = workload("dyn-equi", hosts=("a", "b"))
    jobs = tuple(replace(job, program=replace(job.program, malleable=True)) for job in made.jobs)
    with pytest.raises(InputError, match="cannot move between hosts"):
        run_workload(replace(made, jobs=jobs), None)
