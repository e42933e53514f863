"""The report of an experiment: its sections are those that its rows and runs have something for."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from markupsafe import Markup

from harness.analyse import job_classes
from harness.analyse.columns import (
    SIDES,
    SIMULATED,
    Column,
    at,
    counted,
    duration,
    four_digits,
    minute,
    needed,
    percent,
)
from harness.analyse.job_tables import Timed, against_first
from harness.analyse.result_warnings import conclusive
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import (
    BREAKDOWN,
    RANKS,
    RESPONSES,
    SLOWDOWN,
    TIMES,
    Row,
    Verdict,
    columns,
    different_jobs,
    of_known_side,
    of_means,
    place_name,
    places,
)
from harness.analyse.timelines import Lanes
from harness.analyse.verdicts import TOLERANCE, WITHIN
from harness.predict.recorded_waits import WaitComparison
from harness.report import charts, recorded_waits, schedules, traces
from harness.report.grid import schedulers
from harness.report.rendering import Page, Picture, Table, pictures
from harness.spec.job_source import ScaledWindow
from harness.store.records import MEASURED_KINDS, POLICY, RunRecord, Schedule
from workloads.constants import CONSTANTS
from workloads.work import OF_USERS


@dataclass(frozen=True)
class Content:
    """Results with verdicts, all runs, and the accepted error of the simulation.

    Of some runs also the lanes; of the jobs of logs also when each ran.
    """

    results: ResultsDocument
    records: Sequence[RunRecord]
    lanes: Sequence[Lanes] = ()
    timed_rows: Sequence[Timed] = ()
    tolerance: float = TOLERANCE

    @property
    def schedules(self) -> list[Schedule]:
        """Those of jobs without processes; none of an experiment whose jobs have processes."""
        return [row.schedule for row in self.results.rows if row.schedule]

    @property
    def recorded_waits(self) -> list[WaitComparison]:
        """The recorded waits of logs and simulated ones, where the scheduler of the site is known."""
        return list(map(WaitComparison.of, self.results.recorded_waits))

    def pictures(self) -> list[Picture]:
        """All pictures, also those that there are no data for."""
        return self._of_schedules() if self.schedules else self._of_runs()

    def _of_schedules(self) -> list[Picture]:
        of_log = bool({"log", "window"} & self.schedules[0].source.keys())
        timed_rows = self.timed_rows
        no_jobs = NO_TIMES if any(not one.saturated for one in self.schedules) else SATURATED
        no_jobs = no_jobs if of_log else NO_TRACE
        drawn = {
            "means": partial(schedules.means, self.results.rows),
            "waits": partial(schedules.waits, timed_rows),
            "sizes": partial(schedules.sizes, timed_rows),
            "utilisation": partial(schedules.utilisation, timed_rows),
            "processors": partial(schedules.processors, timed_rows),
        }
        no_places = NO_PLACES if timed_rows else no_jobs
        return pictures("jobs", drawn, shown=schedules.SHOWN_JOBS, no_jobs=no_jobs, no_places=no_places)

    def _of_runs(self) -> list[Picture]:
        rows = self.results.rows
        shown: dict[str, list[RunRecord]] = {name: [] for name in schedulers(rows)}
        for row in rows:
            shown[row.name] += [] if row.withheld else self._runs(row)
        commands = any(isinstance(job.work, OF_USERS) for row in rows for job in row.jobs)
        programs = [job.work.short_name for job in rows[0].jobs] if different_jobs(rows) else []
        drawn = {
            "slowdowns": partial(charts.slowdowns, rows),
            "breakdowns": partial(charts.breakdowns, rows),
            "usage": partial(charts.usage, rows, self._used),
            "states": partial(charts.states, rows),
            "sections": partial(charts.throughput, rows),
            "maps": partial(charts.maps, rows),
            "agreement": partial(charts.agreement, rows, tolerance=self.tolerance),
            "gantt": partial(traces.gantt, self.lanes, programs=programs),
            "waits": partial(traces.waits, shown),
            "switch_delay": partial(traces.switch_delay, shown),
        }
        return pictures("runs", drawn, commands=commands, tolerance=self.tolerance)

    def _runs(self, row: Row) -> list[RunRecord]:
        ours = [one for one in self.records if one.kind == POLICY and one.scheduler == row.scheduler]
        return [one for one in ours if dict(one.settings) == row.settings]

    def _used(self, row: Row) -> tuple[float, float] | None:
        """The shares of the CPU time that the runs of a row and others used; None if unknown."""
        fields = [record.conditions for record in self._runs(row) if record.makespan_ns is not None]
        shares = [(min(1.0, one.busy), one.others or 0.0) for one in fields if one.busy is not None]
        if not shares or row.withheld:
            return None
        busy, others = map(statistics.fmean, zip(*shares, strict=True))
        return max(0.0, busy - others), others


def page_of(content: Content) -> Page:
    """What the page of an experiment shows; pictures and tables without data are among it."""
    results, of_jobs = content.results, bool(content.schedules)
    late = [row for row in results.rows if row.saturated]
    return Page(
        title=results.experiment,
        about=_about(content),
        facts=list(_facts_of_schedules(results.rows) if of_jobs else _facts(content)),
        behind="Experiment" if of_jobs else "Experiment and host",
        conditions=list(_conditions_of_schedules(content) if of_jobs else _conditions(content)),
        warnings=[
            *filter(None, [results.notice]),
            *results.warnings,
            *(text for compared in content.recorded_waits for text in compared.differences),
            *(f"{place_name(row)} is saturated: {row.saturated}" for row in late),
        ],
        failures=results.failures,
        pictures=content.pictures(),
        tables=list(tables(content)),
        origin="" if of_jobs else f"; session {results.session}",
        remedy="choose means, or format html" if of_jobs else RECORD_MORE,
    )


def _about(content: Content) -> str:
    results = content.results
    if content.schedules:
        many = f"{results.by_job['jobs']} jobs on {results.by_job['processors']} processors"
        if not results.logs:
            return f"Schedules of {many}, simulated job by job."
        names = {"measured": "measured", "simulated": "simulated", "by_job": "simulated job by job"}
        sides = {side for row in results.rows for side in row.sides}
        how = " and ".join(text for side, text in names.items() if side in sides)
        return f"Schedules of {many}, {how}."
    how = " and ".join(side for side in SIDES if any(side in row.sides for row in results.rows))
    host = results.machine["host"]
    return f"Time-shared MPI jobs on {host}: how much each scheduling policy slows them down, {how}."


def tables(content: Content) -> Iterator[Table]:
    """All tables, also those without records."""
    rows, timed_rows = content.results.rows, content.timed_rows
    yield _means(rows) if content.schedules else _slowdowns(rows, content.tolerance)
    first = places(rows)
    usable = [row for row in rows if row.measured and row.measured.responses]
    shown = [*first, *columns("page", RESPONSES)]
    yield Table("responses", "Response times of interactive jobs", "Response times", shown, usable)
    sides = [*first, Column("side", words=True, page="side")]
    if different_jobs(rows):
        jobs = [(number, job.work.short_name) for number, job in enumerate(rows[0].jobs)]
        shown = [
            replace(SLOWDOWN, path=f"measured.slowdown.per_job.{number}", page=f"{number}: {name}")
            for number, name in jobs
        ]
        heading = "Slowdown of each job"
        yield Table("jobs", heading, heading, [*sides, *shown], _of_sides(rows, "slowdown"))
    usable = [row for row in rows if row.measured and row.measured.states]
    waits = [row for row in usable if at(row, "measured.states.in_waits") is not None]
    shown = [
        column for column in columns("page", RANKS) if waits or column.path != "measured.states.in_waits"
    ]
    heading, about = "States of the ranks", RANK_STATES + (IN_WAITS if waits else "")
    yield Table("ranks", heading, heading, [*first, *shown], usable, about)
    heading, shown = "Breakdown of the CPU time", [*sides, *columns("page", BREAKDOWN)]
    yield Table("parts", heading, "Breakdown", shown, _of_sides(rows, "breakdown"))
    compared, before = against_first(timed_rows), timed_rows[0].name if timed_rows else ""
    yield Table("against", f"Each policy against {before}", "Policy against policy", AGAINST, compared, RATIO)
    classes = [(row.name, job_classes.classes(row)) for row in timed_rows]
    for kind, (heading, label) in BY_CLASS.items():
        lines = [(name, one) for name, found in classes for one in job_classes.largest(found[kind], SHOWN)]
        yield Table(f"by-{kind}", heading, label, OF_CLASS, lines)


def _means(rows: Sequence[Row]) -> Table:
    replicated = any(row.schedule and row.schedule.replications > 1 for row in rows)
    intervals = ", with the half-widths of 95 % intervals over replications" if replicated else ""
    columns = [*places(rows), *of_means(rows)]
    return Table("table", "All figures", "Means", columns, rows, f"Means over the jobs{intervals}.")


def _slowdowns(rows: Sequence[Row], tolerance: float) -> Table:
    simulated = any(row.simulated for row in rows)
    measured = any(row.measured for row in rows)
    headings = columns("page", "", *([] if measured and simulated else [TIMES]))
    main = [_judged(column) for column in of_known_side(needed(headings, rows), rows)]
    errors = ERRORS.format(f"{tolerance:.0%}") if measured and simulated else ""
    about = ALL_FIGURES.format("Measured" if measured else "Simulated", errors)
    return Table("table", "All figures", "Slowdowns", [*places(rows), *main], rows, about)


ALL_FIGURES = (
    "{}: the median of n repeats of the workload slowdown. Intervals are of 95 %, or of two repeats "
    "from the smallest to the largest.{} Select and copy: the tables paste into a spreadsheet."
)
ERRORS = " Error: simulated over measured, minus 1; the verdict says whether its interval lies within {}."
RECORD_MORE = "record more (run --timeline), or choose another picture"
SATURATED = "all policies are saturated"
NO_TIMES = "the records do not tell when which job ran; simulate again with lockstep simulate -o"
NO_TRACE = "random jobs have many replications and no single schedule; give a job log"
NO_PLACES = "under these policies jobs share processors, or move"
RANK_STATES = (
    "Running: computing, or spinning in waits. Ready: waiting for a processor. Asleep: blocked, or stopped "
    "in slots of other jobs."
)
IN_WAITS = " In waits of MPI: in any of these states; not known of jobs that wait as their MPI does."


RATIO = (
    "The same jobs under both policies. The ratio is that of their mean bounded slowdowns, as lockstep "
    "compare --between tells it: the geometric mean over batches of jobs in a row, with a 95 % interval."
)


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
BY_CLASS = {
    "sizes": ("By the size of the jobs", "By processors"),
    "lengths": ("By the length of the jobs", "By run time"),
    "interactive": ("Interactive jobs apart", "Interactive jobs"),
    "users": ("By user", "By user"),
}
"""The headings and labels of tables of classes of jobs, by kind."""
SHOWN = 10  # so many classes have a line; all others have one
OF_CLASS = [
    Column("0", page="scheduler", words=True),
    Column("1.name", page="class", words=True),
    Column("1.jobs", page="jobs"),
    Column("1.work_share", page="work", shown=percent, unit="%"),
    Column("1.response_s", page="mean response", shown=four_digits, unit="s"),
    Column("1.wait_s", page="mean wait", shown=four_digits, unit="s"),
    Column("1.bounded_slowdown", page="bounded slowdown", shown="{:.3f}".format),
]


def _of_sides(rows: Sequence[Row], what: str) -> list[dict[str, Any]]:
    """A record for each side of the rows that has it, in the place of the measured one."""
    return [
        {"settings": row.settings, "name": row.name, "side": side, "measured": summary}
        for row in rows
        for side, summary in row.sides.items()
        if getattr(summary, what)
    ]


def _judged(column: Column) -> Column:
    if column.page != "verdict":
        return column
    return replace(column, path="verdict", unknown="", on_page=_verdict)


def _verdict(verdict: Verdict) -> Markup:
    markup = Markup('<span class="{}">{}</span>').format(verdict.verdict.replace(" ", "-"), verdict.verdict)
    return markup + (f": {verdict.reason}" if verdict.reason else "")


def _facts(content: Content) -> Iterator[tuple[str, str]]:
    measured = [record for record in content.records if record.kind in MEASURED_KINDS]
    side = "measured" if measured else "simulated"
    rows = [row for row in content.results.rows if row.median(side)]
    sure = conclusive(rows, measured) if measured else rows
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.name, []).append(row)
    ranked = sorted(
        (statistics.median(row.median(side) or 0.0 for row in of), name) for name, of in groups.items()
    )
    for (value, name), which in zip(ranked[:: len(ranked) - 1 or 1], ("least", "greatest"), strict=False):
        certain = all(row in sure for row in groups[name])
        yield (f"{value:.2f}", f"{which} slowdown: {name}") if certain else ("", f"{which} slowdown")
    errors = [abs(row.error) for row in rows if row.error is not None]
    if errors:
        yield (
            f"{statistics.median(errors):.0%}" if len(sure) == len(rows) else "",
            "median error of the simulation",
        )
        within = sum(row.verdict is not None and row.verdict.verdict == WITHIN for row in sure)
        yield (
            str(within) if sure else "",
            f"of {len(content.results.rows)} rows certainly within {content.tolerance:.0%}",
        )
    yield str(len(measured or content.records)), f"{side} runs"


def _facts_of_schedules(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    ranking = [(row.median(SIMULATED), place_name(row)) for row in rows]
    slowdowns = sorted((value, name) for value, name in ranking if value is not None)
    which = ("least ", "greatest ") if len(slowdowns) > 1 else ("",)
    for (value, label), word in zip(slowdowns[:: len(slowdowns) - 1 or 1], which, strict=False):
        yield f"{value:.3g}", f"{word}bounded slowdown: {label}"
    yield str(sum(bool(row.saturated) for row in rows)), f"of {len(rows)} policies saturated"


def _conditions(content: Content) -> Iterator[tuple[str, str]]:
    machine, rows = content.results.machine, content.results.rows
    measured = [record for record in content.records if record.kind in MEASURED_KINDS] or content.records
    last = measured[-1]
    count = len(rows[0].jobs)
    jobs = f"{count} job{'s' if count > 1 else ''}"
    programs = [job.work.label for row in rows for job in row.jobs]
    distinct = list(dict.fromkeys(programs))
    some = "; ".join(distinct[:3]) + (f"; and {len(distinct) - 3} more" if len(distinct) > 3 else "")
    yield "Workload", f"{jobs} of {some}"
    if any("granularity_us" in job.program for row in rows for job in row.jobs):
        yield "g, v", "the mean computation between two barriers, and the width of its variation"
    yield "Repeats", str(1 + max(record.repeat for record in measured))
    yield "Host", f"{machine['host']}, Linux {machine['kernel']}"
    yield "Processors", f"{machine['cpu_model']}; used: {', '.join(map(str, machine['processors'] or ()))}"
    others = {str(job.program["launcher"]) for row in rows for job in row.jobs if job.program.get("launcher")}
    own = f"; commands start with {', '.join(sorted(others))}" if others else ""
    yield "MPI", f"{machine['launcher']}{own}"
    sentences = [one.said.format(machine[one.name]) for one in CONSTANTS if machine.get(one.name)]
    if sentences:
        yield "Calibrated", ", ".join(sentences)
    yield "Recorded", f"{minute(measured[0].recorded_at)} to {minute(last.recorded_at)} UTC"
    yield "Seed", str(last.seed)
    yield "Digest", content.results.digest[:16]
    if commit := last.conditions.commit:
        yield "Version", f"Lockstep at commit {commit}"


def _model(model: Mapping[str, Any]) -> str:
    """The arrivals and the load of a recorded model."""
    load = "its own load" if model["load"] is None else f"load {model['load']}"
    if "arrivals" in model:
        return f"{model['arrivals']} arrivals, {load}"
    return f"model {model['kind']} ({', '.join(model['classes'])}), {load}"


def _pairs(log: ScaledWindow) -> Iterator[tuple[str, str]]:
    """What became of a part of a log: as it was, and as it ran."""
    yield "Processors of the log", str(log.processors[0])
    yield "Time", f"{duration(log.span_s[0])} in {duration(log.span_s[1])}"
    yield "Arrivals, run times", f"times {four_digits(log.arrival_factor)}, {four_digits(log.run_factor)}"
    yield "Load", " before, ".join(map(four_digits, log.load)) + " now"
    yield "Median run time", " s before, ".join(map(four_digits, log.run_s)) + " s now"
    shares = (", ".join(f"{size}: {share:.1%}" for size, share in shares.items()) for shares in log.sizes)
    yield "Work by processors", " before; ".join(shares) + " now"
    for name, counts in (("Left out", log.skipped), ("Assumed", log.assumed)):
        if counts:
            yield name, counted(counts)


def _conditions_of_schedules(content: Content) -> Iterator[tuple[str, str]]:
    conditions, source = content.results.by_job, content.schedules[0].source
    yield "Processors", str(conditions["processors"])
    if conditions["lost"]:
        yield "Lost processors", ", ".join(map(str, conditions["lost"]))
    if (header := source.get("log")) is not None:
        yield "Job log", f"{source['file']}: {conditions['jobs']} jobs"
        yield from ((key, value) for key, value in header.items() if key in ("Computer", "Note"))
        for key, name in (("skipped", "Left out"), ("assumed", "Assumed")):
            if conditions[key]:
                yield name, counted(conditions[key])
    for log in content.results.logs:
        yield "Job log", f"{log.file}: {len(log.numbers)} jobs"
        yield from _pairs(log)
    if (model := source.get("model")) is not None:
        yield "Random jobs", f"{conditions['jobs']} in each replication, {_model(model)}"
    for compared in content.recorded_waits:
        yield "Recorded waits", recorded_waits.sentence(compared)
    yield "Warm-up", f"the first {source['warm_up']} jobs do not count"
    tau = "10 s of the log" if content.results.logs else f"{source['tau_s']:g} s"
    yield "Bounded slowdown", f"jobs shorter than {tau} count as {tau}"
    yield "Seed", str(conditions["seed"])
    yield "Simulated", f"{minute(content.records[0].recorded_at)} UTC"
