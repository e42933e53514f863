"""Space sharing without estimates: ``partitioned`` processors, and ``batch``, one job at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from coordinator.policies import partitions
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Job, Reason, View
from workloads.parameters import OneOf

ALLOCATIONS = ("equipartition",)


@register("partitioned")
@dataclass(frozen=True)
class Partitioned(Policy):
    """Disjoint sets of processors; a job runs to completion on its own set.

    Attributes:
        allocation: "equipartition" divides the processors evenly among the jobs of
            the workload; a moldable job starts with as many processes as its part
            has processors.
    """

    allocation: Annotated[str, OneOf(ALLOCATIONS)] = "equipartition"
    source: ClassVar[str] = (
        "equipartition of the survey (1999), section Space-Sharing Policies; "
        "Anastasiadis and Sevcik 1997, section 2 (moldable programs)"
    )

    def processes(self, job: Job, view: View) -> int | None:
        """The size of the job's part, at most what it can use; for a rigid job its size."""
        if not job.moldable:
            return job.processes
        there = len(partitions.remaining(view))
        return min(job.most, there // min(view.workload_jobs, there))

    def decide(self, view: View, why: Reason) -> Decision:
        """First come, first served: admit jobs while the first waiting one fits."""
        placements = partitions.still_running(view)
        free = partitions.free(view, placements)
        for job in partitions.waiting(view, placements):
            wanted = self.processes(job, view)
            assert wanted is not None
            if wanted > len(free):
                break
            placements[job.number] = tuple(free[:wanted])
            free = free[wanted:]
        return partitions.for_good(view, placements)


@register("batch")
@dataclass(frozen=True)
class Batch(Policy):
    """One job at a time, first come, first served: a queue without sharing."""

    source: ClassVar[str] = "Zhou, Brent, Qu 1997, section 3: a service queue of one"

    def decide(self, view: View, why: Reason) -> Decision:
        """The running job continues; if there is none, the first in the queue starts."""
        placements = partitions.still_running(view)
        if not placements and view.jobs:
            first = view.jobs[0]
            placements[first.number] = partitions.lowest(view, first.processes)
        return partitions.for_good(view, placements)
