"""Small multiples: a panel for each point of the sweep, all with the same axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.analyse.rows import Row
from harness.spec.naming import duration_name

LABELS = 172
"""Room for the schedulers' names, in pixels."""
WIDE = 640
"""Narrower figures, in pixels, have one column of panels."""


@dataclass(frozen=True)
class Panels:
    """A figure with axes for each block of rows, in reading order."""

    figure: Figure
    axes: tuple[Axes, ...]
    columns: int


def blocks(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Title and rows of each point of the sweep."""
    found = [list(block) for _, block in groupby(rows, key=lambda row: row.settings)]
    return [(title(block[0], alone=len(found) == 1), block) for block in found]


def title(row: Row, *, alone: bool) -> str:
    """A short name for a point of the sweep: its settings, or the whole program."""
    if alone or not row.settings:
        return row.workload
    return ", ".join(_setting(key, value) for key, value in row.settings.items())


def _setting(key: str, value: Any) -> str:
    name = key.rsplit(".", maxsplit=1)[-1]
    if name == "granularity_us":
        return f"g = {duration_name(value)}"
    if name == "imbalance":
        return f"v = {value:g} g"
    return str(value) if isinstance(value, str) else f"{name} {value}"


def schedulers(rows: Iterable[Row]) -> list[str]:
    """The schedulers' names, in order of appearance."""
    return list(dict.fromkeys(row.name for row in rows))


def panels(
    width: int, count: int, *, lines: int, line: int, most: int = 4, top: int = 34, labels: int = LABELS
) -> Panels:
    """A figure of ``count`` panels.

    Args:
        width: of the figure, in pixels; below WIDE it has one column of panels.
        count: number of panels.
        lines: number of lines in each panel.
        line: height of a line, in pixels.
        most: most panels side by side.
        top: room for a legend above the panels, in pixels.
        labels: room for the names of the lines at the left, in pixels.
    """
    columns = 1 if width < WIDE else _columns(count, most)
    rows = -(-count // columns)
    heading, axis, gap = 24, 34, 20
    height = top + rows * (heading + lines * line + axis) + 10
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    span = (width - labels - 22 - gap * (columns - 1)) / columns
    made = []
    for number in range(count):
        row, column = divmod(number, columns)
        left = labels + column * (span + gap)
        bottom = height - top - (row + 1) * (heading + lines * line + axis) + axis
        box = (left / width, bottom / height, span / width, lines * line / height)
        axes = figure.add_axes(box)
        axes.set_ylim(lines - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        made.append(axes)
    return Panels(figure, tuple(made), columns)


def _columns(count: int, most: int) -> int:
    """At most ``most`` columns, if possible a number that fills the last row."""
    even = [columns for columns in range(2, most + 1) if count % columns == 0]
    return max(even, default=min(most, count))


def name_lines(found: Panels, names: Sequence[str]) -> None:
    """Write the names of the lines at the left of each row of panels."""
    for number, axes in enumerate(found.axes):
        first = number % found.columns == 0
        axes.set_yticks(range(len(names)), names if first else [""] * len(names))


def legend(figure: Figure, marks: Sequence[Any], width: int) -> None:
    """A legend above all panels, in columns that fit."""
    narrow = width < WIDE
    figure.legend(
        handles=list(marks),
        loc="upper left",
        bbox_to_anchor=(0.0 if narrow else LABELS / width, 1.0),
        ncols=min(len(marks), 2 if narrow and len(marks) > 3 else len(marks)),
        borderaxespad=0.2,
        handletextpad=0.5,
        columnspacing=1.2,
        handlelength=1.2,
    )
