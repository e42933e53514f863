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
from harness.analyse.statistics import estimate
from harness.report.cells import CI95, LEGEND_TWO, UNKNOWN, doubts, fixed, headed, interval, table

MEASURED = ("measured", CI95)
SIMULATED = ("simu-\nlated", "error\n%", CI95, "start-up\nms")


def render(experiments: Sequence[ResultsDocument], tolerance: float) -> Iterator[RenderableType]:
    """A table for each experiment, and the number of rows with each verdict.

    Start-ups are the median and the longest of the jobs' measured times from admission to start.
    """
    for found in experiments:
        yield Text(f"{found.experiment} ({found.digest[:8]})", style="bold")
        yield from doubts(found.doubts)
        yield _table(found.rows)
        if any(row.measured and row.measured.workload_slowdown.n == 2 for row in found.rows):
            yield Text(LEGEND_TWO, style="dim")
        counts = Counter(row.verdict.verdict for row in found.rows if row.verdict)
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        yield Text(f"Tolerance {tolerance:.0%}: {said}.")
        if found.agreement:
            yield _agreement(found.agreement)
            yield Text(sentence(found.agreement))


def _table(rows: Sequence[Row]) -> Table:
    settings = swept(rows)
    measured = headed(MEASURED, (row.measured.workload_slowdown for row in rows if row.measured))
    made = table([*settings.values(), "scheduler"], (*measured, *SIMULATED))
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
    measured = row.measured.workload_slowdown if row.measured else estimate([])
    yield fixed(measured.median)
    yield interval(measured.ends, measured.n)
    yield fixed(row.median("simulated"))
    yield UNKNOWN if row.error is None else f"{100 * row.error:+.1f}"
    found = row.verdict or Verdict("")
    yield "{:+.0f} to {:+.0f}".format(*(100 * e for e in found.interval)) if found.interval else UNKNOWN
    start_up = row.measured.start_up if row.measured else None
    yield f"{start_up.median_ms:.1f}, {start_up.max_ms:.1f}" if start_up else UNKNOWN
    yield found.verdict + (f": {found.reason}" if found.reason else "")
