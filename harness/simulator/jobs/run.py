"""Carry out an experiment of the job level and write what came of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coordinator.policies.queueing import ModifiedTwoQueue, MultilevelTwoQueue, TwoQueue
from coordinator.policies.space import Batch
from harness import conditions, records
from harness.experiment import usable_processors
from harness.records import ScheduleRecord
from harness.simulator.jobs import swf
from harness.simulator.jobs.experiment import JobExperiment
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import Jobs, Outcome
from harness.simulator.jobs.replicate import Plan, replicate
from harness.simulator.jobs.simulate import Watched, simulate
from harness.site import session_name
from harness.store import Store

SCHEMA = 1
ONE_AT_A_TIME = (Batch, TwoQueue, ModifiedTwoQueue, MultilevelTwoQueue)
"""Policies that give one job the whole machine: their load is that of a single server."""

WATCHED_SHARE = 2 / 3
"""Of the jobs of a replication those that must end before the last one arrives."""


@dataclass(frozen=True)
class Row:
    """What one scheduler gave.

    Attributes:
        label: the scheduler in words.
        scheduler: its table.
        metrics: means by name; None where there are none.
        half: half-widths of their 95 % intervals over replications.
        replications: how many.
        saturated: whether the policy cannot keep up with the jobs; why, in words, else empty.
        outcome: of the trace, or None.
    """

    label: str
    scheduler: Mapping[str, Any]
    metrics: Mapping[str, float | None]
    half: Mapping[str, float | None]
    replications: int
    saturated: str = ""
    outcome: Outcome | None = field(default=None, repr=False)

    def document(self) -> dict[str, Any]:
        """The row as plain values."""
        return {
            "scheduler": dict(self.scheduler),
            "metrics": dict(self.metrics),
            "half_width": dict(self.half),
            "replications": self.replications,
            "saturated": self.saturated,
        }


def run(experiment: JobExperiment, progress: Callable[[str, int, int], None]) -> list[Row]:
    """Simulate the jobs under every scheduler; ``progress`` hears its label, number and how many."""
    rows = []
    for index, (table, policy) in enumerate(experiment.schedulers):
        label = describe(table)
        progress(label, index, len(experiment.schedulers))
        if experiment.trace is not None:
            rows.append(_on_trace(experiment, experiment.trace.jobs, label, table, policy))
        else:
            rows.append(_on_model(experiment, label, table, policy))
    return rows


def describe(table: Mapping[str, Any]) -> str:
    """A scheduler in words: its policy and the parameters that are given."""
    options = ", ".join(f"{key} {value}" for key, value in table.items() if key != "policy")
    return f"{table['policy']} ({options})" if options else str(table["policy"])


def _on_trace(
    experiment: JobExperiment, jobs: Jobs, label: str, table: Mapping[str, Any], policy: Any
) -> Row:
    if isinstance(policy, ONE_AT_A_TIME):
        span_s = (jobs.submit_ns[-1] - jobs.submit_ns[0]) / 1e9
        load = float(jobs.times_s(jobs.most).sum()) / max(span_s, 1e-9)
        if load > 1:
            why = f"one job at a time is a load of {load:.2f}"
            return Row(label, table, {}, {}, 0, why)
    outcome = simulate(jobs, experiment.processors, policy)
    metrics = measure(outcome, warm_up=experiment.warm_up, tau_s=experiment.tau_s)
    return Row(label, table, _plain(metrics), {}, 1, outcome=outcome)


def _on_model(experiment: JobExperiment, label: str, table: Mapping[str, Any], policy: Any) -> Row:
    model = experiment.model
    assert model is not None
    watched = int(model.count * WATCHED_SHARE)

    def one(random: np.random.Generator) -> Metrics | None:
        outcome = simulate(
            model.draw(experiment.processors, random), experiment.processors, policy, Watched(watched)
        )
        late = outcome.finish_ns[:watched].max() > outcome.jobs.submit_ns[-1]
        if outcome.saturated or late:
            return None
        return measure(outcome, warm_up=experiment.warm_up, last=watched, tau_s=experiment.tau_s)

    plan = Plan(experiment.half_width, min(3, experiment.replications), experiment.replications)
    found = replicate(one, experiment.seed, plan)
    if found.saturated:
        tried = found.stuck + len(found.metrics)
        return Row(label, table, {}, {}, tried, f"in {found.stuck} of {tried} replications")
    names = list(_plain(found.metrics[0]))
    means = {name: found.mean(name) for name in names}
    finite = {name: mean.mean if np.isfinite(mean.mean) else None for name, mean in means.items()}
    halves = {name: mean.half for name, mean in means.items()}
    return Row(label, table, finite, halves, len(found.metrics))


def _plain(metrics: Metrics) -> dict[str, float | None]:
    return {name: value for name, value in metrics.row().items() if name != "jobs"}


def document(experiment: JobExperiment, rows: Sequence[Row]) -> dict[str, Any]:
    """All of it as one JSON document."""
    trace = experiment.trace
    return {
        "schema": SCHEMA,
        "level": "jobs",
        "experiment": experiment.name,
        "processors": experiment.processors,
        "jobs": len(trace.jobs) if trace else experiment.model.count if experiment.model else 0,
        "skipped": dict(trace.skipped) if trace else {},
        "seed": experiment.seed,
        "rows": [row.document() for row in rows],
    }


def schedules(experiment: JobExperiment, rows: Sequence[Row]) -> list[ScheduleRecord]:
    """The rows as records."""
    session = session_name()
    source: dict[str, Any] = {"warm_up": experiment.warm_up, "tau_s": experiment.tau_s}
    if experiment.trace:
        source |= {"trace": dict(experiment.trace.header), "count": len(experiment.trace.jobs)}
    if experiment.model:
        source |= {"model": asdict(experiment.model), "count": experiment.model.count}
    return [
        ScheduleRecord(
            session=session,
            recorded_at=records.now(),
            experiment=experiment.name,
            source=source,
            processors=experiment.processors,
            seed=experiment.seed,
            conditions=conditions.of_session(usable_processors(), "simulator"),
            **row.document(),
        )
        for row in rows
    ]


def write(experiment: JobExperiment, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Write a CSV of all rows, a picture, and for traces SWF and placement of each scheduler.

    The rows are also recorded in the store that ``folder`` then is.

    Raises:
        InputError: if ``folder`` cannot be one.
        StoreError: if they cannot be recorded.
    """
    with Store(folder) as store:
        store.add_schedules(schedules(experiment, rows))
        recorded = store.path
    table = folder / "metrics.csv"
    table.write_text(_csv(rows), encoding="utf-8")
    made = [table]
    numbers = experiment.trace.numbers if experiment.trace else None
    for index, row in enumerate(rows):
        if row.outcome is not None:
            stem = f"{index:02d}-{row.scheduler['policy']}"
            trace, placement = folder / f"{stem}.swf.gz", folder / f"{stem}.placement"
            swf.write(trace, row.outcome, policy=row.label, numbers=numbers)
            made.append(trace)
            if row.outcome.places != {}:
                swf.write_placement(placement, row.outcome)
                made.append(placement)
    from harness.simulator.jobs import picture  # noqa: PLC0415 - matplotlib is slow to load

    path = folder / "metrics.png"
    picture.draw(experiment, rows).savefig(path, dpi=110, metadata={"Software": None})
    return [*made, path, recorded]


def _csv(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    names = next((list(row.metrics) for row in rows if row.metrics), [])
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["scheduler", "replications", "saturated", *names, *(f"{name}_half" for name in names)])
    for row in rows:
        values = [row.metrics.get(name) for name in names] + [row.half.get(name) for name in names]
        writer.writerow([row.label, row.replications, row.saturated, *values])
    return text.getvalue()
