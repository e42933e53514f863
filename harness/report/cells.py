"""Tables for a terminal, and their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table

from harness.analyse.breakdown import PARTS
from harness.analyse.rows import Summary

UNKNOWN = "-"

SLOWDOWNS = ("workload\nslowdown", "95 %\ninterval", "job\nmean", "job\nmax")
"""Headings of :func:`slowdown_cells`."""

SHARES = ("comp\n%", "comm\n%", "sync\n%", "switch\n%", "idle\n%")
"""Headings of :func:`share_cells`."""


def table(words: Iterable[str], numbers: Iterable[str] = (), *, wrap: bool = True) -> Table:
    """A table without lines between rows: columns of words, which may ``wrap``, then columns of numbers."""
    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in words:
        made.add_column(heading, no_wrap=not wrap, overflow="fold")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with ``digits`` decimals; UNKNOWN for None."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def interval(ends: Sequence[float] | None) -> str:
    """The ends of an interval; UNKNOWN for None."""
    return "{:.2f}-{:.2f}".format(*ends) if ends else UNKNOWN


def slowdown_cells(known: Summary | None) -> list[str]:
    """The cells under SLOWDOWNS for one side of a row."""
    if known is None:
        return [UNKNOWN] * len(SLOWDOWNS)
    workload, jobs = known.workload_slowdown, known.slowdown
    each = (jobs.mean, jobs.max) if jobs else (None, None)
    return [fixed(workload.median), interval(workload.ci95), *map(fixed, each)]


def share_cells(known: Summary | None) -> list[str]:
    """The cells under SHARES for one side of a row, in percent."""
    if known is None or known.breakdown is None:
        return [UNKNOWN] * len(PARTS)
    return [fixed(100 * share, 1) for share in vars(known.breakdown).values()]
