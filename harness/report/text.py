"""Results as tables for a terminal: of ``run``, ``simulate``, ``compare`` and ``advise``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from harness.analyse import agreement
from harness.analyse.agreement import Errors
from harness.analyse.columns import (
    CI95,
    SIMULATED,
    UNKNOWN,
    Column,
    at,
    counted,
    duration,
    fixed,
    four_digits,
    interval,
    needed,
    percent,
)
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import (
    BREAKDOWN,
    ERROR,
    INTERVAL,
    PREDICTED,
    RANKS,
    RESPONSES,
    SCHEDULER,
    SLOTS,
    SLOWDOWN,
    SPINNING,
    Row,
    columns,
    different_jobs,
    of_means,
    places,
    saturated_name,
    setting,
    swept,
)
from harness.analyse.statistics import Estimate, apart
from harness.measure.trust import PAPER
from harness.report import cells
from harness.report.cells import Fitting, Line, Part, Table, listed, table
from harness.spec.job_source import ScaledWindow
from harness.spec.naming import policy_name, scheduler_name, waiting_name
from workloads.program import Program
from workloads.work import duration_name, processes_name

if TYPE_CHECKING:
    from harness.analyse.advise import Advice

NAMES = [
    Column("scheduler", "policy", policy_name, words=True),
    Column("scheduler", "waiting", waiting_name, words=True),
]
LEGEND = "Workload slowdown: makespan / sum of dedicated times"
LEGEND_ERROR = "; error: simulated / measured - 1"
LEGEND_JOBS = "Job: response time / dedicated time."
LEGEND_SLOTS = " Late, skew: median/99th percentile of slot switches."
MORE = "More columns (jobs, CPU time, slots): --wide, or a wider terminal."
LEGEND_RESPONSES = "Burst: mean/99th percentile of the response times of the bursts of interactive jobs."
LEGEND_STATES = (
    "Run, ready, asleep: the ranks' time by the kernel's count. Run: computing, or spinning in waits; "
    "ready: waiting for a processor; asleep: blocked, or stopped in slots of other jobs."
)
LEGEND_SPINNING = "Against spinning: makespan / sum of the dedicated times of spinning jobs."
LEGEND_LOG = "Means over the jobs. In bounded slowdowns times below 10 s of the log count as 10 s."
LEGEND_LOG_ERROR = " Error: simulated / measured - 1."
STRIP, DOTS = 40, " .:*"
LEGEND_TWO = "Of two repeats, intervals are from the smallest to the largest: a 95 % interval takes three."


def render(results: ResultsDocument, *, programs: bool = False) -> Iterator[Part]:
    """The warnings, a table for each point of the sweep, and the agreement.

    A point of which nothing was measured has the simulated values in place of the measured ones.
    On a terminal that is too narrow for all columns, tables have those that answer the question, unless all
    are asked for. ``programs`` asks for a line for each job, with its CPU time.
    Of jobs without processes there is one table of means.
    """
    if results.by_job:
        yield from _of_schedules(results)
        return
    if results.notice:
        yield Line(results.notice, style="bold yellow")
    if results.warnings and not (
        results.notice and all(row.median("measured") is None for row in results.rows)
    ):
        yield from cells.warning_lines(results.warnings)
        yield Line("Next: lockstep doctor", style="dim")
    for _, rows in groupby(results.rows, key=lambda row: row.settings):
        block = list(rows)
        if _only_simulated(block):
            yield from _simulated_block(results.experiment, block)
            continue
        yield Line(_title(results.experiment, block[0]), style="bold")
        yield _block(block)
        block_table = _programs(block) if programs else _each_job(block) if different_jobs(block) else None
        if block_table and block_table.rows:
            yield block_table
    if not _only_simulated(results.rows):
        yield Line(LEGEND + (LEGEND_ERROR if any(row.simulated for row in results.rows) else "") + ".", "dim")
    if any(row.measured and row.measured.responses for row in results.rows):
        yield Line(LEGEND_RESPONSES, style="dim")
    sides = [side for row in results.rows for side in row.sides.values()]
    if any(side.against_spinning for side in sides):
        yield Line(LEGEND_SPINNING, style="dim")
    if any(side.workload_slowdown.n == 2 for side in sides):
        yield Line(LEGEND_TWO, style="dim")
    if results.agreement:
        yield agreement.sentence(results.agreement)


def repeats(rows: Sequence[Row]) -> Iterator[Table]:
    """For each point of the sweep a strip of each row: a dot for one repeat, a star for three or more."""
    for settings, block in groupby(rows, key=lambda row: row.settings):
        named = {row.name: [*row.measured.by_repeat.values()] for row in block if row.measured}
        if every := [value for values in named.values() for value in values]:
            least, most = min(every), max(every)
            step = (most - least) / (STRIP - 1) or 1.0
            strip = table(["scheduler", f"repeats from {least:.2f} to {most:.2f}"], wrap=False)
            strip.title = ", ".join(f"{key} = {value}" for key, value in settings.items())
            for name, values in named.items():
                dots = Counter(round((value - least) / step) for value in values)
                strip.add_row(name, "|" + "".join(DOTS[min(dots[at], 3)] for at in range(STRIP)) + "|")
            yield strip


def _block(rows: Sequence[Row]) -> Fitting:
    slowdowns = needed(columns("heading", "", SPINNING, RESPONSES), rows)
    measured = [row.measured for row in rows if row.measured]
    available = {RANKS: any(side.states for side in measured), SLOTS: any(side.switches for side in measured)}
    available[BREAKDOWN] = not available[RANKS] and any(side.breakdown for side in measured)
    others = columns("heading", *(group for group, is_known in available.items() if is_known))
    answers = [column for column in slowdowns if not str(column.path).startswith("measured.slowdown.")]
    whole, answer = (listed([*NAMES, *shown], rows, wrap=False) for shown in ([*slowdowns, *others], answers))
    legend = LEGEND_JOBS + (LEGEND_SLOTS if available[SLOTS] else "")
    below = [Line(text, "dim") for text in [legend, *([LEGEND_STATES] if available[RANKS] else [])]]
    return Fitting(whole, below, [answer, Line(MORE, "dim")])


def _each_job(rows: Sequence[Row]) -> Table:
    """The slowdown of each job under each scheduler, measured before simulated."""
    names = [f"{n}\n{job.work.short_name}" for n, job in enumerate(rows[0].jobs)]
    report_table = table(["slowdown of job\nunder"], names)
    for row in rows:
        of_sides = [side.slowdown.per_job for side in row.sides.values() if side.slowdown]
        slowdowns = [" / ".join(map(fixed, values)) for values in zip(*of_sides, strict=True)]
        report_table.add_row(row.name, *(slowdowns or [UNKNOWN] * len(names)))
    return report_table


def _programs(rows: Sequence[Row]) -> Table:
    report_table = table(["job", "under"], ["slowdown", CI95, "CPU\ntime, s"])
    for number, job in enumerate(rows[0].jobs):
        for row in (row for row in rows if row.measured and row.measured.slowdown):
            side = row.measured
            assert side and side.slowdown
            ends = side.slowdown.per_job_ci95[number]
            used = fixed(side.cpu_s[number]) if side.cpu_s else UNKNOWN
            values = fixed(side.slowdown.per_job[number]), interval(ends, side.workload_slowdown.n), used
            report_table.add_row(f"{number} {job.work.short_name}", row.name, *values)
    return report_table


def _title(name: str, row: Row) -> str:
    described = "; ".join(dict.fromkeys(job.work.label for job in row.jobs))
    jobs = f"{len(row.jobs)} job{'s' if len(row.jobs) > 1 else ''}"
    alone_s = row.measured and row.measured.dedicated_s
    alone = f"; alone, one after the other: {alone_s:.2f} s" if alone_s else ""
    if row.measured and row.measured.against_spinning:
        alone += f", spinning: {row.measured.against_spinning.dedicated_s:.2f} s"
    n = max(row.repeats, 1)
    point = "".join(
        f", {key} = {value}" for key, value in row.settings.items() if not key.startswith("program.")
    )
    return f"{name}: {jobs} of {described}{point}{alone}; {n} repeat{'s' if n > 1 else ''}"


def _only_simulated(rows: Sequence[Row]) -> bool:
    return any(row.simulated for row in rows) and not any(row.measured for row in rows)


def _simulated_block(name: str, rows: Sequence[Row]) -> Iterator[Part]:
    described = "; ".join(dict.fromkeys(job.work.label for job in rows[0].jobs))
    point = "".join(f"; {key} = {value}" for key, value in rows[0].settings.items())
    yield Line(f"{name}, simulated: {len(rows[0].jobs)} x {described}{point}", style="bold")
    yield listed([*NAMES, *_simulated("", BREAKDOWN)], rows, wrap=False)
    if different_jobs(rows):
        yield _each_job(rows)


def _of_schedules(results: ResultsDocument) -> Iterator[Part]:
    """One row for each scheduler and point of the sweep."""
    jobs, rows = results.by_job, results.rows
    for compared in results.recorded_waits:
        from harness.predict.recorded_waits import WaitComparison  # noqa: PLC0415 - only logs need it
        from harness.report import recorded_waits  # noqa: PLC0415

        yield from recorded_waits.render(WaitComparison.of(compared))
    if results.notice:
        yield Line(results.notice, style="bold yellow")
    yield from cells.warning_lines(results.warnings)
    title = f"{results.experiment}: {jobs['jobs']} jobs on {jobs['processors']} processors"
    if jobs["lost"]:
        title += f", of which {len(jobs['lost'])} are lost"
    left_out = counted(jobs["skipped"])
    yield Line(title + (f" (left out: {left_out})" if left_out else ""), style="bold")
    if assumed := jobs["assumed"]:
        yield f"assumed: {counted(assumed)}"
    for log in results.logs:
        yield from _window(log)
    points = [setting(key, heading) for key, heading in swept(rows).items()]
    name = Column(lambda row: saturated_name(row, "{}\nsaturated: {}"), "scheduler\n", words=True)
    listing = listed([*points, name, *of_means(rows)], rows)
    width = 16 if results.logs else 24
    listing.headings[len(points)] = replace(listing.headings[len(points)], min_width=width)
    yield listing
    if results.logs:
        yield Line(LEGEND_LOG + (LEGEND_LOG_ERROR if any(row.measured for row in rows) else ""), "dim")
    if results.agreement:
        yield agreement.sentence(results.agreement)


def _window(log: ScaledWindow) -> Iterator[Part]:
    """What became of the part of a log whose jobs have processes."""
    (theirs, ours), (long_s, short_s) = log.processors, log.span_s
    yield f"{Path(log.file).name}: {duration(long_s)} of {theirs} processors in {duration(short_s)} on {ours}"
    factors = f"arrivals x {four_digits(log.arrival_factor)}, run times x {four_digits(log.run_factor)}"
    load, run_s = map(four_digits, log.load), map(four_digits, log.run_s)
    yield f"{factors}; load {' -> '.join(load)}; median run time {' -> '.join(run_s)} s"
    for name, counts in (("left out", log.skipped), ("assumed", log.assumed)):
        if counts:
            yield f"{name}: {counted(counts)}"


def _simulated(*groups: str) -> list[Column]:
    """The columns of a side that every row has, for the simulated one."""
    return [column.of(SIMULATED) for column in columns("heading", *groups) if not column.needs]


def compared(experiments: Sequence[ResultsDocument], tolerance: float) -> Iterator[Part]:
    """A table for each experiment with its verdicts; start-ups are the median and the longest of all jobs."""
    for results in experiments:
        yield Line(f"{results.experiment} ({results.digest[:8]})", style="bold")
        if results.notice:
            yield Line(results.notice, style="bold yellow")
        yield from cells.warning_lines(results.warnings)
        yield listed([*places(results.rows), *JUDGED], results.rows)
        if any(row.repeats == 2 for row in results.rows):
            yield Line(LEGEND_TWO, style="dim")
        counts = Counter(row.verdict.verdict for row in results.rows if row.verdict)
        tally = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        yield f"Tolerance {tolerance:.0%}: {tally}."
        if results.agreement:
            yield listed(ERRORS, list(results.agreement.schedulers.items()))
            yield agreement.sentence(results.agreement)


JUDGED = [
    replace(SLOWDOWN, heading="measured"),
    INTERVAL,
    PREDICTED,
    replace(ERROR, shown=lambda share: percent(share, 1, "+")),
    Column("verdict.interval", CI95, lambda ends: " to ".join(percent(end, 0, "+") for end in ends)),
    Column("measured.start_up", "start-up\nms", lambda found: f"{found.median_ms:.1f}, {found.max_ms:.1f}"),
    Column("verdict", "verdict", words=True, unknown=""),
]


ERRORS = [
    Column("0", "scheduler", words=True),
    Column("1.rows", "rows"),
    Column("1.median_error", "|error|\nmedian %", percent),
    Column("1.p90_error", "90th\npercentile", percent),
    Column("1.bias", "error\nmedian %", lambda share: percent(share, 1, "+")),
]


NOT_HERE = "not known here: docs/validation.md has ours"


def advice(answer: Advice) -> Iterator[Part]:
    """The advice, the predictions for each candidate, and the granularities where the advice changes."""
    best, jobs = answer.rows[0], len(answer.rows[0].jobs)
    what = f"{jobs} job{'s' if jobs > 1 else ''} of {best.workload}"
    yield from cells.warning_lines(answer.warnings)
    constants = f"this host's constants of {answer.age} ago" if answer.age else f"constants of {PAPER}"
    yield f"{what} on {answer.processors} processors, simulated with {constants}"
    if answer.warnings:
        yield f"Not conclusive; {best.name} has the smallest slowdown."
    else:
        yield Line(f"Use {best.name}.", style="bold")
    recorded = not isinstance(answer.program, Program)
    headings, errors = [SCHEDULER, *_simulated("")], answer.errors if recorded else {}
    if any(row.name in errors for row in answer.rows):
        headings += [
            Column(lambda row: at(errors.get(row.name), "median_error"), "error so\nfar %", percent),
            Column(lambda row: at(errors.get(row.name), "p90_error"), "90th\npercentile", percent),
            Column(lambda row: at(errors.get(row.name), "rows"), "rows"),
        ]
    yield listed(headings, answer.rows, wrap=False)
    if recorded:
        yield _about(errors, [row.name for row in answer.rows])
    if answer.ranges:
        yield "Over the granularity, all else alike:"
        yield listed(RANGES, answer.ranges)


def _about(errors: Mapping[str, Errors], schedulers: Sequence[str]) -> str:
    unknown = [name for name in schedulers if name not in errors]
    if len(unknown) == len(schedulers):
        return f"By how much simulated commands have been wrong is {NOT_HERE}."
    sentence = "Error so far: by how much the slowdowns of commands, simulated and measured here, differed"
    return f"{sentence} (medians)." + (f" {UNKNOWN}: {NOT_HERE}." if unknown else "")


RANGES = [
    Column(
        lambda one: " to ".join(dict.fromkeys(map(duration_name, (one.from_us, one.to_us)))),
        "granularity",
        words=True,
    ),
    Column("scheduler", "best, or as good", scheduler_name, words=True),
    replace(SLOWDOWN, path="slowdown"),
]


WAYS = {"none": "at the same time", "gang": "taking turns", "implicit": "waiting politely"}
"""The policies that the sentences are about, and what the jobs do under them."""

CHANCE = ", a difference that chance may have made"
NO_ERROR = ", and there is nothing to compare it with"
NOT_KNOWN = "not known: {}"


def conclusion(rows: Sequence[Row]) -> list[str]:
    """Three sentences: on the jobs at the same time, on turns and polite waiting, and on the simulator."""
    row_of = {row.scheduler["policy"]: row for row in reversed(rows)}
    ways = {way: row_of[policy] for policy, way in WAYS.items()}
    together, *others = (
        row.measured.workload_slowdown if row.measured else Estimate(None, None, 0) for row in ways.values()
    )
    jobs = row_of["none"].jobs
    what = f"{len(jobs)} jobs of {processes_name(jobs[0].work.processes)} each {WAYS['none']}"
    hidden = [row.withheld.reason for row in ways.values() if row.withheld]
    lacking = NOT_KNOWN.format(*hidden[:1] or ["no run succeeded"])
    first = f"How long {what} take is {lacking}."
    if together.median is not None:
        chance = "" if together.ci95 and not together.ci95[0] <= 1.0 <= together.ci95[1] else CHANCE
        first = f"{what} took {_times(together)} times as long as one after the other{chance}."
    turns, polite = [*WAYS.values()][1:]
    compared = zip((turns, polite), others, strict=True)
    second = "; ".join(_against(way, one, together, lacking) for way, one in compared)
    medians = {way: median for way, row in ways.items() if (median := row.median("simulated"))}
    medians_text = ", ".join(f"{fixed(median)} {way}" for way, median in medians.items())
    errors = [abs(row.error) for row in ways.values() if row.error is not None]
    off = f": at most {percent(max(errors), 0)} % off" if errors else NO_ERROR
    third = medians_text + off if medians_text else "nothing: no simulation succeeded"
    return [first, f"{second[0].upper()}{second[1:]}.", f"The simulator says {third}."]


def _against(way: str, estimate: Estimate, together: Estimate, lacking: str) -> str:
    if estimate.median is None:
        return f"{way} is {lacking}"
    change = ""
    if together.median is not None:
        faster = ", which is faster" if estimate.median < together.median else ", which is slower"
        change = faster if apart(estimate, together) else CHANCE
    return f"{way} took {_times(estimate)}{change}"


def _times(estimate: Estimate) -> str:
    """A slowdown with its interval of 95 %, or with what there is instead."""
    if estimate.ci95:
        return f"{fixed(estimate.median)} ({fixed(estimate.ci95[0])} to {fixed(estimate.ci95[1])})"
    repeats = "one repeat" if estimate.n == 1 else f"the median of {estimate.n} repeats"
    return f"{fixed(estimate.median)} ({repeats})"
