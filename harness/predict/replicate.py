"""Replications: independent streams of jobs until the mean is known well enough."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.analyse.statistics import FEWEST, half_width
from harness.predict.pool import advanced
from harness.simulator.jobs.metrics import Metrics


@dataclass(frozen=True)
class Mean:
    """A mean with the half-width of its 95 % interval; infinite if the policy could not keep up."""

    mean: float
    half: float | None  # None for fewer than two values
    n: int
    saturated: bool = False  # whether the policy could not keep up in some replication

    @property
    def shown_half(self) -> float | None:
        """``half`` for readers: None for fewer than FEWEST values, which it does not describe."""
        return self.half if self.n >= FEWEST else None

    @property
    def low(self) -> float:
        """The lower end of the interval; the mean itself if the interval is unknown."""
        return self.mean - (self.half or 0)

    @property
    def high(self) -> float:
        return self.mean + (self.half or 0)

    def apart(self, value: float) -> bool:
        return abs(self.mean - value) > (self.half or 0)


def mean_of(values: Sequence[float], saturated: bool = False) -> Mean:
    """Mean and half-width by Student's t over independent replications; NaN if a value is unknown."""
    n = len(values)
    if saturated:
        return Mean(math.inf, None, n, True)
    if any(map(math.isnan, values)):
        return Mean(math.nan, None, n)
    return Mean(statistics.fmean(values), half_width(values), n)


@dataclass(frozen=True)
class Precision:
    """When to stop replicating."""

    half_width: float  # relative half-width of the interval to reach
    min_replications: int  # replications at least
    max_replications: int  # replications at most; the interval is then wider, and shows it


@dataclass(frozen=True)
class Replications:
    """The replications of one policy; ``stuck`` of them were saturated and have no metrics."""

    metrics: tuple[Metrics, ...]
    stuck: int = 0

    @property
    def saturated(self) -> bool:
        """Whether the policy counts as saturated: it could not keep up in some replication."""
        return self.stuck > 0

    def mean(self, name: str) -> Mean:
        return mean_of([getattr(m, name) for m in self.metrics], self.saturated)


def ratio(ours: Replications, theirs: Replications) -> Mean:
    """Our mean response time over theirs, by the narrower interval; infinite or 0 if one is saturated.

    Pairs with the same random numbers show small differences. If one policy has more replications, the ratio
    of the means over all of them may be more exact.
    """
    if ours.saturated or theirs.saturated:
        return Mean(math.inf if ours.saturated else 0.0, None, 0, saturated=True)
    paired = _paired(ours, theirs)
    apart = _apart(ours, theirs)
    if paired.half is None or apart.half is None:
        return paired
    return paired if paired.half <= apart.half else apart


def _paired(ours: Replications, theirs: Replications) -> Mean:
    pairs = [(a.response_s, b.response_s) for a, b in zip(ours.metrics, theirs.metrics, strict=False)]
    below = sum(b for _, b in pairs)
    quotient = sum(a for a, _ in pairs) / below
    errors = mean_of([(a - quotient * b) * len(pairs) / below for a, b in pairs])
    return replace(errors, mean=quotient)


def _apart(ours: Replications, theirs: Replications) -> Mean:
    a = ours.mean("response_s")
    b = theirs.mean("response_s")
    half = None
    if a.half is not None and b.half is not None:
        half = a.mean / b.mean * math.hypot(a.half / a.mean, b.half / b.mean)
    return Mean(a.mean / b.mean, half, min(a.n, b.n))


def replicate(
    one: Callable[[np.random.Generator], Metrics | None], seed: int, plan: Precision
) -> Replications:
    """Replications of ``one`` until the interval of the mean response time is narrow enough.

    ``one`` gives None if the policy is saturated, which ends it, after ``plan.min_replications`` at the
    earliest. The n-th replication of a seed has the same random numbers for every policy.
    """
    results: list[Metrics] = []
    stuck = 0
    for n in range(plan.max_replications):
        metrics = one(np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(n,))))
        if metrics is None:
            stuck += 1
        else:
            results.append(metrics)
        if n + 1 >= plan.min_replications and (stuck or _known(results, plan.half_width)):
            break
        advanced(n + 1, _expected(results, plan))
    return Replications(tuple(results), stuck)


def _expected(results: Sequence[Metrics], plan: Precision) -> float:
    """How many replications there will probably be: half-widths fall with the root of their number."""
    now = mean_of([m.response_s for m in results]) if len(results) >= FEWEST else None
    if now is None or now.half is None or now.mean <= 0:
        return plan.min_replications
    needed = len(results) * (now.half / (plan.half_width * now.mean)) ** 2
    return min(max(needed, len(results) + 1, plan.min_replications), plan.max_replications)


def _known(results: Sequence[Metrics], half_width: float) -> bool:
    now = mean_of([m.response_s for m in results])
    return now.half is not None and now.half <= half_width * now.mean
