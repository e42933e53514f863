"""Queues of rigid jobs in various orders, with or without backfilling, and their inner steps.

The simulator compiles these leaf functions over arrays, too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from coordinator.policies import allocation, partitions
from coordinator.policies.adaptive import RunToCompletion
from coordinator.policies.registry import register
from coordinator.view import Decision, Job, Reason, View
from workloads.parameters import OneOf

QUEUES = {
    "fcfs": allocation.ARRIVAL,
    "sjf": allocation.SJF,
    "ljf": allocation.LJF,
    "smallest": allocation.SMALLEST,
    "largest": allocation.WIDEST,
    "wfp3": allocation.WFP3,
    "unicep": allocation.UNICEP,
    "f1": allocation.F1,
    "f2": allocation.F2,
    "f3": allocation.F3,
    "f4": allocation.F4,
    "expansion": allocation.EXPANSION,
}
"""Orders of the queue by name."""

BACKFILLS = {"none": allocation.NONE, "easy": allocation.EASY, "conservative": allocation.CONSERVATIVE}
"""Kinds of backfilling by name."""


def score(kind: int, submit_s: float, wait_s: float, request_s: float, processors: int) -> float:
    """The place of a waiting job in an order of the queue: the job with the smallest score is the first.

    ``kind`` is one of the orders of :mod:`coordinator.policies.allocation`. ``request_s`` is the estimate of
    the execution time, and ``submit_s`` counts from the start of the run, at least 1 s. Under UNICEP one
    processor counts as two, so that its logarithm is not 0.
    Source: Tang, Lan, Desai, Buettner 2009 (WFP3, UNICEP); Carastan-Santos, de Camargo 2017 (F1 to F4).
    """
    since_s = max(1.0, submit_s)
    value = submit_s
    if kind == allocation.SJF:
        value = request_s
    elif kind == allocation.LJF:
        value = -request_s
    elif kind == allocation.SMALLEST:
        value = float(processors)
    elif kind == allocation.WIDEST:
        value = -float(processors)
    elif kind == allocation.F1:
        value = math.log10(request_s) * processors + 870.0 * math.log10(since_s)
    elif kind == allocation.F2:
        value = math.sqrt(request_s) * processors + 25600.0 * math.log10(since_s)
    elif kind == allocation.F3:
        value = request_s * processors + 6860000.0 * math.log10(since_s)
    elif kind == allocation.F4:
        value = request_s * math.sqrt(processors) + 530000.0 * math.log10(since_s)
    elif kind == allocation.WFP3:
        share = wait_s / request_s
        value = -(share * share * share) * processors
    elif kind == allocation.UNICEP:
        value = -wait_s / (math.log2(max(2, processors)) * request_s)
    elif kind == allocation.EXPANSION:
        value = -(wait_s + request_s) / request_s
    return value


def reservation(now_ns: int, spare: int, ends_ns: Any, held: Any) -> tuple[int, int]:
    """The shadow time and the number of extra processors of a job that needs more than are free.

    ``spare`` is the number of free processors less those that the job needs, so it is below 0. The shadow
    time is the earliest time at which, by the estimates, enough processors are free. Extra processors are
    those that are free then and that the job does not need. ``ends_ns`` are the estimated ends of the running
    jobs in ascending order, ``held`` their numbers of processors; an end in the past counts as now.
    Source: Mu'alem and Feitelson 2001.
    """
    shadow_ns = now_ns
    passed = 0
    # Processors of other jobs that end at the shadow time are left over, too.
    while passed < len(ends_ns) and (spare < 0 or ends_ns[passed] <= shadow_ns):
        shadow_ns = max(shadow_ns, ends_ns[passed])
        spare += held[passed]
        passed += 1
    return shadow_ns, spare


def backfill(
    now_ns: int, free: int, reserved: tuple[int, int], line: Any, sizes: Any, estimates_ns: Any, starts: Any
) -> int:
    """Choose jobs of ``line`` that start now; return their number, and their places in ``starts``.

    They wait behind a job that has not enough processors, and for which the shadow time and the extra
    processors are ``reserved``. A job that fits now starts if, by the estimates, it ends by the shadow time,
    or if it needs only extra processors.
    Source: Lifka 1995, "The ANL/IBM SP scheduling system"; Mu'alem and Feitelson 2001.
    """
    shadow_ns, spare = reserved
    count = 0
    place = 0
    while place < len(line) and free > 0:
        job = line[place]
        size = sizes[job]
        if size <= free:
            in_time = now_ns + estimates_ns[job] <= shadow_ns
            if in_time or size <= spare:
                free -= size
                if not in_time:
                    spare -= size
                starts[count] = place
                count += 1
        place += 1
    return count


def earliest(size: int, length_ns: int, begins_ns: Any, free: Any, steps: int) -> int:
    """The first of the ``steps`` from which on ``size`` processors are free for ``length_ns``.

    From ``begins_ns[i]`` to ``begins_ns[i + 1]`` ``free[i]`` processors are free; after the last all are.
    """
    first = 0
    place = 0
    while place < steps and (first == place or begins_ns[place] - begins_ns[first] < length_ns):
        if free[place] < size:
            first = place + 1
        place += 1
    return first


def occupy(size: int, begin_ns: int, end_ns: int, begins_ns: Any, free: Any, steps: int) -> int:
    """Take ``size`` processors from ``begin_ns`` to ``end_ns`` out of the free ones of ``earliest``.

    Both arrays are modified in place, and have room for two more steps. Returns how many there are.
    """
    for boundary_ns in (begin_ns, end_ns):
        place = steps
        while place > 0 and begins_ns[place - 1] >= boundary_ns:
            place -= 1
        if place == steps or begins_ns[place] > boundary_ns:
            for i in range(steps, place, -1):
                begins_ns[i] = begins_ns[i - 1]
                free[i] = free[i - 1]
            begins_ns[place] = boundary_ns
            free[place] = free[place - 1]
            steps += 1
    for i in range(steps):
        if begin_ns <= begins_ns[i] < end_ns:
            free[i] -= size
    return steps


FOREVER_NS = 2**61
"""The estimate for a job without one."""


def _estimate_ns(job: Job) -> int:
    return max(1, round(job.estimate.on(job.processes) * 1e9)) if job.estimate else FOREVER_NS


@dataclass(frozen=True)
class Promises:
    """By the estimates: when running jobs end, and when waiting ones start at the latest."""

    ends_ns: Mapping[int, int] = field(default_factory=dict)
    starts_ns: Mapping[int, int] = field(default_factory=dict)


class RigidQueue(RunToCompletion):
    """Jobs start in the order of a queue, each with all processors that it requests; some are backfilled."""

    rigid = True

    def line(self, view: View, jobs: list[Job]) -> list[Job]:
        """Waiting jobs by their scores; those with the same in order of arrival."""
        kind = self.queue_order().queue
        if kind == allocation.ARRIVAL:
            return jobs
        scores = {
            job.number: score(
                kind,
                job.arrival_ns / 1e9,
                (view.now_ns - job.arrival_ns) / 1e9,
                _estimate_ns(job) / 1e9,
                job.processes,
            )
            for job in jobs
        }
        return sorted(jobs, key=lambda job: scores[job.number])

    def decide(self, view: View, reason: Reason) -> Decision:
        """Start jobs in order, and those that backfilling lets pass."""
        kind = self.backfilling()
        if kind == allocation.NONE:
            return partitions.for_good(view, self.begun(view))
        promises = view.state or Promises()
        return (
            self._conservative(view, promises)
            if kind == allocation.CONSERVATIVE
            else self._easy(view, promises)
        )

    def _easy(self, view: View, before: Promises) -> Decision:
        """Start jobs that fit, reserve for the first that does not, backfill."""
        placements = self.begun(view)
        ends_ns = _ends_ns(view, before)
        free = partitions.free(view, placements)
        jobs = self.line(view, partitions.waiting(view, placements))
        if free and jobs:
            running = sorted((ends_ns[number], len(place)) for number, place in placements.items())
            spare = len(free) - jobs[0].processes
            soonest_ns = [end_ns for end_ns, _ in running]
            reserved = reservation(view.now_ns, spare, soonest_ns, [held for _, held in running])
            sizes = [job.processes for job in jobs]
            estimates_ns = [ends_ns[job.number] - view.now_ns for job in jobs]
            starts = [0] * len(jobs)
            behind = range(1, len(jobs))
            count = backfill(view.now_ns, len(free), reserved, behind, sizes, estimates_ns, starts)
            for place in starts[:count]:
                free = _start(jobs[behind[place]], placements, free)
        return partitions.for_good(
            view, placements, Promises({number: ends_ns[number] for number in placements})
        )

    def _conservative(self, view: View, before: Promises) -> Decision:
        """Give each job, in order, the earliest start that delays no other's reservation; start those of now.

        Source: Feitelson and Weil 1998; Mu'alem and Feitelson 2001, section 2.
        """
        placements = partitions.still_running(view)
        ends_ns = _ends_ns(view, before)
        free = partitions.free(view, placements)
        jobs = self.line(view, partitions.waiting(view, placements))
        room = 2 * (len(placements) + 2 * len(jobs)) + 1
        begins_ns, level = (
            [view.now_ns] + [0] * room,
            [len(free) + sum(map(len, placements.values()))] + [0] * room,
        )
        steps = 1
        for number, place in placements.items():
            end_ns = max(ends_ns[number], view.now_ns + 1)  # it still has its processors
            steps = occupy(len(place), view.now_ns, end_ns, begins_ns, level, steps)
        length_ns = {job.number: ends_ns[job.number] - view.now_ns for job in jobs}
        starts_ns = {
            job.number: max(view.now_ns, before.starts_ns[job.number])
            for job in jobs
            if job.number in before.starts_ns
        }
        for job in jobs:
            if (start_ns := starts_ns.get(job.number)) is not None:
                end_ns = start_ns + length_ns[job.number]
                steps = occupy(job.processes, start_ns, end_ns, begins_ns, level, steps)
        for job in jobs:
            number, size = job.number, job.processes
            if number in starts_ns:
                end_ns = starts_ns[number] + length_ns[number]
                steps = occupy(-size, starts_ns[number], end_ns, begins_ns, level, steps)
            start_ns = begins_ns[earliest(size, length_ns[number], begins_ns, level, steps)]
            starts_ns[number] = start_ns
            steps = occupy(size, start_ns, start_ns + length_ns[number], begins_ns, level, steps)
        for job in jobs:
            if starts_ns[job.number] == view.now_ns and job.processes <= len(free):
                del starts_ns[job.number]
                free = _start(job, placements, free)
        ends_ns = {number: ends_ns[number] for number in placements}
        return partitions.for_good(view, placements, Promises(ends_ns, starts_ns))


def _ends_ns(view: View, before: Promises) -> dict[int, int]:
    """When each job ends by its estimate; one that waits, if it starts now."""
    return {
        job.number: before.ends_ns[job.number]
        if job.number in before.ends_ns
        else view.now_ns + _estimate_ns(job)
        for job in view.jobs
    }


def _start(job: Job, placements: partitions.Placements, free: list[int]) -> list[int]:
    """Place a job on the lowest free processors; returns the others."""
    placements[job.number] = tuple(free[: job.processes])
    return free[job.processes :]


@register("fcfs")
class FirstCome(RigidQueue):
    """First come, first served: jobs start in order of arrival, each with all processors that it requests."""

    source = (
        "static space sharing of multicomputers, in the survey (1999); Lifka 1995 (starts from this queue)"
    )


@register("easy")
class Easy(RigidQueue):
    """First come, first served, but later jobs may start where they do not delay the first waiting one."""

    source = "Lifka 1995; Mu'alem and Feitelson 2001"

    def backfilling(self) -> int:
        """As EASY."""
        return allocation.EASY


@register("ordered")
class Ordered(RigidQueue):
    """A queue of rigid jobs in an order that is a parameter, with or without backfilling.

    Attributes:
        order: which job comes first: "fcfs" the one that arrived first, "sjf" or "ljf" that with the shortest
            or longest estimate, "smallest" or "largest" that with fewest or most processors, "expansion" that
            with the largest (wait + estimate) / estimate; "wfp3", "unicep" and "f1" to "f4" are formulas.
        backfill: "easy" keeps the earliest start of the first job, "conservative" that of each job.
    """

    order: Annotated[str, OneOf(tuple(QUEUES))] = "fcfs"
    backfill: Annotated[str, OneOf(tuple(BACKFILLS))] = "none"
    source = "Mu'alem and Feitelson 2001; Tang et al. 2009; Carastan-Santos and de Camargo 2017"

    def queue_order(self) -> allocation.Order:
        """By the parameter ``order``."""
        return allocation.Order(QUEUES[self.order])

    def backfilling(self) -> int:
        """By the parameter ``backfill``."""
        return BACKFILLS[self.backfill]
