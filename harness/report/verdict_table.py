"""The verdicts of ``lockstep compare`` as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.analyse.agreement import Agreement, sentence
from harness.analyse.results_document import Results
from harness.analyse.rows import Row, Verdict
from harness.report.cells import UNKNOWN, fixed, interval
from harness.spec.naming import program_name

HEADINGS = ("measured", "95 %\ninterval", "simu-\nlated", "error\n%", "95 %\ninterval")


def render(experiments: Sequence[Results], tolerance: float) -> Iterator[RenderableType]:
    """A table per experiment, and how many rows have which verdict."""
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
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    swept = len({str(row.settings) for row in rows}) > 1
    if swept:
        table.add_column("program")
    table.add_column("scheduler")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in rows:
        cells = [program_name(row.program)] if swept else []
        table.add_row(*cells, row.name, *_cells(row))
    return table


def _agreement(found: Agreement) -> Table:
    table = Table("scheduler", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("rows", "|error|\nmedian %", "90th\npercentile", "error\nmedian %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, errors in found.schedulers.items():
        absolute = (f"{100 * error:.1f}" for error in (errors.median_error, errors.p90_error))
        table.add_row(name, str(errors.rows), *absolute, f"{100 * errors.bias:+.1f}")
    return table


def _cells(row: Row) -> Iterator[str]:
    """The numbers of a row and its verdict."""
    yield fixed(row.median("measured"))
    yield interval(row.measured.workload_slowdown.ci95 if row.measured else None)
    yield fixed(row.median("simulated"))
    yield UNKNOWN if row.error is None else f"{100 * row.error:+.1f}"
    found = row.verdict or Verdict("")
    yield "{:+.0f} to {:+.0f}".format(*(100 * e for e in found.interval)) if found.interval else UNKNOWN
    yield found.verdict + (f": {found.reason}" if found.reason else "")
