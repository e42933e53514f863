"""The back end that simulates job by job: a job log or random jobs under each scheduler."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from coordinator.migration import Migration
from coordinator.owners import changes
from coordinator.policies.queueing import ModifiedTwoQueue, MultilevelTwoQueue, TwoQueue
from coordinator.policies.space import Batch
from harness.measure.plan import Task, plan
from harness.predict.kept_outcome import kept
from harness.predict.replicate import Precision, replicate
from harness.predict.trace import Trace, read
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, in_ns, moldable
from harness.simulator.jobs.metrics import Metrics, batch_slowdowns, measure
from harness.simulator.jobs.model import WHOLE_NS, Jobs, rigid
from harness.simulator.jobs.simulate import simulate
from harness.spec import owners, sweep
from harness.spec.experiment import Cell, Experiment
from harness.spec.job_source import JobSource, Model, no_processors
from harness.store.conditions import Conditions
from harness.store.records import RunRecord, Schedule
from workloads.bounds import TRACE_S, fits
from workloads.constants import MachineConstants
from workloads.validation import InputError

SIMULATOR = "simulator"

ONE_AT_A_TIME = (Batch, TwoQueue, ModifiedTwoQueue, MultilevelTwoQueue)
"""Policies that give one job the whole machine, which is a single server then."""

WATCHED_SHARE = 2 / 3  # the share of a replication's jobs that must end before the last one arrives

SMALL = np.ones(2, dtype=np.int64)
PROBE = rigid(0 * SMALL, SMALL, WHOLE_NS * SMALL)
"""Two jobs of one processor; a policy for jobs can place them on two."""


@dataclass(frozen=True)
class SimulatedByJob:
    """Simulates the jobs of a log, or random ones."""

    experiment: Experiment  # on machines of known sizes, with logs of known content
    logs: Mapping[int, Trace] = field(default_factory=dict, repr=False)  # by the index of the cell
    session: str = ""
    conditions: Conditions = field(default_factory=Conditions)

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """The back end for ``experiment``, with its logs; InputError for what does not fit the machine."""
        read_once = cache(_read)
        cells: list[Cell] = []
        logs: dict[int, Trace] = {}
        try:
            for cell in experiment.cells:
                with sweep.blamed(cell.settings):
                    cell_jobs, log = _on_machine(cell, read_once)
                    owners.on(experiment.owners, cell_jobs.processors)
                cells.append(cell_jobs)
                logs |= {cell.index: log} if log else {}
        except InputError as error:
            raise experiment.located(error) from None
        processors = max(cell.processors for cell in cells)
        return cls(replace(experiment, cells=tuple(cells), processors=processors), logs)

    @property
    def tasks(self) -> list[Task]:
        return plan(self.experiment)

    def constants(self, task: Task) -> MachineConstants:
        """The machine's costs, which such a simulation does not have."""
        return MachineConstants()

    def refusal(self, task: Task) -> InputError | None:
        """An error for a policy that only processes can follow; else None."""
        try:
            event_by_event.simulate(PROBE, len(SMALL), task.scheduler.policy)
        except InputError as error:
            return _of_policy(error, task)
        return None

    def guess_s(self, task: Task) -> float:
        """In steps: how many jobs arrive."""
        source = _source_of(task)
        return float(source.model.count * source.replications if source.model else self._jobs(task))

    def _jobs(self, task: Task) -> int:
        return len(self.logs[task.cell.index].jobs)

    def run(self, task: Task) -> RunRecord:
        """Simulate the jobs under one scheduler; InputError if it leaves processors to Linux after all."""
        begin_s = time.monotonic()
        try:
            results = self._results(task)
        except InputError as error:
            raise task.experiment.located(_of_policy(error, task)) from None
        return task.record(
            self.session,
            processors=(),
            constants=self.constants(task),
            launcher=SIMULATOR,
            wall_s=time.monotonic() - begin_s,
            failure="",
            conditions=self.conditions,
            schedule=Schedule(self._source(task), task.cell.processors, **results),
        )

    def _source(self, task: Task) -> dict[str, Any]:
        values, log = _source_of(task), self.logs.get(task.cell.index)
        source: dict[str, Any] = {"warm_up": values.warm_up, "tau_s": values.tau_s}
        if log and values.log:
            file = os.fsencode(values.log.file).decode(errors="backslashreplace")
            source |= {"log": log.header, "file": file, "content": values.content}
            source |= {"load": values.log.load} if values.log.load is not None else {}
            source |= {"skipped": log.skipped, "assumed": log.assumed, "count": len(log.jobs)}
        if values.model:
            source |= {"model": asdict(values.model), "count": values.model.count}
        if values.migration != Migration():
            source |= {"migration": asdict(values.migration)}
        if task.cell.machine:
            source |= {"machine": dict(task.cell.machine)}
        schedulers, cells = task.experiment.schedulers, task.experiment.cells
        place = len(schedulers) * cells.index(task.cell) + schedulers.index(task.scheduler)
        return source | {"place": place, "schedulers": len(schedulers) * len(cells)}

    def _results(self, task: Task) -> dict[str, Any]:
        log = self.logs.get(task.cell.index)
        return _of_log(log, task) if log else _of_model(task)


