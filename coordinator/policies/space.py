"""Space sharing without estimates: ``partitioned`` processors, and ``batch``, one job at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies import partitions
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Job, Reason, View
from workloads.validation import one_of

ALLOCATIONS = ("equipartition",)


@register("partitioned")
@dataclass(frozen=True)
class Partitioned(Policy):
    """Disjoint sets of processors; a job runs to completion on its own.

    Attributes:
        allocation: "equipartition": the processors are divided evenly among the jobs of
            the workload; moldable jobs are started with as many processes as their part
            has processors.
    """

    allocation: str = "equipartition"
    source: ClassVar[str] = "static equipartition; Anastasiadis and Sevcik 1997, section 2"

    def __post_init__(self) -> None:
        one_of("allocation", self.allocation, ALLOCATIONS)

    def processes(self, job: Job, view: View) -> int | None:
        """The size of its part, but never more than it can use; all it asks for if rigid."""
        if not job.moldable:
            return job.processes
        parts = min(view.workload_jobs, view.machine.processors)
        return min(job.most, view.machine.processors // parts)

    def decide(self, view: View, why: Reason) -> Decision:
        """First come, first served: admit jobs while the first waiting one finds room."""
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
    """One job at a time, first come, first served: what a queue without sharing does."""

    source: ClassVar[str] = "FCFS batch"

    def decide(self, view: View, why: Reason) -> Decision:
        """The running job goes on; if there is none, the first in the queue starts."""
        placements = partitions.still_running(view)
        if not placements and view.jobs:
            first = view.jobs[0]
            placements[first.number] = tuple(range(first.processes))
        return partitions.for_good(view, placements)
