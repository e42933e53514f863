"""Run one experiment: dedicated runs and policy runs interleaved, every outcome recorded."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coordinator.plain import NotPlain, Plain
from coordinator.policies import create
from coordinator.workload import ParallelJob, Result, Workload
from harness import conditions, jobs, records, speedup
from harness.calibrate import Constants
from harness.experiment import Cell, Experiment, Scheduler
from harness.naming import scheduler_name
from harness.records import DEDICATED, POLICY, SIMULATED, SIMULATED_DEDICATED, RunRecord
from harness.site import Progress, Site, Watcher

START_S = 1.0
"""Guess of what it takes to start the ranks and to end them."""

HOPELESS = 3
"""After this many failures without a single success the rest is not tried."""

Key = tuple[int, int, str, str, int]
"""Cell, repeat, kind, scheduler, first job: what tells a run from the others of its experiment."""

ALONE = Scheduler("batch", create("batch", {}))


@dataclass(frozen=True)
class Purpose:
    """What a run is made for, so that it can be recorded if another invocation takes it over.

    Attributes:
        store: path of the store that gets its record.
        digest: of the experiment.
        key: of the task.
        constants: that the run goes by.
        before: the state of the host when it began.
        begin_s: when that was, of time.monotonic().
    """

    store: Path
    digest: str
    key: Key
    constants: Constants
    before: conditions.Moment
    begin_s: float


PURPOSE = Plain(Purpose, version=1)
"""As the text that goes with a workload."""


@dataclass(frozen=True)
class Task:
    """One run to do: some jobs of a cell under a scheduler, for the ``repeat``-th time."""

    cell: Cell
    repeat: int
    kind: str
    scheduler: Scheduler
    jobs: tuple[ParallelJob, ...]

    @property
    def key(self) -> Key:
        """What tells it from the other tasks of its experiment."""
        table = json.dumps(self.scheduler.table, sort_keys=True)
        return self.cell.index, self.repeat, self.kind, table, self.jobs[0].number

    @property
    def label(self) -> str:
        """What it is, for people."""
        return label(self.kind, self.scheduler.table, self.cell.settings)

    @property
    def guess_s(self) -> float:
        """How long it may take, before any has been seen."""
        alone_s = sum(jobs.alone_s(job.program) for job in self.jobs)
        shared = self.scheduler.name in ("none", "implicit") and self.scheduler.blocking == "spin"
        return START_S + alone_s * (len(self.jobs) if shared else 1.3)


def label(kind: str, scheduler: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """A run in a few words: what it runs and where in the sweep."""
    what = kind if kind in (DEDICATED, SIMULATED_DEDICATED) else scheduler_name(scheduler)
    if kind == SIMULATED:
        what = f"simulated {what}"
    where = ", ".join(f"{key.split('.')[-1]} {value}" for key, value in settings.items())
    return f"{what}, {where}" if where else what


def plan(experiment: Experiment) -> list[Task]:
    """All runs in the order in which they are made; the same for the same experiment.

    Repeats are outermost and cells next. The dedicated runs of a cell and its runs under
    every scheduler are shuffled together, anew in each repeat, so that a machine that
    drifts favours none of them.
    """
    return [
        task
        for repeat in range(experiment.repeats)
        for cell in experiment.measured_cells
        for task in _shuffled(experiment, cell, repeat)
    ]


def _shuffled(experiment: Experiment, cell: Cell, repeat: int) -> list[Task]:
    everything = cell.jobs()
    first = {job.program: job for job in reversed(everything)}
    alone = [(ParallelJob(job.number, job.program),) for job in reversed(first.values())]
    tasks = [Task(cell, repeat, DEDICATED, ALONE, one) for one in alone]
    tasks += [Task(cell, repeat, POLICY, scheduler, everything) for scheduler in experiment.schedulers]
    random.Random(f"{experiment.seed}/{cell.index}/{repeat}").shuffle(tasks)
    return tasks


def recorded(done: Iterable[RunRecord]) -> dict[Key, RunRecord]:
    """The runs that did not fail by the keys of their tasks; of several the last."""
    return {
        (r.cell, r.repeat, r.kind, json.dumps(r.scheduler, sort_keys=True), r.jobs[0].job): r
        for r in done
        if r.makespan_ns is not None
    }


def run(
    experiment: Experiment,
    tasks: list[Task],
    site: Site,
    constants: Constants,
    watcher: Watcher,
    *,
    timeline: bool = False,
) -> Iterator[RunRecord]:
    """Do the tasks one after the other; yields each run's record once it is stored.

    With ``timeline`` the ranks record what they do when.

    A run that fails becomes a record as well. If the first HOPELESS runs all fail, the
    rest is left undone.

    Raises:
        StoreError: if a record cannot be written.
    """
    pace = _Pace(tasks)
    failures = successes = 0
    warned: set[str] = set()
    for number, task in enumerate(tasks):
        watcher.progress(
            pace.progress(number, f"{task.label}, repeat {task.repeat + 1} of {experiment.repeats}")
        )
        record = _measure(experiment, task, site, constants, watcher, timeline)
        site.store.add_run(record)
        pace.took(task, record.wall_s)
        yield record
        for warning in record.conditions.get("warnings", ()):
            if warning not in warned:
                warned.add(warning)
                watcher.warn(f"{task.label}, repeat {task.repeat + 1}: {warning}")
        if record.failure:
            failures += 1
            watcher.warn(f"{task.label}, repeat {task.repeat + 1} failed: {record.failure}")
        else:
            successes += 1
        if failures >= HOPELESS and not successes:
            watcher.warn(
                f"gave up after {failures} failures in a row; {len(tasks) - number - 1} runs not tried"
            )
            return
    watcher.progress(pace.progress(len(tasks), "done"))


def _measure(
    experiment: Experiment, task: Task, site: Site, constants: Constants, watcher: Watcher, timeline: bool
) -> RunRecord:
    scheduler = task.scheduler
    known = speedup.estimates(site.store.runs(experiment.digest)) if task.kind == POLICY else {}
    purpose = Purpose(
        site.store.path.resolve(),
        experiment.digest,
        task.key,
        constants,
        conditions.Moment.now(site.processors),
        time.monotonic(),
    )
    workload = Workload(
        jobs=tuple(replace(job, estimate=known.get(speedup.key(job.program))) for job in task.jobs),
        policy=scheduler.policy,
        processors=() if site.nodes else site.processors,
        nodes=site.nodes,
        blocking=scheduler.blocking,
        spin_switches=scheduler.spin_switches,
        switch_us=constants.switch_us,
        latency_us=constants.latency_us,
        local=scheduler.local,
        mechanism=scheduler.mechanism,
        seed=experiment.seed,
        repeat=task.repeat,
        unit_ns=constants.unit_ns(jobs.working_sets(task.jobs)),
        timeout_s=60 + 20 * task.guess_s,
        timeline=timeline,
        lease_s=experiment.lease_s,
        purpose=PURPOSE.encode(purpose).decode(),
    )
    result = site.tools.run_workload(workload, watcher.note)
    return _record(experiment, task, site, workload, purpose, result)


def record_taken_over(experiment: Experiment, site: Site, workload: Workload, result: Result) -> RunRecord:
    """The record of a run that another invocation has begun, once it is stored.

    Raises:
        StoreError: if it cannot be written.
    """
    purpose = purpose_of(workload)
    assert purpose is not None
    (task,) = (task for task in plan(experiment) if task.key == purpose.key)
    record = _record(experiment, task, site, workload, purpose, result)
    site.store.add_run(record)
    return record


def purpose_of(workload: Workload) -> Purpose | None:
    """What a workload is run for; None if it is not for an experiment, or for another version's."""
    with suppress(NotPlain):
        purpose: Purpose = PURPOSE.decode(workload.purpose)
        return purpose
    return None


