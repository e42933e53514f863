"""The back end that simulates tasks process by process; its records are like measured ones."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from coordinator.owners import changes
from coordinator.topology import Topology
from coordinator.view import ExecutionTime
from coordinator.workload import ParallelJob
from harness.measure import log_schedule
from harness.measure.calibrate import Constants
from harness.measure.plan import Task, plan
from harness.predict.pool import Pool, Progress, compute
from harness.predict.recorded_programs import NONE, RecordedPrograms
from harness.predict.simulations import carry_out
from harness.simulator.processes.local.scheduler import slices_of
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine, replaying
from harness.simulator.processes.model import SWITCHING
from harness.simulator.processes.operations import ReplayedProgram
from harness.simulator.processes.outcome import JobOutcome, Outcome
from harness.simulator.processes.simulate import simulate
from harness.spec.experiment import Experiment
from harness.spec.jobs import described
from harness.spec.scheduler import Scheduler
from harness.store.conditions import Conditions
from harness.store.records import RECORDED, JobRecord, RunRecord, known, recorded_estimate
from workloads import timeline as timelines
from workloads.constants import MachineConstants
from workloads.options import WITHIN_JOB
from workloads.patterns import LOCK
from workloads.program import Program
from workloads.record import RankResult, Waits
from workloads.validation import InputError, under
from workloads.work import Command, InteractiveWork, SequentialWork, Work

LOCAL = {"other": "eevdf", "rr": "rr"}
"""The simulated scheduler for each of the kernel's scheduling classes."""

SIMULATOR = "simulator"

UNBOUND = "stealing"
"""The default ready queues of processes that are not bound: both of the kernel's classes have such queues."""

NOWHERE = Conditions()

MECHANISM = "signals"  # the default mechanism of a host


def machine_like(host: MachineConstants, processors: int, scheduler: Scheduler) -> SimulatedMachine:
    """A simulated machine with the calibrated constants of a ``host``, whose processes behave like ranks.

    They send no messages to themselves, look for messages only while they wait, and spin by the wall clock.
    """
    parts_us = host.send_us + host.receive_us + (host.serve_us + host.poll_us) / 2
    table = None
    if scheduler.options.local == "rr" and host.rr_interval_us and host.tick_us:
        table = slices_of(max(1, round(host.rr_interval_us / host.tick_us)))
    unlike = {
        # The calibrated latency lasts from the call that sends to the call that returns the message.
        "latency_us": max(0.0, host.latency_us - parts_us),
        "poll_us": host.poll_us / 2,
        # Delays above half a tick come from the hypervisor, not from this machine's timer.
        "tick_delay_us": [min(late_us, host.tick_us / 2) for late_us in host.tick_delay_us],
    }
    return SimulatedMachine(
        **vars(host) | unlike,
        processors=processors,
        context_switch_us=host.local_switch_us,
        rule_latency_us=host.latency_us,
        local=LOCAL[scheduler.options.local],
        dispatch_table=table,
        messages_to_self=False,
        handles_when_waiting=True,
        timers="synchronised",
        spin_clock="wall",
    )


