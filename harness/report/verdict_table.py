"""The verdicts of ``lockstep compare`` as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.analyse.agreement import Agreement, sentence
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import Row, Verdict, swept
from harness.report.cells import UNKNOWN, fixed, interval, table

HEADINGS = ("measured", "95 %\ninterval", "simu-\nlated", "error\n%", "95 %\ninterval", "start-up\nms")


def render(experiments: Sequence[ResultsDocument], tolerance: float) -> Iterator[RenderableType]:
    """A table for each experiment, and the number of rows with each verdict.

    Start-ups are the median and the longest of the jobs' measured times from admission to start.
    """
    for found in experiments:
        yield Text(f"{found.experiment} ({found.digest[:8]})", style="bold")
        yield _table(found.rows)
        counts = Counter(row.verdict.verdict for row in found.rows if row.verdict)
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        yield Text(f"Tolerance {tolerance:.0%}: {said}.")
        if found.agreement:
            yield _agreement(found.agreement)
            yield Text(sentence(found.agreement))


def _table(rows: Sequence[Row]) -> Table:
    settings = swept(rows)
    made = table([*settings.values(), "scheduler"], HEADINGS)
    made.add_column("verdict")
    for row in rows:
        made.add_row(*(str(row.settings[key]) for key in settings), row.name, *_cells(row))
    return made


def _agreement(found: Agreement) -> Table:
    made = table(["scheduler"], ["rows", "|error|\nmedian %", "90th\npercentile", "error\nmedian %"])
    for name, errors in found.schedulers.items():
        absolute = (f"{100 * error:.1f}" for error in (errors.median_error, errors.p90_error))
        made.add_row(name, str(errors.rows), *absolute, f"{100 * errors.bias:+.1f}")
    return made


def _cells(row: Row) -> Iterator[str]:
    """The numbers of a row and its verdict."""
    yield fixed(row.median("measured"))
    yield interval(row.measured.workload_slowdown.ci95 if row.measured else None)
    yield fixed(row.median("simulated"))
    yield UNKNOWN if row.error is None else f"{100 * row.error:+.1f}"
    found = row.verdict or Verdict("")
    yield "{:+.0f} to {:+.0f}".format(*(100 * e for e in found.interval)) if found.interval else UNKNOWN
    start_up = row.measured.start_up if row.measured else None
    yield f"{start_up.median_ms:.1f}, {start_up.max_ms:.1f}" if start_up else UNKNOWN
    yield found.verdict + (f": {found.reason}" if found.reason else "")
