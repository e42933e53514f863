"""Records and reports of whole experiments that nobody has measured, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fake_runs
import numpy as np

from harness.analyse import results_document, verdicts
from harness.analyse.summary import TAU_S
from harness.analyse.timelines import PLANNED, Lanes, planned_slots
from harness.commands import job_level
from harness.measure.measured import Measured
from harness.measure.plan import plan
from harness.measure.session import MeasurementSession, constants
from harness.predict.job_level import Schedule, Study
from harness.report import job_page, page
from harness.report.job_content import JobContent
from harness.simulator.jobs.event_by_event import simulate
from harness.simulator.jobs.metrics import measure
from harness.spec.experiment import Experiment
from harness.spec.job_level import JobExperiment
from harness.spec.naming import policy_name, scheduler_name
from harness.store import conditions
from harness.store.records import POLICY, RunRecord


def records(experiment: Experiment) -> list[RunRecord]:
    """All runs of an experiment, measured and, but for commands, simulated."""
    processors = tuple(range(experiment.processors))
    store: Any = SimpleNamespace(path=Path("nowhere"), runs=lambda *_, **__: [])
    known = conditions.of_session(processors, fake_runs.TOOLS.launcher)
    site = MeasurementSession("20260101T000000-fa4ed0", processors, fake_runs.TOOLS, store, known)
    nominal = constants([])
    back_end = Measured(site, lambda task: nominal, lambda text: None)
    tasks = plan(experiment)
    measured = {task.key: back_end.run(task) for task in tasks}
    simulator = fake_runs.ImitatedSimulator(measured, site.session, timeline=False)
    simulated = [
        simulator.run(SimpleNamespace(key=task.key, kind=task.counterpart.kind, repeat=task.repeat))
        for task in tasks
        if all(job.program.simulable for job in task.jobs)
    ]
    return [*measured.values(), *simulated]


def report(experiment: Experiment) -> str:
    """The page of an experiment, with planned slots instead of timelines."""
    found = records(experiment)
    results = results_document.results(experiment, found, TAU_S)
    judged = verdicts.judged(results, found, verdicts.TOLERANCE)
    planned: dict[str, Lanes] = {}
    for record in found:
        name = scheduler_name(record.scheduler)
        first = record.kind == POLICY and record.cell == record.repeat == 0
        if first and (slots := planned_slots(record)):
            planned[name] = Lanes(name, {PLANNED: slots})
    names = [scheduler_name(scheduler.table) for scheduler in experiment.schedulers]
    lanes = [planned[name] for name in names if name in planned]
    return page.html(page.Content(judged, found, lanes, verdicts.TOLERANCE))


def write_trace(path: Path, jobs: int = 240, processors: int = 16) -> None:
    """A trace of rigid jobs of 1 to 16 processors, in the Standard Workload Format."""
    draw = np.random.default_rng(3)
    size, time_s = 2 ** draw.integers(0, 5, jobs), draw.integers(5, 4000, jobs)
    submit_s = np.cumsum(draw.integers(1, 1400, jobs))
    fields = zip(range(1, jobs + 1), submit_s, time_s, size, strict=True)
    lines = [f"{n} {at} -1 {took} {p} " + "-1 " * 13 for n, at, took, p in fields]
    path.write_text(f"; MaxProcs: {processors}\n; Computer: <made up>\n" + "\n".join(lines))


def schedules_of_a_trace(study: Study) -> list[Schedule]:
    """The schedules of a trace under policies that are asked at every event; ``batch`` cannot keep up."""
    made = []
    for table, policy in study.experiment.schedulers:
        known: dict[str, Any] = {"scheduler": table, "label": policy_name(table)}
        if table["policy"] == "batch":
            made.append(Schedule(saturated="one job at a time is a load of 3", **known))
            continue
        assert study.trace is not None
        outcome = simulate(study.trace.jobs, study.processors, policy)[0]
        metrics = {name: value for name, value in measure(outcome).row().items() if name != "jobs"}
        made.append(Schedule(metrics=metrics, replications=1, outcome=outcome, **known))
    return made


def job_report(experiment: JobExperiment) -> str:
    """The page of schedules of jobs: of its trace, or means that nobody has simulated."""
    study = Study.of(experiment)
    if study.trace:
        return job_page.html(job_content(study, schedules_of_a_trace(study)))
    names = ("response_s", "wait_s", "bounded_slowdown", "utilisation")
    rows = [
        Schedule(
            table,
            dict.fromkeys(names, 10.0 + number),
            dict.fromkeys(names, 0.5),
            replications=5,
            label=policy_name(table),
        )
        for number, (table, _) in enumerate(experiment.schedulers)
    ]
    return job_page.html(job_content(study, rows))


def job_content(study: Study, rows: Sequence[Schedule]) -> JobContent:
    """What ``lockstep simulate -o`` reports of these rows."""
    records = [job_level._schedule(study, row, "a session", place) for place, row in enumerate(rows)]
    return JobContent(records, rows)
