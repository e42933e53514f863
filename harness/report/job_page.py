"""The report of simulated schedules of jobs: what it says, its tables, and its pictures.

The pictures are waits, slowdowns by size, utilisation, and the processors over time.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator

from coordinator.topology import Runs
from harness.analyse.columns import Column, four_digits, minute, needed, percent
from harness.analyse.job_tables import Timed, against_first, by_size
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import OF_JOBS, Row, place_name, places
from harness.report import grid
from harness.report.charts import DOTS, slowdown_axis
from harness.report.grid import boxes, curves, label_room, lines_across, name_lines, one_panel, panels
from harness.report.rendering import Page, Picture, Table, pictures
from harness.report.style import JOBS, LIGHT, NO_JOB, fill, line_of, of_job
from harness.simulator.jobs.metrics import utilisation_over_time
from harness.simulator.jobs.model import WHOLE_NS, JobLevelOutcome
from harness.simulator.jobs.swf import placements
from harness.store.records import RunRecord, Schedule

SATURATED = "all policies are saturated"
NO_TIMES = "the records do not tell when which job ran; simulate again with lockstep simulate -o"
NO_TRACE = "random jobs have many replications and no single schedule; give a job log"

Named = tuple[str, Schedule]
"""A schedule with the name of its row."""


def of_jobs(results: ResultsDocument, first: RunRecord, timed_rows: Sequence[Timed]) -> Page:
    schedules = [(place_name(row), row.schedule) for row in results.rows if row.schedule]
    _, schedule = schedules[0]
    warm_up, tau_s = schedule.source["warm_up"], schedule.source["tau_s"]
    saturated = [f"{name} is saturated: {one.saturated}" for name, one in schedules if one.saturated]
    many = f"{results.by_job['jobs']} jobs on {schedule.processors} processors"
    return Page(
        title=results.experiment,
        about=f"Schedules of {many}, simulated job by job.",
        facts=list(_facts(schedules)),
        behind="Experiment",
        conditions=list(_conditions(results.by_job, schedule.source, first)),
        warnings=[*results.warnings, *saturated],
        failures=(),
        pictures=_pictures(timed_rows, schedules, warm_up, tau_s),
        tables=list(_tables(results.rows, timed_rows, warm_up, tau_s)),
        origin="",
        remedy="choose means, or format html",
    )


def _pictures(
    timed_rows: Sequence[Timed], schedules: Sequence[Named], warm_up: int, tau_s: float
) -> list[Picture]:
    """All pictures, also those that there are no data for."""
    of_log, saturated = "log" in schedules[0][1].source, all(one.saturated for _, one in schedules)
    no_jobs = NO_TRACE if not of_log else SATURATED if saturated else NO_TIMES
    drawn = {
        "means": partial(means, schedules),
        "waits": partial(waits, timed_rows),
        "sizes": partial(sizes, timed_rows, warm_up=warm_up, tau_s=tau_s),
        "utilisation": partial(utilisation, timed_rows),
        "processors": partial(processors, timed_rows),
    }
    no_places = "under these policies jobs share processors, or move" if timed_rows else no_jobs
    return pictures("jobs", drawn, shown=SHOWN_JOBS, no_jobs=no_jobs, no_places=no_places)


RATIO = (
    "The same jobs under both policies. The ratio is that of their mean bounded slowdowns, as lockstep "
    "compare --between tells it: the geometric mean over batches of jobs in a row, with a 95 % interval."
)


def _tables(rows: Sequence[Row], timed_rows: Sequence[Timed], warm_up: int, tau_s: float) -> Iterator[Table]:
    replicated = any(row.schedule and row.schedule.replications > 1 for row in rows)
    intervals = ", with the half-widths of 95 % intervals over replications" if replicated else ""
    columns = [*places(rows), *needed(OF_JOBS, rows)]
    yield Table("table", "All figures", "Means", columns, rows, f"Means over the jobs{intervals}.")
    compared = against_first(timed_rows, warm_up)
    before = timed_rows[0].name if timed_rows else ""
    yield Table("against", f"Each policy against {before}", "Policy against policy", AGAINST, compared, RATIO)
    classes = [(row.name, one) for row in timed_rows for one in by_size(row.outcome, warm_up, tau_s)]
    yield Table("by-size", "By the size of the jobs", "By size", BY_SIZE, classes)


AGAINST = [
    Column("name", page="scheduler", words=True),
    Column("sooner", page="jobs sooner", shown=percent, unit="%"),
    Column("later", page="jobs later", shown=percent, unit="%"),
    Column(
        "wait_s", page="mean wait", shown=lambda wait_s: "+" * (wait_s >= 0) + four_digits(wait_s), unit="s"
    ),
    Column("slowdowns.ratio", page="slowdown ratio", shown="{:.3f}".format),
    Column("slowdowns.interval", page="95 % interval", shown=lambda ends: "{:.3f} to {:.3f}".format(*ends)),
    Column("slowdowns.verdict", page="verdict", words=True),
]
BY_SIZE = [
    Column("0", page="scheduler", words=True),
    Column("1.name", page="processors"),
    Column("1.jobs", page="jobs"),
    Column("1.wait_s", page="mean wait", shown=four_digits, unit="s"),
    Column("1.bounded_slowdown", page="bounded slowdown", shown="{:.3f}".format),
]


def _facts(schedules: Sequence[Named]) -> Iterator[tuple[str, str]]:
    ranking = [(one.metrics.get("bounded_slowdown"), name) for name, one in schedules]
    slowdowns = sorted((value, name) for value, name in ranking if value is not None)
    which = ("least ", "greatest ") if len(slowdowns) > 1 else ("",)
    for (value, label), word in zip(slowdowns[:: len(slowdowns) - 1 or 1], which, strict=False):
        yield f"{value:.3g}", f"{word}bounded slowdown: {label}"
    saturated = sum(bool(one.saturated) for _, one in schedules)
    yield str(saturated), f"of {len(schedules)} policies saturated"


def _conditions(
    conditions: Mapping[str, Any], source: Mapping[str, Any], first: RunRecord
) -> Iterator[tuple[str, str]]:
    yield "Processors", str(conditions["processors"])
    if conditions["lost"]:
        yield "Lost processors", ", ".join(map(str, conditions["lost"]))
    if (header := source.get("log")) is not None:
        yield "Job log", f"{source['file']}: {conditions['jobs']} jobs"
        yield from ((key, value) for key, value in header.items() if key in ("Computer", "Note"))
        for key, name in (("skipped", "Left out"), ("assumed", "Assumed")):
            if conditions[key]:
                yield name, ", ".join(f"{count} {reason}" for reason, count in conditions[key].items())
    if (model := source.get("model")) is not None:
        arrivals = f"{model['arrivals']} arrivals, load {model['load']}"
        yield "Random jobs", f"{conditions['jobs']} in each replication, {arrivals}"
    yield "Warm-up", f"the first {source['warm_up']} jobs do not count"
    yield "Bounded slowdown", f"jobs shorter than {source['tau_s']:g} s count as {source['tau_s']:g} s"
    yield "Seed", str(conditions["seed"])
    yield "Simulated", f"{minute(first.recorded_at)} UTC"


PARTS = 90  # points of the utilisation over time
SHOWN_JOBS = 300  # a Gantt chart shows so many jobs, the first that start
SOON_S = 1.0  # shorter waits are drawn as this one: an axis of logarithms has no 0

BARS = (
    ("response_s", "mean response time, s"),
    ("wait_s", "mean wait, s"),
    ("bounded_slowdown", "mean bounded slowdown"),
)


def means(schedules: Sequence[Named], width: int) -> Figure | None:
    """Three means of each scheduler, with intervals over replications; None if all are saturated."""
    kept = [(name, one) for name, one in schedules if one.metrics]
    if not kept:
        return None
    names = [name for name, _ in kept]
    labels = label_room(names, width)
    drawing = panels(
        width, [title for _, title in BARS], lines=len(kept), line=25, max_columns=3, labels=labels
    )
    for axes, (metric, _) in zip(drawing.axes, BARS, strict=True):
        values = [one.metrics[metric] or 0.0 for _, one in kept]
        for line, ((_, one), value) in enumerate(zip(kept, values, strict=True)):
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
    name_lines(drawing, names, labels)
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


def sizes(timed_rows: Sequence[Timed], width: int, warm_up: int, tau_s: float) -> Figure | None:
    """The mean bounded slowdown of jobs by the processors they ask for; None without a job log."""
    if not timed_rows:
        return None
    classes_of_rows = [by_size(row.outcome, warm_up, tau_s) for row in timed_rows]
    least = {one.name: one.min_processes for classes in classes_of_rows for one in classes}
    names = sorted(least, key=lambda name: least[name])
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
