"""Records and reports of whole experiments that nobody has measured, in memory."""

from pathlib import Path
from types import SimpleNamespace

import fake_runs
import numpy as np
import pytest

from harness.analyse import job_tables, results_document, verdicts
from harness.analyse.summary import TAU_S
from harness.analyse.timelines import PLANNED, Lanes, planned_slots
from harness.measure.calibrate import Constants
from harness.measure.measured import Measured
from harness.measure.plan import plan
from harness.measure.session import MeasurementSession
from harness.predict.job_level import SimulatedByJob
from harness.report import page, rendering
from harness.simulator.jobs.event_by_event import simulate
from harness.simulator.jobs.kept_outcome import kept
from harness.simulator.jobs.metrics import batch_slowdowns, measure
from harness.spec.naming import scheduler_name
from harness.store import conditions
from harness.store.rebuild import experiment_of
from harness.store.records import POLICY, Schedule


def records(experiment):
    """All runs of an experiment, measured and, but for commands, simulated."""
    processors = tuple(range(experiment.processors))
    store = SimpleNamespace(path=Path("nowhere"), times=lambda *_, **__: [])
    known = conditions.of_session(processors, fake_runs.TOOLS.launcher)
    session = MeasurementSession("20260101T000000-fa4ed0", processors, fake_runs.TOOLS, store, known)
    nominal = Constants(remote_wakeup_us=10.0, latency_us=2.0)
    back_end = Measured(session, lambda task: nominal, lambda text: None)
    tasks = plan(experiment)
    measured = {task.key: back_end.run(task) for task in tasks}
    simulator = fake_runs.ImitatedSimulator(measured, session.name, timeline=False)
    simulated = [
        simulator.run(SimpleNamespace(key=task.key, kind=task.counterpart.kind, repeat=task.repeat))
        for task in tasks
        if all(job.program.simulable for job in task.jobs)
    ]
    return [*measured.values(), *simulated]


def report(experiment):
    """The page of an experiment, with planned slots instead of timelines."""
    found = records(experiment)
    results = results_document.results(experiment, found, TAU_S)
    judged = verdicts.judged(results, found, verdicts.TOLERANCE)
    planned = {}
    for record in found:
        name = scheduler_name(record.scheduler)
        first = record.kind == POLICY and record.cell == record.repeat == 0
        if first and (slots := planned_slots(record)):
            planned[name] = Lanes(name, {PLANNED: slots})
    names = [scheduler_name(scheduler.table) for scheduler in experiment.schedulers]
    lanes = [planned[name] for name in names if name in planned]
    return rendering.html(page.page_of(page.Content(judged, found, lanes)))


def write_trace(path, jobs=240, processors=16):
    """A trace of rigid jobs of 1 to 16 processors, in the Standard Workload Format."""
    draw = np.random.default_rng(3)
    size = 2 ** draw.integers(0, 5, jobs)
    time_s = draw.integers(5, 4000, jobs)
    submit_s = np.cumsum(draw.integers(1, 1400, jobs))
    fields = zip(range(1, jobs + 1), submit_s, time_s, size, strict=True)
    lines = [f"{n} {at} -1 {took} {p} " + "-1 " * 13 for n, at, took, p in fields]
    path.write_text(f"; MaxProcs: {processors}\n; Computer: <made up>\n" + "\n".join(lines))


def runs_of_jobs(back_end, usual=None):
    """The runs under all schedulers of an experiment of jobs; policies are asked at every event.

    ``batch`` cannot keep up. Random jobs have the ``usual`` means, which nobody has simulated.
    """

    def simulated(back_end, task):
        if usual:
            return {"metrics": usual.metrics, "half_width": usual.half_width, "replications": 5}
        if task.scheduler.name == "batch":
            return {"saturated": "one job at a time is a load of 3"}
        log = back_end.logs[task.cell.index]
        outcome = simulate(log.jobs, task.cell.processors, task.scheduler.policy)[0]
        metrics = {name: value for name, value in measure(outcome).row().items() if name != "jobs"}
        slowdowns = batch_slowdowns(outcome, 0, task.cell.source.tau_s)
        found = {"metrics": metrics, "slowdowns": slowdowns, "replications": 1}
        return {**found, "outcome": kept(outcome, log.numbers)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimulatedByJob, "_results", simulated)
        return [back_end.run(task) for task in back_end.tasks]


MEANS = dict.fromkeys(("response_s", "wait_s", "bounded_slowdown", "utilisation"), 10.0)


def job_report(experiment):
    """The page of schedules of jobs: of its trace, or means that nobody has simulated."""
    back_end = SimulatedByJob.of(experiment)
    usual = None if back_end.logs else Schedule({}, 0, MEANS, dict.fromkeys(MEANS, 0.5))
    return page_of_jobs(runs_of_jobs(back_end, usual))


def page_of_jobs(records):
    """The page of runs whose schedules are in memory."""
    results = results_document.results(experiment_of(records), records)
    content = page.Content(results, records, timed_rows=job_tables.timed(results.rows))
    return rendering.html(page.page_of(content))
