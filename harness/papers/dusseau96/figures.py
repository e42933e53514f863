"""The figures of Dusseau, Arpaci, Culler 1996, as the paper draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from coordinator import policies
from harness.papers.dusseau96 import model
from harness.papers.dusseau96.model import (
    CHARTS,
    IMBALANCES,
    PATTERNS,
    TABLE_MACHINES,
    TABLES,
    Point,
    PointResults,
)
from harness.papers.dusseau96.published import IMMEDIATE
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import CATEGORIES, IDLE, SWITCHING
from harness.simulator.processes.simulate import simulate
from workloads.program import Program

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHADES = ("#4878a8", "#9cbcd8", "#f2c28b", "#d9802e", "#d0d0d0")
JOB_SHADES = ("#4878a8", "#d9802e")
BLACK, GRAY = 1.15, 0.85
"""Cells beyond these are black (coscheduling is 15 % better) or gray (15 % worse)."""


def draw(figure: str, results: PointResults) -> Figure:
    """The figure of that number."""
    if figure in TABLES:
        return _tables(figure, results)
    return _charts(figure, results) if figure in CHARTS else _coordination(results.seed)


def _charts(figure: str, results: PointResults) -> Figure:
    patterns, grains, variants = CHARTS[figure]
    panels = [(pattern, variant) for variant in variants for pattern in patterns]
    picture = Figure(figsize=(5 * len(panels), 4), layout="constrained")
    row = picture.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    every = model.bars(figure)
    size = len(grains) * len(IMBALANCES)
    for index, (axes, (pattern, variant)) in enumerate(zip(row, panels, strict=True)):
        spin = f", spin {variant.spin_switches:g} switches" if variant.blocking == "fixed" else ""
        axes.set(title=pattern + spin, xlabel="granularity (in each group v = 0 to 2 g)")
        _stacks(axes, every[index * size : (index + 1) * size], results, relative=figure != "2")
    row[0].set_ylabel("fraction of execution time" if figure == "2" else "slowdown")
    picture.legend(*row[-1].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    picture.suptitle(f"Figure {figure}. {model.FIGURES[figure]}")
    return picture


def _stacks(axes: Axes, points: Sequence[Point], results: PointResults, relative: bool) -> None:
    """Bars as high as the slowdown, divided like the processors' time."""
    group = len(IMBALANCES)
    places = np.array([i + 1.5 * (i // group) for i in range(len(points))])
    heights = np.array([results.slowdown(point).value if relative else 1.0 for point in points])
    bottom = np.zeros(len(points))
    for part, shade in zip(CATEGORIES, SHADES, strict=True):
        shares = heights * [results.at(point).breakdown[part] for point in points]
        axes.bar(places, shares, 0.9, bottom, color=shade, label=part)
        bottom += shares
    grains = [points[i].granularity_us for i in range(0, len(points), group)]
    axes.set_xticks(places.reshape(-1, group).mean(axis=1), [_grain(grain) for grain in grains])
    if relative:
        axes.axhline(1, color="black", linewidth=0.6)


def _grain(grain_us: float) -> str:
    return f"{grain_us / 1e3:g} ms" if grain_us >= 1000 else f"{grain_us:g} us"


def _tables(figure: str, results: PointResults) -> Figure:
    picture = Figure(figsize=(9, 8), layout="constrained")
    for axes, pattern in zip(picture.subplots(len(PATTERNS), 1), PATTERNS, strict=True):
        _table(axes, figure, pattern, results)
    picture.suptitle(f"Figure {figure}. {model.FIGURES[figure]} (in brackets: published)")
    return picture


def _table(axes: Axes, figure: str, pattern: str, results: PointResults) -> None:
    """Slowdowns, black where coscheduling is 15 % better, gray where it is 15 % worse."""
    values = np.zeros((len(TABLE_MACHINES), 6))
    for point in model.table(figure):
        if point.pattern == pattern:
            values[model.table_place(point)] = results.slowdown(point).value
    shade = np.where(values >= BLACK, 0.0, np.where(values <= GRAY, 0.7, 1.0))
    axes.imshow(shade, cmap="gray", vmin=0, vmax=1, aspect="auto")
    published = IMMEDIATE.get(pattern) if figure == "4" else None
    for place, value in np.ndenumerate(values):
        text = f"{value:.2f}" + (f"\n({published[place]:.2f})" if published is not None else "")
        color = "white" if value >= BLACK else "black"
        axes.text(place[1], place[0], text, ha="center", va="center", color=color, fontsize=8)
    columns = [f"{_grain(g)}\nv = {v:g} g" for g in model.TABLE_US for v in model.TABLE_IMBALANCES]
    axes.set_xticks(range(6), columns, fontsize=8)
    rows = [f"switch {switch_us:g} us\nlatency {latency_us:g} us" for switch_us, latency_us in TABLE_MACHINES]
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    axes.set_title(pattern, fontsize=10)


def _coordination(seed: int) -> Figure:
    """Two jobs on four processors: how they get into step after a barrier (section 5.2)."""
    program = Program(pattern="NEWS", processes=4, granularity_us=1000, imbalance=1.5, phases=40)
    machine = SimulatedMachine(processors=4)
    outcome = simulate(
        [SimulatedJob(0, program), SimulatedJob(1, program)],
        machine,
        policies.create("implicit", {}),
        blocking="fixed",
        seed=seed,
        timeline=True,
    )
    picture = Figure(figsize=(10, 3.5), layout="constrained")
    axes = picture.add_subplot(xlabel="time (ms)", ylabel="processor", yticks=range(4), xlim=(0, 25))
    rows = outcome.timeline
    for p in range(4):
        own = rows[rows[:, 1] == p]
        ends = np.append(own[1:, 0], outcome.end_ns)
        for (begin_ns, _, process, category), end_ns in zip(own, ends, strict=True):
            if category == IDLE or begin_ns > 25e6:
                continue
            shade = "black" if category == SWITCHING else JOB_SHADES[process // 4]
            faint = 1.0 if category in (0, SWITCHING) else 0.4
            axes.broken_barh(
                [(begin_ns / 1e6, (end_ns - begin_ns) / 1e6)], (p - 0.4, 0.8), color=shade, alpha=faint
            )
    axes.set_title("Two jobs (blue, orange; pale: waiting; black: switching), spin 2 switches", fontsize=10)
    return picture
