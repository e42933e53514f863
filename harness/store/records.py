"""Records of runs: immutable plain values, complete with conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from coordinator.view import ExecutionTime, Submitter
from coordinator.workload import Result, Switch, Workload
from harness.spec.jobs import described, rebuilt
from harness.store.conditions import Conditions
from workloads.constants import MachineConstants
from workloads.record import RankResult
from workloads.work import Work

DEDICATED = "dedicated"
RECORDED = "recorded"
POLICY = "policy"
WITH_SETTING = "dedicated with a setting"
SIMULATED_DEDICATED = "simulated dedicated"
SIMULATED = "simulated"
"""Kinds of run: a program alone and the workload under a scheduler, measured and simulated; a command that is
recorded alone, and so takes longer: no slowdown relates to it; a program alone with a setting, which may take
more or less time than the unmodified program, to which slowdowns relate."""

BY_JOB = "simulated by job"
"""The kind of simulations of a job log or a model of jobs; they have no measured counterpart."""

ALONE_KINDS = (DEDICATED, RECORDED, WITH_SETTING, SIMULATED_DEDICATED)
MEASURED_KINDS = (DEDICATED, RECORDED, WITH_SETTING, POLICY)

WITH_SCHEDULES = (POLICY, SIMULATED, BY_JOB)
"""Kinds of runs of a whole workload, whose records have the schedule if the jobs are those of a log."""

KINDS = (*MEASURED_KINDS, SIMULATED_DEDICATED, SIMULATED, BY_JOB)

COUNTERPARTS = {DEDICATED: SIMULATED_DEDICATED, POLICY: SIMULATED}
"""The kind of the simulated counterpart of a measured run."""

SIMULATIONS = (SIMULATED_DEDICATED, SIMULATED)

FURTHER = 1_000_000
"""Simulated repeats from this number on have no measured repeat (``harness.analyse.precision``)."""


OF_USER = "of_user"


@dataclass(frozen=True)
class JobRecord:
    """One job of a run. Times are nanoseconds since the run's start, None if not reached."""

    job: int
    program: Mapping[str, Any]  # as the experiment asks for it
    processes: int  # as it ran; if it was moulded not those of the program
    placement: Sequence[int]
    arrival_ns: int
    start_ns: int | None
    finish_ns: int | None
    failure: str
    admitted_ns: int | None = None  # when its policy gave it processors
    # Fields of the ``ExecutionTime`` that the policy had for it, and ``of_user`` if its user asked for that.
    estimate: Mapping[str, float | bool] | None = None
    cpu_ns: int | None = None  # CPU time of all its processes, where only their sum is known
    submitter: Mapping[str, Any] | None = None  # fields of the ``Submitter`` that are known
    requeued: int = 0  # how often it has lost its processors and gone back into the queue

    @property
    def work(self) -> Work:
        return rebuilt(self.program)

    @property
    def submitted_by(self) -> Submitter:
        return Submitter(**(self.submitter or {}))

    @property
    def execution_time(self) -> ExecutionTime | None:
        """The estimate by which its policy went."""
        fields_of = {name: value for name, value in (self.estimate or {}).items() if name != OF_USER}
        return ExecutionTime(**fields_of) if fields_of else None

    @property
    def estimate_s(self) -> float | None:
        """The execution time that its user asked for; None if earlier runs gave the estimate, or none did."""
        known = self.execution_time if OF_USER in (self.estimate or {}) else None
        return None if known is None else known.on(self.work.width)

    @property
    def response_ns(self) -> int | None:
        return None if self.finish_ns is None else self.finish_ns - self.arrival_ns

    @property
    def start_up_ns(self) -> int | None:
        if self.start_ns is None or self.admitted_ns is None or self.requeued:
            return None  # it was admitted for a run that is lost
        return self.start_ns - self.admitted_ns


@dataclass(frozen=True)
class JobTime:
    """The time from start to finish of a job that ended well; all that is read of its run."""

    run: int  # its number in the store
    kind: str
    program: Mapping[str, Any]
    processes: int
    seconds: float


