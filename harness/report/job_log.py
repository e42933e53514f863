"""A job log in tables for a terminal, and in one picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from harness.analyse.columns import Column, counted, duration, four_digits, percent
from harness.analyse.job_log import DAY_HOURS, JobLog, Part, Spread, pooled
from harness.report import recorded_waits
from harness.report.cells import Line, Table, listed, table
from harness.report.cells import Part as ReportPart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

USERS = 5  # so many have a line of their own
FAULTS = 3  # so many lines that cannot be read are shown
CLOCK_HOURS = 3  # that a line of the load by the clock covers
NAME = 52  # pixels of the name of a class of sizes
DAYS_BY_HOUR = 7  # the picture of a longer log has the load of each day


def _of_parts(kind: str, total: int) -> list[Column]:
    return [
        Column("name", kind, words=True),
        Column("jobs", "jobs", "{:,}".format),
        Column(lambda part: part.jobs / total, "% of\njobs", percent),
        Column("work_share", "% of\nwork", percent),
    ]


def render(log: JobLog, name: str) -> Iterator[ReportPart]:
    """Its jobs and load, sizes, users, times, load by the clock, and what it lacks."""
    shown = [*log.faults[:FAULTS]]
    more = len(log.faults) - len(shown)
    for text in [*shown, *([f"and {more:,} more"] if more else [])]:
        yield Line(f"Cannot be read: {text}", "bold yellow")
    title = f"{name}: {log.jobs:,} job{'s' * (log.jobs > 1)} on {log.processors:,} processors"
    load = "all at once" if log.load is None else f"over {duration(log.span_s)}, offered load {log.load:.3f}"
    yield Line(f"{title}, {load}", "bold")
    if log.begins:
        yield f"first arrival: {log.begins}"
    for what, counts in (("left out", log.skipped), ("assumed", log.assumed)):
        if counts:
            yield f"{what}: {counted(counts, ',')}"
    yield listed(_of_parts("processors", log.jobs), log.sizes)
    if log.users:
        yield listed(_of_parts("user", log.jobs), _largest(log.users))
    yield _spreads(log)
    if len(log.hours) >= DAY_HOURS:
        yield _by_clock(log)
    day = log.busiest
    last = min(day.from_hour + DAY_HOURS, len(log.hours))
    yield f"Most work arrives in hours {day.from_hour:,} to {last:,}: {day.jobs:,} jobs, load {day.load:.3f}."
    for sentence in log.lacks:
        yield f"Lacks: {sentence}."
    if log.recorded_waits:
        yield from recorded_waits.render(log.recorded_waits)


def _largest(users: Sequence[Part]) -> list[Part]:
    """The users with most work, and all others as one."""
    others = users[USERS:]
    if not others:
        return [*users]
    work_share = sum(user.work_share for user in others)
    return [*users[:USERS], Part(f"{len(others)} others", sum(user.jobs for user in others), work_share)]


def _spreads(log: JobLog) -> Table:
    lines: list[tuple[str, Spread | None]] = [
        ("run time, s", log.run_s),
        ("recorded wait, s", log.wait_s),
        ("estimate / run time", log.estimate_factor),
    ]
    spreads = table([""], ["jobs", "median", "90th\npercentile", "longest"])
    for name, spread in lines:
        if spread:
            values = (spread.median, spread.p90, spread.max)
            spreads.add_row(name, f"{spread.jobs:,}", *(four_digits(value) for value in values))
    return spreads


def _by_clock(log: JobLog) -> Table:
    clock = "hour of\nthe day" if log.begins else "hour after\nthe first job"
    by_clock = table([clock], ["jobs\nan hour", "load"])
    for number, hour in enumerate(pooled(log.hours_of_day, CLOCK_HOURS)):
        first = CLOCK_HOURS * number
        by_clock.add_row(f"{first:02}-{first + CLOCK_HOURS:02}", f"{hour.jobs:.1f}", f"{hour.load:.3f}")
    return by_clock


def picture(log: JobLog, width: int) -> Figure:
    """The load that arrives over time and by the clock, and the shares of sizes in jobs and work."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - slow to import

    from harness.report.grid import lines_across, panels  # noqa: PLC0415
    from harness.report.style import LIGHT, fill  # noqa: PLC0415

    by_hour = len(log.hours) <= DAYS_BY_HOUR * DAY_HOURS
    unit, count = ("hour", 1) if by_hour else ("day", DAY_HOURS)
    clock = "hour of the day" if log.begins else "hour after the first job, of each day"
    titles = [f"load that arrives in each {unit}", f"load by {clock}", "share of sizes, %"]
    marks = [Patch(**fill("measured"), label="work"), Patch(**fill("simulated"), label="jobs")]
    drawing = panels(width, titles, lines=7, line=24, max_columns=3, labels=40, marks=marks)
    over_time, by_clock, sizes = drawing.axes
    loads = [hour.load for hour in pooled(log.hours, count)]
    for axes, values, label in (
        (over_time, loads, f"{unit}s after the first job"),
        (by_clock, [hour.load for hour in log.hours_of_day], clock),
    ):
        axes.bar(range(len(values)), values, width=1.0, align="edge", color=LIGHT["measured"])
        axes.set(xlim=(0, len(values)), ylim=(0, 1.08 * max(*values, 1e-9)), xlabel=label)
    for shift, part, colour in (
        (-0.2, [size.work_share for size in log.sizes], "measured"),
        (0.2, [size.jobs / log.jobs for size in log.sizes], "simulated"),
    ):
        places = [number + shift for number in range(len(part))]
        sizes.bar(places, [100 * share for share in part], width=0.4, color=LIGHT[colour])
    shares = [100 * max(size.work_share, size.jobs / log.jobs) for size in log.sizes]
    sizes.set(xlim=(-0.6, len(log.sizes) - 0.4), ylim=(0, 1.08 * max(shares)), xlabel="processors")
    step = 1 + (len(log.sizes) - 1) * NAME // round(sizes.get_position().width * width)
    sizes.set_xticks(range(0, len(log.sizes), step), [size.name for size in log.sizes[::step]])
    by_clock.set_xticks(range(0, DAY_HOURS + 1, 2 * CLOCK_HOURS))
    for axes in drawing.axes:
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick <= axes.get_ylim()[1]])
        lines_across(axes)
        axes.grid(visible=False, axis="x")
    return drawing.figure
