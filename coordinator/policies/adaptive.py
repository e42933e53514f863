"""Run-to-completion space sharing: jobs get processors when they start and keep them.

The policies differ in the number of processors for each job and in the order in which jobs start; both
are leaf functions of :mod:`coordinator.policies.allocation`.
"""

import math
from dataclasses import dataclass
from typing import Annotated

from coordinator.policies import allocation, partitions, predictions
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, ExecutionTime, Job, Reason, View
from workloads.parameters import Bounds

PAPER = "Anastasiadis and Sevcik 1997"
SURVEY = "the survey (1999), section Space-Sharing Policies"
UNKNOWN = ExecutionTime(work_s=1.0)
"""The estimate for a job without one, in policies that divide processors by estimates."""


class RunToCompletion(Policy):
    """Jobs start in the order of a queue and keep their processors to the end.

    ``rule``, ``bound`` and ``share`` come from :mod:`coordinator.policies.allocation`. Jobs with unknown
    demand come last.
    """

    rule = allocation.FIXED
    bound = allocation.LARGEST
    share = allocation.EQUAL
    rigid = False
    """Whether each job gets all processors that it requests."""

    def queue_order(self) -> allocation.Order:
        """In which order waiting jobs start."""
        return allocation.ORDERS[0]

    def backfilling(self) -> int:
        """A kind of backfilling."""
        return allocation.NONE

    def estimating(self) -> int:
        """A kind of estimates."""
        return predictions.USER

    def line(self, view: View, jobs: list[Job]) -> list[Job]:
        """Waiting jobs, which come in order of arrival, in the order in which they start."""
        if self.queue_order().queue == allocation.DEMAND:
            return sorted(jobs, key=lambda job: job.estimate.on(1) if job.estimate else math.inf)
        return jobs

    def min_processes(self, job: Job) -> int:
        """The fewest processors with which ``job`` starts."""
        return job.processes if self.rigid else job.min_processes

    def max_processes(self, job: Job) -> int:
        """The largest number of processors that ``job`` is given."""
        if self.rigid:
            return job.processes
        time = job.estimate or UNKNOWN
        parameters = (time.phi * time.work_s, time.alpha_s, time.beta_s)
        return allocation.bound(self.bound, job.min_processes, job.max_processes, job.average, *parameters)

    def limit(self, processors: int) -> int:
        """The largest number of processors that the rule FIXED gives to a job that can run on fewer."""
        return processors

    def processes(self, job: Job, view: View) -> int | None:
        """The size of a rigid job; None for others, whose size is known only when they start."""
        return job.processes if self.min_processes(job) == job.processes else None

    def decide(self, view: View, reason: Reason) -> Decision:
        """Start waiting jobs in order on the free processors."""
        return partitions.for_good(view, self.begun(view))

    def begun(self, view: View) -> partitions.Placements:
        """The running jobs, and those that start now in order, on the lowest free processors."""
        placements = partitions.still_running(view)
        free = partitions.free(view, placements)
        jobs = self.line(view, partitions.waiting(view, placements))
        running = [job for job in view.jobs if job.number in placements]
        weights = _weights(self.share, [*jobs, *running])
        times = [job.estimate or UNKNOWN for job in jobs]
        demands = allocation.Demands(
            [self.min_processes(job) for job in jobs],
            [self.max_processes(job) for job in jobs],
            weights,
            [time.phi * time.work_s for time in times],
            [time.beta_s for time in times],
        )
        every = view.machine.processors
        rule = allocation.Rule(self.rule, self.limit(every), every)
        line = range(len(jobs))
        grants = [0] * len(jobs)
        started = allocation.grant(rule, len(free), sum(weights), line, demands, grants)
        if self.queue_order().differential:
            allocation.differ(started, line, demands, grants)
        elif self.rule >= allocation.IN_PROPORTION:
            allocation.divide(self.rule, started, line, demands, grants)
        for job, count in zip(jobs[:started], grants, strict=False):
            placements[job.number] = tuple(free[:count])
            free = free[count:]
        return placements


def _weights(kind: int, jobs: list[Job]) -> list[int]:
    if kind == allocation.EQUAL:  # with many jobs, their averages would take most of a decision
        return [1] * len(jobs)
    times = [job.estimate or UNKNOWN for job in jobs]
    pairs = zip(jobs, times, strict=True)
    return [allocation.weight(kind, job.average, time.phi * time.work_s) for job, time in pairs]


