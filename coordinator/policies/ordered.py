"""Queues of rigid jobs in various orders, with or without backfilling."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from coordinator.policies import allocation, partitions, predictions
from coordinator.policies.adaptive import RunToCompletion
from coordinator.policies.backfilling import backfill, earliest, occupy, reservation
from coordinator.policies.predictions import ESTIMATES, LastTwo, estimate_ns
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


@dataclass(frozen=True)
class Promises:
    """What a decision leaves to the next one.

    Attributes:
        begins_ns: when the jobs that run have started.
        starts_ns: when those that wait start at the latest, by the estimates; of conservative backfilling.
        last_two: what is known of users' run times, if predictions come from them.
    """

    begins_ns: Mapping[int, int] = field(default_factory=dict)
    starts_ns: Mapping[int, int] = field(default_factory=dict)
    last_two: LastTwo = field(default_factory=LastTwo)


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
                estimate_ns(job) / 1e9,
                job.processes,
            )
            for job in jobs
        }
        return sorted(jobs, key=lambda job: scores[job.number])

    def decide(self, view: View, reason: Reason) -> Decision:
        """Start jobs in order, and those that backfilling lets pass."""
        kind = self.backfilling()
        before = view.state or Promises()
        if kind == allocation.NONE:
            return _decided(view, before, self.begun(view))
        return (
            self._conservative(view, before) if kind == allocation.CONSERVATIVE else self._easy(view, before)
        )

    def _easy(self, view: View, before: Promises) -> Decision:
        """Start jobs that fit, reserve for the first that does not, backfill."""
        placements = self.begun(view)
        free = partitions.free(view, placements)
        jobs = self.line(view, partitions.waiting(view, placements))
        if free and jobs:
            ends_ns = _ends_ns(view, before)
            running = sorted((ends_ns[number], len(place)) for number, place in placements.items())
            spare = len(free) - jobs[0].processes
            soonest_ns = [end_ns for end_ns, _ in running]
            reserved = reservation(view.now_ns, spare, soonest_ns, [held for _, held in running])
            sizes = [job.processes for job in jobs]
            estimates_ns = [estimate_ns(job) for job in jobs]
            starts = [0] * len(jobs)
            behind = range(1, len(jobs))
            count = backfill(view.now_ns, len(free), reserved, behind, sizes, estimates_ns, starts)
            for place in starts[:count]:
                free = _start(jobs[behind[place]], placements, free)
        return _decided(view, before, placements)

    def _conservative(self, view: View, before: Promises) -> Decision:
        """Give each job, in order, the earliest start that delays no other's reservation; start those of now.

        Source: Feitelson and Weil 1998; Mu'alem and Feitelson 2001, section 2.
        """
        now_ns = view.now_ns
        placements = partitions.still_running(view)
        ends_ns = _ends_ns(view, before)
        free = partitions.free(view, placements)
        jobs = self.line(view, partitions.waiting(view, placements))
        room = 2 * (len(placements) + 3 * len(jobs)) + 1
        begins_ns = [now_ns] + [0] * room
        level = [len(free) + sum(map(len, placements.values()))] + [0] * room
        steps = 1
        for number, place in placements.items():
            end_ns = max(ends_ns[number], now_ns + 1)  # it still has its processors
            steps = occupy(len(place), now_ns, end_ns, begins_ns, level, steps)
        starts_ns = {number: max(now_ns, start_ns) for number, start_ns in before.starts_ns.items()}
        reserved = {
            job.number: (starts_ns[job.number], starts_ns[job.number] + estimate_ns(job))
            for job in jobs
            if job.number in starts_ns
        }
        for job in jobs:
            if job.number in reserved:
                steps = occupy(job.processes, *reserved[job.number], begins_ns, level, steps)
        for job in jobs:
            size, length_ns = job.processes, estimate_ns(job)
            own_ns = reserved.get(job.number, (now_ns, now_ns))
            start_ns = begins_ns[earliest(size, length_ns, own_ns, begins_ns, level, steps)]
            if own_ns != (start_ns, start_ns + length_ns):
                if job.number in reserved:
                    steps = occupy(-size, *own_ns, begins_ns, level, steps)
                steps = occupy(size, start_ns, start_ns + length_ns, begins_ns, level, steps)
            starts_ns[job.number] = start_ns
        for job in jobs:
            if starts_ns[job.number] == now_ns and job.processes <= len(free):
                free = _start(job, placements, free)
        waiting = partitions.waiting(view, placements)
        kept = {job.number: starts_ns[job.number] for job in waiting}
        return _decided(view, replace(before, starts_ns=kept), placements)


def _decided(view: View, promises: Promises, placements: partitions.Placements) -> Decision:
    """The decision that these jobs run, of which those that have not run before start now."""
    begins_ns = {number: promises.begins_ns.get(number, view.now_ns) for number in placements}
    return partitions.for_good(view, placements, replace(promises, begins_ns=begins_ns))


def _ends_ns(view: View, before: Promises) -> dict[int, int]:
    """When each job ends by its estimate; one that waits, if it starts now."""
    return {job.number: before.begins_ns.get(job.number, view.now_ns) + estimate_ns(job) for job in view.jobs}


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
        estimate: what both go by: "user" the user's estimate, "perfect" the true execution time, "last-two"
            the mean of the user's last two run times, at most the estimate.
    """

    order: Annotated[str, OneOf(tuple(QUEUES))] = "fcfs"
    backfill: Annotated[str, OneOf(tuple(BACKFILLS))] = "none"
    estimate: Annotated[str, OneOf(tuple(ESTIMATES))] = "user"
    source = (
        "Mu'alem and Feitelson 2001; Tang et al. 2009; Carastan-Santos and de Camargo 2017; "
        "Tsafrir, Etsion and Feitelson 2007"
    )

    def queue_order(self) -> allocation.Order:
        """By the parameter ``order``."""
        return allocation.Order(QUEUES[self.order])

    def backfilling(self) -> int:
        """By the parameter ``backfill``."""
        return BACKFILLS[self.backfill]

    def estimating(self) -> int:
        """By the parameter ``estimate``."""
        return ESTIMATES[self.estimate]

    def decide(self, view: View, reason: Reason) -> Decision:
        """By the parameter ``estimate``; while jobs wait, it is also asked when a prediction is over."""
        if self.estimate == "user":
            return super().decide(view, reason)
        if self.estimate == "perfect":
            return super().decide(predictions.perfect(view), reason)
        before = view.state or Promises()
        last_two = before.last_two.at(view, before.begins_ns)
        decision = super().decide(last_two.seen(view), reason)
        state = replace(decision.state, last_two=last_two)
        over_ns = None
        if self.backfilling() != allocation.NONE and len(decision.placements) < len(view.jobs):
            over_ns = last_two.next_correction_ns(view, state.begins_ns)
        return replace(decision, state=state, timer_ns=over_ns and over_ns - view.now_ns)
