"""A picture of an experiment of the job level: times of the jobs, and utilisation of the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from harness.simulator.jobs.metrics import utilisation_over_time

if TYPE_CHECKING:
    from harness.predict.job_level import Schedule

PARTS = 90
BARS = (
    ("response_s", "mean response (s)"),
    ("wait_s", "mean wait (s)"),
    ("bounded_slowdown", "bounded slowdown"),
)


def draw(name: str, rows: Sequence[Schedule]) -> Figure:
    """Bars with three means of each scheduler and, for a trace, its utilisation over time."""
    kept = [row for row in rows if row.metrics]
    timed = [row for row in kept if row.outcome is not None]
    picture = Figure(figsize=(12, 1.5 + 0.3 * len(kept) + (3.5 if timed else 0)), layout="constrained")
    upper, *lower = picture.subfigures(2 if timed else 1, 1, squeeze=False)[:, 0]
    for axes, (metric, title) in zip(upper.subplots(1, 3, sharey=True), BARS, strict=True):
        axes.barh([row.label for row in kept], [row.metrics[metric] or 0.0 for row in kept], color="#4878a8")
        axes.set_xlabel(title)
        axes.set_xscale("log" if metric == "bounded_slowdown" else "linear")
    upper.axes[0].invert_yaxis()
    if timed:
        axes = lower[0].subplots()
        for row in timed:
            assert row.outcome is not None
            time_s, share = utilisation_over_time(row.outcome, PARTS)
            axes.plot(time_s / 86_400, share, linewidth=0.8, label=row.label)
        axes.set(xlabel="time (days)", ylabel="utilisation", ylim=(0, 1))
        axes.legend(fontsize=6, ncols=3)
    saturated = ", ".join(row.label for row in rows if row.saturated)
    title = name + (f" (saturated: {saturated})" if saturated else "")
    picture.suptitle(title, fontsize=10, parse_math=False)
    return picture
