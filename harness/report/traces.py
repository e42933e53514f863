"""Pictures of runs: lengths of waits, lateness of slot switches, and the jobs on each processor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator

from harness.analyse.timelines import Lanes, Span
from harness.report.grid import legend, panels
from harness.report.style import JOBS, LIGHT
from harness.spec.naming import scheduler_name
from harness.store.records import POLICY, RunRecord

MOST_SPANS = 160
"""Most spans in a lane of a Gantt chart; its window ends with them."""

LONGEST_NS = 2_000_000_000
"""Longest window of a Gantt chart."""
KINDS = {"spun": "computing", "blocked": "communicating"}


def waits(records: Sequence[RunRecord], names: Sequence[str], width: int) -> Figure | None:
    """Histograms of the lengths of waits under each scheduler, spun and blocked; None without waits."""
    found = {name: _histograms(records, name) for name in names}
    found = {name: counts for name, counts in found.items() if sum(map(np.sum, counts.values()))}
    if not found:
        return None
    used = np.flatnonzero(sum(counts["spun"] + counts["blocked"] for counts in found.values()))
    first, last = int(used[0]), int(used[-1])
    made = panels(width, len(found), lines=3, line=28, most=3, labels=8, top=34)
    for axes, (name, counts) in zip(made.axes, found.items(), strict=True):
        total = sum(map(np.sum, counts.values()))
        axes.set_title(name)
        bottom = np.zeros(last - first + 1)
        for kind, colour in KINDS.items():
            share = counts[kind][first : last + 1] / total
            axes.bar(np.arange(first, last + 1), share, 0.88, bottom=bottom, color=LIGHT[colour], linewidth=0)
            bottom += share
        axes.set_ylim(0, max(0.05, bottom.max() * 1.1))
        axes.set_xlim(first - 0.6, last + 0.6)
        axes.set_yticks([])
        bins = [b for b in (10, 17, 20, 24, 27, 30) if first <= b <= last]
        axes.grid(visible=False)
        axes.set_xticks(bins, [_duration(2 ** (b - 0.5)) for b in bins])
    marks = [
        Patch(color=LIGHT["computing"], label="ended while spinning"),
        Patch(color=LIGHT["communicating"], label="ended after blocking"),
    ]
    legend(made.figure, marks, width)
    return made.figure


def _histograms(records: Sequence[RunRecord], name: str) -> dict[str, Any]:
    counts = {kind: np.zeros(64) for kind in KINDS}
    for record in records:
        if record.kind != POLICY or scheduler_name(record.scheduler) != name:
            continue
        for rank in record.ranks:
            for wait in rank.get("waits", {}).values():
                for kind in KINDS:
                    counts[kind] += np.array(wait.get(f"{kind}_histogram", np.zeros(64)))
    return counts


def lateness(records: Sequence[RunRecord], names: Sequence[str], width: int) -> Figure | None:
    """Cumulative share of slot switches over their lateness, for each scheduler; None without slots."""
    found = {}
    for name in names:
        ours = [r for r in records if r.kind == POLICY and scheduler_name(r.scheduler) == name]
        late_us = sorted(max(switch.lateness_ns, 1) / 1e3 for record in ours for switch in record.switches)
        if late_us:
            found[name] = late_us
    if not found:
        return None
    made = panels(min(width, 560), 1, lines=6, line=30, labels=58, top=12 + 22 * len(found))
    (axes,) = made.axes
    for number, (name, late_us) in enumerate(found.items()):
        share = np.arange(1, len(late_us) + 1) / len(late_us)
        axes.step(late_us, share, where="post", color=LIGHT[f"job{number % JOBS}"], linewidth=2, label=name)
    axes.set(xscale="log", ylim=(0, 1.02), xlabel="lateness of a slot switch, us")
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_tick_params(which="minor", length=0, labelbottom=False)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    axes.tick_params(axis="y", labelsize=11, labelcolor=LIGHT["muted"])
    axes.grid(visible=True, axis="y")
    made.figure.legend(loc="upper left", borderaxespad=0.2, ncols=1)
    return made.figure


def gantt(runs: Sequence[Lanes], width: int) -> Figure | None:
    """The job on each processor at the beginning of each run, measured above simulated; None without runs."""
    if not runs:
        return None
    jobs = sorted(
        {span.job for run in runs for side in run.sides.values() for lane in side.values() for span in lane}
    )
    most = max(sum(len(side) for side in run.sides.values()) for run in runs)
    labels = 150 if width >= 500 else 88
    made = panels(width, len(runs), lines=most, line=22, most=1, labels=labels, top=34)
    for axes, run in zip(made.axes, runs, strict=True):
        lanes = [(side, p, run.sides[side][p]) for side in run.sides for p in sorted(run.sides[side])]
        starts = {side: min(lane[0].begin_ns for lane in run.sides[side].values()) for side in run.sides}
        window_ns = _window_ns([(lane, starts[side]) for side, _, lane in lanes])
        axes.set_title(f"{run.name}, first {_duration(window_ns)}")
        for line, (side, _, lane) in enumerate(lanes):
            for job in jobs:
                bars = [
                    ((span.begin_ns - starts[side]) / 1e6, (span.end_ns - span.begin_ns) / 1e6)
                    for span in lane
                    if span.job == job and span.begin_ns - starts[side] < window_ns
                ]
                axes.broken_barh(bars, (line - 0.4, 0.8), color=LIGHT[f"job{job % JOBS}"], linewidth=0)
        axes.set_xlim(0, window_ns / 1e6)
        short = width < 500
        axes.set_yticks(
            range(len(lanes)), [f"{side[:3] if short else side}, cpu {p}" for side, p, _ in lanes]
        )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ms"))
    legend(made.figure, [Patch(color=LIGHT[f"job{job % JOBS}"], label=f"job {job}") for job in jobs], width)
    return made.figure


def _window_ns(lanes: Sequence[tuple[Sequence[Span], int]]) -> int:
    """A round length of the window in which no lane has more than MOST_SPANS spans."""
    end_ns = min(lane[min(MOST_SPANS, len(lane)) - 1].end_ns - start for lane, start in lanes)
    end_ns = min(end_ns, LONGEST_NS)
    digit = int("1" + "0" * (len(str(end_ns)) - 1))
    return max(end_ns // digit, 1) * digit


def _duration(nanoseconds: float) -> str:
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size * 0.95:
            return (
                f"{nanoseconds / size:.2g} {unit}"
                if nanoseconds < 99.5 * size
                else f"{nanoseconds / size:.0f} {unit}"
            )
    return f"{nanoseconds:.0f} ns"