@dataclass(frozen=True)
class OrderedAllocation(RunToCompletion):
    """A policy whose queue order is a parameter.

    Attributes:
        order: 0 first come first served, 1 shortest demand first, 2 shortest demand first with
            differential allocation.
    """

    order: Annotated[int, Bounds(0, len(allocation.ORDERS) - 1)] = 0

    def queue_order(self) -> allocation.Order:
        """By the parameter ``order``."""
        return allocation.ORDERS[self.order]


@register("asp")
class AdaptiveStatic(OrderedAllocation):
    """Adaptive static partitioning: the waiting jobs share the free processors equally."""

    rule = allocation.SHARE_FREE
    source = f"Setia and Tripathi 1993; {PAPER}, sections 3.2 to 3.4"


@register("ap1")
class AdaptivePolicy1(OrderedAllocation):
    """Adaptive policy 1: a job gets at most all processors over the number of waiting jobs."""

    rule = allocation.TARGET_WAITING
    source = f"Rosti et al. 1994; {PAPER}, sections 3.2 to 3.4"


@register("aep")
class AdaptiveEquipartition(OrderedAllocation):
    """Adaptive equipartition: at most all processors over the number of all jobs present."""

    rule = allocation.TARGET_ALL
    source = f"{PAPER}, sections 3.2 to 3.4"


@register("rtc-sdf")
class RunToCompletionShortest(RunToCompletion):
    """Run to completion, shortest demand first: as many jobs as possible, differential allocation."""

    rule = allocation.SHARE_FREE
    source = f"McCann and Zahorjan 1989; Wu 1993; {PAPER}, section 3.4"

    def queue_order(self) -> allocation.Order:
        """Shortest demand first, with differential allocation."""
        return allocation.ORDERS[2]


@register("sdf")
class ShortestDemand(RunToCompletion):
    """Shortest demand first: each job gets all free processors that it can use."""

    source = f"{PAPER}, section 3.3"

    def queue_order(self) -> allocation.Order:
        """Shortest demand first."""
        return allocation.ORDERS[1]


@register("sdf-max")
class ShortestDemandLimited(RunToCompletion):
    """Shortest demand first with a fixed limit on the processors of a job.

    Attributes:
        maximum: the limit, in processors.
    """

    maximum: Annotated[int, Bounds(1, 1_000_000)] = 6
    source = f"Chiang, Mansharamani, Vernon 1994; {PAPER}, section 3.3"

    def queue_order(self) -> allocation.Order:
        """Shortest demand first."""
        return allocation.ORDERS[1]

    def limit(self, processors: int) -> int:
        """The parameter ``maximum``."""
        return self.maximum


@register("equipartition")
class Equipartition(RunToCompletion):
    """Static equipartition: a fixed number of equal parts, first come, first served.

    Attributes:
        parts: number of parts.
    """

    parts: Annotated[int, Bounds(1, 1_000_000)] = 4
    source = SURVEY

    def limit(self, processors: int) -> int:
        """The size of a part, at least 1."""
        return max(1, processors // self.parts)


@register("average-parallelism")
class AverageParallelism(OrderedAllocation):
    """A job gets its average parallelism, the best speedup that it can have, or what is free."""

    bound = allocation.AVERAGE
    source = f"Eager, Zahorjan, Lazowska 1989; {SURVEY}"


@register("knee")
class Knee(OrderedAllocation):
    """An equal share of the processors, at most the knee of the job: most efficiency over execution time."""

    rule = allocation.TARGET_ALL
    bound = allocation.KNEE
    source = "Ghosal, Serazzi, Tripathi 1991 (processor working set); Eager et al. 1989"


@register("parallelism-range")
class ParallelismRange(OrderedAllocation):
    """Shares by average parallelism: up to the largest parallelism at low load, the smallest at high load."""

    rule = allocation.IN_PROPORTION
    share = allocation.BY_AVERAGE
    source = f"after Sevcik 1989; {SURVEY}"


@register("parallelism-variance")
class ParallelismVariance(OrderedAllocation):
    """As parallelism-range, but at most one standard deviation of its parallelism above the average."""

    rule = allocation.IN_PROPORTION
    bound = allocation.DEVIATION
    share = allocation.BY_AVERAGE
    source = f"after Sevcik 1994; {SURVEY}"


@register("square-root")
class SquareRoot(OrderedAllocation):
    """Shares of the processors in proportion to the square roots of the work of all jobs present."""

    rule = allocation.LEAST_SUM
    share = allocation.BY_ROOT
    source = SURVEY


@register("equal-time")
class EqualTime(OrderedAllocation):
    """Shares of the processors in proportion to the work of all jobs present: equal execution times."""

    rule = allocation.LEAST_LONGEST
    share = allocation.BY_WORK
    source = (
        "after Brecht and Guha 1996, shares by work; the survey (1999) has those by its square root alone"
    )
