"""``lockstep simulate`` for experiment files with ``level = "jobs"``, and its output files."""

import argparse
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from harness import Interrupted
from harness.analyse import schedules, stored
from harness.analyse.rows import ScheduleRow
from harness.commands import Answer, report
from harness.measure.session import Counted, Watcher, session_name
from harness.predict.job_level import SIMULATOR, SimulatedByJob
from harness.predict.pool import Pool
from harness.report import text
from harness.simulator.jobs import swf
from harness.spec import job_level
from harness.spec.experiment import usable_processors
from harness.spec.experiment_source import Document
from harness.store import conditions
from harness.store.database import Store
from harness.store.records import RunRecord
from workloads.validation import InputError


def answer(written: Document, options: argparse.Namespace, watcher: Watcher, compute: Pool) -> Answer:
    """Simulate the jobs under every scheduler; with -o record them and write files."""
    wanted = job_level.load(written, trace=options.trace, quick=options.quick)
    files: list[Path] = []
    try:
        back_end = SimulatedByJob.of(wanted)
        if options.output:
            known = conditions.of_session(usable_processors(), SIMULATOR)
            back_end = replace(back_end, session=session_name(), conditions=known)
        records = _run(back_end, options.output, files, Counted(watcher, options.experiment), compute)
    except InputError as error:
        raise written.located(error) from None
    if options.output:
        files = [*_pages(back_end.session, options.output, watcher), *sorted(files[1:]), files[0]]
    made = report.document_of_jobs(records)
    wrote = [f"wrote {len(files)} files to {options.output}/; report.html shows them"] if files else []
    return Answer(made, [*text.simulated_jobs(made, list(map(ScheduleRow.of, records))), *wrote])


def _run(
    back_end: SimulatedByJob, folder: Path | None, files: list[Path], progress: Counted, compute: Pool
) -> list[RunRecord]:
    """The runs under all schedulers, recorded as they end; adds the store and its files to ``files``."""
    done: list[RunRecord] = []
    with Store(folder) if folder else nullcontext() as store:

        def keep(record: RunRecord) -> None:
            if store and folder:
                files.extend(_write(back_end, record, folder))
                store.add_run(record)
            done.append(record)

        files += [store.path] if store else []
        try:
            return compute(back_end.tasks, back_end.run, progress, keep)
        except KeyboardInterrupt:
            kept = f"recorded in {store.path}: lockstep report {folder} shows them" if store else LOST
            total = len(back_end.experiment.schedulers)
            raise Interrupted(
                f"interrupted: the results of {len(done)} of {total} schedulers are {kept}"
            ) from None


LOST = "lost; with -o DIR they would have been kept"


def _write(back_end: SimulatedByJob, record: RunRecord, folder: Path) -> Iterator[Path]:
    """Write the schedule of a trace: SWF, table of jobs, placement if there is one; yields their paths."""
    row = ScheduleRow.of(record)
    trace, outcome = back_end.trace, row.schedule.outcome
    if trace is None or outcome is None:
        return
    stem = folder / schedules.stem(row)
    path, jobs, placement = (
        stem.with_name(f"{stem.name}{suffix}") for suffix in (".swf.gz", ".csv", ".placement")
    )
    swf.write(path, outcome, policy=row.name, numbers=trace.numbers)
    swf.write_jobs(jobs, outcome, trace.numbers)
    yield from (path, jobs)
    if outcome.places != {}:
        swf.write_placement(placement, outcome, trace.numbers)
        yield placement


def _pages(session: str, folder: Path, watcher: Watcher) -> Iterator[Path]:
    """Write the table of means, the page and the picture of means; yields their paths."""
    (found,) = stored.read(folder, session, watcher, by_job=True)
    for name, kind in (("metrics.csv", "csv"), ("report.html", "html"), ("metrics.png", "png")):
        if kind != "png" or any(record.schedule and record.schedule.metrics for record in found.records):
            report.write(folder / name, kind, found, folder)
            yield folder / name
