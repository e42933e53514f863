"""The experiment that records belong to, rebuilt from them: its file may be gone."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from harness.spec import settings
from harness.spec.experiment import SPINNING, TWO_PHASE, Cell, Experiment
from harness.spec.jobs import JobGroup
from harness.store.records import FURTHER, POLICY, SIMULATED, RunRecord, alone_two_phase
from workloads.blocking import RULES
from workloads.validation import InputError

FIRST = ("none", "implicit", "gang", "partitioned", "batch")  # policies that are listed before the others


def experiment_of(records: Sequence[RunRecord]) -> Experiment:
    """The experiment of ``records``, which have one digest; without cells if it was simulated by job.

    Runs are shuffled, so the function sorts the schedulers by FIRST, waiting rule and quantum. The
    digest may differ from the file's: records lack cells that differ by simulated machines alone.
    """
    last = records[-1] if records else None  # a damaged index finds none
    if last and last.schedule:
        return Experiment(last.experiment, last.schedule.processors, 1, last.seed, schedulers=(), cells=())
    ours = [record for record in records if record.kind in (POLICY, SIMULATED)]
    if not ours:
        rule = "it holds dedicated runs only"
        raise InputError("RESULTS", len(records), rule, "continue with lockstep run --resume")
    cells = {record.cell: record for record in ours}
    tables = {json.dumps(record.scheduler, sort_keys=True): record.scheduler for record in ours}
    last = ours[-1]
    return Experiment(
        name=last.experiment,
        processors=max(len(record.processors) for record in ours),
        repeats=1 + max(record.repeat for record in ours if record.repeat < FURTHER),
        seed=last.seed,
        schedulers=tuple(settings.of_table(table) for table in sorted(tables.values(), key=_rank)),
        cells=tuple(_cell(cells[index]) for index in sorted(cells)),
        dedicated=TWO_PHASE if any(map(alone_two_phase, records)) else SPINNING,
    )


def _cell(record: RunRecord) -> Cell:
    groups = (JobGroup(job.work, 1, job.arrival_ns / 1e9) for job in record.jobs)
    return Cell(record.cell, record.settings, tuple(groups), {}, len(record.processors))


def _rank(table: Mapping[str, Any]) -> tuple[Any, ...]:
    if "setting" in table:
        return settings.place(table)
    rules = list(RULES)
    policy = table["policy"]
    return (
        FIRST.index(policy) if policy in FIRST else len(FIRST),
        policy,
        rules.index(table["blocking"]),
        table["spin_switches"],
        table.get("quantum_ms", 0.0),
        json.dumps(table, sort_keys=True),
    )
