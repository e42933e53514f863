"""The figures of Anastasiadis and Sevcik 1997, as the paper draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from harness.papers.anastasiadis97.model import LOADS, AdaptiveResults
from harness.papers.anastasiadis97.workload import MU, PROCESSORS, SpeedupCurve, WaitingRatio

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = {
    "3": ("SDF-Max 1", "SDF-Max 2", "SDF-Max 6", "SDF"),
    "4": ("ASP", "AP1", "AEP"),
    "5": ("ASP(1)", "AP1(1)", "AEP(1)"),
    "6": ("DYN-EQUI", "ASP(2)", "AP1(2)", "AEP(2)"),
}
SHADES = ("#4878a8", "#9cbcd8", "#d9802e", "#f2c28b")
TOP = 5.0
"""Where the axis of normalised response times ends; bars of saturated policies reach it."""


def draw(figure: str, results: AdaptiveResults) -> Figure:
    """The figure of that number."""
    if figure == "2":
        return _speedups(results.curves)
    return _ratios(results.ratios) if figure == "1" else _bars(BARS[figure], results)


def _speedups(curves: Sequence[SpeedupCurve]) -> Figure:
    picture = Figure(figsize=(12, 4), layout="constrained")
    exponents = sorted({curve.mu for curve in curves}, reverse=True)
    every = picture.subplots(1, len(exponents), sharey=True)
    for axes, mu in zip(every, exponents, strict=True):
        title = "mu infinite" if np.isinf(mu) else f"mu = {mu:g}"
        axes.set(xlabel="processors", title=title, xlim=(1, PROCESSORS))
        for curve in curves:
            if curve.mu == mu:
                speedups = curve.speedups[:PROCESSORS]
                axes.plot(range(1, len(speedups) + 1), speedups, label=f"maximum {curve.maximum}")
        axes.legend()
    every[0].set_ylabel("speedup")
    return picture


def _ratios(ratios: Sequence[WaitingRatio]) -> Figure:
    picture = Figure(figsize=(6, 4), layout="constrained")
    axes = picture.add_subplot(xlabel="actual load", ylabel="W(n) / T(n)", ylim=(0, 10), xlim=(0, 1))
    load = np.linspace(0.05, 1, 100)
    axes.plot(load, (1 - load) / load, label="AEP, equation (3)", color=SHADES[0])
    axes.plot(load, 1 / load, "--", label="AP1, equation (4)", color=SHADES[2])
    for policy, mark, color in (("AEP", "o", SHADES[0]), ("AP1", "s", SHADES[2])):
        some = [r for r in ratios if r.policy == policy]
        axes.plot(
            [r.actual_load for r in some],
            [r.found for r in some],
            mark,
            color=color,
            label=f"{policy}, simulated",
        )
    axes.legend()
    return picture


def _bars(names: Sequence[str], results: AdaptiveResults) -> Figure:
    picture = Figure(figsize=(12, 7), layout="constrained")
    rows = picture.subplots(2, len(MU), sharey="row", squeeze=False)
    for column, workload in enumerate(MU):
        _responses(rows[0, column], names, workload, results)
        _partitions(rows[1, column], names, workload, results)
    rows[0, 0].set_ylabel("response time / DYN-EQUI's\n(dark: running, light: waiting)")
    rows[1, 0].set_ylabel("mean partition size")
    rows[0, -1].legend(fontsize=8)
    return picture


def _responses(axes: Axes, names: Sequence[str], workload: str, results: AdaptiveResults) -> None:
    axes.set(title=workload, ylim=(0, TOP), xticks=range(len(LOADS)), xticklabels=[f"{x:.0%}" for x in LOADS])
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        for place, load in enumerate(LOADS):
            left = place - 0.4 + width * (index + 0.5)
            runs = results.runs(workload, load, name)
            label = name if place == 0 else None
            if runs.saturated:
                axes.bar(left, TOP, width, color=SHADES[index], alpha=0.35, hatch="//", label=label)
                continue
            unit_s = results.runs(workload, load, "DYN-EQUI").mean("response_s").mean
            wait, response = (runs.mean(key).mean / unit_s for key in ("wait_s", "response_s"))
            axes.bar(left, response - wait, width, color=SHADES[index], label=label)
            axes.bar(left, wait, width, bottom=response - wait, color=SHADES[index], alpha=0.45)
    axes.axhline(1, color="black", linewidth=0.6)


def _partitions(axes: Axes, names: Sequence[str], workload: str, results: AdaptiveResults) -> None:
    axes.set(xlabel="load", xticks=range(len(LOADS)), xticklabels=[f"{x:.0%}" for x in LOADS])
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        sizes = [results.runs(workload, load, name) for load in LOADS]
        heights = [0.0 if runs.saturated else runs.mean("processors").mean for runs in sizes]
        places = np.arange(len(LOADS)) - 0.4 + width * (index + 0.5)
        axes.bar(places, heights, width, color=SHADES[index])
