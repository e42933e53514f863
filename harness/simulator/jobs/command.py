"""``lockstep simulate`` for experiment files with ``level = "jobs"``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.commands import Answer
from harness.document import Document
from harness.report import jobs as report
from harness.simulator.jobs import experiment, run

Progress = Callable[[int, int], None]


def answer(
    written: Document, *, trace: str | None, folder: Path | None, quick: bool, progress: Progress
) -> Answer:
    """Simulate the jobs under every scheduler; with ``folder`` write traces, tables and a picture.

    Raises:
        InputError: for bad input.
    """
    wanted = experiment.load(written, trace=trace)
    if quick and wanted.model is not None:
        wanted = replace(wanted, half_width=2 * wanted.half_width, replications=5)
    total = len(wanted.schedulers)
    rows = run.run(wanted, lambda label, done, parts: progress(done, parts))
    progress(total, total)
    files = run.write(wanted, rows, folder) if folder else []
    made = run.document(wanted, rows)
    return Answer(made, report.table(made, files))
