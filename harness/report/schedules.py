"""Pictures of simulated schedules of jobs: means, waits, slowdowns by size, utilisation, who had what."""

from collections.abc import Sequence
from itertools import islice

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from coordinator.topology import Runs
from harness.analyse import job_classes
from harness.analyse.job_tables import Timed
from harness.analyse.rows import Row, place_name
from harness.report import grid
from harness.report.charts import DOTS, slowdown_axis
from harness.report.grid import boxes, curves, lines_across, one_panel, panels
from harness.report.style import JOBS, LIGHT, NO_JOB, fill, line_of, of_job
from harness.simulator.jobs.metrics import utilisation_over_time
from harness.simulator.jobs.model import WHOLE_NS, JobLevelOutcome
from harness.simulator.jobs.swf import placements

PARTS = 90  # points of the utilisation over time
SHOWN_JOBS = 300  # a Gantt chart shows so many jobs, the first that start
SOON_S = 1.0  # shorter waits are drawn as this one: an axis of logarithms has no 0

BARS = (
    ("response_s", "mean response time, s"),
    ("wait_s", "mean wait, s"),
    ("bounded_slowdown", "mean bounded slowdown"),
)


def means(rows: Sequence[Row], width: int) -> Figure | None:
    """Three means of each scheduler, with intervals over replications; None if all are saturated."""
    known = [row for row in rows if row.schedule and row.schedule.metrics and not row.withheld]
    kept = {place_name(row): row.schedule for row in known if row.schedule}
    if not kept:
        return None
    drawing = panels(width, [title for _, title in BARS], lines=[*kept], line=25, max_columns=3)
    for axes, (metric, _) in zip(drawing.axes, BARS, strict=True):
        values = [one.metrics[metric] or 0.0 for one in kept.values()]
        for line, (one, value) in enumerate(zip(kept.values(), values, strict=True)):
            axes.plot(value, line, "o", color=LIGHT["measured"], markersize=7)
            if half := one.half_width.get(metric):
                ends = (value - half, value + half)
                axes.plot(ends, (line, line), color=LIGHT["measured"], linewidth=5, alpha=0.3)
        if metric == "bounded_slowdown":
            slowdown_axis(axes.set_xscale, axes.xaxis, values)
            axes.set_xlim(0.97, 1.05 * max(*values, 1.02) ** 1.05)
        else:
            axes.set_xlim(0, 1.08 * max(*values, 1e-9))
            room = axes.get_position().width * width
            axes.xaxis.set_major_locator(MaxNLocator(max(2, min(5, int(room / 70))), prune="upper"))
    return drawing.figure


def waits(timed_rows: Sequence[Timed], width: int) -> Figure | None:
    """The share of the jobs that waited at most so long under each scheduler; None without a job log."""
    if not timed_rows:
        return None
    waits_of = {}
    for row in timed_rows:
        outcome = row.outcome
        wait_s = np.sort(np.maximum(outcome.wait_s[outcome.finished], SOON_S))
        share = np.arange(1, len(wait_s) + 1) / max(1, len(wait_s))
        waits_of[row.name] = [SOON_S, *wait_s], [0, *share]
    longest = max(10 * SOON_S, *(float(wait_s[-1]) for wait_s, _ in waits_of.values()))
    return curves(width, waits_of, (SOON_S, longest * 1.1), 1e9, "wait of a job")


