"""The back end that simulates job by job: a job log or random jobs under each scheduler."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from coordinator.migration import Migration
from coordinator.owners import changes
from coordinator.policies.adaptive import RunToCompletion
from coordinator.policies.predictions import LAST_TWO
from coordinator.policies.queueing import ModifiedTwoQueue, MultilevelTwoQueue, TwoQueue
from coordinator.policies.space import Batch
from harness.measure import log_schedule
from harness.measure.plan import Task, plan
from harness.predict import recorded_waits
from harness.predict.drawn_jobs import draw
from harness.predict.recorded_waits import WaitComparison
from harness.predict.replicate import Precision, replicate
from harness.predict.trace import Recorded, Trace, read
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.kept_outcome import kept
from harness.simulator.jobs.metrics import Metrics, batch_slowdowns, measure
from harness.simulator.jobs.model import WHOLE_NS, JobLevelOutcome, rigid
from harness.simulator.jobs.simulate import simulate
from harness.spec import owners, sweep
from harness.spec.experiment import Cell, Experiment
from harness.spec.job_source import JobSource, no_processors
from harness.spec.scheduler import Scheduler, check_tiers
from harness.store.conditions import Conditions
from harness.store.records import RunRecord, Schedule
from workloads.bounds import TRACE_S
from workloads.constants import MachineConstants
from workloads.machine import TAU_OF_PROGRAMS_S
from workloads.program import Program
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
    # Of the first cell, on its machine, if its log names the scheduler of the site.
    waits: WaitComparison | None = None
    session: str = ""
    conditions: Conditions = field(default_factory=Conditions)
    digest: str = ""  # of the experiment whose jobs have processes; empty if they have none

    @classmethod
    def of(cls, experiment: Experiment) -> Self:
        """The back end for ``experiment``, with its logs; InputError for what does not fit the machine."""
        read_once = cache(_read)
        cells: list[Cell] = []
        logs: dict[int, Trace] = {}
        try:
            for cell in experiment.cells:
                with sweep.blamed(cell.settings):
                    cell_jobs, log = _on_machine(cell, read_once, experiment.seed)
                    owners.on(experiment.owners, cell_jobs.processors)
                cells.append(cell_jobs)
                logs |= {cell.index: log} if log else {}
            partitions = {one.partition for log in logs.values() for one in log.jobs.submitters}
            for number, scheduler in enumerate(experiment.schedulers):
                check_tiers(f"schedulers[{number}]", scheduler, partitions)
            waits = _recorded_waits(cells[0], read_once, experiment.seed)
        except InputError as error:
            raise experiment.located(error) from None
        processors = max(cell.processors for cell in cells)
        return cls(replace(experiment, cells=tuple(cells), processors=processors), logs, waits)

    @classmethod
    def of_processes(cls, experiment: Experiment, tau_s: float = TAU_OF_PROGRAMS_S) -> Self:
        """The back end for an experiment of programs: each job takes its nominal time on its processors.

        Bounded slowdowns count times below ``tau_s`` as that; those of a log have a bound of their own.
        InputError for a job whose time alone is not known.
        """
        cells: list[Cell] = []
        logs: dict[int, Trace] = {}
        for cell in experiment.cells:
            for job in cell.jobs():
                if not isinstance(job.program, Program) or job.program.adapts:
                    raise experiment.located(
                        InputError(
                            f"job {job.number}",
                            job.program.short_name,
                            "cannot be simulated by job: how long it takes alone is not known",
                            "use lockstep simulate --by process",
                        )
                    )
            source = JobSource(tau_s=cell.log.tau_s if cell.log else tau_s)
            cells.append(replace(cell, source=source))
            jobs = log_schedule.rigid_jobs(cell.jobs())
            numbers = np.array(cell.log.numbers if cell.log else range(len(jobs)), dtype=np.int64)
            unknown = Recorded(*np.full((len(Recorded._fields), len(jobs)), -1.0))
            logs[cell.index] = Trace(jobs, numbers, cell.processors, {}, {}, {}, unknown)
        # Of a log, simulations by job are rows of the same experiment as its runs.
        digest = experiment.digest if experiment.of_log else ""
        return cls(replace(experiment, cells=tuple(cells)), logs, digest=digest)

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
            digest=self.digest or task.experiment.digest,
            processors=(),
            constants=self.constants(task),
            launcher=SIMULATOR,
            wall_s=time.monotonic() - begin_s,
            failure="",
            conditions=self.conditions,
            schedule=Schedule(self._source(task), task.cell.processors, **results),
        )

    def _source(self, task: Task) -> dict[str, Any]:
        if task.cell.groups:
            return log_schedule.source(task)
        values, log = _source_of(task), self.logs.get(task.cell.index)
        source: dict[str, Any] = {"warm_up": values.warm_up, "tau_s": values.tau_s}
        if log and values.log:
            file = os.fsencode(values.log.file).decode(errors="backslashreplace")
            source |= {"log": log.header, "file": file, "content": values.content}
            source |= {key: value for key, value in values.log.changes.items() if value is not None}
            source |= {"recorded_waits": asdict(self.waits)} if self.waits else {}
            assumed = dict(log.assumed) | _without_users(log, task.experiment.schedulers)
            source |= {"skipped": log.skipped, "assumed": assumed, "count": len(log.jobs)}
        if values.model:
            source |= {"model": values.model.table, "count": values.model.count}
            source |= {"terminating": True} if values.terminating else {}
        if values.migration != Migration():
            source |= {"migration": asdict(values.migration)}
        if task.cell.machine:
            source |= {"machine": dict(task.cell.machine)}
        return source | log_schedule.place(task)

    def _results(self, task: Task) -> dict[str, Any]:
        log = self.logs.get(task.cell.index)
        return _of_log(log, task) if log else _of_model(task)


def _source_of(task: Task) -> JobSource:
    assert task.cell.source
    return task.cell.source


def _of_policy(error: InputError, task: Task) -> InputError:
    """An error about what a policy decides, with the scheduler's place in the file; others unchanged."""
    key = f"schedulers[{task.experiment.schedulers.index(task.scheduler)}].policy"
    return _at(error, key, task.scheduler.name)