@dataclass(frozen=True)
class Schedule:
    """Means over the jobs of a log or a model under a scheduler."""

    # Of the jobs: ``log`` (its header) or ``model``, ``count``, ``warm_up``, ``tau_s``, ...
    # (docs/reference/store.md).
    source: Mapping[str, Any]
    processors: int  # of the machine
    # Means by name, none if ``saturated``; a mean that nothing has is None.
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    # Half-widths of their 95 % intervals, if there are several replications.
    half_width: Mapping[str, float | None] = field(default_factory=dict)
    replications: int = 0  # how many
    saturated: str = ""  # why the scheduler cannot keep up; empty if it can
    # The mean bounded slowdown of each replication, or of each batch of jobs in a row of a log: the same jobs
    # under every scheduler.
    slowdowns: Sequence[float] = ()
    # When which job ran (``harness.simulator.jobs.kept_outcome``); empty where there is no single schedule.
    outcome: str = field(default="", repr=False)

    @classmethod
    def of_record(cls, **recorded: Any) -> Schedule:
        schedule = cls(**recorded)
        for key in ("place", "schedulers", "warm_up", "tau_s", "count"):
            if not isinstance(value := schedule.source.get(key), int | float):
                raise ValueError(f"runs.schedule holds {key} = {value!r}")
        return schedule

    @property
    def jobs_name(self) -> str:
        """Its jobs in a few words."""
        of_log = {"log", "window"} & self.source.keys()
        kind = "random jobs" if "model" in self.source else "jobs of a log" if of_log else "jobs"
        return f"{self.source['count']} {kind}"

    @property
    def comparable(self) -> Mapping[str, Any]:
        """What two schedules must have in common for their jobs to be the same."""
        of_jobs = ("content", "failed", "load", "estimates", "model", "terminating")
        keys = (*of_jobs, "warm_up", "tau_s", "migration", "machine")
        return {"processors": self.processors} | {key: self.source.get(key) for key in keys}

    def recorded(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class RunRecord:
    """One run, whether it ended well or not."""

    session: str  # the invocation of Lockstep that made it
    recorded_at: str  # UTC time of its end, ISO 8601
    experiment: str  # name of the experiment
    digest: str  # of the experiment (``Experiment.digest``)
    cell: int  # index of the point of the sweep
    settings: Mapping[str, Any]  # the settings of that point
    # DEDICATED for a program alone, RECORDED for a command that is recorded alone, WITH_SETTING for one alone
    # with a setting, POLICY for the workload under a scheduler; if simulated, SIMULATED_DEDICATED and
    # SIMULATED; or BY_JOB.
    kind: str
    # The [[schedulers]] table with its defaults filled in; if simulated by job, as written.
    scheduler: Mapping[str, Any]
    repeat: int  # number of the repetition, from 0
    seed: int  # of the experiment
    processors: Sequence[int]  # ids of the cores it could use
    constants: MachineConstants  # from ``harness.measure.calibrate``, and memory_step_ns
    mechanism: str  # the way to stop and continue processes; ``mechanism_reason`` says why this one
    mechanism_reason: str
    launcher: str  # the MPI that started the ranks
    wall_s: float  # duration with start-up and clean-up
    failure: str  # empty when every job finished; of jobs of a log, when some did
    conditions: Conditions
    jobs: tuple[JobRecord, ...]  # one record per job
    ranks: tuple[RankResult, ...]  # of those that finished
    switches: tuple[Switch, ...]  # every slot switch
    # Of the jobs of a log, or of a run that was simulated by job; None for all others.
    schedule: Schedule | None = None
    id: int | None = field(default=None, compare=False)  # its number in the store that it was read from

    @property
    def makespan_ns(self) -> int | None:
        """Last finish minus first arrival; None unless every job finished."""
        finishes = [job.finish_ns for job in self.jobs]
        if self.failure or not finishes or None in finishes:
            return None
        return max(f for f in finishes if f is not None) - min(job.arrival_ns for job in self.jobs)

    @property
    def exceeded(self) -> float | None:
        """It was stopped after so many times the sum of the times alone; None if it was not."""
        return self.conditions.exceeded

    @property
    def failed_jobs(self) -> str:
        """How many jobs of a log failed, and why the first did, in words; empty if none did."""
        failed = [job for job in self.jobs if job.failure]
        if self.schedule is None or not failed:
            return ""
        number = self.schedule.source["window"]["numbers"][failed[0].job]
        many = f"{len(failed)} of {len(self.jobs)} jobs failed, and count in no mean"
        return f"{many}; job {number} of the log: {failed[0].failure}"

    @property
    def succeeded(self) -> bool:
        """Whether every job finished, or there are means over the jobs."""
        return self.makespan_ns is not None or (self.schedule is not None and not self.failure)


@dataclass(frozen=True)
class Calibration:
    """Samples of one machine constant, taken in one calibration."""

    session: str
    recorded_at: str  # the same for all constants of a calibration
    quantity: str  # its name in ``workloads.probe`` or ``harness.measure.calibrate``
    samples: Sequence[float]
    processors: Sequence[int]
    working_set_bytes: int
    launcher: str
    conditions: Conditions


def plain(record: RunRecord | Calibration, *left_out: str) -> dict[str, Any]:
    """The fields of a record as values of Python, for ``typed``."""
    values = {one.name: getattr(record, one.name) for one in fields(record) if one.name not in left_out}
    return values | {name: values[name] and values[name].recorded() for name in TYPED if name in values}


TYPED: Mapping[str, Callable[..., Any]] = {
    "constants": MachineConstants,
    "conditions": Conditions,
    "schedule": Schedule.of_record,
}


def typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a record from what ``plain`` made of them."""
    present = ((name, make, values.get(name)) for name, make in TYPED.items())
    return {**values, **{name: make(**table) for name, make, table in present if table is not None}}


def alone_two_phase(record: RunRecord) -> bool:
    """Whether it is a run of a job alone with two-phase waits; other dedicated runs spin."""
    of_settings = record.kind == WITH_SETTING
    return (
        record.kind in ALONE_KINDS and not of_settings and record.scheduler.get("waiting", "spin") != "spin"
    )


def switch_summary(switches: Sequence[Switch]) -> dict[str, float]:
    """Number of switches, medians and 99th percentiles of switch delay and skew; empty without switches."""
    summary: dict[str, float] = {"count": len(switches)} if switches else {}
    for what in ("switch_delay", "skew") if switches else ():
        times_ns = sorted(getattr(switch, f"{what}_ns") for switch in switches)
        summary |= {f"{what}_p{share}_ns": quantile(times_ns, share / 100) for share in (50, 99)}
    return summary


def between_nodes_ns(switches: Sequence[Switch]) -> list[int]:
    """For each boundary that several nodes switched at, the time from the first to the last."""
    done: dict[int, dict[int, int]] = {}
    for switch in switches:
        done.setdefault(switch.due_ns, {})[switch.node] = switch.due_ns + switch.switch_delay_ns
    return [max(times.values()) - min(times.values()) for times in done.values() if len(times) > 1]


def quantile(ascending: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the sorted values lie, interpolated linearly."""
    position = share * (len(ascending) - 1)
    low = math.floor(position)
    high = math.ceil(position)
    return ascending[low] + (ascending[high] - ascending[low]) * (position - low)


def job_records(workload: Workload, result: Result, asked: Collection[int] = ()) -> tuple[JobRecord, ...]:
    """The records of the jobs; the estimates of those in ``asked`` are of their users."""
    programs = {job.number: described(job.program) for job in workload.jobs}
    submitters = {job.number: known(job.submitter) for job in workload.jobs}
    estimates = {job.number: recorded_estimate(job.estimate, job.number in asked) for job in workload.jobs}
    return tuple(
        JobRecord(
            job=job.number,
            program=programs[job.number],
            processes=job.processes,
            placement=job.placement,
            arrival_ns=job.arrival_ns,
            start_ns=job.start_ns,
            finish_ns=job.finish_ns,
            failure=job.failure,
            admitted_ns=job.admitted_ns,
            estimate=estimates[job.number],
            submitter=submitters[job.number],
            requeued=job.requeued,
        )
        for job in result.jobs
    )


def recorded_estimate(estimate: ExecutionTime | None, of_user: bool) -> dict[str, Any] | None:
    """An estimate as records have it; ``of_user``: a user asked for this time."""
    if estimate is None:
        return None
    return asdict(estimate) | ({OF_USER: True} if of_user else {})


def known(submitter: Submitter) -> dict[str, Any] | None:
    """The fields of a submitter that say something; None if none does."""
    return {name: value for name, value in vars(submitter).items() if value} or None


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
