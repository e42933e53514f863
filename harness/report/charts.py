"""Pictures of rows: slowdowns, breakdowns, maps, agreement."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from harness.analyse.breakdown import PARTS, STATES
from harness.analyse.columns import SIDES, at
from harness.analyse.rows import Row
from harness.report.grid import WIDE, blocks, boxes, panels, schedulers
from harness.report.style import JOBS, LIGHT, fill
from workloads.work import duration_name

MARKERS = {"measured": "o", "simulated": "D"}
HEAT = LinearSegmentedColormap.from_list("slowdown", ["#f4f8fc", "#9cc3e6", "#3f83c3", "#173e70"])
FAR = 1.6  # the axes reach at most this factor beyond a median; longer intervals leave the panel
DOTS = "oDsv^PX*<>"

STATE_COLOURS = {"running": "computing", "ready": "switching", "asleep": "idle"}
STATE_LABELS = {
    "running": "running: computing or spinning",
    "ready": "ready: waiting for a processor",
    "asleep": "asleep: blocked, or stopped",
}


def slowdowns(rows: Sequence[Row], width: int) -> Figure | None:
    """Workload slowdowns: measured with its interval, simulated as a diamond; None if no run succeeded."""
    if not any(row.median(side) for row in rows for side in SIDES):
        return None
    groups = blocks(rows)
    names = schedulers(rows)
    marks = [
        Line2D([], [], label=side, **_look(side)) for side in SIDES if any(row.median(side) for row in rows)
    ]
    even: dict[str, Any] = {"color": LIGHT["muted"], "linewidth": 1, "dashes": (3, 2)}
    marks.append(Line2D([], [], label="1: one after the other", **even))
    drawing = panels(width, [title for title, _ in groups], lines=names, line=25, marks=marks)
    every = [value for row in rows for value in _values(row)]
    for axes, (_, block) in zip(drawing.axes, groups, strict=True):
        axes.axvline(1.0, **even)
        slowdown_axis(axes.set_xscale, axes.xaxis, every)
        axes.set_xlim(*_limits(every))
        lines = [(row, names.index(row.name)) for row in block]
        _intervals(axes, lines)
        for side in SIDES:
            dots = [(median, line) for row, line in lines if (median := row.median(side)) is not None]
            if dots:
                axes.plot(*zip(*dots, strict=True), **_look(side), zorder=3 if side == "measured" else 4)
    for axes in drawing.axes[-drawing.columns :]:
        axes.set_xlabel("workload slowdown", labelpad=2)
    return drawing.figure


def breakdowns(rows: Sequence[Row], width: int) -> Figure | None:
    """The breakdown of the CPU time: measured, and below it, paler, simulated; None if unknown."""
    shares_of = {
        side: {id(row): shares_by_row for row in rows if (shares_by_row := at(row, f"{side}.breakdown"))}
        for side in SIDES
    }
    rows = [row for row in rows if any(id(row) in shares_by_row for shares_by_row in shares_of.values())]
    parts = [
        {number: vars(shares_by_row) for number, shares_by_row in shares_of[side].items()} for side in SIDES
    ]
    looks = ((-0.14, 0.42, 1.0), (0.25, 0.22, 0.62)) if all(parts) else ((0.0, 0.6, 1.0), (0.0, 0.6, 0.62))
    taken = any(part["others"] for shares in parts for part in shares.values())
    labels = {part: part for part in PARTS if taken or part != "others"}
    return _stacks(rows, labels, zip(parts, looks, strict=True), 28, width)


def usage(
    rows: Sequence[Row], used: Callable[[Row], tuple[float, float] | None], width: int
) -> Figure | None:
    """The shares of the CPU time that runs, and that others ``used`` where a breakdown is unknown.

    None without such a row.
    """
    shares_of = {
        id(row): shares for row in rows if not at(row, "measured.breakdown") and (shares := used(row))
    }
    parts = {
        row: {"computing": ours, "idle": max(0.0, 1 - ours - others), "others": others}
        for row, (ours, others) in shares_of.items()
    }
    labels = {"computing": "used", "idle": "idle"}
    if any(others for _, others in shares_of.values()):
        labels["others"] = "other programs"
    return _bars(rows, parts, labels, width)


def states(rows: Sequence[Row], width: int) -> Figure | None:
    states_of = {id(row): counts for row in rows if (counts := at(row, "measured.states"))}
    shares = {
        row: {STATE_COLOURS[state]: getattr(counts, state) for state in STATES}
        for row, counts in states_of.items()
    }
    return _bars(rows, shares, {STATE_COLOURS[state]: label for state, label in STATE_LABELS.items()}, width)


Shares = Mapping[int, Mapping[str, float]]  # of rows, by their ids: shares by the names of their colours
Layer = tuple[Shares, tuple[float, float, float]]  # the shares, and offset, height and alpha of their bars


def _bars(rows: Sequence[Row], shares_of: Shares, labels: Mapping[str, str], width: int) -> Figure | None:
    return _stacks(
        [row for row in rows if id(row) in shares_of], labels, [(shares_of, (0.0, 0.6, 1.0))], 25, width
    )


def _stacks(
    rows: Sequence[Row], labels: Mapping[str, str], layers: Iterable[Layer], line: int, width: int
) -> Figure | None:
    """Bars of shares for each row, with these labels."""
    if not rows:
        return None
    groups = blocks(rows)
    names = schedulers(rows)
    layers = list(layers)
    marks = [Patch(**fill(name), label=label) for name, label in labels.items()]
    drawing = panels(width, [title for title, _ in groups], lines=names, line=line, marks=marks)
    for axes, (_, block) in zip(drawing.axes, groups, strict=True):
        axes.set_xlim(0, 1)
        axes.set_xticks([0.25, 0.5, 0.75], ["25 %", "50 %", "75 %"])
        for shares, (offset, height, alpha) in layers:
            here = [row for row in block if id(row) in shares]
            _stack(axes, [(names.index(row.name) + offset, shares[id(row)]) for row in here], height, alpha)
    return drawing.figure


def _stack(
    axes: Axes, stacks: Sequence[tuple[float, Mapping[str, float]]], height: float, alpha: float
) -> None:
    places: dict[str, list[tuple[float, float, float, float]]] = {}
    for middle, parts in stacks:
        left = 0.0
        for part, share in parts.items():
            box = (left, left + share, middle - height / 2, middle + height / 2)
            places.setdefault(part, []).extend([box] if share else [])
            left += share
    for part, shares in places.items():
        boxes(axes, shares, alpha=alpha, **fill(part))


def maps(rows: Sequence[Row], width: int) -> Figure | None:
    """Slowdown over granularity and imbalance, the median over other keys; None unless both vary."""
    keys = ("granularity_us", "imbalance")
    across, up = (sorted({row.program[key] for row in rows if key in row.program}) for key in keys)
    if len(across) < 2 or len(up) < 2:
        return None
    names = schedulers(rows)
    sides = [side for side in SIDES if any(row.median(side) for row in rows)]
    fields = {
        (name, side): _field([r for r in rows if r.name == name], side, across, up)
        for name in names
        for side in sides
    }
    values = np.concatenate([field.ravel() for field in fields.values()])
    top = max(2.0, float(np.nanmax(values)))
    titles = [name if side == sides[0] else side for name, side in fields]
    drawing = panels(width, titles, lines=len(up), line=30, max_columns=2 * len(sides), labels=84)
    for number, (axes, field) in enumerate(zip(drawing.axes, fields.values(), strict=True)):
        axes.set_xlim(-0.5, len(across) - 0.5)
        every = 1 + (len(across) - 1) * 46 // round(axes.get_position().width * width)  # names need room
        axes.set_xticks(range(0, len(across), every), [duration_name(g) for g in across[::every]])
        axes.set_yticks(range(len(up)), [f"v = {v:g} g" if number % drawing.columns == 0 else "" for v in up])
        axes.tick_params(axis="x", length=0)
        axes.spines["bottom"].set_visible(False)
        axes.grid(visible=False)
        _cells(axes, field, top)
    return drawing.figure


def _field(rows: Sequence[Row], side: str, across: Sequence[float], up: Sequence[float]) -> Any:
    """Medians of the slowdown, shape (up, across); NaN where nothing is known."""
    field = np.full((len(up), len(across)), np.nan)
    for i, v in enumerate(up):
        for k, g in enumerate(across):
            here = [
                row for row in rows if row.program["granularity_us"] == g and row.program["imbalance"] == v
            ]
            medians = [median for row in here if (median := row.median(side)) is not None]
            field[i, k] = np.median(medians) if medians else np.nan
    return field


def _cells(axes: Axes, field: Any, top: float) -> None:
    places = []
    colours = []
    for (i, k), value in np.ndenumerate(field):
        if np.isnan(value):
            axes.text(k, i, "-", ha="center", va="center", color=LIGHT["muted"])
            continue
        share = math.log(max(value, 0.9) / 0.9) / math.log(top / 0.9)
        places.append((k - 0.48, k + 0.48, i - 0.46, i + 0.46))
        colours.append(HEAT(share))
        colour = "#fefefe" if share > 0.45 else "#101010"
        axes.text(k, i, f"{value:.2f}", ha="center", va="center", color=colour, fontsize=11)
    boxes(axes, places, facecolors=colours, linewidth=0)


def agreement(rows: Sequence[Row], width: int, tolerance: float) -> Figure | None:
    """Simulated over measured slowdowns, with the line where they are equal; None if no row has both."""
    pairs = [(row, row.median("measured"), row.median("simulated")) for row in rows]
    points = [(row, x, y) for row, x, y in pairs if x and y]
    if not points:
        return None
    names = schedulers(rows)
    figure, axes, place = _beside_legend(width, len(names), min(width, 420), -0.16)
    every = [value for _, x, y in points for value in (x, y)]
    low, high = _limits(every)
    line = np.array([low, high])
    axes.fill_between(line, line * (1 - tolerance), line * (1 + tolerance), color=LIGHT["band"], linewidth=0)
    axes.plot(line, line, color=LIGHT["muted"], linewidth=1)
    for number, name in enumerate(names):
        ours = [(x, y) for row, x, y in points if row.name == name]
        if ours:
            axes.plot(*zip(*ours, strict=True), linestyle="", label=name, **_dot(number))
    for set_scale, axis in ((axes.set_xscale, axes.xaxis), (axes.set_yscale, axes.yaxis)):
        slowdown_axis(set_scale, axis, every)
    axes.set(xlim=(low, high), ylim=(low, high), xlabel="measured", ylabel="simulated")
    axes.tick_params(axis="y", labelsize=11, labelcolor=LIGHT["muted"])
    axes.grid(visible=True, axis="both")
    axes.legend(**place, handletextpad=0.4, labelspacing=0.7)
    return figure


def _beside_legend(width: int, lines: int, height: int, below: float) -> tuple[Figure, Axes, dict[str, Any]]:
    """A figure and its axes with room for a legend of this many lines, and its place: right, or below."""
    side = min(width, 420)
    beside = 280 if width >= WIDE else 0
    legend = 24 + 21 * lines
    across = side + beside
    up = max(height, legend) if beside else height + legend
    figure = Figure(figsize=(across / 72, up / 72), dpi=72)
    axes = figure.add_axes((56 / across, (up - height + 50) / up, (side - 70) / across, (height - 66) / up))
    anchor = (1.02, 1.0) if beside else (0.0, below)
    return figure, axes, {"loc": "upper left", "bbox_to_anchor": anchor, "borderaxespad": 0.0}


def _dot(number: int) -> dict[str, Any]:
    return {"marker": DOTS[number % len(DOTS)], "color": LIGHT[f"job{number % JOBS}"], "markersize": 7}


NEAR = 0.1  # the band of a throughput reaches so far above and below the rate of the jobs alone

LINES: dict[str, dict[str, Any]] = {
    "measured": {"linestyle": "-"},
    "simulated": {"linestyle": "--", "markerfacecolor": "none"},
}


def throughput(rows: Sequence[Row], width: int) -> Figure | None:
    """Critical sections a second, over the rate alone, by the share of time in them; None without any."""
    comparable = [row for row in rows if any(_relative(row, side) for side in SIDES)]
    if not comparable:
        return None
    names = schedulers(comparable)
    figure, axes, place = _beside_legend(width, len(names) + 2, 320, -0.2)
    axes.axhspan(1 - NEAR, 1 + NEAR, color=LIGHT["band"], linewidth=0)
    axes.axhline(1.0, color=LIGHT["muted"], linewidth=1)
    for number, name in enumerate(names):
        for side in SIDES:
            ours = [(_in_sections(row), _relative(row, side)) for row in comparable if row.name == name]
            points = sorted((x, y) for x, y in ours if y is not None)
            if points:
                axes.plot(*zip(*points, strict=True), **_dot(number), **LINES[side])
        axes.plot([], [], label=name, linestyle="", **_dot(number))
    axes.set(xlabel="share of time in sections", ylabel="throughput")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(map(_in_sections, comparable)) * 1.1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=True, axis="both")
    look: dict[str, Any] = {"color": LIGHT["muted"], "marker": "o"}
    marks = [Line2D([], [], label=side, **look, **LINES[side]) for side in SIDES]
    axes.legend(handles=[*axes.get_legend_handles_labels()[0], *marks], **place)
    return figure


def _in_sections(row: Row) -> float:
    """The share of its time that a process spends in critical sections if it never waits."""
    section_us, granularity_us = (float(row.program[key]) for key in ("section_us", "granularity_us"))
    return section_us / (section_us + granularity_us)


def _relative(row: Row, side: str) -> float | None:
    ratio: float | None = at(row, f"sides.{side}.sections.relative")
    return ratio


def slowdown_axis(set_scale: Callable[[str], None], axis: Any, values: Sequence[float]) -> None:
    """Make the axis logarithmic, with plain numbers, if slowdowns differ by more than a factor of 4."""
    low, high = _limits(values)
    if high / low > 4:
        set_scale("log")
        subs = (1.0, 2.0, 5.0) if high / low < 20 else (1.0,)
        axis.set_major_locator(LogLocator(base=10, subs=subs))
        axis.set_minor_formatter(NullFormatter())
        axis.set_tick_params(which="minor", length=0)
    else:
        room = axis.axes.get_position().width * axis.axes.figure.get_figwidth() * 72
        axis.set_major_locator(MaxNLocator(max(3, min(5, int(room / 50)))))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _limits(values: Sequence[float]) -> tuple[float, float]:
    low = min([*values, 1.0])
    high = max([*values, 1.0])
    room = (high / low) ** 0.06 * 1.03
    return low / room, high * room


def _values(row: Row) -> list[float]:
    """Medians and the ends of their intervals, these at most FAR times away."""
    values = []
    for side in row.sides.values():
        median = side.workload_slowdown.median
        ends = side.workload_slowdown.ends
        if median is not None:
            values += [median, *(min(max(end, median / FAR), median * FAR) for end in ends or ())]
    return values


def _intervals(axes: Axes, lines: Sequence[tuple[Row, int]]) -> None:
    intervals = [(row.measured.workload_slowdown.ends, line) for row, line in lines if row.measured]
    bars = [[(ends[0], line), (ends[1], line)] for ends, line in intervals if ends]
    look: dict[str, Any] = {"colors": LIGHT["measured"], "linewidths": 5, "alpha": 0.3, "capstyle": "round"}
    axes.add_collection(LineCollection(bars, **look), autolim=False)


def _look(side: str) -> dict[str, Any]:
    inside = LIGHT[side] if side == "measured" else "none"
    return {
        "linestyle": "",
        "marker": MARKERS[side],
        "markersize": 7 if side == "measured" else 8,
        "markeredgewidth": 1.8,
        "color": LIGHT[side],
        "markerfacecolor": inside,
    }
