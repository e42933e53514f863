"""Pictures of runs: lengths of waits, switch delay, and the jobs on each processor."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from harness.analyse.timelines import Lanes, Span
from harness.report.grid import boxes, curves, decades, panels
from harness.report.style import NO_JOB, fill, of_job
from harness.store.records import RunRecord

MOST_SPANS = 160  # most spans in a lane of a Gantt chart that are drawn unmerged
LONGEST_NS = 2_000_000_000  # longest window of a Gantt chart
TURNS = 12  # the window of a Gantt chart shows so many turns of each scheduler, if it has them
CELLS = 600  # lanes with more than MOST_SPANS spans are drawn in this number of cells

SHORT = {"measured": "meas.", "simulated": "sim.", "planned": "plan"}
"""Sides of a run where there is little room."""

Runs = Mapping[str, Sequence[RunRecord]]  # the measured runs under each scheduler, by its name

KINDS = {"spun": ("synchronizing", "ended while spinning"), "blocked": ("computing", "ended after blocking")}
"""The two ends of a wait, with their colours and labels: CPU time spent in spinning is lost."""


def waits(runs: Runs, width: int) -> Figure | None:
    """Histograms of the lengths of waits under each scheduler, spun and blocked; None without waits."""
    histograms = {name: _histograms(records) for name, records in runs.items()}
    histograms = {name: counts for name, counts in histograms.items() if sum(map(np.sum, counts.values()))}
    if not histograms:
        return None
    used = np.flatnonzero(sum(counts["spun"] + counts["blocked"] for counts in histograms.values()))
    first = int(used[0])
    last = int(used[-1])
    marks = [Patch(**fill(colour), label=label) for colour, label in KINDS.values()]
    drawing = panels(width, list(histograms), lines=3, line=28, max_columns=3, labels=8, marks=marks)
    for axes, counts in zip(drawing.axes, histograms.values(), strict=True):
        total = sum(map(np.sum, counts.values()))
        bottom = np.zeros(last - first + 1)
        bins = np.arange(first, last + 1) - 0.5  # bin b holds 2^(b-1) to 2^b ns: its middle by the logarithm
        for kind, (colour, _) in KINDS.items():
            top = bottom + counts[kind][first : last + 1] / total
            bars = zip(bins - 0.44, bins + 0.44, bottom, top, strict=True)
            boxes(axes, (bar for bar in bars if bar[3] > bar[2]), **fill(colour))
            bottom = top
        axes.set_ylim(0, max(0.05, bottom.max() * 1.1))
        axes.set_yticks([])
        axes.grid(visible=False)
        low = first - 1.1
        high = last + 0.1
        room = axes.get_position().width * width
        decades(axes.xaxis, 2.0**low, 2.0**high, room, per_ns=0.0)
        axes.set_xlim(low, high)
    return drawing.figure


def _histograms(records: Sequence[RunRecord]) -> dict[str, Any]:
    counts = {kind: np.zeros(64) for kind in KINDS}
    ranks = [rank for record in records for rank in record.ranks]
    for wait in (wait for rank in ranks if rank.waits for wait in rank.waits.kinds):
        counts["spun"] += np.array(wait.spun_histogram or 0)
        counts["blocked"] += np.array(wait.blocked_histogram or 0)
    return counts


def switch_delay(runs: Runs, width: int) -> Figure | None:
    """Cumulative share of slot switches over their delay, for each scheduler; None without slots."""
    delays = {}
    for name, records in runs.items():
        late_us = sorted(
            max(switch.switch_delay_ns, 1) / 1e3 for record in records for switch in record.switches
        )
        if late_us:
            delays[name] = late_us, np.arange(1, len(late_us) + 1) / len(late_us)
    if not delays:
        return None
    least, most = (
        edge(late_us[end] for late_us, _ in delays.values()) for edge, end in ((min, 0), (max, -1))
    )
    ends = 10.0 ** math.floor(math.log10(least)), 10.0 ** math.ceil(math.log10(most) + 1e-9)
    return curves(min(width, 560), delays, ends, 1e3, "switch delay", 6, 30)


def gantt(runs: Sequence[Lanes], width: int, programs: Sequence[str] = ()) -> Figure | None:
    """The job on each processor as each run begins; ``programs`` are a word for each job, if they differ."""
    if not runs:
        return None
    short = width < 500
    every = [list(_lanes(run, short)) for run in runs]
    ends_ns = [lane[min(TURNS, len(lane)) - 1].end_ns for lanes in every for _, lane in lanes if lane]
    max_ns = min(max(ends_ns, default=0), LONGEST_NS)
    digit_ns = 10 ** (len(str(max_ns)) - 1)
    window_ns = max(max_ns // digit_ns, 1) * digit_ns  # a round number, at most that
    labels = 88 if short else 150
    jobs = sorted({span.job for lanes in every for _, lane in lanes for span in lane})
    names = [f"job {job}: {programs[job]}" if job < len(programs) else f"job {job}" for job in jobs]
    marks = [Patch(**of_job(job), label=name) for job, name in zip(jobs, names, strict=True)]
    marks.append(Patch(**NO_JOB))
    lines = max(map(len, every))
    drawing = panels(
        width, [run.name for run in runs], lines=lines, line=22, max_columns=1, labels=labels, marks=marks
    )
    for axes, lanes in zip(drawing.axes, every, strict=True):
        for line, (_, lane) in enumerate(lanes):
            for job, bars in _bars(lane, window_ns).items():
                axes.broken_barh(bars, (line - 0.4, 0.8), **of_job(job))
        axes.set_xlim(0, window_ns / 1e6)
        axes.set_yticks(range(len(lanes)), [name for name, _ in lanes])
        axes.xaxis.set_major_locator(MaxNLocator(max(2, (width - labels) // 76), prune="upper"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} ms"))
    return drawing.figure


def _lanes(run: Lanes, short: bool) -> Iterator[tuple[str, list[Span]]]:
    """Name and spans of each processor on each side, with times since the first span of the side."""
    for side, lanes in run.sides.items():
        start_ns = min((lane[0].begin_ns for lane in lanes.values() if lane), default=0)
        for processor, lane in sorted(lanes.items()):
            times = ((span, span.begin_ns - start_ns, span.end_ns - start_ns) for span in lane)
            spans = [replace(span, begin_ns=begin, end_ns=end) for span, begin, end in times]
            yield f"{SHORT[side] if short else side}, cpu {processor}", spans


def _bars(lane: Sequence[Span], window_ns: int) -> dict[int, list[tuple[float, float]]]:
    """Begin and length, in milliseconds, of the bars of each job in the window."""
    shown = [span for span in lane if span.begin_ns < window_ns]
    bars: Iterable[tuple[int, float, float]] = ((one.job, one.begin_ns, one.end_ns) for one in shown)
    bars_of: dict[int, list[tuple[float, float]]] = {}
    for job, begin_ns, end_ns in _cells(shown, window_ns) if len(shown) > MOST_SPANS else bars:
        bars_of.setdefault(job, []).append((begin_ns / 1e6, (end_ns - begin_ns) / 1e6))
    return bars_of


def _cells(lane: Sequence[Span], window_ns: int) -> Iterator[tuple[int, float, float]]:
    """The job that had most of each cell of the window, with the cell's ends; none if it was mostly empty."""
    size_ns = window_ns / CELLS
    had: list[dict[int, float]] = [{} for _ in range(CELLS)]
    for span in lane:
        for cell in range(int(span.begin_ns / size_ns), min(CELLS, math.ceil(span.end_ns / size_ns))):
            inside = min(span.end_ns, (cell + 1) * size_ns) - max(span.begin_ns, cell * size_ns)
            had[cell][span.job] = had[cell].get(span.job, 0.0) + inside
    for cell, jobs in enumerate(had):
        if sum(jobs.values()) > size_ns / 2:
            yield max(jobs, key=lambda job: jobs[job]), cell * size_ns, (cell + 1) * size_ns
