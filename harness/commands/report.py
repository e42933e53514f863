"""``lockstep report RESULTS``: the results of an experiment, of processes or of jobs, in one file."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.analyse import stored_runs, verdicts
from harness.analyse.stored_runs import Found
from harness.analyse.verdicts import TOLERANCE
from harness.commands import SCHEMA, Answer, shared
from harness.measure.session import Watcher
from harness.report import text
from harness.store.database import FILE_NAME
from harness.store.payloads import reading
from workloads.validation import InputError, one_of

FORMATS = ("html", "text", "svg", "png", "md", "csv")


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.add(parser, "results", "--experiment")
    shared.output(parser, "write to this file (default: report.FORMAT)")
    add = parser.add_argument
    add(
        "--format",
        help=f"write {', '.join(FORMATS[:-1])} or {FORMATS[-1]} (default: by the suffix of FILE, else html)",
    )
    add(
        "--picture",
        metavar="NAME",
        help="draw this picture in svg and png (default: slowdowns, of jobs: means)",
    )
    shared.add(parser, "--tolerance")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Write the report of one experiment, by default the last one."""
    kind = options.format or (options.output.suffix[1:] if options.output else "") or "html"
    one_of("--format", kind, FORMATS)
    stored = stored_runs.read(options.results, options.experiment, watcher)[-1]
    if kind == "text":
        return _text(options, stored)
    path = options.output or Path(f"report.{kind}")
    write(path, kind, stored, options.results, options.tolerance, options.picture or "")
    if options.open:
        shared.show(path)
    name = stored.experiment.name
    what = "simulated schedules of jobs" if stored.by_job else "runs"
    document = {"schema": SCHEMA, "experiment": name, "format": kind, "file": str(path)}
    return Answer(document, [f"{path}: {name}, {len(stored.records)} {what}"])


def _text(options: argparse.Namespace, stored: Found) -> Answer:
    if options.output or options.open:
        raise InputError(
            "--format",
            "text",
            "cannot be written to a file: it goes to the terminal",
            "leave out -o and --open, or take another format",
        )
    results = stored.results
    parts = [*text.render(results), *text.repeats(results.rows)]
    return Answer(results.document(), parts)


def write(
    path: Path, kind: str, stored: Found, folder: Path, tolerance: float = TOLERANCE, picture: str = ""
) -> None:
    """Write the report of an experiment in the results directory ``folder``; ``kind`` is one of FORMATS."""
    from harness.analyse import job_tables  # noqa: PLC0415 - needs numpy
    from harness.report import rendering, style, tables  # noqa: PLC0415 - matplotlib is slow to import
    from harness.report.page import Content, page_of  # noqa: PLC0415

    results = verdicts.judged(stored.results, stored.records, tolerance)
    with reading(folder if folder.is_file() else folder / FILE_NAME):
        timed_rows = job_tables.timed(results.rows)
    lanes = stored_runs.lanes(folder, stored)
    page = page_of(Content(results, stored.records, lanes, timed_rows, tolerance))
    content: str | bytes
    if kind == "md":
        content = tables.markdown(results)
    elif kind == "csv":
        content = tables.comma_separated(results)
    elif kind == "html":
        content = rendering.html(page)
    else:
        content = style.file(rendering.picture(page, picture or page.pictures[0].name), kind)
    shared.write("--output", path, content)