@dataclass(frozen=True)
class Host:
    """The host that a simulated run imitates."""

    processors: Sequence[int]  # ids of the cores that stand for the simulated processors
    # The host's calibrated constants; if none is known, the simulated machine is the one of Dusseau et al.
    # 1996.
    constants: MachineConstants
    # Values of the [machine] table, which override the constants.
    given: Mapping[str, Any] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)  # of the imitated run, if there is one
    digest: str | None = None  # of the imitated run's experiment, if there is one
    # The execution times that the policy of the imitated run used, by job.
    estimates: Mapping[int, ExecutionTime] = field(default_factory=dict)

    @classmethod
    def of_run(cls, measured: RunRecord) -> Self:
        """The host of ``measured``, without what its conditions say of that run alone."""
        conditions = replace(measured.conditions, warnings=(), recording="", recorded_until_ns=None)
        estimates = {job.job: known for job in measured.jobs if (known := job.execution_time)}
        return cls(
            measured.processors,
            measured.constants,
            Topology.of(conditions.recorded(), len(measured.processors)).table(),
            conditions=conditions,
            digest=measured.digest,
            estimates=estimates,
        )

    @classmethod
    def of_calibration(
        cls, constants: Constants | None, task: Task, conditions: Conditions = NOWHERE
    ) -> Self:
        """The host of a calibration with the processors of ``task``; ``conditions`` of the simulation."""
        scheduler = task.scheduler
        mechanism = MECHANISM if scheduler.options.mechanism == "auto" else scheduler.options.mechanism
        host_constants = constants or Constants()
        of_run = host_constants.of_run(mechanism if scheduler.policy.stops_processes else "")
        processors = list(range(task.cell.processors))
        here = replace(conditions, processors=processors, **task.cell.topology.table())
        return cls(processors, of_run, task.cell.machine, here)

    def machine(self, scheduler: Scheduler) -> SimulatedMachine:
        """The machine on which to simulate runs under ``scheduler``.

        It is like the host, unless the [machine] table asks for another local scheduler than
        the host's. Then it is the paper's machine, with the host's context switch and latency.
        """
        values = dict(self.given)
        queue = values.pop("queue", UNBOUND)
        values["queue"] = "bound" if scheduler.options.bind is True else queue
        values["within_job"] = scheduler.options.bind == WITHIN_JOB
        with under("machine"):
            if self.constants.known and values.get("local", "eevdf") == "eevdf":
                values.pop("local", None)
                likeness = machine_like(self.constants, len(self.processors), scheduler)
                if "context_switch_us" in values:  # these belong to the calibrated switch
                    values = {"switch_deviation_us": (), "switch_after_idle_us": ()} | values
                return replace(likeness, **values)
            if self.constants.known:
                like = {"context_switch_us": self.constants.local_switch_us}
                values = like | {"latency_us": self.constants.latency_us} | values
            return SimulatedMachine(**{"processors": len(self.processors)} | values)


@dataclass(frozen=True)
class Simulated:
    """Simulates tasks process by process."""

    host: Callable[[Task], Host]  # returns the host to imitate for a task
    session: str = ""  # the invocation of Lockstep that simulates
    timeline: bool = False  # whether to record the ranks' activities over time
    recorded: RecordedPrograms = NONE  # the recordings of commands

    def constants(self, task: Task) -> MachineConstants:
        return self.host(task).constants

    def refusal(self, task: Task) -> InputError | None:
        """An error for commands without recordings, malleable programs, and moving processes; else None."""
        if not task.simulable:
            rule = "cannot be simulated by process, since it gives running jobs other processors"
            remedy = 'use lockstep run --no-simulate, or simulate job by job (level = "jobs")'
            return InputError("policy", task.scheduler.name, rule, remedy)
        if rule := task.scheduler.not_simulated:
            return InputError("bind", task.scheduler.options.bind, rule, "use lockstep run --no-simulate")
        try:
            self.host(task).machine(task.scheduler)
            for job in task.jobs:
                self._job(job, task)
        except InputError as error:
            return error
        return None

    def _job(self, job: ParallelJob, task: Task) -> SimulatedJob:
        spins = task.scheduler.options.waiting == "spin"
        return simulated_job(job, self.recorded, blocking_calls=spins)

    def guess_s(self, task: Task) -> float:
        jobs = [self._job(job, task) for job in task.jobs]
        return guess_s(job.replay or job.program for job in jobs)

    def run(self, task: Task) -> RunRecord:
        begin_s = time.monotonic()
        host, scheduler = self.host(task), task.scheduler
        estimates = host.estimates
        jobs = [replace(job, estimate=estimates.get(job.number, job.estimate)) for job in task.jobs]
        outcome = simulate(
            [self._job(job, task) for job in jobs],
            host.machine(scheduler),
            scheduler.policy,
            scheduler.options,
            seed=task.experiment.seed,
            repeat=task.repeat,
            # Each cell has its own random numbers: chance must not favour the same jobs in all cells.
            stream=task.cell.index,
            timeline=self.timeline,
            owners=changes(task.owners, task.experiment.seed, task.repeat),
        )
        estimated = {job.number: job.estimate for job in jobs}
        job_records = tuple(_job(job, task, estimated[job.number], outcome.failure) for job in outcome.jobs)
        return task.record(
            self.session,
            digest=host.digest or task.experiment.digest,
            processors=host.processors,
            constants=host.constants,
            launcher=SIMULATOR,
            wall_s=time.monotonic() - begin_s,
            failure=outcome.failure,
            conditions=replace(host.conditions, throttled=outcome.throttled, throttled_periods=None),
            jobs=job_records,
            schedule=None if outcome.failure else log_schedule.of_run(task, job_records),
            ranks=tuple(_ranks(outcome, task, host.processors)),
        )


