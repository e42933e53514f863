"""Small multiples: a panel for each point of the sweep, all with the same axes."""

from __future__ import annotations

import math
import textwrap
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
LETTER = 7.0
"""Width of a letter of 12 pixels, generously, in pixels."""


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
    width: int,
    titles: Sequence[str],
    *,
    lines: int,
    line: int,
    most: int = 4,
    marks: Sequence[Any] = (),
    labels: int = LABELS,
) -> Panels:
    """A figure with a legend, and below it a panel under each of the titles, which wrap where they are long.

    Args:
        width: of the figure, in pixels; below WIDE it has one column of panels.
        titles: one for each panel.
        lines: number of lines in each panel.
        line: height of a line, in pixels.
        most: most panels side by side.
        marks: handles of the legend.
        labels: room for the names of the lines at the left, in pixels.
    """
    columns = 1 if width < WIDE else _columns(len(titles), most)
    top = 14 + 20 * -(-len(marks) // _marks_in_a_row(marks, width)) if marks else 8
    rows = -(-len(titles) // columns)
    axis, gap = 34, 40
    span = (width - labels - 22 - gap * (columns - 1)) / columns
    room = span if columns > 1 else width - 8
    wrapped = [wrap(title, room, most_lines=4) for title in titles]
    heading = 9 + 15 * max(len(title) for title in wrapped)
    height = top + rows * (heading + lines * line + axis) + 10
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    made = []
    for number, title in enumerate(wrapped):
        row, column = divmod(number, columns)
        left = labels + column * (span + gap)
        bottom = height - top - (row + 1) * (heading + lines * line + axis) + axis
        box = (left / width, bottom / height, span / width, lines * line / height)
        axes = figure.add_axes(box)
        axes.set_ylim(lines - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_title("\n".join(title), x=0.0 if columns > 1 else -labels / span)
        made.append(axes)
    if marks:
        _legend(figure, marks, width)
    return Panels(figure, tuple(made), columns)


def _columns(count: int, most: int) -> int:
    """At most ``most`` columns, if possible a number that fills the last row."""
    even = [columns for columns in range(2, most + 1) if count % columns == 0]
    return max(even, default=min(most, count))


def wrap(text: str, room: float, most_lines: int) -> list[str]:
    """The lines of a text of 12 pixels in so many pixels; what has no room becomes dots."""
    letters = max(8, int(room / LETTER))
    return textwrap.wrap(text, letters, max_lines=most_lines, placeholder=" ...") or [""]


def name_lines(found: Panels, names: Sequence[str], labels: int = LABELS) -> None:
    """Write the names of the lines at the left of each row of panels, long ones smaller and in two lines."""
    wrapped = [wrap(name, labels, most_lines=2) for name in names]
    for number, axes in enumerate(found.axes):
        first = number % found.columns == 0
        axes.set_yticks(range(len(names)), ["\n".join(name) if first else "" for name in wrapped])
        for name, label in zip(wrapped, axes.get_yticklabels(), strict=True):
            label.set(fontsize=12 if len(name) == 1 else 9.5, linespacing=1.0)


def decades(axis: Any, low_ns: float, high_ns: float, room: float, per_ns: float = 1.0) -> None:
    """Ticks at whole decades (1 us, 10 us, ...) of an axis of times, as many as fit into ``room`` pixels.

    Args:
        axis: of matplotlib.
        low_ns: the least time on it.
        high_ns: the greatest.
        room: length of the axis, in pixels.
        per_ns: a tick's value on the axis over its time; 0 if the axis has log2 of the time instead.
    """
    powers = range(math.ceil(math.log10(low_ns) - 1e-9), math.floor(math.log10(high_ns) + 1e-9) + 1)
    step = next(step for step in (1, 2, 3, 6, 9, 20) if len(powers) * 52 <= room * step or step == 20)
    times_ns = [10.0**power for power in powers if power % step == 0] or [math.sqrt(low_ns * high_ns)]
    places = [time * per_ns if per_ns else math.log2(time) for time in times_ns]
    axis.set_ticks(places, [time_name(time) for time in times_ns])
    axis.set_tick_params(which="minor", length=0, labelbottom=False)


def time_name(nanoseconds: float) -> str:
    """A time in the unit that suits it, to two digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size * 0.95:
            digits = f"{nanoseconds / size:.2g}" if nanoseconds < 99.5 * size else f"{nanoseconds / size:.0f}"
            return f"{digits} {unit}"
    return f"{nanoseconds:.0f} ns"


def _marks_in_a_row(marks: Sequence[Any], width: int) -> int:
    letters = max(len(str(mark.get_label())) for mark in marks)
    room = width - _beside(width)
    return min(len(marks), max(1, int(room / (36 + LETTER * letters))))


def _beside(width: int) -> int:
    """Where the legend begins, in pixels."""
    return 0 if width < WIDE else LABELS


def _legend(figure: Figure, marks: Sequence[Any], width: int) -> None:
    """A legend above all panels, in columns that fit."""
    figure.legend(
        handles=list(marks),
        loc="upper left",
        bbox_to_anchor=(_beside(width) / width, 1.0),
        ncols=_marks_in_a_row(marks, width),
        borderaxespad=0.2,
        handletextpad=0.5,
        columnspacing=1.2,
        handlelength=1.2,
    )
