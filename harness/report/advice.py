"""Advice as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.analyse.advise import Range
from harness.analyse.agreement import Errors
from harness.analyse.rows import Row
from harness.report import cells
from harness.report.cells import SLOWDOWNS, slowdown_cells, table
from harness.spec.naming import duration_name, scheduler_name


def render(
    rows: Sequence[Row],
    ranges: Sequence[Range],
    processors: int,
    doubts: Sequence[str],
    age: str,
    errors: Errors | None = None,
) -> Iterator[RenderableType]:
    """The advice, the predictions for each candidate, and the granularities where the advice changes.

    Args:
        rows: one for each candidate, the best first.
        ranges: of the granularity; empty for a recorded program.
        processors: the number for which the candidates were simulated.
        doubts: about the calibration of this host, and about the recording.
        age: of the calibration, in words; empty without one: then the constants are nominal.
        errors: of earlier simulations of commands against their measurements; None if nobody measured any.
    """
    best, jobs = rows[0], len(rows[0].jobs)
    what = f"{jobs} job{'s' if jobs > 1 else ''} of {best.workload}"
    yield from cells.doubts(doubts)
    constants = f"this host's constants of {age} ago" if age else "nominal constants"
    yield Text(f"{what} on {processors} processors, simulated with {constants}")
    if doubts:
        yield Text(f"Not conclusive; {best.name} has the least slowdown.")
    else:
        yield Text(f"Use {best.name}.", style="bold")
    yield _predictions(rows)
    if errors:
        yield Text(
            f"Simulated commands have been wrong by {errors.median_error:.1%} in the median of {errors.rows} "
            f"measured rows, 90th percentile {errors.p90_error:.1%}."
        )
    if ranges:
        yield Text("Over the granularity, all else alike:")
        yield _ranges(ranges)


def _predictions(rows: Sequence[Row]) -> Table:
    made = table(["scheduler"], SLOWDOWNS, wrap=False)
    for row in rows:
        made.add_row(row.name, *slowdown_cells(row.simulated))
    return made


def _ranges(ranges: Sequence[Range]) -> Table:
    made = table(["granularity", "best, or as good"], SLOWDOWNS[:1])
    for one in ranges:
        ends = dict.fromkeys((duration_name(one.from_us), duration_name(one.to_us)))
        made.add_row(" to ".join(ends), scheduler_name(one.scheduler), f"{one.slowdown:.2f}")
    return made
