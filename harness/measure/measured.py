"""The back end that runs tasks for real, here or on several hosts; constants for them."""

import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from coordinator.host.launch import LaunchError
from coordinator.workload import ParallelJob, Result, Workload
from harness.measure import dedicated_recordings, trust
from harness.measure.calibrate import Constants
from harness.measure.execution_times import JobTimes, undisturbed
from harness.measure.plan import Task
from harness.measure.session import MeasurementSession, OverloadedError, Watcher
from harness.spec import jobs
from harness.store import conditions, journal, records
from harness.store.database import StoreError
from harness.store.journal import Journal, RunName
from harness.store.records import POLICY, JobRecord, RunRecord, Schedule
from workloads.validation import InputError

SLOWEST = 5.0  # on an overloaded host leases are at most so many times as long

START_S = 1.0  # guessed time to start the ranks and to end them


@dataclass(frozen=True)
class Measured:
    """Runs tasks with the tools of a session."""

    session: MeasurementSession
    constants: Callable[[Task], Constants]  # returns the constants for the waiting rules of a task
    note: Callable[[str], None]  # receives the present step of a run
    timeline: bool = False
    resume: bool = False  # whether a run of a log that was interrupted continues where it was
    times: JobTimes = field(default_factory=undisturbed, repr=False)

    def refusal(self, task: Task) -> InputError | None:
        """None: what an experiment asks for here, this host can do."""
        return None

    def guess_s(self, task: Task) -> float:
        """A guess from the nominal times of the programs alone."""
        folds = [max(1.0, job.program.width / task.cell.processors) for job in task.jobs]
        alone_s = sum(job.program.alone_s * f for job, f in zip(task.jobs, folds, strict=True))
        shared = task.scheduler.name in ("none", "implicit") and task.scheduler.options.waiting == "spin"
        return START_S + alone_s * (len(task.jobs) if shared else 1.3)

    def run(self, task: Task) -> RunRecord:
        """Run a task, and return its record."""
        session, constants = self.session, self.constants(task)
        before = conditions.Moment.now(session.processors)
        begin_s = time.monotonic()
        workload = self._workload(task, constants, before)
        with self._history(task) as history, dedicated_recordings.of(task, session) as kept:
            past = history.past
            workload = replace(workload, jobs=kept.jobs(workload.jobs))
            rest = replace(workload, jobs=past.rest(workload.jobs))
            result = kept.keep(past.joined(session.tools.run_workload(rest, self.note, history=history)))
            result = replace(result, warnings=(*result.warnings, *history.warnings))
        wall_s = past.clock_ns / 1e9 + time.monotonic() - begin_s
        asked = [job.number for job in task.jobs if job.estimate]
        job_records = records.job_records(workload, result, asked)
        after = conditions.Moment.now(session.processors)
        schedule = None if result.broken else _schedule(task, job_records)
        return task.record(
            session.name,
            processors=session.processors[: task.cell.processors],
            constants=replace(constants.of_run(result.mechanism), memory_step_ns=workload.memory_step_ns),
            mechanism=result.mechanism,
            mechanism_reason=result.mechanism_reason,
            launcher=result.launcher,
            wall_s=wall_s,
            # Of a log a job that fails is one of many: the others have means.
            failure="" if schedule else result.failure,
            conditions=replace(
                conditions.of_run(session.conditions, before, after),
                **task.cell.topology.table(),
                **kept.conditions,
                **_afterwards(result, task.cell.processors),
                **past.known(),
                calibration=constants.warning,
            ),
            jobs=job_records,
            schedule=schedule,
            ranks=result.ranks,
            switches=result.switches,
        )

    @contextmanager
    def _history(self, task: Task) -> Iterator[Journal]:
        """The journal of a run of a log; other runs have none."""
        if task.cell.log is None or task.kind != POLICY:
            yield journal.NEW
            return
        session = self.session
        run = RunName(task.experiment.digest, task.key)
        first = journal.header(run, session.conditions)
        with journal.kept(run.place(session.store.path), first, self.note, resume=self.resume) as history:
            past = history.past
            if past.conditions and (other := conditions.difference(past.conditions, session.conditions)):
                name, old, new = other
                raise InputError(
                    "--resume",
                    True,
                    f"the interrupted run was measured with {name} = {old!r}, but now it is {new!r}",
                    "omit --resume, or choose another --results directory",
                )
            if past.interrupted_ns:
                over = f"{len(past.ended)} of {len(task.jobs)} jobs are over"
                self.note(f"continuing at {past.clock_ns / 1e9:.1f} s of its clock, where {over}")
            yield history

    def _workload(self, task: Task, constants: Constants, before: conditions.Moment) -> Workload:
        session, scheduler, experiment = self.session, task.scheduler, task.experiment
        estimates = {}
        if task.kind == POLICY:
            self.times.read(session.store, experiment.digest)
            estimates = self.times.fitted()
        return Workload(
            jobs=tuple(
                replace(job, estimate=job.estimate or estimates.get(job.program)) for job in task.jobs
            ),
            policy=scheduler.policy,
            processors=() if session.nodes else session.processors[: task.cell.processors],
            nodes=session.nodes,
            options=scheduler.options,
            context_switch_us=constants.remote_wakeup_us or Workload.context_switch_us,
            latency_us=constants.latency_us or Workload.latency_us,
            seed=experiment.seed,
            repeat=task.repeat,
            memory_step_ns=constants.memory_step_of(jobs.working_sets(task.jobs)),
            timeout_s=60 + 20 * self.guess_s(task) + _awaited_s(task.jobs),
            timeline=self.timeline,
            lease_s=experiment.lease_s * self._slowness(before),
            topology=task.cell.topology,
            owners=task.owners,
        )

    def _slowness(self, now: conditions.Moment) -> float:
        """By how much this host may be slower to answer than an idle one: an agent may wait for its turn."""
        waiting = conditions.crowding(replace(self.session.conditions, wanting=now.wanting))
        return min(SLOWEST, 1 + waiting / (self.session.conditions.cores or 1))


