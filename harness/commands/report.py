"""``lockstep report RESULTS``: the results of an experiment, of processes or of jobs, in one file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness.analyse import stored, verdicts
from harness.analyse.stored import Found
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.store.database import Store
from workloads.validation import one_of

if TYPE_CHECKING:
    from harness.report.job_content import JobContent

FORMATS = ("html", "svg", "png", "md", "csv")


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.add(parser, "results", "--experiment")
    add = parser.add_argument
    add("-o", "--output", type=Path, metavar="FILE", help="output file (default: report.FORMAT)")
    add("--format", help=f"one of {', '.join(FORMATS)} (default: from the suffix of FILE, else html)")
    add("--picture", metavar="NAME", help="the picture for svg and png (default: slowdowns, of jobs: means)")
    shared.add(parser, "--tolerance")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Write the report of one experiment, by default the last one."""
    kind = options.format or (options.output.suffix[1:] if options.output else "") or "html"
    one_of("--format", kind, FORMATS)
    path = options.output or Path(f"report.{kind}")
    if (jobs := _of_jobs(options, watcher)) is not None:
        shared.write("--output", path, _jobs_made(kind, jobs, options.picture))
        document = {"schema": SCHEMA, "experiment": jobs.name, "format": kind, "file": str(path)}
        return Answer(document, [f"{path}: {jobs.name}, {len(jobs.rows)} simulated schedules of jobs"])
    found = stored.read(options.results, options.experiment, watcher)[-1]
    write(path, kind, found, options.results, options.tolerance, options.picture or "slowdowns")
    document = {"schema": SCHEMA, "experiment": found.experiment.name, "format": kind, "file": str(path)}
    return Answer(document, [f"{path}: {found.experiment.name}, {len(found.records)} runs"])


def write(
    path: Path,
    kind: str,
    found: Found,
    folder: Path,
    tolerance: float = verdicts.TOLERANCE,
    picture: str = "",
) -> None:
    """Write the report of an experiment in the results directory ``folder``; ``kind`` is one of FORMATS."""
    from harness.report import page, style, tables  # noqa: PLC0415 - matplotlib is slow to import

    known = verdicts.judged(found.results, found.records, tolerance)
    made: str | bytes
    if kind == "md":
        made = tables.markdown(known)
    elif kind == "csv":
        made = tables.comma_separated(known)
    else:
        content = page.Content(known, found.records, stored.lanes(folder, found), tolerance)
        made = page.html(content) if kind == "html" else style.file(page.picture(content, picture), kind)
    shared.write("--output", path, made)


def _of_jobs(options: argparse.Namespace, watcher: Watcher) -> JobContent | None:
    """The simulation of jobs to report; None if there is none, or runs are newer."""
    with Store(options.results, existing=True, warn=watcher.warn) as store:
        if not store.schedules():
            return None
    from harness.commands import stored_schedules  # noqa: PLC0415 - numba is slow to import

    return stored_schedules.read(options.results, options.experiment, watcher)


def _jobs_made(kind: str, content: JobContent, picture: str | None) -> str | bytes:
    from harness.report import job_page, jobs, style  # noqa: PLC0415

    if kind == "html":
        return job_page.html(content)
    if kind == "md":
        return jobs.markdown(content)
    if kind == "csv":
        return jobs.comma_separated(content.rows)
    return style.file(job_page.picture(content, picture or "means"), kind)
