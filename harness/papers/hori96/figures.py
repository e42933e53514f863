"""The figures of Hori et al. 1996, as the paper draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from harness.papers.hori96.model import SYSTEMS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from harness.papers.hori96.model import Results

TITLES = ("proportional", "uniform", "inverse")
MARKS = "os^Dvx"
NAMES = {
    "dqt": "DQT",
    "fair-dqt": "Fair-DQT",
    "fcfs-bb": "FCFS-BB",
    "scan-up": "ScanUp",
    "scan-down": "ScanDown",
}
RETR_TOP = 60.0
ROWS = {
    "5": ("utilisation", "retr"),
    "6": ("utilisation", "retr"),
    "7": ("retr", "most_retr"),
    "8": ("fairness",),
}
LABELS = {
    "utilisation": "processor utilisation",
    "retr": "mean RETR",
    "most_retr": "maximum RETR",
    "fairness": "correlation",
}


def draw(figure: str, results: Results) -> Figure:
    """The figure of that number."""
    rows = ROWS[figure]
    picture = Figure(figsize=(12, 0.5 + 3.5 * len(rows)), layout="constrained")
    axes = picture.subplots(len(rows), len(TITLES), squeeze=False, sharey="row")
    for column, distribution in enumerate(TITLES):
        for row, value in enumerate(rows):
            _curves(axes[row, column], figure, value, distribution, results)
        axes[0, column].set_title(f"{distribution} to task size" if distribution != "uniform" else "uniform")
    axes[0, 0].legend(fontsize=8)
    return picture


def _curves(axes: Axes, figure: str, value: str, distribution: str, results: Results) -> None:
    for (processors, policy), mark in zip(SYSTEMS[figure], MARKS, strict=False):
        points = sorted(
            (point.load, getattr(point, value))
            for cell, point in results.items()
            if (cell.distribution, cell.processors, cell.policy) == (distribution, processors, policy)
            and point.load <= 1
        )
        name = f"P = {processors}" if figure == "5" else NAMES[policy]
        axes.plot(*zip(*points, strict=True), marker=mark, markersize=4, label=name)
    axes.set(xlabel="actual workload", xlim=(0, 1))
    axes.set_ylabel(LABELS[value])
    if value == "utilisation":
        axes.plot([0, 1], [0, 1], color="grey", linewidth=0.6)
    if value == "retr":
        axes.set_ylim(0, RETR_TOP)
    if value == "most_retr":
        axes.set_yscale("log")
    if value == "fairness":
        axes.axhline(0, color="grey", linewidth=0.6)