def _source_of(task: Task) -> JobSource:
    assert task.cell.source
    return task.cell.source


def _of_policy(error: InputError, task: Task) -> InputError:
    """An error about what a policy decides, with the scheduler's place in the file; others unchanged."""
    if error.key != "policy":
        return error
    key = f"schedulers[{task.experiment.schedulers.index(task.scheduler)}].policy"
    return InputError(key, task.scheduler.name, error.rule, error.remedy)


def _read(file: str) -> Trace:
    try:
        return read(Path(file))
    except InputError as error:  # of a line or the whole file
        raise InputError("log.file", error.value, error.rule, error.remedy) from None


def _on_machine(cell: Cell, read_once: Callable[[str], Trace]) -> tuple[Cell, Trace | None]:
    """The cell with the size of its machine and the content of its log, and the log; else InputError."""
    source, processors, log = cell.source, cell.processors, None
    assert source
    if source.log:
        log = read_once(source.log.file)
        processors = processors or log.processors or 0
        if not processors:
            raise no_processors(
                "job log", f"--set processors={log.jobs.max_processes.max()} for its largest job"
            )
        source = replace(source, content=log.content)
        log = log.stretched(source.log.load if source.log else None, processors)
    cell = replace(cell, processors=processors, source=source)
    _ = cell.topology  # complains of one that does not fit
    lost = len(cell.lost)
    if log:
        log.check(processors, lost)
    elif source.model and source.model.rigid:
        for index, most in enumerate(source.model.maxima):
            fits(f"model.maxima[{index}]", min(most, processors), processors, lost=lost)
    return cell, log


def _of_log(log: Trace, task: Task) -> dict[str, Any]:
    jobs, source, seed = log.jobs, _source_of(task), task.experiment.seed
    if isinstance(task.scheduler.policy, ONE_AT_A_TIME):
        # Jobs that all arrive at once are no load: only so many that no clock holds them are too many.
        load = float(jobs.times_s(jobs.max_processes).sum()) / (log.span_s or TRACE_S)
        if load > 1:
            return {"saturated": f"one job at a time is a load of {load:.2f}"}
    outcome = simulate(
        jobs,
        task.cell.processors,
        task.scheduler.policy,
        topology=task.cell.topology,
        owners=changes(task.owners, seed, 0),
        migration=source.migration,
        lost=task.cell.lost,
    )
    metrics = measure(outcome, warm_up=source.warm_up, tau_s=source.tau_s)
    slowdowns = batch_slowdowns(outcome, source.warm_up, source.tau_s)
    return {
        "metrics": _plain(metrics),
        "slowdowns": slowdowns,
        "replications": 1,
        "outcome": kept(outcome, log.numbers),
    }


def _of_model(task: Task) -> dict[str, Any]:
    source, cell, policy = _source_of(task), task.cell, task.scheduler.policy
    model = source.model
    assert model
    watched = int(model.count * WATCHED_SHARE)
    topology, lost, present = cell.topology, cell.lost, task.owners

    def one(random: np.random.Generator) -> Metrics | None:
        jobs = draw(model, cell.processors, random, len(lost))
        come_and_go = changes(present, int(random.integers(2**31)), 0) if present else ()
        machine = topology, come_and_go, source.migration, lost
        outcome = simulate(jobs, cell.processors, policy, watched, *machine)
        late = outcome.finish_ns[:watched].max() > outcome.jobs.submit_ns[-1]
        if outcome.saturated or late:
            return None
        return measure(outcome, warm_up=source.warm_up, last=watched, tau_s=source.tau_s)

    most = source.replications
    replications = replicate(one, task.experiment.seed, Precision(source.half_width, min(3, most), most))
    if replications.saturated:
        tried = replications.stuck + len(replications.metrics)
        return {"replications": tried, "saturated": f"in {replications.stuck} of {tried} replications"}
    means = {name: replications.mean(name) for name in _plain(replications.metrics[0])}
    return {
        "metrics": {name: one.mean if np.isfinite(one.mean) else None for name, one in means.items()},
        "half_width": {name: one.shown_half for name, one in means.items()},
        "slowdowns": [metrics.bounded_slowdown for metrics in replications.metrics],
        "replications": len(replications.metrics),
    }


def draw(model: Model, processors: int, random: np.random.Generator, lost: int = 0) -> Jobs:
    """The jobs of one replication, none larger than what is left; the load refers to all processors."""
    most = np.minimum(random.choice(np.asarray(model.maxima), model.count), processors - lost)
    mu = random.choice(np.asarray(model.mu, dtype=float), model.count)
    work_s = hyperexponential(model.count, model.shares, model.means_s, random)
    base = moldable(np.zeros(model.count), most, work_s, mu)
    if model.rigid:
        base = replace(base, min_processes=most)
    demand_s = base.times_s(most) * most if model.rigid else base.demand_s
    gap_s = float(demand_s.mean()) / (processors * model.load)
    between = gaps_s(model.arrivals, model.count, gap_s, random, cv=model.cv, unit_s=gap_s / 1000)
    return replace(base, submit_ns=in_ns(np.cumsum(between)))


def _plain(metrics: Metrics) -> dict[str, float | None]:
    return {name: value for name, value in metrics.row().items() if name != "jobs"}
