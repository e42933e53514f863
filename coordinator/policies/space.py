"""Space sharing without estimates: partitions, one job at a time, and processor sets as in Mach."""

from collections import Counter
from itertools import chain
from typing import Annotated

from coordinator.policies import partitions
from coordinator.policies.registry import Policy, Quantum, register
from coordinator.policies.sharing import shared
from coordinator.view import Decision, Job, Reason, Slot, View
from workloads.parameters import OneOf

ALLOCATIONS = ("equipartition",)


@register("partitioned")
class Partitioned(Policy):
    """Disjoint sets of processors; a job runs to completion on its own set.

    Attributes:
        allocation: "equipartition" divides the processors evenly among the jobs of the workload; a moldable
            job starts with as many processes as its part has processors.
    """

    allocation: Annotated[str, OneOf(ALLOCATIONS)] = "equipartition"
    source = (
        "equipartition of the survey (1999), section Space-Sharing Policies; "
        "Anastasiadis and Sevcik 1997, section 2 (moldable programs)"
    )

    def processes(self, job: Job, view: View) -> int | None:
        """The size of the job's part, at most what it can use; for a rigid job its size."""
        if not job.moldable:
            return job.processes
        there = len(partitions.remaining(view))
        return min(job.max_processes, there // min(view.workload_jobs, there))

    def decide(self, view: View, reason: Reason) -> Decision:
        """First come, first served: admit jobs while the first waiting one fits."""
        placements = partitions.still_running(view)
        free = partitions.free(view, placements)
        for job in partitions.waiting(view, placements):
            size = self.processes(job, view)
            assert size is not None
            if size > len(free):
                break
            placements[job.number] = tuple(free[:size])
            free = free[size:]
        return partitions.for_good(view, placements)


@register("batch")
class Batch(Policy):
    """One job at a time, first come, first served: a queue without sharing."""

    source = "Zhou, Brent, Qu 1997, section 3: a service queue of one"

    def decide(self, view: View, reason: Reason) -> Decision:
        """The running job continues; if there is none, the first in the queue starts."""
        placements = partitions.still_running(view)
        if not placements and view.jobs:
            first = view.jobs[0]
            placements[first.number] = partitions.lowest(view, first.processes)
        return partitions.for_good(view, placements)


@register("processor-sets")
class ProcessorSets(Policy):
    """A job has its own processors for a time; then jobs that wait share them under the local scheduler.

    Attributes:
        hold_ms: for how long a job keeps its processors to itself.
    """

    hold_ms: Quantum = 1000.0
    source = "Black 1990 (Mach); the survey, section Space-Sharing Policies"

    def decide(self, view: View, reason: Reason) -> Decision:
        """Start jobs in order of arrival while the pool has enough processors for the first that waits.

        The pool has the processors that no job has, and the processors of jobs whose time is over. A job that
        gets only processors that no job has keeps them to itself for its time. No process moves. If a job
        waits, the table ends when the next set's time does. The state holds the ends of these times.
        """
        placements = partitions.still_running(view)
        before: dict[int, int] = view.state or {}
        ends_ns = {n: end_ns for n, end_ns in before.items() if n in placements and end_ns > view.now_ns}
        waiting = partitions.waiting(view, placements)
        load = Counter(chain.from_iterable(placements.values()))
        pool = set(range(view.machine.processors)) - view.lost
        pool.difference_update(*(placements[number] for number in ends_ns))
        many = view.machine.processors
        least = sorted(load[p] * many + p for p in pool) if waiting else []  # numbers sort fast
        while waiting and waiting[0].processes <= len(least):
            job = waiting.pop(0)
            seats, least = least[: job.processes], least[job.processes :]
            placements[job.number] = tuple(place % many for place in seats)
            if seats[-1] >= many:
                least = sorted([*least, *(place + many for place in seats)])
            else:
                ends_ns[job.number] = view.now_ns + round(self.hold_ms * 1e6)
        length_ns = min(ends_ns.values()) - view.now_ns if waiting and ends_ns else None
        slot = Slot(shared(placements, view), length_ns)
        return Decision(placements, (slot,), cyclic=length_ns is None, state=ends_ns)
