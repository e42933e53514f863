"""``lockstep simulate`` for experiment files with ``level = "jobs"``, and its output files."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.commands import SCHEMA, Answer, Interrupted
from harness.measure.session import session_name
from harness.predict.job_level import Schedule, Study, run
from harness.predict.pool import Pool, Progress
from harness.report import jobs as report
from harness.simulator.jobs import swf
from harness.spec import job_level
from harness.spec.experiment import usable_processors
from harness.spec.experiment_source import Document
from harness.store import conditions, records
from harness.store.database import Store
from harness.store.records import ScheduleRecord
from workloads.validation import InputError


def answer(
    written: Document,
    *,
    trace: str | None,
    folder: Path | None,
    quick: bool,
    progress: Progress,
    compute: Pool,
) -> Answer:
    """Simulate the jobs under every scheduler; with ``folder`` record them and write files.

    Raises:
        InputError: for bad input, or a ``folder`` that cannot hold a store.
        StoreError: if rows cannot be recorded.
        Interrupted: on SIGINT or SIGTERM.
    """
    wanted = job_level.load(written, trace=trace)
    if quick and wanted.model is not None:
        wanted = replace(wanted, half_width=2 * wanted.half_width, replications=5)
    try:
        study = Study.of(wanted)
    except InputError as error:
        raise written.located(error) from None
    rows, recorded = _rows(study, folder, progress, compute)
    files = [*write(study, rows, folder), *recorded] if folder else []
    made = document(study, rows)
    return Answer(made, report.render(made, files))


def _rows(
    study: Study, folder: Path | None, progress: Progress, compute: Pool
) -> tuple[list[Schedule], list[Path]]:
    """The rows of all schedulers, and the store in ``folder`` that each is recorded in once it is known.

    Raises:
        Interrupted: saying how many schedulers are done, and where their rows are.
    """
    done: list[Schedule] = []
    with Store(folder) if folder else nullcontext() as store:
        session = session_name()

        def keep(row: Schedule) -> None:
            if store:
                store.add_schedules([_schedule(study, row, session)])
            done.append(row)

        try:
            rows = run(study, progress, compute, keep)
        except KeyboardInterrupt:
            where = f"recorded in {store.path}" if store else "lost; with -o DIR they would have been kept"
            total = len(study.experiment.schedulers)
            raise Interrupted(
                f"interrupted: the results of {len(done)} of {total} schedulers are {where}"
            ) from None
        return rows, [store.path] if store else []


def document(study: Study, rows: Sequence[Schedule]) -> dict[str, Any]:
    """The document that --json prints."""
    return {
        "schema": SCHEMA,
        "level": "jobs",
        "experiment": study.experiment.name,
        "processors": study.processors,
        "jobs": study.count,
        "skipped": study.trace.skipped if study.trace else {},
        "seed": study.experiment.seed,
        "rows": [row.document() for row in rows],
    }


def _schedule(study: Study, row: Schedule, session: str) -> ScheduleRecord:
    """A row as a record."""
    experiment = study.experiment
    source: dict[str, Any] = {"warm_up": experiment.warm_up, "tau_s": experiment.tau_s}
    source |= {"trace": study.trace.header} if study.trace else {}
    source |= {"model": asdict(experiment.model)} if experiment.model else {}
    source |= {"machine": dict(experiment.machine)} if experiment.machine else {}
    source["count"] = study.count
    return ScheduleRecord(
        session=session,
        recorded_at=records.now(),
        experiment=experiment.name,
        source=source,
        processors=study.processors,
        seed=experiment.seed,
        conditions=conditions.of_session(usable_processors(), "simulator"),
        **row.document(),
    )


def write(study: Study, rows: Sequence[Schedule], folder: Path) -> list[Path]:
    """Write a page, a CSV of all rows and a picture; for traces SWF, jobs and placement of each scheduler.

    Returns the paths of all files.
    """
    table = folder / "metrics.csv"
    table.write_text(_csv(rows), encoding="utf-8")
    made = [table]
    numbers = study.trace.numbers if study.trace else None
    for index, row in enumerate(rows):
        if row.outcome is not None:
            stem = f"{index:02d}-{row.scheduler['policy']}"
            trace, placement = folder / f"{stem}.swf.gz", folder / f"{stem}.placement"
            jobs = folder / f"{stem}.csv"
            swf.write(trace, row.outcome, policy=row.label, numbers=numbers)
            swf.write_jobs(jobs, row.outcome, numbers)
            made += [trace, jobs]
            if row.outcome.places != {}:
                swf.write_placement(placement, row.outcome)
                made.append(placement)
    return [*made, *_pictures(study, rows, folder)]


def _pictures(study: Study, rows: Sequence[Schedule], folder: Path) -> list[Path]:
    """The page, and the means as a picture."""
    from harness.report import job_charts, job_page, rendering, style  # noqa: PLC0415 - matplotlib is slow

    page = folder / "report.html"
    page.write_text(job_page.html(study, rows), encoding="utf-8")
    means = style.drawn(lambda: job_charts.means(rows, rendering.WIDE))
    if means is None:
        return [page]
    picture = folder / "metrics.png"
    picture.write_bytes(style.png(means))
    return [page, picture]


def _csv(rows: Sequence[Schedule]) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["scheduler", "replications", "saturated", *names, *(f"{name}_half" for name in names)])
    for row in rows:
        values = [row.metrics.get(name) for name in names] + [row.half_width.get(name) for name in names]
        writer.writerow([row.label, row.replications, row.saturated, *values])
    return text.getvalue()
