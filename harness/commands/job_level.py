"""``lockstep simulate`` for experiment files with ``level = "jobs"``, and its output files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness import Interrupted
from harness.commands import SCHEMA, Answer, stored_schedules
from harness.measure.session import session_name
from harness.predict.job_level import Schedule, Study, run
from harness.predict.pool import Pool, Progress
from harness.report import jobs as report
from harness.report.job_content import JobContent
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
    """Simulate the jobs under every scheduler; with ``folder`` record them and write files."""
    wanted = job_level.load(written, trace=trace)
    if quick and wanted.model is not None:
        wanted = replace(wanted, half_width=2 * wanted.half_width, replications=5)
    try:
        study = Study.of(wanted)
        rows, files = _rows(study, folder, progress, compute)
    except InputError as error:
        raise written.located(error) from None
    made = document(study, rows)
    return Answer(made, report.render(made, files))


def _rows(
    study: Study, folder: Path | None, progress: Progress, compute: Pool
) -> tuple[list[Schedule], list[Path]]:
    """The rows of all schedulers, and the files in ``folder``; each is recorded there once it is known."""
    done: list[Schedule] = []
    files: list[Path] = []
    waiting = [(place, table) for place, (table, _) in enumerate(study.experiment.schedulers)]
    with Store(folder) if folder else nullcontext() as store:
        session = session_name()

        def keep(row: Schedule) -> None:
            place, table = next(one for one in waiting if one[1] == row.scheduler)
            waiting.remove((place, table))
            if store and folder:
                files.extend(_write(study, row, folder / stored_schedules.stem(place, table)))
                store.add_schedules([_schedule(study, row, session, place)])
            done.append(row)

        try:
            rows = run(study, progress, compute, keep)
        except KeyboardInterrupt:
            kept = f"recorded in {store.path}: lockstep report {folder} shows them" if store else LOST
            total = len(study.experiment.schedulers)
            raise Interrupted(
                f"interrupted: the results of {len(done)} of {total} schedulers are {kept}"
            ) from None
        if not store or not folder:
            return rows, []
        ours = [record for record in store.schedules() if record.session == session]
        ours.sort(key=lambda record: int(record.source["place"]))
        return rows, [*_pages(JobContent(ours, rows), folder), *sorted(files), store.path]


LOST = "lost; with -o DIR they would have been kept"


def document(study: Study, rows: Sequence[Schedule]) -> dict[str, Any]:
    """The document that --json prints."""
    return {
        "schema": SCHEMA,
        "level": "jobs",
        "experiment": study.experiment.name,
        "processors": study.processors,
        "lost": sorted(study.lost),
        "jobs": study.count,
        "skipped": study.trace.skipped if study.trace else {},
        "assumed": study.trace.assumed if study.trace else {},
        "seed": study.experiment.seed,
        "rows": [row.document() for row in rows],
    }


def _schedule(study: Study, row: Schedule, session: str, place: int) -> ScheduleRecord:
    """A row as a record; ``place`` is its scheduler's in the experiment."""
    experiment = study.experiment
    source: dict[str, Any] = {"warm_up": experiment.warm_up, "tau_s": experiment.tau_s}
    if study.trace:
        file = os.fsencode(str(experiment.trace)).decode(errors="backslashreplace")
        source |= {"trace": study.trace.header, "file": file}
        source |= {"skipped": study.trace.skipped, "assumed": study.trace.assumed}
    source |= {"model": asdict(experiment.model)} if experiment.model else {}
    source |= {"machine": dict(experiment.machine)} if experiment.machine else {}
    source |= {"count": study.count, "place": place, "schedulers": len(experiment.schedulers)}
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


def _write(study: Study, row: Schedule, stem: Path) -> Iterator[Path]:
    """Write the schedule of a trace: SWF, table of jobs, placement if there is one; yields their paths."""
    if study.trace is None or row.outcome is None:
        return
    trace, jobs, placement = (
        stem.with_name(f"{stem.name}{suffix}") for suffix in (".swf.gz", ".csv", ".placement")
    )
    swf.write(trace, row.outcome, policy=row.label, numbers=study.trace.numbers)
    swf.write_jobs(jobs, row.outcome, study.trace.numbers)
    yield from (trace, jobs)
    if row.outcome.places != {}:
        swf.write_placement(placement, row.outcome, study.trace.numbers)
        yield placement


def _pages(content: JobContent, folder: Path) -> Iterator[Path]:
    """Write the page, the table of means and their picture; yields their paths."""
    from harness.report import job_page, style  # noqa: PLC0415 - matplotlib is slow to load

    table, page, picture = (folder / name for name in ("metrics.csv", "report.html", "metrics.png"))
    table.write_text(report.comma_separated(content.rows), encoding="utf-8")
    page.write_text(job_page.html(content), encoding="utf-8")
    yield from (table, page)
    if any(row.metrics for row in content.rows):
        picture.write_bytes(style.png(job_page.picture(content, "means")))
        yield picture
