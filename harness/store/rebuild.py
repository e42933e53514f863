"""The experiment that records belong to, rebuilt from them: its file may be gone."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from coordinator.view import After
from harness.spec import settings
from harness.spec.experiment import SPINNING, TWO_PHASE, Cell, Experiment
from harness.spec.job_source import ScaledWindow
from harness.spec.jobs import JobGroup
from harness.spec.scheduler import Reader, of_jobs
from harness.store.records import (
    DEDICATED,
    FURTHER,
    WITH_SCHEDULES,
    JobRecord,
    RunRecord,
    alone_two_phase,
)
from workloads.waiting_rules import RULES

FIRST = ("none", "implicit", "gang", "partitioned", "batch")  # policies that are listed before the others


def experiment_of(records: Sequence[RunRecord]) -> Experiment:
    """The experiment of ``records``, which have one digest; of jobs without processes, not their source.

    Runs are shuffled, so the function sorts the schedulers by FIRST, waiting rule and quantum. The
    digest may differ from the file's: records lack cells that differ by simulated machines alone.
    """
    ours = [record for record in records if record.kind in WITH_SCHEDULES]
    _check(records)
    told = sorted(ours, key=lambda one: (bool(one.jobs), one.schedule is not None))
    cells = {record.cell: record for record in told}  # those that say most of their jobs, the last of them
    # One unmodified job has dedicated runs alone; of several jobs the unmodified ones have runs of their own.
    alone = [record for record in records if record.kind == DEDICATED and "setting" in record.scheduler]
    unmodified = alone if all(len(record.jobs) == 1 for record in ours) else []
    tables = {json.dumps(one.scheduler, sort_keys=True): one.scheduler for one in (*unmodified, *ours)}
    last = ours[-1]
    of_jobs_alone = last.schedule and {"log", "model"} & last.schedule.source.keys()
    read: Reader = of_jobs if of_jobs_alone else settings.of_table
    schedulers = [(read(table), table) for table in tables.values()]  # unknown ones have no rank
    return Experiment(
        name=last.experiment,
        processors=max(map(_processors, ours)),
        repeats=1 + max(record.repeat for record in ours if record.repeat < FURTHER),
        seed=last.seed,
        schedulers=tuple(scheduler for scheduler, _ in sorted(schedulers, key=lambda pair: _rank(pair[1]))),
        cells=tuple(_cell(cells[index], _recorded_waits(ours, index)) for index in sorted(cells)),
        dedicated=TWO_PHASE if any(map(alone_two_phase, records)) else SPINNING,
    )


def _check(records: Sequence[RunRecord]) -> None:
    """Refuse runs that do not belong together."""
    jobs: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for record in (one for one in records if one.kind in WITH_SCHEDULES and one.jobs):
        jobs[record.cell].add(tuple(job.job for job in record.jobs))
    if differing := [cell for cell, of_runs in jobs.items() if len(of_runs) > 1]:
        raise ValueError(f"runs of point {differing[0]} of its sweep have different jobs")
    of_logs = {record.schedule is None for record in records if record.succeeded}
    if len(of_logs) > 1:
        raise ValueError("of its runs some have the schedule of a log, and some have not")


def _recorded_waits(records: Sequence[RunRecord], cell: int) -> Mapping[str, Any] | None:
    """The comparison with recorded waits that the last of the records that has one has of a cell."""
    here = (one.schedule for one in reversed(records) if one.cell == cell and one.schedule)
    found = (schedule.source.get("window", {}).get("recorded_waits") for schedule in here)
    return next(filter(None, found), None)


def _cell(record: RunRecord, waits: Mapping[str, Any] | None) -> Cell:
    window = record.schedule and record.schedule.source.get("window")
    log = ScaledWindow.of_table({**window, "recorded_waits": waits}) if window else None
    groups = [_group(job) for job in record.jobs]
    for job, preceding, think_ns, arrival_s in log.following if log and groups else ():
        groups[job] = replace(groups[job], arrival_s=arrival_s, after=After(preceding, think_ns))
    return Cell(record.cell, record.settings, tuple(groups), {}, _processors(record), log=log)


def _group(job: JobRecord) -> JobGroup:
    """The job as in its file."""
    return JobGroup(job.work, 1, job.arrival_ns / 1e9, job.estimate_s, job.submitted_by)


def _processors(record: RunRecord) -> int:
    return record.schedule.processors if record.schedule else len(record.processors)


def _rank(table: Mapping[str, Any]) -> tuple[Any, ...]:
    if "setting" in table:
        return settings.place(table)
    rules = list(RULES)
    policy = table["policy"]
    return (
        FIRST.index(policy) if policy in FIRST else len(FIRST),
        policy,
        rules.index(table.get("waiting", "spin")),
        table.get("spin_switches", 0.0),
        table.get("quantum_ms", 0.0),
        json.dumps(table, sort_keys=True),
    )
