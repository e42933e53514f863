"""Advice as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.analyse.advise import Range
from harness.analyse.agreement import Errors
from harness.analyse.rows import Row
from harness.report import cells
from harness.report.cells import SLOWDOWNS, UNKNOWN, slowdown_cells, table
from harness.spec.naming import scheduler_name
from workloads.work import duration_name

ERRORS = ("error so\nfar %", "90th\npercentile", "rows")
"""Headings of errors of earlier simulations."""

NOT_HERE = "not known here: docs/validation.md has ours"


def render(
    rows: Sequence[Row],
    ranges: Sequence[Range],
    processors: int,
    doubts: Sequence[str],
    age: str,
    errors: Mapping[str, Errors] | None = None,
) -> Iterator[RenderableType]:
    """The advice, the predictions for each candidate, and the granularities where the advice changes.

    Args:
        rows: one for each candidate, the best first.
        ranges: of the granularity; empty for a recorded program.
        processors: the number for which the candidates were simulated.
        doubts: about the calibration of this host, and about the recording.
        age: of the calibration, in words; empty without one: then the constants are nominal.
        errors: for a recorded program those of commands that were simulated and measured before, by
            scheduler; None for another program.
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
    yield _predictions(rows, errors or {})
    if errors is not None:
        yield Text(_about(errors, [row.name for row in rows]))
    if ranges:
        yield Text("Over the granularity, all else alike:")
        yield _ranges(ranges)


def _predictions(rows: Sequence[Row], errors: Mapping[str, Errors]) -> Table:
    """The rows as a table; with columns of errors if they are known of a scheduler among them."""
    known = any(row.name in errors for row in rows)
    made = table(["scheduler"], SLOWDOWNS + (ERRORS if known else ()), wrap=False)
    for row in rows:
        made.add_row(row.name, *slowdown_cells(row.simulated), *(_error_cells(errors, row) if known else ()))
    return made


def _error_cells(errors: Mapping[str, Errors], row: Row) -> Sequence[str]:
    """The cells under ERRORS."""
    if not (found := errors.get(row.name)):
        return [UNKNOWN] * len(ERRORS)
    return [*(f"{100 * share:.1f}" for share in (found.median_error, found.p90_error)), str(found.rows)]


def _about(errors: Mapping[str, Errors], schedulers: Sequence[str]) -> str:
    """What the columns of errors hold, and where errors are that are not known here."""
    unknown = [name for name in schedulers if name not in errors]
    if len(unknown) == len(schedulers):
        return f"By how much simulated commands have been wrong is {NOT_HERE}."
    said = "Error so far: by how much the slowdowns of commands, simulated and measured here, differed"
    return f"{said}, in the median." + (f" {UNKNOWN}: {NOT_HERE}." if unknown else "")


def _ranges(ranges: Sequence[Range]) -> Table:
    made = table(["granularity", "best, or as good"], SLOWDOWNS[:1])
    for one in ranges:
        ends = dict.fromkeys((duration_name(one.from_us), duration_name(one.to_us)))
        made.add_row(" to ".join(ends), scheduler_name(one.scheduler), f"{one.slowdown:.2f}")
    return made
