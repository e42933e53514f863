"""The report of an experiment that was run, or simulated process by process."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from markupsafe import Markup

from harness.analyse.columns import SIDES, Column, at, minute, needed
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
    places,
)
from harness.analyse.timelines import Lanes
from harness.analyse.verdicts import WITHIN
from harness.report import charts, traces
from harness.report.grid import schedulers
from harness.report.rendering import Page, Picture, Table, pictures
from harness.store.records import MEASURED_KINDS, POLICY, RunRecord
from workloads.constants import CONSTANTS
from workloads.work import OF_USERS


@dataclass(frozen=True)
class Content:
    """Results with verdicts, all runs, the lanes of some, and the accepted error of the simulation."""

    results: ResultsDocument
    records: Sequence[RunRecord]
    lanes: Sequence[Lanes]
    tolerance: float

    def pictures(self) -> list[Picture]:
        """All pictures, also those that the records have no data for."""
        rows, names = self.results.rows, schedulers(self.results.rows)
        hidden = [(row.settings, row.scheduler) for row in rows if row.withheld]
        records = [one for one in self.records if (dict(one.settings), one.scheduler) not in hidden]
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
            "waits": partial(traces.waits, records, names),
            "switch_delay": partial(traces.switch_delay, records, names),
        }
        return pictures("runs", drawn, commands=commands, tolerance=self.tolerance)

    def _used(self, row: Row) -> tuple[float, float] | None:
        """The shares of the CPU time that the runs of a row and others used; None if unknown."""
        fields = [
            record.conditions
            for record in self.records
            if record.kind == POLICY
            and record.makespan_ns is not None
            and record.scheduler == row.scheduler
            and dict(record.settings) == row.settings
        ]
        shares = [(min(1.0, one.busy), one.others or 0.0) for one in fields if one.busy is not None]
        if not shares or row.withheld:
            return None
        busy, others = map(statistics.fmean, zip(*shares, strict=True))
        return max(0.0, busy - others), others


def of_runs(content: Content) -> Page:
    results = content.results
    how = " and ".join(side for side in SIDES if any(side in row.sides for row in results.rows))
    host = results.machine["host"]
    return Page(
        title=results.experiment,
        about=f"Time-shared MPI jobs on {host}: how much each scheduling policy slows them down, {how}.",
        facts=list(_facts(content)),
        behind="Experiment and host",
        conditions=list(_conditions(content)),
        warnings=[*([results.notice] if results.notice else []), *results.warnings],
        failures=results.failures,
        pictures=content.pictures(),
        tables=list(tables(results.rows, content.tolerance)),
        origin=f"; session {results.session}",
        remedy="record more (run --timeline), or choose another picture",
    )


def tables(rows: Sequence[Row], tolerance: float) -> Iterator[Table]:
    """All tables, also those without records."""
    first, simulated = places(rows), any(row.simulated for row in rows)
    measured = any(row.measured for row in rows)
    headings = columns("page", "", *([] if measured and simulated else [TIMES]))
    main = [_judged(column) for column in of_known_side(needed(headings, rows), rows)]
    errors = ERRORS.format(f"{tolerance:.0%}") if measured and simulated else ""
    about = ALL_FIGURES.format("Measured" if measured else "Simulated", errors)
    yield Table("table", "All figures", "Slowdowns", [*first, *main], rows, about)
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


ALL_FIGURES = (
    "{}: the median of n repeats of the workload slowdown. Intervals are of 95 %, or of two repeats "
    "from the least to the most.{} Select and copy: the tables paste into a spreadsheet."
)
ERRORS = " Error: simulated over measured, minus 1; the verdict says whether its interval lies within {}."
RANK_STATES = (
    "Running: computing, or spinning in waits. Ready: waiting for a processor. Asleep: blocked, or stopped "
    "in slots of other jobs."
)
IN_WAITS = " In waits of MPI: in any of these states; not known of jobs that wait as their MPI does."


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
