"""``lockstep simulate EXPERIMENT``: simulate every scheduler."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from harness import application
from harness.analyse import stored_runs
from harness.commands import Answer, report
from harness.commands.shared import EXPERIMENT, VERDICTS, add, judged, load, thresholds_of
from harness.measure.session import Watcher
from harness.predict import pool as threads
from harness.report import text
from harness.store.database import FILE_NAME
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, *EXPERIMENT, "--slowdown-bound")
    add(
        parser,
        "--results",
        help="take values missing in [machine] from the last calibration in this directory",
    )
    add(parser, *VERDICTS)
    own = parser.add_argument
    own("--mpi", action="store_true", help="simulate on the ranks of mpiexec (docs/slurm.md)")
    own(
        "--log",
        metavar="FILE",
        help="simulate the jobs of this log (SWF or sacct) in the place of the file's",
    )
    help_text = "simulate processes and their messages, or only which job has which processors"
    own("--by", choices=application.BY, help=f"{help_text}; by default processes, if jobs have some")
    own(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="record the simulations in this directory: report, compare and trace read them",
    )
    add(parser, "--resume", help="skip simulations that are recorded already (with -o)")
    add(parser, "--timeline", help="record a timeline of every rank, for trace and report (with -o)")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the experiment; the status is 1 if any simulation failed."""
    pool, compute = None, threads.compute
    if options.mpi:
        threads.join_pool()
        from harness.predict.mpi_pool import MpiPool  # noqa: PLC0415 - starts MPI

        compute = (pool := MpiPool()).compute
    for option in ("timeline", "resume"):
        if getattr(options, option) and not options.output:
            raise InputError(f"--{option}", True, "needs -o DIR, which stores the records", "add -o DIR")
    experiment = load(options, log=options.log)
    conditions = thresholds_of(options, experiment)
    simulation = application.simulate(
        experiment,
        options.results,
        watcher,
        options.slowdown_bound,
        compute,
        options.output,
        timeline=options.timeline,
        resume=options.resume,
        by=options.by,
    )
    results = simulation.results
    document = results.document()
    for key in ("session", "agreement"):
        document.pop(key, None)
    shown = list(text.render(results))
    if results.by_job and options.output:
        pages = _pages(results.digest, options.output, watcher)
        files = [*pages, *sorted(simulation.files), options.output / FILE_NAME]
        shown.append(f"wrote {len(files)} files to {options.output}/; report.html shows them")
    notes = (*simulation.notes, *([str(pool)] if pool else []))
    answer = Answer(document, shown, status=1 if results.failures else 0, notes=notes)
    return judged(answer, results, options, conditions, "simulated")


def _pages(digest: str, folder: Path, watcher: Watcher) -> Iterator[Path]:
    """Write the table of means, the page and the picture of means; yields their paths."""
    (stored,) = stored_runs.read(folder, digest, watcher)
    for name, kind in (("metrics.csv", "csv"), ("report.html", "html"), ("metrics.png", "png")):
        if kind != "png" or any(record.schedule and record.schedule.metrics for record in stored.records):
            report.write(folder / name, kind, stored, folder)
            yield folder / name