def _at(error: InputError, key: str, name: str) -> InputError:
    return InputError(key, name, error.rule, error.remedy) if error.key == "policy" else error


def _read(file: str) -> Trace:
    try:
        return read(Path(file))
    except InputError as error:  # of a line or the whole file
        raise InputError("log.file", error.value, error.rule, error.remedy) from None


def _on_machine(cell: Cell, read_once: Callable[[str], Trace], seed: int) -> tuple[Cell, Trace | None]:
    """The cell with the size of its machine and the content of its log, and the log; else InputError."""
    source, processors, log = cell.source, cell.processors, None
    assert source
    if source.log:
        log = read_once(source.log.file).estimated(source.log.estimates, seed)
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
    elif source.model:
        source.model.check(processors, lost)
    return cell, log


def _recorded_waits(cell: Cell, read_once: Callable[[str], Trace], seed: int) -> WaitComparison | None:
    """The waits of the log before its arrivals are stretched; None without the scheduler of the site."""
    source = cell.source
    if not (source and source.log and source.log.scheduler):
        return None
    log = read_once(source.log.file).estimated(source.log.estimates, seed)
    try:
        return recorded_waits.compare(
            *(log, cell.processors, source.log.scheduler, source.warm_up),
            topology=cell.topology,
            lost=cell.lost,
            migration=source.migration,
        )
    except InputError as error:
        if error.key == "scheduler.tiers":
            raise InputError(f"log.{error.key}", error.value, error.rule, error.remedy) from None
        raise _at(error, "log.scheduler.policy", source.log.scheduler.name) from None


def _without_users(log: Trace, schedulers: Iterable[Scheduler]) -> dict[str, int]:
    """How many jobs are of unknown users, if a scheduler predicts execution times by user."""
    policies = (scheduler.policy for scheduler in schedulers)
    predicts = any(
        isinstance(policy, RunToCompletion) and policy.estimating() == LAST_TWO for policy in policies
    )
    unknown = len(log.jobs) - sum(bool(submitter.user) for submitter in log.jobs.submitters)
    return {"users unknown, so that predictions are the estimates": unknown} if predicts and unknown else {}


def _of_log(log: Trace, task: Task) -> dict[str, Any]:
    jobs, source, seed = log.jobs, _source_of(task), task.experiment.seed
    if isinstance(task.scheduler.policy, ONE_AT_A_TIME) and not task.cell.groups:
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
    watched = None if source.terminating else int(model.count * WATCHED_SHARE)
    topology, lost, present = cell.topology, cell.lost, task.owners
    outcomes: list[JobLevelOutcome] = []

    def one(random: np.random.Generator) -> Metrics | None:
        jobs = draw(model, cell.processors, random, len(lost))
        come_and_go = changes(present, int(random.integers(2**31)), 0) if present else ()
        machine = topology, come_and_go, source.migration, lost
        outcome = simulate(jobs, cell.processors, policy, watched, *machine)
        outcomes[:] = [outcome]
        if watched and (outcome.saturated or outcome.finish_ns[:watched].max() > outcome.jobs.submit_ns[-1]):
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
        # The only replication is a schedule of all jobs, as that of a log is.
        "outcome": "" if watched or most > 1 else kept(outcomes[0], np.arange(1, model.count + 1)),
    }


def _plain(metrics: Metrics) -> dict[str, float | None]:
    return {name: value for name, value in metrics.row().items() if name != "jobs"}
