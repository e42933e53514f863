"""The schedule of a run of a job log: when which job ran, and the means over the jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coordinator.view import After
from coordinator.workload import ParallelJob
from harness.measure.plan import Task
from harness.simulator.jobs.kept_outcome import kept
from harness.simulator.jobs.metrics import batch_slowdowns, measure
from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Following, JobLevelOutcome, Jobs, rigid
from harness.store.records import POLICY, SIMULATED, JobRecord, Schedule


def rigid_jobs(jobs: Sequence[ParallelJob]) -> Jobs:
    """Jobs without their processes, in order of arrival: each takes its nominal time on its processors."""
    follows = [job.after or After(-1) for job in jobs]
    following = np.array([(after.job, after.think_ns) for after in follows], dtype=np.int64).T
    run_s = np.array([job.program.alone_s for job in jobs])
    asked_s = np.array([job.estimate.on(job.program.width) if job.estimate else 0.0 for job in jobs])
    return replace(
        rigid(
            np.array([round(job.arrival_s * WHOLE_NS) for job in jobs], dtype=np.int64),
            np.array([job.program.width for job in jobs], dtype=np.int64),
            np.rint(run_s * WHOLE_NS).astype(np.int64),
            np.maximum(1.0, asked_s / run_s),
        ),
        submitters=tuple(job.submitter for job in jobs),
        following=Following(*following) if (following[0] >= 0).any() else None,
    )


def place(task: Task) -> dict[str, int]:
    """The place of a run's schedule among all of its experiment, and how many these are."""
    schedulers, cells = task.experiment.schedulers, task.experiment.cells
    number = len(schedulers) * cells.index(task.cell) + schedulers.index(task.scheduler)
    return {"place": number, "schedulers": len(schedulers) * len(cells)}


def source(task: Task) -> dict[str, Any]:
    """What the schedule of a run says of its jobs, which have processes."""
    log, values = task.cell.log, {"warm_up": 0, **place(task)}
    if log is None:
        assert task.cell.source  # its back end simulates by job
        return values | {"count": len(task.cell.jobs()), "tau_s": task.cell.source.tau_s}
    return values | {
        "window": log.table,
        "content": log.content,
        "count": len(log.numbers),
        "tau_s": log.tau_s,
    }


def of_run(task: Task, jobs: Iterable[JobRecord]) -> Schedule | None:
    """The schedule of a run with processes; None unless its jobs are those of a log, and most have ended.

    Jobs that have failed are not in it, and its source has their numbers as ``failed``.
    """
    log, every = task.cell.log, sorted(jobs, key=lambda job: job.job)
    records = [job for job in every if job.finish_ns is not None and not job.failure]
    if log is None or task.kind not in (POLICY, SIMULATED) or 2 * len(records) <= len(every):
        return None
    numbers = [job.job for job in records]
    failed = [job.job for job in every if job.job not in numbers]
    asked = {job.number: job for job in task.cell.jobs()}
    arrived = [replace(asked[job.job], arrival_s=job.arrival_ns / WHOLE_NS, after=None) for job in records]
    outcome = JobLevelOutcome(
        jobs=rigid_jobs(arrived),
        processors=task.cell.processors,
        start_ns=np.array([NEVER_NS if job.start_ns is None else job.start_ns for job in records]),
        finish_ns=np.array([job.finish_ns for job in records]),
        size=np.array([float(job.processes) for job in records]),
        first=np.full(len(records), -1),
        places={
            number: tuple((one, one) for one in sorted(set(job.placement)))
            for number, job in enumerate(records)
        }
        if any(job.placement for job in records)
        else None,
    )
    metrics = measure(outcome, tau_s=log.tau_s)
    return Schedule(
        source(task) | ({"failed": failed} if failed else {}),
        task.cell.processors,
        metrics={name: value for name, value in metrics.row().items() if name != "jobs"},
        slowdowns=batch_slowdowns(outcome, 0, log.tau_s),
        replications=1,
        outcome=kept(outcome, np.array(log.numbers)[numbers]),
    )
