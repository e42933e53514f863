"""The report of simulated schedules of jobs as one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from harness.analyse.schedules import against_first, by_size
from harness.predict.job_level import Schedule, Study
from harness.report import job_charts
from harness.report.jobs import columns
from harness.report.rendering import Picture, rendered

NO_TRACE = "random jobs have many replications and no single schedule; give a trace"


def html(study: Study, rows: Sequence[Schedule]) -> str:
    """The page."""
    experiment = study.experiment
    timed = [(row.label, row.outcome) for row in rows if row.outcome is not None]
    return rendered(
        "jobs.html.j2",
        pictures(study, rows),
        title=experiment.name,
        count=study.count,
        processors=study.processors,
        doubts=[f"{row.label} is saturated: {row.saturated}" for row in rows if row.saturated],
        failures=[],
        facts=list(_facts(rows)),
        run=list(_conditions(study)),
        rows=rows,
        replicated=any(row.replications > 1 for row in rows),
        headings={
            key: heading.replace("\n", " ").replace("- ", "")
            for key, heading in columns(row.metrics for row in rows).items()
        },
        against=against_first(rows, experiment.warm_up, experiment.tau_s),
        sizes=[(label, by_size(outcome, experiment.warm_up, experiment.tau_s)) for label, outcome in timed],
    )


def pictures(study: Study, rows: Sequence[Schedule]) -> Iterator[Picture]:
    """All pictures, also those that there are no data for."""
    by_sizes = partial(job_charts.sizes, warm_up=study.experiment.warm_up, tau_s=study.experiment.tau_s)
    no_places = NO_TRACE if study.trace is None else "under these policies jobs share processors, or move"
    for name, heading, about, draw, missing in (
        ("means", "Means of each policy", MEANS, job_charts.means, "all policies are saturated"),
        ("waits", "How long jobs waited", WAITS, job_charts.waits, NO_TRACE),
        ("sizes", "Who pays: slowdown by size", SIZES, by_sizes, NO_TRACE),
        ("utilisation", "Utilisation over time", UTILISATION, job_charts.utilisation, NO_TRACE),
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
    if slowdowns:
        yield f"{slowdowns[0][0]:.3g}", f"least bounded slowdown: {slowdowns[0][1]}"
        yield f"{slowdowns[-1][0]:.3g}", f"greatest bounded slowdown: {slowdowns[-1][1]}"
    yield str(sum(bool(row.saturated) for row in rows)), f"of {len(rows)} policies saturated"


def _conditions(study: Study) -> Iterator[tuple[str, str]]:
    """The jobs and the machine behind the report."""
    experiment = study.experiment
    yield "Processors", str(study.processors)
    if study.trace is not None:
        yield "Trace", f"{experiment.trace}: {study.count} jobs"
        yield from ((key, value) for key, value in study.trace.header.items() if key in ("Computer", "Note"))
        if study.trace.skipped:
            yield "Left out", ", ".join(f"{count} {reason}" for reason, count in study.trace.skipped.items())
    if experiment.model is not None:
        model = experiment.model
        yield (
            "Random jobs",
            f"{model.count} in each replication, {model.arrivals} arrivals, load {model.load:g}",
        )
    yield "Warm-up", f"the first {experiment.warm_up} jobs do not count"
    yield "Bounded slowdown", f"jobs shorter than {experiment.tau_s:g} s count as {experiment.tau_s:g} s"
    yield "Seed", str(experiment.seed)
