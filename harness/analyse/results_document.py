"""The results of an experiment from its records, as JSON and as frames (docs/reference)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from harness.analyse import summary
from harness.analyse.agreement import Agreement, agreement
from harness.analyse.columns import MEASURED, SIMULATED
from harness.analyse.result_warnings import notice, warnings_of
from harness.analyse.rows import COLUMNS, Row, Summary
from harness.measure.plan import label
from harness.spec.experiment import Experiment
from harness.spec.job_source import LEVEL, ScaledWindow
from harness.spec.naming import setting_names
from harness.store.records import MEASURED_KINDS, RunRecord, Schedule
from workloads.constants import CONSTANTS
from workloads.machine import lost_processors

if TYPE_CHECKING:
    import pandas

SCHEMA = 1  # version of the document's format

MACHINE = ("host", "kernel", "cpu_model", "cores", "processors", "launcher")

SAID = [one.name for one in CONSTANTS if one.said]


@dataclass(frozen=True)
class ResultsDocument:
    """The results of an experiment (docs/reference); ``failures`` happened in ``session``."""

    experiment: str
    digest: str
    session: str
    machine: Mapping[str, Any]
    rows: Sequence[Row]
    agreement: Agreement | None
    failures: Sequence[str]
    warnings: Sequence[str]
    notice: str = ""  # that rows are withheld, and why; empty if all are shown
    # Of jobs without processes: the machine's processors and those ``lost``, how many jobs there are, were
    # ``skipped`` and ``assumed``, and the seed; else empty.
    by_job: Mapping[str, Any] = field(default_factory=dict)
    # Of each part of a log whose jobs have processes: what became of them. A sweep may have several.
    logs: Sequence[ScaledWindow] = ()

    @property
    def recorded_waits(self) -> list[Mapping[str, Any]]:
        """Recorded waits and simulated ones (``harness.predict.recorded_waits``), each comparison once."""
        there = [self.by_job.get("recorded_waits"), *(log.recorded_waits for log in self.logs)]
        return [one for n, one in enumerate(there) if one and one not in there[:n]]

    def document(self) -> dict[str, Any]:
        if self.by_job and not self.logs:
            from harness.analyse import job_classes  # noqa: PLC0415 - only logs need it

            head: dict[str, Any] = {"schema": SCHEMA, "level": LEVEL, "experiment": self.experiment}
            rows = [{**_schedule_document(row), "classes": job_classes.document(row)} for row in self.rows]
            return {**head, **self.by_job, "rows": rows}
        tables = [log.table for log in self.logs]
        return {
            "schema": SCHEMA,
            "experiment": self.experiment,
            "digest": self.digest,
            "session": self.session,
            "machine": self.machine,
            **({"log": tables[0] if len(tables) == 1 else tables} if tables else {}),
            "rows": [row_document(row) for row in self.rows],
            "agreement": self.agreement and _agreement(self.agreement),
            "failures": self.failures,
            "notice": self.notice,
            "warnings": self.warnings,
        }


def results(
    experiment: Experiment, records: Sequence[RunRecord], tau_s: float = summary.TAU_S, session: str = ""
) -> ResultsDocument:
    """The results of at least one record; by default ``session`` is the last record's."""
    measured = [record for record in records if record.kind in MEASURED_KINDS]
    rows = summary.rows(experiment, records, tau_s, () if measured else experiment.cells)
    last = (measured or records)[-1]
    schedule = next((one.schedule for one in reversed(records) if one.schedule), None)
    session = session or last.session
    machine: dict[str, Any] = {key: getattr(last.conditions, key) for key in MACHINE}
    machine |= {name: value for name, value in last.constants.recorded().items() if name in SAID}
    ours = [one for one in records if one.session == session and one.exceeded is None]
    failed = [(one, one.failure or one.failed_jobs) for one in ours]
    return ResultsDocument(
        experiment=experiment.name,
        digest=last.digest,
        session=session,
        machine=machine,
        rows=rows,
        agreement=agreement(rows),
        failures=[
            f"{label(one.kind, one.scheduler, one.settings)}, repeat {one.repeat + 1}: {failure}"
            for one, failure in failed
            if failure
        ],
        warnings=list(_lacking(rows)) if schedule and not measured else warnings_of(rows, measured),
        notice=notice(rows, measured),
        by_job=_of_jobs(schedule, last.seed) if schedule else {},
        logs=list(_logs(experiment, rows)),
    )


def _logs(experiment: Experiment, rows: Sequence[Row]) -> Iterator[ScaledWindow]:
    """What became of the parts of logs at the points of the sweep that have rows, each once."""
    points = [row.settings for row in rows]
    logs = [cell.log for cell in experiment.cells if cell.log and cell.settings in points]
    yield from (log for n, log in enumerate(logs) if log not in logs[:n])


