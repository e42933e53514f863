"""The runs of an experiment, in the order in which they are made, and the interface of a back end.

An experiment is planned as tasks; a back end carries a task out and returns its record; ``summary``
turns records into rows. Back ends are ``measured.Measured``, ``as_started.AsStarted``,
``through_slurm.ThroughSlurm``, ``predict.process_level.Simulated`` and ``predict.job_level.SimulatedByJob``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from coordinator.owners import Owner
from coordinator.policies import create
from coordinator.workload import ParallelJob
from harness.spec import owners
from harness.spec.experiment import SPINNING, Cell, Experiment
from harness.spec.naming import scheduler_name
from harness.spec.scheduler import Scheduler
from harness.spec.settings import UNCHANGED
from harness.store import records
from harness.store.records import (
    ALONE_KINDS,
    BY_JOB,
    DEDICATED,
    FURTHER,
    POLICY,
    RECORDED,
    WITH_SETTING,
    RunRecord,
)
from workloads.options import Options
from workloads.validation import InputError
from workloads.work import Command

NO_JOB = -1


class Key(NamedTuple):
    """What is different for any two runs of an experiment."""

    cell: int
    repeat: int
    kind: str
    scheduler: str  # its table, as text
    first: int  # the number of the first job; NO_JOB where jobs have no processes, and so no numbers

    @property
    def series(self) -> Key:
        """The same for all repeats of a run."""
        return self._replace(repeat=0)


ALONE, FOLDED = Scheduler("batch", create("batch", {})), Scheduler("none", create("none", {}))
"""Schedulers of dedicated runs: for jobs that fit the machine, and for larger jobs."""

FOLDED_TWO_PHASE = Scheduler("implicit", create("implicit", {}), Options(waiting="global-adaptive"))
"""The second scheduler of dedicated runs of larger jobs, if the experiment asks for it."""

RECORDINGS = 3  # so many repeats have a recorded run of each command that asks for it


@dataclass(frozen=True)
class Task:
    """One run to do: some jobs of a cell under a scheduler, for the ``repeat``-th time."""

    experiment: Experiment
    cell: Cell
    repeat: int
    kind: str
    scheduler: Scheduler
    jobs: tuple[ParallelJob, ...]

    @property
    def key(self) -> Key:
        first = self.jobs[0].number if self.jobs else NO_JOB
        return Key(self.cell.index, self.repeat, self.kind, _name(self.scheduler.table), first)

    @property
    def label(self) -> str:
        run = label(self.kind, self.scheduler.table, self.cell.settings)
        return f"{run}, again" if self.repeat >= FURTHER else f"{run}, repeat {self.repeat + 1}"

    @property
    def owners(self) -> tuple[Owner, ...]:
        """The owners of the workstations; a job that runs alone has all for itself."""
        return () if self.kind in ALONE_KINDS else owners.on(self.experiment.owners, self.cell.processors)

    @property
    def relocates(self) -> bool:
        """Whether jobs that have begun may change processors; some policies do it for owners only."""
        policy = self.scheduler.policy
        return policy.relocates and (bool(self.experiment.owners) or not policy.uses_owner_load)

    @property
    def simulable(self) -> bool:
        """Whether its processes stay on their processors, or start again from their beginning elsewhere."""
        resumed = any(job.program.checkpoint_phases for job in self.jobs)
        return not self.relocates or not (self.scheduler.policy.moves or resumed)

    @property
    def counterpart(self) -> Task:
        """The same run, simulated; a recorded run has none."""
        return replace(self, kind=records.COUNTERPARTS[self.kind])

    def record(self, session: str, **results: Any) -> RunRecord:
        """The record of this run, which has just ended; results that only some kinds have may be left out."""
        of_some = {"mechanism": "", "mechanism_reason": "", "jobs": (), "ranks": (), "switches": ()}
        results = {"digest": self.experiment.digest, **of_some, **results}
        return RunRecord(
            session=session,
            recorded_at=records.now(),
            experiment=self.experiment.name,
            cell=self.cell.index,
            settings=self.cell.settings,
            kind=self.kind,
            scheduler=self.scheduler.table,
            repeat=self.repeat,
            seed=self.experiment.seed,
            **results,
        )


class BackEnd(Protocol):
    """A way to run tasks."""

    def refusal(self, task: Task) -> InputError | None:
        """Why it cannot run ``task``, in an error to raise; None if it can."""

    def guess_s(self, task: Task) -> float:
        """About how long ``task`` takes."""

    def run(self, task: Task) -> RunRecord:
        """Run ``task``; a run that fails has a record as well."""


def label(kind: str, scheduler: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """A run in a few words: its scheduler and its point of the sweep."""
    what = scheduler_name(scheduler)
    if kind == WITH_SETTING:
        what = f"{what}, alone"
    elif kind in ALONE_KINDS:
        what = kind if scheduler["waiting"] == "spin" else f"{kind} two-phase"
    if kind in (records.SIMULATED, BY_JOB):
        what = f"simulated {what}"
    where = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in settings.items())
    return f"{what}, {where}" if where else what


def plan(experiment: Experiment, cells: Sequence[Cell] | None = None) -> list[Task]:
    """All runs in the order in which they are made; ``cells`` are by default the measured ones.

    Repeats are outermost and cells next. Each repeat shuffles the runs of a cell under every scheduler, so
    that a machine that drifts favours none of them. In their middle it has the dedicated runs, with which
    they are compared; if these decide how long the others may take, they come first. Jobs of a log have
    none: they are compared with their times in the log. Of jobs without processes each scheduler has one run
    in each cell.
    """
    if experiment.by_job:
        return [
            Task(experiment, cell, 0, BY_JOB, scheduler, ())
            for cell in experiment.cells
            for scheduler in experiment.schedulers
        ]
    return [
        task
        for repeat in range(experiment.repeats)
        for cell in (experiment.measured_cells if cells is None else cells)
        for task in repeat_of(experiment, cell, repeat)
    ]


def repeat_of(experiment: Experiment, cell: Cell, repeat: int) -> list[Task]:
    """The runs of one repeat of a cell, in an order that only these three decide."""
    everything = cell.jobs()
    first = {job.program: job for job in reversed(everything)} if not experiment.of_log else {}
    alone = [ParallelJob(job.number, job.program) for job in reversed(first.values())]
    chance = random.Random(f"{experiment.seed}/{cell.index}/{repeat}")
    if experiment.of_settings:
        return _of_settings(experiment, cell, repeat, alone, chance)
    dedicated = [
        Task(experiment, cell, repeat, kind, scheduler, (job,))
        for job in alone
        for kind in ((DEDICATED, RECORDED) if job.program.record and repeat < RECORDINGS else (DEDICATED,))
        for scheduler in _dedicated(job, cell, experiment)
    ]
    shared = [
        Task(experiment, cell, repeat, POLICY, scheduler, everything) for scheduler in experiment.schedulers
    ]
    chance.shuffle(dedicated)
    chance.shuffle(shared)
    middle = len(shared) // 2
    return [*shared[:middle], *dedicated, *shared[middle:]]


def _of_settings(
    experiment: Experiment, cell: Cell, repeat: int, alone: Sequence[ParallelJob], chance: random.Random
) -> list[Task]:
    """The unmodified programs alone, then alone and all at a time with each setting.

    One job is all at a time, so each of its runs is both; the row of how it is has the dedicated ones.
    """
    everything = cell.jobs()
    alike = experiment, cell, repeat
    dedicated = [Task(*alike, DEDICATED, UNCHANGED, (job,)) for job in alone]
    changed = [setting for setting in experiment.schedulers if setting != UNCHANGED]
    tasks = [
        Task(*alike, WITH_SETTING, setting, (job,))
        for setting in changed
        for job in (alone if len(everything) > 1 else ())
    ]
    together = experiment.schedulers if len(everything) > 1 else changed
    tasks += [Task(*alike, POLICY, setting, everything) for setting in together]
    chance.shuffle(tasks)
    return [*dedicated, *tasks]


def _dedicated(job: ParallelJob, cell: Cell, experiment: Experiment) -> tuple[Scheduler, ...]:
    kinds = (FOLDED,) if experiment.dedicated == SPINNING else (FOLDED, FOLDED_TWO_PHASE)
    kinds = (ALONE,) if job.program.width <= cell.processors else kinds
    bound = all(scheduler.options.bind for scheduler in experiment.schedulers)
    if isinstance(job.program, Command) and not bound:
        # A process may have threads and children, which have all processors when it runs with others.
        return tuple(replace(one, options=replace(one.options, bind=False)) for one in kinds)
    return kinds


def shared(
    experiment: Experiment, records: Iterable[RunRecord], done: Collection[Key]
) -> Iterator[RunRecord]:
    """Runs of its programs alone among ``records`` of other experiments, as its own, less those ``done``."""
    alone = [one for one in records if one.kind in ALONE_KINDS and one.makespan_ns is not None]
    by_key = {(one.repeat, one.kind, _name(one.scheduler), one.jobs[0].work): one for one in alone}
    for task in plan(experiment):
        cell, repeat, kind, table, number = task.key
        one = by_key.get((repeat, kind, table, task.jobs[0].program))
        if one and task.key not in done:
            yield replace(
                one,
                digest=experiment.digest,
                cell=cell,
                settings=task.cell.settings,
                jobs=(replace(one.jobs[0], job=number),),
                ranks=tuple(replace(rank, job=number) for rank in one.ranks),
            )


def _name(table: Mapping[str, Any]) -> str:
    return json.dumps(table, sort_keys=True)


def recorded(done: Iterable[RunRecord]) -> dict[Key, RunRecord]:
    """The successful runs by the keys of their tasks; the last of several with one key."""
    return {key_of(record): record for record in done if record.succeeded}


def key_of(record: RunRecord) -> Key:
    """The key of the task whose run it is."""
    first = record.jobs[0].job if record.jobs else NO_JOB
    return Key(record.cell, record.repeat, record.kind, _name(record.scheduler), first)
