"""The experiment that records belong to, rebuilt from them: its file may be gone."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from harness.spec import settings
from harness.spec.experiment import SPINNING, TWO_PHASE, Cell, Experiment
from harness.spec.jobs import JobGroup
from harness.spec.scheduler import Reader, of_jobs
from harness.store.records import BY_JOB, DEDICATED, FURTHER, POLICY, SIMULATED, RunRecord, alone_two_phase
from workloads.waiting_rules import RULES

WORKLOADS = (POLICY, SIMULATED, BY_JOB)
"""Kinds of runs of a whole workload."""

FIRST = ("none", "implicit", "gang", "partitioned", "batch")  # policies that are listed before the others


def experiment_of(records: Sequence[RunRecord]) -> Experiment:
    """The experiment of ``records``, which have one digest; of jobs without processes, not their source.

    Runs are shuffled, so the function sorts the schedulers by FIRST, waiting rule and quantum. The
    digest may differ from the file's: records lack cells that differ by simulated machines alone.
    """
    ours = [record for record in records if record.kind in WORKLOADS]
    _check(records)
    cells = {record.cell: record for record in ours}
    # One unmodified job has dedicated runs alone; of several jobs the unmodified ones have runs of their own.
    alone = [record for record in records if record.kind == DEDICATED and "setting" in record.scheduler]
    unmodified = alone if all(len(record.jobs) == 1 for record in ours) else []
    tables = {json.dumps(one.scheduler, sort_keys=True): one.scheduler for one in (*unmodified, *ours)}
    last = ours[-1]
    read: Reader = of_jobs if last.schedule else settings.of_table
    schedulers = [(read(table), table) for table in tables.values()]  # unknown ones have no rank
    return Experiment(
        name=last.experiment,
        processors=max(map(_processors, ours)),
        repeats=1 + max(record.repeat for record in ours if record.repeat < FURTHER),
        seed=last.seed,
        schedulers=tuple(scheduler for scheduler, _ in sorted(schedulers, key=lambda pair: _rank(pair[1]))),
        cells=tuple(_cell(cells[index]) for index in sorted(cells)),
        dedicated=TWO_PHASE if any(map(alone_two_phase, records)) else SPINNING,
    )


def _check(records: Sequence[RunRecord]) -> None:
    """Refuse runs that do not belong together."""
    jobs: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for record in (record for record in records if record.kind in WORKLOADS):
        jobs[record.cell].add(tuple(job.job for job in record.jobs))
    if differing := [cell for cell, of_runs in jobs.items() if len(of_runs) > 1]:
        raise ValueError(f"runs of point {differing[0]} of its sweep have different jobs")
    if len({record.schedule is None for record in records}) > 1:
        raise ValueError("of its runs some are simulated by job, and some are not")


def _cell(record: RunRecord) -> Cell:
    groups = (JobGroup(job.work, 1, job.arrival_ns / 1e9) for job in record.jobs)
    return Cell(record.cell, record.settings, tuple(groups), {}, _processors(record))


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
