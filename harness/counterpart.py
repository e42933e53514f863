"""Which measured runs still lack a simulated counterpart, and making them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness import jobs, run
from harness.experiment import Experiment
from harness.records import DEDICATED, POLICY, SIMULATED, SIMULATED_DEDICATED, RunRecord
from harness.run import Task

KINDS = {DEDICATED: SIMULATED_DEDICATED, POLICY: SIMULATED}
"""The kind of the simulated counterpart of a measured run."""


def simulate(
    experiment: Experiment, task: Task, measured: RunRecord, session: str, timeline: bool
) -> RunRecord:
    """The simulated counterpart of ``measured``, the last run of ``task``."""
    from harness import simulated  # noqa: PLC0415 - its compiler takes long to import

    return simulated.run(experiment, task, simulated.Host.of(measured, session), timeline=timeline)


def imitates(simulated: RunRecord, measured: RunRecord) -> bool:
    """Whether a simulated run is the counterpart of a measured one."""
    if simulated.kind != KINDS.get(measured.kind):
        return False
    alike = ("digest", "cell", "repeat", "scheduler", "constants")
    return all(getattr(simulated, field) == getattr(measured, field) for field in alike)


def missing(experiment: Experiment, records: Sequence[RunRecord]) -> list[tuple[Task, RunRecord]]:
    """The tasks that were measured and not simulated since, each with its last measured record.

    Left out are cells with a job that the simulator does not know, and what Slurm has scheduled.
    A counterpart counts if it was simulated with the constants of the measured run.
    """
    done = run.recorded(records)
    found = []
    for task in run.plan(experiment):
        cell, repeat, kind, table, job = task.key
        if task.scheduler.of_slurm or not all(jobs.simulable(job.program) for job in task.cell.jobs()):
            continue
        measured, simulated = done.get(task.key), done.get((cell, repeat, KINDS[kind], table, job))
        if measured and (simulated is None or simulated.constants != measured.constants):
            found.append((task, measured))
    return found


def complete(
    experiment: Experiment,
    records: Sequence[RunRecord],
    session: str,
    *,
    timeline: bool = False,
) -> Iterator[RunRecord]:
    """Simulate what ``records`` lack; yields the new records."""
    for task, measured in missing(experiment, records):
        yield simulate(experiment, task, measured, session, timeline)