def _awaited_s(jobs: Sequence[ParallelJob]) -> float:
    """For how long a run may wait for its jobs to arrive."""
    pauses_ns = sum(max(0, job.after.think_ns) for job in jobs if job.after)
    return max(job.arrival_s for job in jobs) + pauses_ns / 1e9


def _schedule(task: Task, jobs: Sequence[JobRecord]) -> Schedule | None:
    """The schedule of a run whose jobs are those of a log."""
    if task.cell.log is None:
        return None
    from harness.measure import log_schedule  # noqa: PLC0415 - NumPy is slow to load

    return log_schedule.of_run(task, jobs)


def _afterwards(result: Result, processors: int) -> dict[str, Any]:
    """The conditions at the end of a run: of several nodes, of its quota, and warnings."""
    values: dict[str, Any] = {}
    if len(result.nodes) > 1:
        values["nodes_after"] = [asdict(node) for node in result.nodes]
    ends_ns = [job.finish_ns for job in result.jobs if job.finish_ns]
    if result.throttled and ends_ns:
        periods, lost_s = result.throttled
        values |= {"throttled": lost_s * 1e9 / max(ends_ns) / processors, "throttled_periods": periods}
    return values | ({"warnings": list(result.warnings)} if result.warnings else {})


FRESH_S = 300.0
"""How long a calibration holds. On virtual machines the cost of a switch doubles within minutes."""


@dataclass
class Recalibrated:
    """Returns the constants for a task, from a calibration that is fresh when the runs of its cell begin.

    All runs of a cell and repeat that one invocation makes have the same constants: they are compared. If a
    calibration is not good, the last good one of the store stands.
    """

    session: MeasurementSession
    # What to calibrate in addition to messages, as in ``MeasurementSession.calibrate``.
    working_sets: Collection[int]
    mechanisms: Collection[str]
    # Receives notes, a warning of each new reason for other constants than the newest, and one if a later
    # calibration fails: then the last one stands.
    watcher: Watcher
    clock: Callable[[], float] = time.monotonic
    _known: Constants | None = field(default=None, init=False)
    _until_s: float = field(default=math.inf, init=False)
    _group: tuple[int, int] | None = field(default=None, init=False)

    def __call__(self, task: Task) -> Constants:
        """The constants for ``task``; it calibrates first if the last calibration is too old."""
        group = task.cell.index, task.repeat
        if self._known is None:
            self._known = self._calibrated()
        elif group != self._group and self.clock() >= self._until_s:
            try:
                # All but the times of steps, so that programs do the same work as before.
                self._known = replace(
                    self._calibrated(again=True), memory_steps_ns=self._known.memory_steps_ns
                )
            except (LaunchError, StoreError) as error:
                self._until_s = self.clock() + FRESH_S
                self.watcher.warn(f"the machine constants are not measured again: {error}")
        self._group = group
        return self._known

    def _calibrated(self, *, again: bool = False) -> Constants:
        mechanisms = (self._known and self._known.slots.keys()) or self.mechanisms
        try:
            calibrations = self.session.calibrate(self.working_sets, mechanisms, self.watcher, again=again)
        except OverloadedError as error:
            self.watcher.warn(f"{error}; the runs go on")
        else:
            # A host with one processor cannot be calibrated.
            if not calibrations:
                return Constants()
        self._until_s = self.clock() + FRESH_S
        store = self.session.store
        taken = trust.chosen(store.calibrations(), self.session.conditions, store.path.parent)
        if taken.line:
            self.watcher.warn(taken.line)
        return replace(taken.constants or Constants(), warning=taken.line)
