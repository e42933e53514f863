"""Run-to-completion space sharing by what is known of the jobs: parallelism, its variance, work.

Beside the rules here, the survey's equipartition is ``aep`` of :mod:`coordinator.policies.adaptive`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies import allocation, demands
from coordinator.policies.adaptive import OrderedAllocation
from coordinator.policies.registry import register

SURVEY = "the survey (1999), section Space-Sharing Policies"


@register("average-parallelism")
@dataclass(frozen=True)
class AverageParallelism(OrderedAllocation):
    """A job gets its average parallelism, the best speedup that it can have, or what is free."""

    rule: ClassVar[int] = allocation.FIXED
    bound: ClassVar[int] = demands.AVERAGE
    source: ClassVar[str] = f"Eager, Zahorjan, Lazowska 1989; {SURVEY}"


@register("knee")
@dataclass(frozen=True)
class Knee(OrderedAllocation):
    """An equal share of the processors, at most the knee of the job: most efficiency over execution time."""

    rule: ClassVar[int] = allocation.TARGET_ALL
    bound: ClassVar[int] = demands.KNEE
    source: ClassVar[str] = "Ghosal, Serazzi, Tripathi 1991 (processor working set); Eager et al. 1989"


@register("parallelism-range")
@dataclass(frozen=True)
class ParallelismRange(OrderedAllocation):
    """Shares by average parallelism: up to the largest parallelism at low load, the least at high load."""

    rule: ClassVar[int] = allocation.TARGET_ALL
    share: ClassVar[int] = demands.BY_AVERAGE
    source: ClassVar[str] = f"after Sevcik 1989; {SURVEY}"


@register("parallelism-variance")
@dataclass(frozen=True)
class ParallelismVariance(OrderedAllocation):
    """As parallelism-range, but at most one standard deviation of its parallelism above the average."""

    rule: ClassVar[int] = allocation.TARGET_ALL
    bound: ClassVar[int] = demands.DEVIATION
    share: ClassVar[int] = demands.BY_AVERAGE
    source: ClassVar[str] = f"after Sevcik 1994; {SURVEY}"


@register("square-root")
@dataclass(frozen=True)
class SquareRoot(OrderedAllocation):
    """Shares of the processors in proportion to the square roots of the work of all jobs present."""

    rule: ClassVar[int] = allocation.SHARE_ALL
    share: ClassVar[int] = demands.BY_ROOT
    source: ClassVar[str] = SURVEY


@register("equal-time")
@dataclass(frozen=True)
class EqualTime(OrderedAllocation):
    """Shares of the processors in proportion to the work of all jobs present: equal execution times."""

    rule: ClassVar[int] = allocation.SHARE_ALL
    share: ClassVar[int] = demands.BY_WORK
    source: ClassVar[str] = (
        "after Brecht and Guha 1996, shares by work; the survey (1999) has those by its square root alone"
    )
