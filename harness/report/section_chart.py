"""The throughput of critical sections, of each scheduler, against the share of time in sections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from harness.analyse.rows import Row
from harness.report.charts import DOTS, SIDES
from harness.report.grid import WIDE, schedulers
from harness.report.style import JOBS, LIGHT

NEAR = 0.1
"""The band reaches so far above and below the throughput of the jobs alone."""


def share(row: Row) -> float:
    """The share of its time that a process spends in critical sections if it never waits."""
    section_us, granularity_us = (float(row.program[key]) for key in ("section_us", "granularity_us"))
    return section_us / (section_us + granularity_us)


def throughput(rows: Sequence[Row], width: int) -> Figure | None:
    """A chart of throughput over ``share``; None if no row has critical sections.

    Throughput is the rate of sections, divided by the rate of the same jobs alone, one after the other.
    Measured lines are solid with filled marks, simulated ones dashed with hollow marks.
    ``width`` is in pixels.
    """
    known = [row for row in rows if any(_relative(row, side) for side in SIDES)]
    if not known:
        return None
    names = schedulers(known)
    beside = 280 if width >= WIDE else 0
    side, legend = min(width, 420), 24 + 21 * (len(names) + 2)
    total_width, height = side + beside, max(320, legend) if beside else 320 + legend
    figure = Figure(figsize=(total_width / 72, height / 72), dpi=72)
    box = (56 / total_width, (height - 270) / height, (side - 70) / total_width, 254 / height)
    axes = figure.add_axes(box)
    axes.axhspan(1 - NEAR, 1 + NEAR, color=LIGHT["band"], linewidth=0)
    axes.axhline(1.0, color=LIGHT["muted"], linewidth=1)
    for number, name in enumerate(names):
        look: dict[str, Any] = {"marker": DOTS[number % len(DOTS)], "markersize": 7}
        look["color"] = LIGHT[f"job{number % JOBS}"]
        for at in SIDES:
            ours = [(share(row), _relative(row, at)) for row in known if row.name == name]
            points = sorted((x, y) for x, y in ours if y is not None)
            if points:
                axes.plot(*zip(*points, strict=True), **look, **_STYLES[at])
        axes.plot([], [], label=name, linestyle="", **look)
    axes.set(xlabel="share of time in sections", ylabel="throughput")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(map(share, known)) * 1.1)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=True, axis="both")
    marks = [Line2D([], [], color=LIGHT["muted"], marker="o", label=at, **_STYLES[at]) for at in SIDES]
    place = (1.02, 1.0) if beside else (0.0, -0.2)
    handles = [*axes.get_legend_handles_labels()[0], *marks]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=place, borderaxespad=0.0)
    return figure


_STYLES: dict[str, dict[str, Any]] = {
    "measured": {"linestyle": "-"},
    "simulated": {"linestyle": "--", "markerfacecolor": "none"},
}


def _relative(row: Row, side: str) -> float | None:
    found = row.sides[side].sections if side in row.sides else None
    return found.relative if found else None
