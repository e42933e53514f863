"""The report of simulated schedules of jobs as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from matplotlib.figure import Figure

from harness.analyse.schedules import against_first, by_size
from harness.predict.job_level import Schedule
from harness.report import job_charts
from harness.report.job_content import JobContent
from harness.report.jobs import columns
from harness.report.rendering import Picture, chosen, rendered

NO_TRACE = "random jobs have many replications and no single schedule; give a trace"


def html(content: JobContent) -> str:
    """The page."""
    rows, (first, *_) = content.rows, content.records
    timed = [(row.label, row.outcome) for row in rows if row.outcome is not None]
    saturated = [f"{row.label} is saturated: {row.saturated}" for row in rows if row.saturated]
    return rendered(
        "jobs.html.j2",
        pictures(content),
        title=content.name,
        count=first.source.get("count", "some"),
        processors=first.processors,
        doubts=[*content.doubts, *saturated],
        failures=[],
        facts=list(_facts(rows)),
        run=list(_conditions(content)),
        rows=rows,
        replicated=any(row.replications > 1 for row in rows),
        headings={
            key: heading.replace("\n", " ").replace("- ", "")
            for key, heading in columns(row.metrics for row in rows).items()
        },
        against=against_first(rows, content.warm_up, content.tau_s),
        sizes=[(label, by_size(outcome, content.warm_up, content.tau_s)) for label, outcome in timed],
    )


def picture(content: JobContent, name: str) -> Figure:
    """One picture of the page, by its name.

    Raises:
        InputError: for an unknown name, or a picture that there are no data for.
    """
    return chosen(pictures(content), name, "choose means, or format html")


def pictures(content: JobContent) -> Iterator[Picture]:
    """All pictures, also those that there are no data for."""
    rows = content.rows
    by_sizes = partial(job_charts.sizes, warm_up=content.warm_up, tau_s=content.tau_s)
    traced = "model" not in content.records[0].source
    no_jobs = "the tables of jobs that lockstep simulate -o wrote are not there" if traced else NO_TRACE
    if traced and any(row.outcome is not None for row in rows):
        no_places = "under these policies jobs share processors, or move"
    else:
        no_places = no_jobs
    for name, heading, about, draw, missing in (
        ("means", "Means of each policy", MEANS, job_charts.means, "all policies are saturated"),
        ("waits", "How long jobs waited", WAITS, job_charts.waits, no_jobs),
        ("sizes", "Who pays: slowdown by size", SIZES, by_sizes, no_jobs),
        ("utilisation", "Utilisation over time", UTILISATION, job_charts.utilisation, no_jobs),
        ("processors", "Which job had which processors", PROCESSORS, job_charts.processors, no_places),
    ):
        yield Picture(name, heading, about, partial(draw, rows), missing)


MEANS = "Means over the jobs; bars are 95 % intervals over replications, if there are several."
WAITS = "Share of the jobs that waited at most this long; waits of less than 1 s are drawn as 1 s."
SIZES = "Mean bounded slowdown of the jobs that ask for so many processors."
UTILISATION = "Share of the processors in use; the work of a job counts evenly from its start to its end."
PROCESSORS = (
    f"The first {job_charts.SHOWN_JOBS} jobs of each schedule on one scale of time; "
    "the colours only tell neighbours apart."
)


def _facts(rows: Sequence[Schedule]) -> Iterator[tuple[str, str]]:
    """The key figures: numbers and their meaning."""
    slowdowns = sorted(
        (value, row.label) for row in rows if (value := row.metrics.get("bounded_slowdown")) is not None
    )
    which = ("least ", "greatest ") if len(slowdowns) > 1 else ("",)
    for (value, label), word in zip(slowdowns[:: len(slowdowns) - 1 or 1], which, strict=False):
        yield f"{value:.3g}", f"{word}bounded slowdown: {label}"
    yield str(sum(bool(row.saturated) for row in rows)), f"of {len(rows)} policies saturated"


def _conditions(content: JobContent) -> Iterator[tuple[str, str]]:
    """The jobs and the machine behind the report."""
    first = content.records[0]
    source = first.source
    yield "Processors", str(first.processors)
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
    yield "Warm-up", f"the first {content.warm_up} jobs do not count"
    yield "Bounded slowdown", f"jobs shorter than {content.tau_s:g} s count as {content.tau_s:g} s"
    yield "Seed", str(first.seed)
    yield "Simulated", f"{first.recorded_at[:16].replace('T', ' ')} UTC"
