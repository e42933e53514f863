"""Programs that know nothing of Lockstep run under its policies, unchanged."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Any

import pytest
from runs import workload

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.workload import ParallelJob, Result, Workload
from workloads.other import Command

pytestmark = pytest.mark.slow

PROGRAM = """
import sys, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = 0
for step in range(300):
    end = time.thread_time() + 0.001
    while time.thread_time() < end: pass
    total += comm.allreduce(step * (comm.rank + 1))
if comm.rank == 0: print("total", total, "of", comm.size)
"""

CHILDREN = """
import os, time
child = os.fork()
end = time.process_time() + 0.4
while time.process_time() < end: pass
if child: os.waitpid(child, 0); print("done")
"""


def run(jobs: list[ParallelJob], policy: str, blocking: str = "spin", **options: Any) -> Result:
    made = policies.create(policy, options)
    return run_workload(Workload(tuple(jobs), made, workload().processors, blocking=blocking, timeout_s=60))


def job(number: int, text: str, processes: int = 2) -> ParallelJob:
    return ParallelJob(number, Command((sys.executable, "-c", text), processes))


def test_a_program_gives_the_same_output_beside_two_synthetic_jobs_under_gang() -> None:
    """It needs 0.3 s of each processor and has every processor in a third of the slots only."""
    alone = run([job(0, PROGRAM)], "batch")
    assert alone.failure == "" and alone.jobs[0].output == "total 134550 of 2\n"
    beside = [replace(one, number=one.number + 1) for one in workload(phases=2000).jobs[:2]]
    shared = run([job(0, PROGRAM), *beside], "gang", quantum_ms=20)
    assert shared.failure == ""
    assert shared.jobs[0].output == alone.jobs[0].output
    one = shared.jobs[0]
    assert one.start_ns is not None and one.finish_ns is not None
    assert one.finish_ns - one.start_ns > 0.45e9


def test_an_mpi4py_program_can_wait_by_the_runs_rule() -> None:
    command = Command((sys.executable, "-c", PROGRAM), 2, waits="two-phase")
    beside = [replace(one, number=one.number + 1) for one in workload(phases=500).jobs[:1]]
    result = run([ParallelJob(0, command), *beside], "implicit", blocking="global-adaptive")
    assert result.failure == ""
    assert result.jobs[0].output == "total 134550 of 2\n"
    for rank in result.ranks[:2]:
        barriers = rank["waits"]["barrier"]
        assert (rank["job"], barriers["spun"] + barriers["blocked"]) == (0, 300)
        assert rank["finish_ns"] > rank["start_ns"] > 0 and "computing_ns" not in rank


def test_children_of_a_program_are_held_with_it() -> None:
    """Two programs that fork share each processor in turn, and no child runs out of its turn."""
    result = run([job(0, CHILDREN, 1), job(1, CHILDREN, 1)], "gang", quantum_ms=20)
    assert result.failure == ""
    assert [one.output for one in result.jobs] == ["done\n", "done\n"]


def test_a_program_that_fails_or_is_not_there_is_told_of() -> None:
    failing = ParallelJob(0, Command(("sh", "-c", "echo why >&2; exit 3")))
    absent = ParallelJob(1, Command((os.devnull + "/program",)))
    result = run([failing, absent], "none")
    assert "status 3" in result.jobs[0].failure and "why" in result.jobs[0].failure
    assert "cannot start" in result.jobs[1].failure