def predict(
    experiment: Experiment,
    constants: Constants | None,
    progress: Progress,
    compute: Pool = compute,
    recorded: RecordedPrograms = NONE,
    timeline: bool = False,
) -> list[RunRecord]:
    """The runs of all cells, simulated with these constants; the same arguments give the same runs.

    ``recorded`` has the recordings of commands; with ``timeline`` records have the ranks' activities.
    """
    back_end = Simulated(partial(Host.of_calibration, constants), timeline=timeline, recorded=recorded)
    return carry_out(tasks_of(experiment), back_end, progress, compute)


def tasks_of(experiment: Experiment) -> list[Task]:
    """The runs of all cells, simulated; a recorded run has no counterpart."""
    return [task.counterpart for task in plan(experiment, experiment.cells) if task.kind != RECORDED]


def _job(job: JobOutcome, task: Task, estimate: ExecutionTime | None, failure: str) -> JobRecord:
    (asked,) = (one for one in task.jobs if one.number == job.number)
    return JobRecord(
        job=job.number,
        program=described(asked.program),
        processes=max(len(job.placement), len(job.processes)),
        placement=job.placement,
        arrival_ns=job.arrival_ns,
        start_ns=job.start_ns,
        finish_ns=job.finish_ns,
        failure="" if job.finish_ns is not None else failure or "not finished",
        estimate=recorded_estimate(estimate, of_user=asked.estimate is not None),
        submitter=known(asked.submitter),
        requeued=job.requeued,
    )


def _ranks(outcome: Outcome, task: Task, processors: Sequence[int]) -> Iterator[RankResult]:
    spans = _spans(outcome)
    begin, every = 0, sum(job.program.processes for job in task.jobs)
    for job in sorted(task.jobs, key=lambda job: (job.arrival_s, job.number)):
        ours = next(one for one in outcome.jobs if one.number == job.number)
        process = begin + every * ours.requeued
        for rank in range(len(ours.processes) if ours.finish_ns is not None else 0):
            result = _rank(ours, rank, processors[ours.placement[rank % len(ours.placement)]])
            yield _traced(result, spans[spans[:, 0] == process + rank], process) if len(spans) else result
        begin += job.program.processes


def _rank(job: JobOutcome, rank: int, processor: int) -> RankResult:
    """The result of a rank (docs/reference/store.md); rank 0 has the waits of all ranks of the job."""
    process = job.processes[rank]
    computing_ns, communicating_ns, synchronizing_ns, switching_ns = process.spent_ns
    return RankResult(
        job=job.number,
        rank=rank,
        processes=len(job.processes),
        processor=processor,
        host=SIMULATOR,
        pid=0,
        phases=process.phases,
        start_ns=process.start_ns,
        finish_ns=process.finish_ns,
        cpu_ns=computing_ns + communicating_ns + synchronizing_ns,
        computing_ns=computing_ns,
        communicating_ns=communicating_ns,
        synchronizing_ns=synchronizing_ns,
        voluntary_switches=0,
        involuntary_switches=process.dispatches,
        run_queue_ns=0,
        served=0,
        rechecks=0,
        waits=Waits(job.barriers, job.reads) if rank == 0 else Waits(),
        switching_ns=switching_ns,
        responses_ns=job.bursts_ns or None,
    )