def _of_jobs(schedule: Schedule, seed: int) -> dict[str, Any]:
    source = schedule.source
    return {
        "processors": schedule.processors,
        "lost": sorted(lost_processors(source.get("machine", {}), schedule.processors)),
        "jobs": source.get("count"),
        "skipped": source.get("skipped", {}),
        "assumed": source.get("assumed", {}),
        "recorded_waits": source.get("recorded_waits"),
        "seed": seed,
    }


def _lacking(rows: Sequence[Row]) -> Iterator[str]:
    """That schedulers of an interrupted simulation of jobs are not there."""
    total = max((row.schedule.source.get("schedulers", 0) for row in rows if row.schedule), default=0)
    if len(rows) < total:
        yield f"only {len(rows)} of {total} schedules are there: the simulation was interrupted"


OF_SCHEDULE = ("metrics", "half_width", "replications", "saturated")


def _schedule_document(row: Row) -> dict[str, Any]:
    """A row of jobs without processes as plain values."""
    values = {"settings": row.settings} if row.settings else {}
    return values | {"scheduler": row.scheduler} | {key: getattr(row.schedule, key) for key in OF_SCHEDULE}


def row_document(row: Row) -> dict[str, Any]:
    """A row as plain values, with its jobs only if they run different programs."""
    values: dict[str, Any] = {"program": row.program} if row.jobs else {}
    values |= {"settings": row.settings, "scheduler": row.scheduler}
    values["count"] = row.schedule.source["count"] if row.schedule else len(row.jobs) or None
    if any(job.program != row.program for job in row.jobs):
        values["jobs"] = [asdict(job) for job in row.jobs]
    measured = row.withheld.measured if row.withheld else row.measured
    for side, measurement in (("measured", measured), ("simulated", row.simulated)):
        values[side] = measurement and summary_document(measurement)
    if row.by_job:
        values["by_job"] = summary_document(row.by_job)
    values |= {"error": row.error, "bound": row.bound, "withheld": row.withheld and row.withheld.reason}
    return values | (asdict(row.verdict) if row.verdict else {})


def summary_document(estimates: Summary) -> dict[str, Any]:
    """One side of a row as plain values, without values that only some experiments and machines have."""
    values = asdict(replace(estimates, by_repeat={}, schedule=None))
    del values["by_repeat"]
    if estimates.schedule:
        values["schedule"] = {key: getattr(estimates.schedule, key) for key in OF_SCHEDULE}
    for key in ("against_spinning", "sections", "states", "cpu_s", "dedicated", "exceeded", "schedule"):
        if values[key] is None:
            del values[key]
    if switches := values["switches"]:
        values["switches"] = {key: value for key, value in switches.items() if value is not None}
    return values


def _agreement(measure: Agreement) -> dict[str, Any]:
    by_scheduler = [{"scheduler": name, **asdict(errors)} for name, errors in measure.schedulers.items()]
    values = {"kendall_tau": measure.kendall_tau, "pairs": measure.pairs, "schedulers": by_scheduler}
    return asdict(measure.errors) | values


def frame_of_rows(rows: Sequence[Row]) -> pandas.DataFrame:
    """A line for each row and side; its columns are described in ``lockstep.Results.rows``."""
    named = [column for column in COLUMNS if column.frame]
    of_sides = [column for column in named if str(column.path).startswith(MEASURED)]
    of_both = [column for column in named if column not in of_sides]
    lines = []
    for row in rows:
        for side in row.sides:
            values = [column.of(side).value(row) for column in of_sides]
            values += [column.value(row) if side == SIMULATED else None for column in of_both]
            jobs = row.schedule.source.get("count") if row.schedule else len(row.jobs)
            lines.append((row, [row.workload, jobs, *_names(row, side), *values]))
    names = [column.frame for column in (*of_sides, *of_both)]
    return _frame(rows, ["workload", "jobs", *NAMES, *names], lines)


def frame_of_jobs(rows: Sequence[Row]) -> pandas.DataFrame:
    lines = []
    for row in rows:
        for side, measurement in row.sides.items():
            slowdowns = measurement.slowdown.per_job if measurement.slowdown else [None] * len(row.jobs)
            for number, (job, slowdown) in enumerate(zip(row.jobs, slowdowns, strict=True)):
                values = [number, job.work.label, job.arrival_s, slowdown]
                lines.append((row, [*_names(row, side), *values]))
    return _frame(rows, [*NAMES, "job", "program", "arrival_s", "slowdown"], lines)


NAMES = ("scheduler", "policy", "waiting", "kind")


def _names(row: Row, side: str) -> tuple[Any, ...]:
    return row.name, row.scheduler["policy"], row.scheduler.get("waiting"), side


def _frame(
    rows: Sequence[Row], names: Sequence[str], lines: Sequence[tuple[Row, Sequence[Any]]]
) -> pandas.DataFrame:
    import pandas  # noqa: PLC0415 - slow to load

    keys = setting_names(dict.fromkeys(key for row in rows for key in row.settings))
    values_of_rows = [[*(row.settings.get(key) for key in keys), *values] for row, values in lines]
    return pandas.DataFrame(values_of_rows, columns=[*keys.values(), *names])
