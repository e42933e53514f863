"""Figures for Zhou, Brent, Qu 1997."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from harness.papers.zhou97.mixes import LENGTHS, SYSTEMS, mean
from harness.simulator.jobs.model import WHOLE_NS, JobLevelOutcome

if TYPE_CHECKING:
    from harness.papers.zhou97.mixes import Mixes
    from harness.papers.zhou97.model import QueueingResults

SHOWN = 24


def draw(figure: str, results: QueueingResults) -> Figure:
    """The figure of that number."""
    return _threads(results.ordered[3][0]) if figure == "3" else _mixes(results.mixes)


def _threads(outcome: JobLevelOutcome) -> Figure:
    """The time of each job in the waiting queue (dashed) and in the service queue (solid)."""
    picture = Figure(figsize=(9, 5), layout="constrained")
    axes = picture.add_subplot(xlabel="time (s)", ylabel="job", title="M = 6 and N = 3")
    for job in range(SHOWN):
        arrival, start, finish = (
            column[job] / WHOLE_NS for column in (outcome.jobs.submit_ns, outcome.start_ns, outcome.finish_ns)
        )
        axes.plot([arrival, start], [job, job], "--", color="#4878a8")
        axes.plot([start, finish], [job, job], "-", color="#4878a8")
    axes.invert_yaxis()
    return picture


def _mixes(results: Mixes) -> Figure:
    """Mean turnaround of short and long jobs under each system."""
    picture = Figure(figsize=(10, 8), layout="constrained")
    places = np.arange(len(SYSTEMS))
    for axes, lengths in zip(picture.subplots(len(LENGTHS), sharex=True), LENGTHS, strict=True):
        axes.set(ylabel="mean turnaround (s)", yscale="log", title=f"lengths {lengths}")
        for shift, (name, color) in enumerate(
            (("short_s", "#4878a8"), ("long_s", "#d9802e"), ("all_s", "#888888"))
        ):
            values = [getattr(mean(results, system, lengths), name) for system in SYSTEMS]
            label = name.removesuffix("_s") + " jobs"
            axes.bar(places + 0.27 * (shift - 1), values, 0.25, color=color, label=label)
        axes.set_xticks(places, [name.replace(", ", ",\n") for name in SYSTEMS], fontsize=8)
        axes.legend()
    return picture