def _spans(outcome: Outcome) -> NDArray[np.int64]:
    """The activities of the processes: rows of (process, activity, begin, end, other), in order of time.

    The activity of a process that blocks is SLEPT - RAN; its row has no end. ``other`` is read from, or -1.
    """
    order = np.argsort(outcome.timeline[:, 1], kind="stable")
    began, processor, process, activity, other = outcome.timeline[order].T
    ended = np.where(np.diff(processor, append=-1) == 0, np.roll(began, -1), outcome.end_ns)
    blocks, used = (activity >= SWITCHING) & (other >= 0), (process >= 0) & (ended > began)
    asleep = np.full(len(began), timelines.SLEPT - timelines.RAN)
    read_from = np.where(activity < SWITCHING, other, -1)
    sleeps = np.stack([other, asleep, began, began, np.roll(read_from, 1)], axis=1)[blocks]
    rows = np.concatenate([sleeps, np.stack([process, activity, began, ended, read_from], axis=1)[used]])
    return rows[np.argsort(rows[:, 2], kind="stable")]


def _traced(result: RankResult, spans: NDArray[np.int64], first: int) -> RankResult:
    """The result with the last spans of its process as a timeline; ``first`` is the job's first process."""
    kept = spans[-timelines.ROWS :]
    code, ends = timelines.RAN + kept[:, 1], kept[:, 3]
    ends = np.where(code == timelines.SLEPT, np.append(kept[1:, 2], ends[-1:]), ends)
    peer = np.where(kept[:, 4] >= 0, kept[:, 4] - first, -1)
    rows = np.stack([code, kept[:, 2] - result.start_ns, ends - result.start_ns, peer], axis=1)
    return result.traced(rows, lost=len(spans) - len(kept))


BEGIN_S, EVENT_S = 3e-3, 1e-7  # about how long it takes to begin a simulation, and to simulate an event


def guess_s(programs: Iterable[Program | ReplayedProgram]) -> float:
    """About how long it takes to simulate programs at once.

    In a phase each process computes once, has a message to and from each barrier, and a read or a critical
    section at a time. A step of a recorded program has about two events.
    """
    return BEGIN_S + EVENT_S * sum(map(_events, programs))


def _events(program: Program | ReplayedProgram) -> int:
    if isinstance(program, ReplayedProgram):
        return 2 * sum(map(program.count, range(program.processes)))
    each = 1 + 2 * program.barriers_per_phase + program.reads_per_phase + (program.pattern == LOCK)
    return program.processes * program.phase_count() * each


def simulated_job(
    job: ParallelJob, recorded: RecordedPrograms = NONE, *, blocking_calls: bool = True
) -> SimulatedJob:
    """The job on a simulated machine; ``blocking_calls`` as for :meth:`RecordedPrograms.replayed`."""
    simulated = _simulated(job, recorded, blocking_calls)
    return replace(simulated, estimate=job.estimate, submitter=job.submitter, after=job.after)


def _simulated(job: ParallelJob, recorded: RecordedPrograms, blocking_calls: bool) -> SimulatedJob:
    """What the job does, and when it arrives."""
    match job.program:
        case Work() as command if recorded.known(command):
            replay = recorded.replayed(command, blocking_calls=blocking_calls)
            return replaying(job.number, replay, job.arrival_s)
        case SequentialWork(work_s):
            alone = Program(processes=1, granularity_us=work_s * 1e6, phases=1)
            return SimulatedJob(job.number, alone, job.arrival_s, think_us=0.0)
        case InteractiveWork(burst_ms, think_ms, bursts):
            alone = Program(processes=1, granularity_us=burst_ms * 1e3, phases=bursts)
            return SimulatedJob(job.number, alone, job.arrival_s, think_us=think_ms * 1e3)
        case Program(malleable=False) as program:
            return SimulatedJob(job.number, program, job.arrival_s, moldable=True)
    if isinstance(job.program, Command) and job.program.threads == 1:
        raise InputError(
            f"job {job.number}",
            job.program.short_name,
            "needs a recording to be simulated",
            'write recording = "FILE" (lockstep record makes one), or record = true for lockstep run',
        )
    what = "its ranks have threads" if job.program.threads > 1 else "it changes its number of processes"
    raise InputError(
        f"job {job.number}",
        job.program.short_name,
        f"cannot be simulated: {what}",
        "measure it: lockstep run",
    )