def _record(
    experiment: Experiment, task: Task, site: Site, workload: Workload, purpose: Purpose, result: Result
) -> RunRecord:
    """What came of a run that has just ended."""
    wall_s = time.monotonic() - purpose.begin_s
    after = conditions.Moment.now(site.processors)
    return RunRecord(
        session=site.session,
        recorded_at=records.now(),
        experiment=experiment.name,
        digest=experiment.digest,
        cell=task.cell.index,
        settings=task.cell.settings,
        kind=task.kind,
        scheduler=task.scheduler.table,
        repeat=task.repeat,
        seed=experiment.seed,
        processors=site.processors,
        constants=purpose.constants.of_run(result.mechanism) | {"unit_ns": workload.unit_ns},
        mechanism=result.mechanism,
        mechanism_reason=result.mechanism_reason,
        launcher=result.launcher,
        wall_s=wall_s,
        failure=result.failure,
        conditions=conditions.of_run(site.conditions, purpose.before, after) | _afterwards(result),
        jobs=records.job_records(workload, result),
        ranks=result.ranks,
        switches=result.switches,
    )


def _afterwards(result: Result) -> dict[str, Any]:
    """What is known at the end of a run: of the nodes, if there were several, and what was amiss."""
    nodes = {"nodes_after": [asdict(node) for node in result.nodes]} if len(result.nodes) > 1 else {}
    return nodes | ({"warnings": list(result.warnings)} if result.warnings else {})


class _Pace:
    """How long the rest will take, from guesses at first and then from what alike runs took."""

    def __init__(self, tasks: list[Task]) -> None:
        self._tasks = tasks
        self._begin = time.monotonic()
        self._seen: dict[tuple[int, str, str], list[float]] = defaultdict(list)
        self._guessed_s = self._took_s = 0.0

    def took(self, task: Task, wall_s: float) -> None:
        """``task`` is done and took ``wall_s``."""
        self._seen[_alike(task)].append(wall_s)
        self._guessed_s += task.guess_s
        self._took_s += wall_s

    def progress(self, done: int, label: str) -> Progress:
        """Where things stand before task number ``done``."""
        left_s = sum(map(self._expected_s, self._tasks[done:]))
        return Progress(label, done, len(self._tasks), time.monotonic() - self._begin, left_s)

    def _expected_s(self, task: Task) -> float:
        if seen := self._seen.get(_alike(task)):
            return statistics.fmean(seen)
        correction = self._took_s / self._guessed_s if self._guessed_s else 1.0
        return task.guess_s * correction


def _alike(task: Task) -> tuple[int, str, str]:
    cell, _, kind, table, _ = task.key
    return cell, kind, table