def sizes(timed_rows: Sequence[Timed], width: int) -> Figure | None:
    """The mean bounded slowdown of jobs by the processors they ask for; None without a job log."""
    if not timed_rows:
        return None
    classes_of_rows = [job_classes.of_labels(row, job_classes.sizes(row)) for row in timed_rows]
    there = {one.name for classes in classes_of_rows for one in classes}
    number = max(len(job_classes.sizes(row).names) for row in timed_rows)
    names = [name for name in map(job_classes.size_name, range(number)) if name in there]
    axes, figure = one_panel(width, [row.name for row in timed_rows], markers=DOTS)
    for number, classes in enumerate(classes_of_rows):
        places = [names.index(one.name) for one in classes]
        values = [one.bounded_slowdown for one in classes]
        axes.plot(places, values, marker=DOTS[number % len(DOTS)], markersize=6, **line_of(number))
    every = [one.bounded_slowdown for classes in classes_of_rows for one in classes]
    axes.set_ylim(0.93, 1.1 * max(every, default=1.0))
    slowdown_axis(axes.set_yscale, axes.yaxis, every)
    step = 1 + (len(names) - 1) * 52 // round(axes.get_position().width * width)
    axes.set_xticks(range(0, len(names), step), names[::step])
    axes.set_xlabel("processors that a job asks for")
    lines_across(axes)
    return figure


def utilisation(timed_rows: Sequence[Timed], width: int) -> Figure | None:
    """The share of the processors in use over time under each scheduler; None without a job log."""
    if not timed_rows:
        return None
    axes, figure = one_panel(width, [row.name for row in timed_rows])
    for number, row in enumerate(timed_rows):
        time_s, share = utilisation_over_time(row.outcome, PARTS)
        axes.plot(time_s, share, **line_of(number))
    axes.set_ylim(0, 1.02)
    _clock(axes, width)
    grid.percent(axes)
    return figure


def processors(timed_rows: Sequence[Timed], width: int) -> Figure | None:
    """The jobs on each processor over time, the first SHOWN_JOBS; None if all policies share or move them."""
    schedules = [
        (row.name, row.outcome, list(islice(placements(row.outcome), SHOWN_JOBS))) for row in timed_rows
    ]
    schedules = [one for one in schedules if one[2] and _alone(one[1], one[2])]
    if not schedules:
        return None
    end_ns = min(max(outcome.start_ns[job] for job, _ in places) for _, outcome, places in schedules)
    end_ns = end_ns or max(outcome.finish_ns[job] for _, outcome, places in schedules for job, _ in places)
    end_s = end_ns / WHOLE_NS
    marks = [Patch(**fill("job0"), label=f"jobs, in {JOBS} colours"), Patch(**NO_JOB)]
    drawing = panels(
        width, [name for name, *_ in schedules], lines=5, line=24, max_columns=1, labels=58, marks=marks
    )
    for axes, (_, outcome, placed) in zip(drawing.axes, schedules, strict=True):
        axes.set_ylim(-0.5, outcome.processors - 0.5)
        of_colour: dict[int, list[tuple[float, float, float, float]]] = {}
        for job, place in placed:
            start_s, finish_s = (times[job] / WHOLE_NS for times in (outcome.start_ns, outcome.finish_ns))
            for first, last in place if start_s < end_s else ():
                box = (start_s, min(finish_s, end_s), first - 0.5, last + 0.5)
                of_colour.setdefault(job % JOBS, []).append(box)
        for colour, found_boxes in of_colour.items():
            boxes(axes, found_boxes, **of_job(colour) | {"linewidth": 0.5})
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.tick_params(axis="y", labelsize=11, labelcolor=LIGHT["muted"])
        axes.set_xlim(0, end_s)
        _clock(axes, width)
    return drawing.figure


def _clock(axes: Axes, width: int) -> None:
    span_s = axes.get_xlim()[1]
    units = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    size, unit = next(((size, unit) for size, unit in units if span_s >= 3 * size), (1, "s"))
    room = axes.get_position().width * width
    ticks = MaxNLocator(max(2, min(8, int(room / 70))), prune="upper").tick_values(0, span_s / size)
    axes.set_xticks([tick * size for tick in ticks if 0 <= tick * size <= span_s])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / size:g} {unit}"))


def _alone(outcome: JobLevelOutcome, places: Sequence[tuple[int, Runs]]) -> bool:
    """Whether each processor had one job at a time."""
    free_ns = np.zeros(outcome.processors, dtype=np.int64)
    for job, place in places:
        for first, last in place:
            held = free_ns[first : last + 1]
            if (held > outcome.start_ns[job]).any():
                return False
            held[:] = outcome.finish_ns[job]
    return True
