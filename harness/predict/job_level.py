"""The back end that simulates job by job: a trace or random jobs under each scheduler."""

import os
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np

from coordinator.owners import changes
from coordinator.policies.queueing import ModifiedTwoQueue, MultilevelTwoQueue, TwoQueue
from coordinator.policies.space import Batch
from harness.measure.plan import Task
from harness.predict.replicate import Precision, replicate
from harness.predict.trace import Trace, read
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, in_ns, moldable
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import Jobs
from harness.simulator.jobs.simulate import simulate
from harness.spec import owners
from harness.spec.job_level import JobExperiment, Model, no_processors
from harness.store.conditions import Conditions
from harness.store.records import BY_JOB, RunRecord, Schedule
from workloads.bounds import TRACE_S, fits
from workloads.constants import MachineConstants
from workloads.validation import InputError

SIMULATOR = "simulator"

ONE_AT_A_TIME = (Batch, TwoQueue, ModifiedTwoQueue, MultilevelTwoQueue)
"""Policies that give one job the whole machine, which is a single server then."""

WATCHED_SHARE = 2 / 3  # the share of a replication's jobs that must end before the last one arrives


@dataclass(frozen=True)
class SimulatedByJob:
    """Simulates the jobs of a trace, or random ones."""

    experiment: JobExperiment
    trace: Trace | None = field(default=None, repr=False)
    session: str = ""
    conditions: Conditions = field(default_factory=Conditions)

    @classmethod
    def of(cls, experiment: JobExperiment) -> Self:
        """The back end for ``experiment``, with its trace; InputError for what does not fit the machine."""
        trace, processors = None, experiment.processors
        if experiment.trace is not None:
            trace = read(experiment.trace)
            processors = processors or trace.processors or 0
            if not processors:
                raise no_processors("trace", f"--set processors={trace.jobs.most.max()} for its largest job")
            trace = trace.stretched(experiment.load, processors)
        experiment = experiment.on(processors)
        _ = experiment.cell.topology  # complains of one that does not fit
        lost = len(experiment.cell.lost)
        if trace is not None:
            trace.check(processors, lost)
        elif experiment.model is not None and experiment.model.rigid:
            for index, most in enumerate(experiment.model.maxima):
                fits(f"model.maxima[{index}]", min(most, processors), processors, lost=lost)
        owners.on(experiment.owners, processors)
        return cls(experiment, trace)

    @property
    def tasks(self) -> list[Task]:
        one = self.experiment
        return [Task(one, one.cell, 0, BY_JOB, scheduler, ()) for scheduler in one.schedulers]

    def run(self, task: Task) -> RunRecord:
        """Simulate the jobs under one scheduler; InputError for a policy that only processes can follow."""
        begin_s = time.monotonic()
        try:
            results = self._results(task)
        except InputError as error:
            if error.key != "policy":
                raise
            key = f"schedulers[{task.experiment.schedulers.index(task.scheduler)}].policy"
            raise InputError(key, task.scheduler.name, error.rule, error.remedy) from None
        return task.record(
            self.session,
            digest=self.session,
            processors=(),
            constants=MachineConstants(),
            launcher=SIMULATOR,
            wall_s=time.monotonic() - begin_s,
            failure="",
            conditions=self.conditions,
            schedule=Schedule(self._source(task), task.cell.processors, **results),
        )

    def _source(self, task: Task) -> dict[str, Any]:
        experiment, trace = self.experiment, self.trace
        source: dict[str, Any] = {"warm_up": experiment.warm_up, "tau_s": experiment.tau_s}
        if trace:
            file = os.fsencode(str(experiment.trace)).decode(errors="backslashreplace")
            source |= {"trace": trace.header, "file": file}
            source |= {"skipped": trace.skipped, "assumed": trace.assumed, "count": len(trace.jobs)}
        if experiment.model:
            source |= {"model": asdict(experiment.model), "count": experiment.model.count}
        if task.cell.machine:
            source |= {"machine": dict(task.cell.machine)}
        schedulers = task.experiment.schedulers
        return source | {"place": schedulers.index(task.scheduler), "schedulers": len(schedulers)}

    def _results(self, task: Task) -> dict[str, Any]:
        return self._on_trace(self.trace, task) if self.trace else self._on_model(task)

    def _on_trace(self, trace: Trace, task: Task) -> dict[str, Any]:
        jobs, experiment = trace.jobs, self.experiment
        if isinstance(task.scheduler.policy, ONE_AT_A_TIME):
            # Jobs that all arrive at once are no load: only so many that no clock holds them are too many.
            load = float(jobs.times_s(jobs.most).sum()) / (trace.span_s or TRACE_S)
            if load > 1:
                return {"saturated": f"one job at a time is a load of {load:.2f}"}
        outcome = simulate(
            jobs,
            task.cell.processors,
            task.scheduler.policy,
            topology=task.cell.topology,
            owners=changes(task.owners, experiment.seed, 0),
            migration=experiment.migration,
            lost=task.cell.lost,
        )
        metrics = measure(outcome, warm_up=experiment.warm_up, tau_s=experiment.tau_s)
        return {"metrics": _plain(metrics), "replications": 1, "outcome": outcome}

    def _on_model(self, task: Task) -> dict[str, Any]:
        experiment, model, cell = self.experiment, self.experiment.model, task.cell
        assert model is not None
        watched = int(model.count * WATCHED_SHARE)
        topology, lost, present = cell.topology, cell.lost, task.owners

        def one(random: np.random.Generator) -> Metrics | None:
            jobs = draw(model, cell.processors, random, len(lost))
            come_and_go = changes(present, int(random.integers(2**31)), 0) if present else ()
            machine = topology, come_and_go, experiment.migration, lost
            outcome = simulate(jobs, cell.processors, task.scheduler.policy, watched, *machine)
            late = outcome.finish_ns[:watched].max() > outcome.jobs.submit_ns[-1]
            if outcome.saturated or late:
                return None
            return measure(outcome, warm_up=experiment.warm_up, last=watched, tau_s=experiment.tau_s)

        most = experiment.repeats
        found = replicate(one, experiment.seed, Precision(experiment.half_width, min(3, most), most))
        if found.saturated:
            tried = found.stuck + len(found.metrics)
            return {"replications": tried, "saturated": f"in {found.stuck} of {tried} replications"}
        means = {name: found.mean(name) for name in _plain(found.metrics[0])}
        return {
            "metrics": {name: one.mean if np.isfinite(one.mean) else None for name, one in means.items()},
            "half_width": {name: one.shown_half for name, one in means.items()},
            "replications": len(found.metrics),
        }


def draw(model: Model, processors: int, random: np.random.Generator, lost: int = 0) -> Jobs:
    """The jobs of one replication, none larger than what is left; the load refers to all processors."""
    most = np.minimum(random.choice(np.asarray(model.maxima), model.count), processors - lost)
    mu = random.choice(np.asarray(model.mu, dtype=float), model.count)
    work_s = hyperexponential(model.count, model.shares, model.means_s, random)
    base = moldable(np.zeros(model.count), most, work_s, mu)
    if model.rigid:
        base = replace(base, least=most)
    demand_s = base.times_s(most) * most if model.rigid else base.demand_s
    gap_s = float(demand_s.mean()) / (processors * model.load)
    between = gaps_s(model.arrivals, model.count, gap_s, random, cv=model.cv, unit_s=gap_s / 1000)
    return replace(base, submit_ns=in_ns(np.cumsum(between)))


def _plain(metrics: Metrics) -> dict[str, float | None]:
    return {name: value for name, value in metrics.row().items() if name != "jobs"}
