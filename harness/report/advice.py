"""Advice as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.analyse.advise import Range
from harness.analyse.rows import Row
from harness.report.cells import SLOWDOWNS, slowdown_cells
from harness.spec.naming import duration_name, program_name, scheduler_name


def render(rows: Sequence[Row], ranges: Sequence[Range], processors: int) -> Iterator[RenderableType]:
    """What to use, what was predicted for each candidate, and where the answer changes.

    ``rows`` are those of the candidates, the best first.
    """
    best, jobs = rows[0], len(rows[0].jobs)
    what = f"{jobs} job{'s' if jobs > 1 else ''} of {program_name(best.program)}"
    yield Text(f"{what} on {processors} processors, simulated with this host's constants")
    yield Text(f"Use {best.name}.", style="bold")
    yield _predictions(rows)
    yield Text("Over the granularity, all else alike:")
    yield _ranges(ranges)


def _predictions(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("scheduler", no_wrap=True)
    for heading in SLOWDOWNS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row.name, *slowdown_cells(row.simulated))
    return table


def _ranges(ranges: Sequence[Range]) -> Table:
    table = Table("granularity", "best, or as good", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("workload\nslowdown", justify="right")
    for one in ranges:
        ends = dict.fromkeys((duration_name(one.from_us), duration_name(one.to_us)))
        table.add_row(" to ".join(ends), scheduler_name(one.scheduler), f"{one.slowdown:.2f}")
    return table
