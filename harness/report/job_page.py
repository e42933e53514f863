"""The report of simulated schedules of jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from harness.analyse.columns import Column, four_digits, needed, percent
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import OF_JOBS, SCHEDULER, ScheduleRow
from harness.analyse.schedules import against_first, by_size, timed
from harness.report import job_charts
from harness.report.rendering import Page, Picture, Table, pictures
from harness.store.records import RunRecord
from workloads.machine import TAU_S

NO_TRACE = "random jobs have many replications and no single schedule; give a trace"


def of_jobs(results: ResultsDocument, first: RunRecord) -> Page:
    rows = [row for row in results.rows if isinstance(row, ScheduleRow)]
    source, processors = rows[0].schedule.source, rows[0].schedule.processors
    warm_up, tau_s = int(source.get("warm_up", 0)), float(source.get("tau_s", TAU_S))
    saturated = [
        f"{row.name} is saturated: {row.schedule.saturated}" for row in rows if row.schedule.saturated
    ]
    count = source.get("count", "some")
    return Page(
        title=results.experiment,
        about=f"Schedules of {count} jobs on {processors} processors, simulated job by job.",
        facts=list(_facts(rows)),
        behind="Experiment",
        conditions=list(_conditions(first, warm_up, tau_s)),
        doubts=[*results.doubts, *saturated],
        failures=(),
        pictures=_pictures(rows, warm_up, tau_s),
        tables=list(_tables(rows, warm_up, tau_s)),
        origin="",
        remedy="choose means, or format html",
    )


def _pictures(rows: Sequence[ScheduleRow], warm_up: int, tau_s: float) -> list[Picture]:
    """All pictures, also those that there are no data for."""
    traced = "model" not in rows[0].schedule.source
    no_jobs = "the tables of jobs that lockstep simulate -o wrote are not there" if traced else NO_TRACE
    no_places = "under these policies jobs share processors, or move" if traced and timed(rows) else no_jobs
    drawn = {
        "means": partial(job_charts.means, rows),
        "waits": partial(job_charts.waits, rows),
        "sizes": partial(job_charts.sizes, rows, warm_up=warm_up, tau_s=tau_s),
        "utilisation": partial(job_charts.utilisation, rows),
        "processors": partial(job_charts.processors, rows),
    }
    return pictures("jobs", drawn, shown=job_charts.SHOWN_JOBS, no_jobs=no_jobs, no_places=no_places)


RATIO = (
    "The same jobs under both policies. The ratio is the geometric mean over the jobs of their bounded "
    "slowdowns, with a 95 % interval by batch means."
)


def _tables(rows: Sequence[ScheduleRow], warm_up: int, tau_s: float) -> Iterator[Table]:
    replicated = any(row.schedule.replications > 1 for row in rows)
    intervals = ", with the half-widths of 95 % intervals over replications" if replicated else ""
    columns = [SCHEDULER, *needed(OF_JOBS, rows)]
    yield Table("table", "All figures", "Means", columns, rows, f"Means over the jobs{intervals}.")
    compared = against_first(rows, warm_up, tau_s)
    before = compared[0].before if compared else ""
    yield Table("against", f"Each policy against {before}", "Policy against policy", AGAINST, compared, RATIO)
    sizes = [(name, one) for name, outcome in timed(rows) for one in by_size(outcome, warm_up, tau_s)]
    yield Table("by-size", "By the size of the jobs", "By size", BY_SIZE, sizes)


AGAINST = [
    Column("after", page="scheduler", words=True),
    Column("sooner", page="jobs sooner", shown=percent, unit="%"),
    Column("later", page="jobs later", shown=percent, unit="%"),
    Column(
        "wait_s", page="mean wait", shown=lambda wait_s: "+" * (wait_s >= 0) + four_digits(wait_s), unit="s"
    ),
    Column("ratio", page="slowdown ratio", shown="{:.3f}".format),
    Column("interval", page="95 % interval", shown=lambda ends: "{:.3f} to {:.3f}".format(*ends)),
    Column("verdict", page="verdict", words=True),
]
BY_SIZE = [
    Column("0", page="scheduler", words=True),
    Column("1.name", page="processors"),
    Column("1.jobs", page="jobs"),
    Column("1.wait_s", page="mean wait", shown=four_digits, unit="s"),
    Column("1.bounded_slowdown", page="bounded slowdown", shown="{:.3f}".format),
]


def _facts(rows: Sequence[ScheduleRow]) -> Iterator[tuple[str, str]]:
    slowdowns = sorted(
        (value, row.name)
        for row in rows
        if (value := row.schedule.metrics.get("bounded_slowdown")) is not None
    )
    which = ("least ", "greatest ") if len(slowdowns) > 1 else ("",)
    for (value, label), word in zip(slowdowns[:: len(slowdowns) - 1 or 1], which, strict=False):
        yield f"{value:.3g}", f"{word}bounded slowdown: {label}"
    yield str(sum(bool(row.schedule.saturated) for row in rows)), f"of {len(rows)} policies saturated"


def _conditions(first: RunRecord, warm_up: int, tau_s: float) -> Iterator[tuple[str, str]]:
    assert first.schedule
    source = first.schedule.source
    yield "Processors", str(first.schedule.processors)
    if lost := source.get("machine", {}).get("lost"):
        yield "Lost processors", ", ".join(map(str, lost))
    if (header := source.get("trace")) is not None:
        yield "Trace", f"{source.get('file', 'its name is not recorded')}: {source.get('count')} jobs"
        yield from ((key, value) for key, value in header.items() if key in ("Computer", "Note"))
        for key, name in (("skipped", "Left out"), ("assumed", "Assumed")):
            if counts := source.get(key):
                yield name, ", ".join(f"{count} {reason}" for reason, count in counts.items())
    if (model := source.get("model")) is not None:
        arrivals = f"{model.get('arrivals')} arrivals, load {model.get('load')}"
        yield "Random jobs", f"{model.get('count')} in each replication, {arrivals}"
    yield "Warm-up", f"the first {warm_up} jobs do not count"
    yield "Bounded slowdown", f"jobs shorter than {tau_s:g} s count as {tau_s:g} s"
    yield "Seed", str(first.seed)
    yield "Simulated", f"{first.recorded_at[:16].replace('T', ' ')} UTC"
