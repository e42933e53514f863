"""Small multiples: a panel for each point of the sweep, all with the same axes."""

import itertools
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from harness.analyse.rows import Row
from harness.report.style import LIGHT, line_of
from workloads.work import duration_name

LABELS = 180  # room that names of lines may take before they get two lines and smaller letters, in pixels
WIDE = 640  # narrower figures, in pixels, have one column of panels
FULL, SMALL = 12.0, 9.5  # sizes of letters, in pixels
BESIDE_LABELS = 8  # pixels between a name and its line
LETTER = 7.0  # width of a letter of FULL size, generously, in pixels
SEPARATORS = re.compile(r"(?<=[,;+]) ")  # where lines of names and titles end, if possible
JOINED = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Panels:
    """A figure with axes for each block of rows, in reading order."""

    figure: Figure
    axes: tuple[Axes, ...]
    columns: int


def blocks(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    groups = [list(block) for _, block in itertools.groupby(rows, key=lambda row: row.settings)]
    return [(title(block[0], alone=len(groups) == 1), block) for block in groups]


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
    return list(dict.fromkeys(row.name for row in rows))


def panels(
    width: int,
    titles: Sequence[str],
    *,
    lines: int | Sequence[str],
    line: int,
    max_columns: int = 4,
    marks: Sequence[Any] = (),
    labels: int = 0,
) -> Panels:
    """A figure with a legend, and below it a panel under each title, at most ``max_columns`` side by side.

    A panel has so many lines of ``line`` pixels, and the first of a row ``labels`` pixels at the left. If
    lines have names, these are there, and make the room.
    """
    names = () if isinstance(lines, int) else lines
    if not isinstance(lines, int):
        lines = len(names)
        labels = _label_room(names, width)
    columns = 1 if width < WIDE else _columns(len(titles), max_columns)
    beside = 0 if width < WIDE else labels
    top = _legend_height(marks, width - beside)
    rows = -(-len(titles) // columns)
    axis = 34
    gap = 40
    span = (width - labels - 22 - gap * (columns - 1)) / columns
    room = span if columns > 1 else width - 8
    wrapped = [wrap(title, room, max_lines=4) for title in titles]
    heading = 9 + 15 * max(len(title) for title in wrapped)
    height = top + rows * (heading + lines * line + axis) + 10
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    frames = []
    for number, title in enumerate(wrapped):
        row, column = divmod(number, columns)
        left = labels + column * (span + gap)
        bottom = height - top - (row + 1) * (heading + lines * line + axis) + axis
        box = (left / width, bottom / height, span / width, lines * line / height)
        axes = figure.add_axes(box)
        axes.set_ylim(lines - 0.5, -0.5)
        axes.grid(visible=False, axis="y")
        axes.set_title("\n".join(title), x=0.0 if columns > 1 else -labels / span)
        frames.append(axes)
    if marks:
        _legend(figure, marks, width, beside)
    if names:
        _write_names(frames, columns, names, labels)
    return Panels(figure, tuple(frames), columns)


def one_panel(
    width: int, names: Iterable[str], lines: int = 8, line: int = 26, *, markers: str = ""
) -> tuple[Axes, Figure]:
    """One panel for a line of each name; with ``markers`` lines have them, one after the other."""
    marks = [Line2D([], [], label=name, markersize=6, **line_of(number)) for number, name in enumerate(names)]
    for mark, marker in zip(marks, itertools.cycle(markers), strict=False):
        mark.set_marker(marker)
    drawing = panels(width, [""], lines=lines, line=line, labels=58, marks=marks)
    return drawing.axes[0], drawing.figure


def curves(
    width: int, series: Mapping[str, Any], ends: tuple[float, float], unit_ns: float, label: str, *shape: int
) -> Figure:
    """Shares over times in this unit, as steps on a logarithmic axis, by name; ``shape`` as for panels."""
    axes, figure = one_panel(width, series, *shape)
    for number, (times, shares) in enumerate(series.values()):
        axes.step(times, shares, where="post", **line_of(number))
    axes.set(xscale="log", xlim=ends, ylim=(0, 1.02), xlabel=label)
    low_ns, high_ns = (end * unit_ns for end in ends)
    decades(axes.xaxis, low_ns, high_ns, axes.get_position().width * width, per_ns=1 / unit_ns)
    percent(axes)
    return figure


def _columns(count: int, max_columns: int) -> int:
    even = [columns for columns in range(2, max_columns + 1) if count % columns == 0]
    return max(even, default=min(max_columns, count))


def wrap(text: str, room: float, max_lines: int) -> list[str]:
    """The lines of a text of FULL size within a width in pixels; what has no room becomes dots.

    Lines end after a comma or plus rather than inside of "v = 0.25 g", if that takes at most one line more.
    """
    letters = max(8, int(room / LETTER))
    anywhere = textwrap.wrap(text, letters, max_lines=max_lines, placeholder=" ...") or [""]
    parts = [part.replace(" ", JOINED) for part in SEPARATORS.split(text)]
    together = textwrap.wrap(" ".join(parts), letters, break_long_words=False) or [""]
    whole = len(together) <= min(len(anywhere) + 1, max_lines) and max(map(len, together)) <= letters
    return [line.replace(JOINED, " ") for line in together] if whole else anywhere


def _label_room(names: Sequence[str], width: int) -> int:
    """The room that these names take at the left of a figure, in pixels: at most half of it."""
    whole = BESIDE_LABELS + round(LETTER * max(map(len, names), default=0))
    room = min(whole, LABELS)
    most = width // 2
    while room < most and any(" ..." in " ".join(_name(name, room)[0]) for name in names):
        room += round(LETTER)
    return min(room, most)


def _name(name: str, labels: int) -> tuple[list[str], bool]:
    """The lines of a name within a width in pixels, and whether its letters are small."""
    small = len(name) * LETTER > labels - BESIDE_LABELS
    room = (labels - BESIDE_LABELS) * (FULL / SMALL if small else 1)
    return wrap(name, room, max_lines=2), small


def _write_names(frames: Sequence[Axes], columns: int, names: Sequence[str], labels: int) -> None:
    """Write the names of the lines at the left of each row of panels, long ones smaller and in two lines."""
    labels_of_lines = [_name(name, labels) for name in names]
    for number, axes in enumerate(frames):
        if number % columns:
            axes.set_yticks([])
            continue
        axes.set_yticks(range(len(names)), ["\n".join(lines) for lines, _ in labels_of_lines])
        for (_, is_small), label in zip(labels_of_lines, axes.get_yticklabels(), strict=True):
            label.set(fontsize=SMALL if is_small else FULL, linespacing=1.0)


def boxes(axes: Axes, places: Iterable[tuple[float, float, float, float]], **look: Any) -> None:
    """Boxes of one look, from left to right and bottom to top, as one collection: many bars draw slowly."""
    corners = [[(x, y), (x, top), (right, top), (right, y)] for x, right, y, top in places]
    axes.add_collection(PolyCollection(corners, **look), autolim=False)


def decades(axis: Any, low_ns: float, high_ns: float, room: float, per_ns: float = 1.0) -> None:
    """Ticks at whole decades (1 us, 10 us, ...) of an axis of times, as many as fit into ``room`` pixels.

    ``per_ns`` is a tick's value on the axis over its time; 0 if the axis has log2 of the time instead.
    """
    powers = range(math.ceil(math.log10(low_ns) - 1e-9), math.floor(math.log10(high_ns) + 1e-9) + 1)
    step = next(step for step in (1, 2, 3, 6, 9, 20) if len(powers) * 52 <= room * step or step == 20)
    times_ns = [10.0**power for power in powers if power % step == 0] or [math.sqrt(low_ns * high_ns)]
    places = [time * per_ns if per_ns else math.log2(time) for time in times_ns]
    axis.set_ticks(places, [time_name(time) for time in times_ns])
    axis.set_tick_params(which="minor", length=0, labelbottom=False)


def percent(axes: Axes) -> None:
    """Shares on the upright axis in percent, with lines across."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    lines_across(axes)


def lines_across(axes: Axes) -> None:
    axes.tick_params(axis="y", labelsize=11, labelcolor=LIGHT["muted"])
    axes.grid(visible=True, axis="y")


def time_name(nanoseconds: float) -> str:
    """A time in the unit that suits it, to two digits."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size * 0.95:
            digits = f"{nanoseconds / size:.2g}" if nanoseconds < 99.5 * size else f"{nanoseconds / size:.0f}"
            return f"{digits} {unit}"
    return f"{nanoseconds:.0f} ns"


def _marks_in_a_row(marks: Sequence[Any], room: int) -> int:
    letters = max(len(line) for mark in marks for line in str(mark.get_label()).split("\n"))
    return min(len(marks), max(1, int(room / (36 + LETTER * letters))))


def _legend_height(marks: Sequence[Any], room: int) -> int:
    """Height of a legend above all panels, whose labels wrap if a line has no ``room`` for one of them."""
    if not marks:
        return 8
    for mark in marks:
        lines = wrap(str(mark.get_label()), room - 36, max_lines=3)
        mark.set_label("\n".join(lines))
    more = sum(str(mark.get_label()).count("\n") for mark in marks)
    return 14 + 20 * -(-len(marks) // _marks_in_a_row(marks, room)) + 15 * more


def _legend(figure: Figure, marks: Sequence[Any], width: int, beside: int) -> None:
    figure.legend(
        handles=list(marks),
        loc="upper left",
        bbox_to_anchor=(beside / width, 1.0),
        ncols=_marks_in_a_row(marks, width - beside),
        borderaxespad=0.2,
        handletextpad=0.5,
        columnspacing=1.2,
        handlelength=1.2,
    )
