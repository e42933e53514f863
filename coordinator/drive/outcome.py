"""The :class:`Result` of a run, from the reports of its agents and launchers."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.drive.preflight import LaunchPlan
from coordinator.host.launch import Started
from coordinator.view import Placement
from coordinator.wire.protocol import FLAW
from coordinator.workload import JobResult, NodeResult, ParallelJob, Result, Switch, Workload
from workloads.record import OURS, RankResult
from workloads.work import Command

SLACK_NS = 1_000_000_000
"""How far a rank's times may lie outside its run, because the offsets of nodes' clocks are estimates."""


@dataclass
class JobState:
    """The driver's state of one job."""

    launched: Placement = ()  # for each rank a processor of the node on which it was launched
    mpiexec: Started | None = None  # its launcher
    exited: bool = False  # whether it has ended, and that has been dealt with
    status: int | None = None  # how it has ended
    ready: set[int] = field(default_factory=set)  # the launched ranks that wait for their start
    # The launched ranks that take part, in the order of the job, once it has begun.
    ranks: tuple[int, ...] = ()
    # Records of the ranks, by rank as the job numbers them.
    records: dict[int, RankResult] = field(default_factory=dict)
    failure: str = ""  # why it has failed, or will fail at ``give_up_ns``
    output: str = ""  # the text that a command has printed
    give_up_ns: int | None = None
    # How often it has lost its processors before: a late record may be of its old processes.
    requeued: int = 0

    @property
    def begun(self) -> bool:
        return bool(self.ranks)

    @property
    def processes(self) -> int:
        """The number of ranks that take part; before the start, of launched ranks."""
        return len(self.ranks or self.launched)

    @property
    def missing(self) -> bool:
        """Whether some launched rank does not wait for its start yet."""
        return len(self.ready) < len(self.launched)

    def launched_on(self, node: int, rank: int, node_of: Sequence[int]) -> bool:
        return 0 <= rank < len(self.launched) and node_of[self.launched[rank]] == node


def result_of(
    workload: Workload,
    job: ParallelJob,
    state: JobState,
    rank: int,
    record: Mapping[str, Any],
    origin_ns: int | None,
) -> RankResult:
    """The result of that rank in a run that began at ``origin_ns``, from the file form.

    Raises:
        ValueError: if ``record`` is none, with the reason in words.
    """
    if FLAW in record:
        reason = record[FLAW]
        raise ValueError(
            reason if isinstance(reason, str) and reason and reason.isprintable() else "it has a flaw"
        )
    if origin_ns is None or not state.begun:
        raise ValueError("the job has not begun")
    command = isinstance(job.program, Command)
    result = RankResult.of_record({**record, "processes": state.processes} if command else record)
    if not command and (missing := [name for name in OURS if getattr(result, name) is None]):
        raise ValueError(f"it lacks {', '.join(missing)}")
    for key, expected in (("job", job.number), ("rank", rank), ("processes", state.processes)):
        if getattr(result, key) != expected:
            raise ValueError(f"its {key} is {getattr(result, key)}, not {expected}")
    if workload.processors and result.processor not in workload.processors:
        raise ValueError(f"its processor, {result.processor}, does not belong to the run")
    if reason := _untimely(result, origin_ns + round(job.arrival_s * 1e9)):
        raise ValueError(reason)
    return result


def _untimely(result: RankResult, arrival_ns: int) -> str:
    """Why its times are impossible for a rank of a job with this arrival; empty if they are possible."""
    if result.start_ns < arrival_ns - SLACK_NS or result.finish_ns <= arrival_ns:
        return "its times lie before the arrival of its job"
    return "its finish lies in the future" if result.finish_ns > time.monotonic_ns() + SLACK_NS else ""


def job_result(
    job: ParallelJob, state: JobState, placement: Placement, origin_ns: int, failure: str = ""
) -> JobResult:
    """The result of a job in a run that began at ``origin_ns`` and that ``failure`` has ended, if any has."""
    records = _records(state)
    whole = state.processes > 0 and len(records) == state.processes
    return JobResult(
        number=job.number,
        processes=state.processes,
        placement=placement,
        arrival_ns=round(job.arrival_s * 1e9),
        start_ns=min(record.start_ns for record in records) - origin_ns if whole else None,
        finish_ns=max(record.finish_ns for record in records) - origin_ns if whole else None,
        failure=state.failure or ("" if whole else failure) or _without_waits(job, records),
        output=state.output,
        requeued=state.requeued,
        status=state.status,
    )


def rank_results(
    workload: Workload, state: JobState, placement: Placement, origin_ns: int
) -> Iterator[RankResult]:
    """The results of a job's ranks that have finished, with times since ``origin_ns``."""
    for record in _records(state):
        start_ns, finish_ns = record.start_ns - origin_ns, record.finish_ns - origin_ns
        result = replace(record, start_ns=start_ns, finish_ns=finish_ns)
        if workload.nodes:
            # Cores of different nodes share their ids; the policy's numbers are unique.
            result = replace(result, core=record.processor, processor=placement[record.rank])
        yield result


def _records(state: JobState) -> list[RankResult]:
    return [state.records[rank] for rank in sorted(state.records)]


def outcome(
    workload: Workload,
    launch_plan: LaunchPlan,
    states: Mapping[int, JobState],
    placements: Mapping[int, Placement],
    admitted_ns: Mapping[int, int],
    switches: Sequence[Switch],
    origin_ns: int,
    *,
    nodes: tuple[NodeResult, ...],
    failure: str,
    warnings: tuple[str, ...],
) -> Result:
    """The result of a run that began at ``origin_ns`` of its clock."""
    jobs: list[JobResult] = []
    ranks: list[RankResult] = []
    for job in workload.jobs:
        state, places = states[job.number], placements.get(job.number, ())
        whole = replace(
            job_result(job, state, places, origin_ns, failure), admitted_ns=admitted_ns.get(job.number)
        )
        jobs.append(whole)
        ranks += rank_results(workload, state, places, origin_ns)
    failed = [f"job {job.number}: {job.failure}" for job in jobs if job.failure]
    return Result(
        jobs=tuple(jobs),
        ranks=tuple(ranks),
        switches=tuple(replace(switch, due_ns=switch.due_ns - origin_ns) for switch in switches),
        mechanism=launch_plan.mechanism or "none",
        mechanism_reason=launch_plan.reason,
        launcher=str(launch_plan.launcher),
        failure=failure or "\n".join(failed),
        broken=failure,
        nodes=nodes,
        warnings=warnings,
        origin_ns=origin_ns or None,
    )


def _without_waits(job: ParallelJob, records: Sequence[RankResult]) -> str:
    """Why a job that must wait two-phase has not done so; empty if it has, or was killed before."""
    missing = [str(record.rank) for record in records if record.waits is None]
    if job.program.waits != "two-phase" or not missing:
        return ""
    return (
        f"rank {', '.join(missing)} did not wait two-phase: the program uses another MPI than the "
        'launcher\'s, a statically linked one, or none; set waits = "mpi" to run it unchanged'
    )


def never_begun(workload: Workload, launch_plan: LaunchPlan, failure: str) -> Result:
    """The result of a run that failed before its jobs were prepared."""
    states = {job.number: JobState() for job in workload.jobs}
    return outcome(workload, launch_plan, states, {}, {}, (), 0, nodes=(), failure=failure, warnings=())
