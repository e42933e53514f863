"""From what the driver has heard to the :class:`Result` of a run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coordinator.drive.preflight import Means
from coordinator.host.launch import Started
from coordinator.wire.protocol import FLAW
from coordinator.workload import JobResult, NodeResult, ParallelJob, Result, Switch, Workload
from workloads.other import Command
from workloads.record import OURS, PLACE, flaw

SLACK_NS = 1_000_000_000
"""A rank's times may lie outside its run by so much, because the offsets of nodes' clocks are estimates."""


@dataclass
class Part:
    """What the driver knows about one launched job."""

    placement: tuple[int, ...] = ()
    mpiexec: Started | None = None
    ready: set[int] = field(default_factory=set)
    begun: bool = False
    records: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    failure: str = ""
    output: str = ""
    give_up_ns: int | None = None

    @property
    def processes(self) -> int:
        """With how many it was launched; 0 before."""
        return len(self.placement)

    def ranks_on(self, node: int, node_of: Sequence[int]) -> set[int]:
        """The ranks that were launched on a node."""
        return {rank for rank, processor in enumerate(self.placement) if node_of[processor] == node}


def unfit(
    workload: Workload,
    job: ParallelJob,
    part: Part,
    rank: int,
    record: Mapping[str, Any],
    origin_ns: int | None,
) -> str:
    """Why ``record`` cannot be that rank's in a run that began at ``origin_ns``; empty if it can."""
    if FLAW in record:
        why = record[FLAW]
        return why if isinstance(why, str) and why and why.isprintable() else "it has a flaw"
    if origin_ns is None or not part.begun:
        return "it has not begun"
    if why := flaw(record, PLACE if isinstance(job.program, Command) else OURS):
        return why
    for key, wanted in (("job", job.number), ("rank", rank), ("processes", part.processes)):
        if record.get(key, wanted) != wanted:
            return f"its {key} is {record[key]}, not {wanted}"
    if workload.processors and record["processor"] not in workload.processors:
        return f"its processor, {record['processor']}, is none of the run's"
    return _untimely(record["start_ns"], record["finish_ns"], origin_ns + round(job.arrival_s * 1e9))


def _untimely(start_ns: int, finish_ns: int, arrival_ns: int) -> str:
    """Why a rank cannot have run from start to finish if its job arrived then; empty if it can."""
    if start_ns < arrival_ns - SLACK_NS or finish_ns <= arrival_ns:
        return "it ran before its arrival"
    return "it ended in the future" if finish_ns > time.monotonic_ns() + SLACK_NS else ""


def outcome(
    workload: Workload,
    means: Means,
    parts: Mapping[int, Part],
    placements: Mapping[int, tuple[int, ...]],
    switches: Sequence[Switch],
    origin_ns: int,
    *,
    nodes: tuple[NodeResult, ...],
    failure: str,
    warnings: tuple[str, ...],
) -> Result:
    """The result of a run that began at ``origin_ns`` of its clock."""
    jobs, ranks = [], []
    for job in workload.jobs:
        part = parts[job.number]
        records = [part.records[rank] for rank in sorted(part.records)]
        whole = part.processes > 0 and len(records) == part.processes
        jobs.append(
            JobResult(
                number=job.number,
                processes=part.processes,
                placement=placements.get(job.number, ()),
                arrival_ns=round(job.arrival_s * 1e9),
                start_ns=min(record["start_ns"] for record in records) - origin_ns if whole else None,
                finish_ns=max(record["finish_ns"] for record in records) - origin_ns if whole else None,
                failure=part.failure or ("" if whole else failure) or _without_waits(job, records),
                output=part.output,
            )
        )
        places = placements.get(job.number, ())
        for record in records:
            told = {"processes": part.processes, **record}
            told |= {key: record[key] - origin_ns for key in ("start_ns", "finish_ns")}
            if workload.nodes:
                # Cores of different nodes share their ids; the policy's numbers are unique.
                told |= {"core": record["processor"], "processor": places[record["rank"]]}
            ranks.append(told)
    failed = [f"job {job.number}: {job.failure}" for job in jobs if job.failure]
    return Result(
        jobs=tuple(jobs),
        ranks=tuple(ranks),
        switches=tuple(replace(switch, due_ns=switch.due_ns - origin_ns) for switch in switches),
        mechanism=means.mechanism or "none",
        mechanism_reason=means.reason,
        launcher=str(means.launcher),
        failure=failure or "\n".join(failed),
        nodes=nodes,
        warnings=warnings,
    )


def _without_waits(job: ParallelJob, records: Sequence[Mapping[str, Any]]) -> str:
    """Why a job has not waited as it was to; empty if it has.

    What its launcher says goes before: a program that was killed leaves no counts either.
    """
    two_phase = isinstance(job.program, Command) and job.program.waits == "two-phase"
    missing = [str(record["rank"]) for record in records if "waits" not in record]
    if not two_phase or not missing:
        return ""
    return (
        f"no waits were counted in rank {', '.join(missing)}, which was to wait two-phase: the program uses "
        'another MPI than the launcher\'s, one linked statically, or none; waits = "mpi" runs it as it is'
    )


def never_begun(workload: Workload, means: Means, failure: str) -> Result:
    """The result of a run that could not even be prepared."""
    parts = {job.number: Part() for job in workload.jobs}
    return outcome(workload, means, parts, {}, (), 0, nodes=(), failure=failure, warnings=())
