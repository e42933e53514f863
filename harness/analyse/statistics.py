"""Medians, intervals and bounded slowdowns."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

CONFIDENCE = 0.95

FEWEST = 3
"""Values that an interval of a slowdown takes. Student's factor for two, 12.7, makes it say nothing."""


@dataclass(frozen=True)
class Estimate:
    """A median of ``n`` values, its 95 % interval and their extremes; None where there are too few values."""

    median: float | None
    ci95: tuple[float, float] | None
    n: int
    extremes: tuple[float, float] | None = None

    @property
    def ends(self) -> tuple[float, float] | None:
        """The interval to show: of 95 %, or of two values the minimum and the maximum."""
        return self.ci95 or self.extremes

    @property
    def kind(self) -> str | None:
        """The kind of ``ends`` in words; None without ends."""
        if self.ci95:
            return "95 %"
        return "least to most" if self.extremes else None

    @property
    def width(self) -> float:
        """The width of the 95 % interval over the median; infinite without one."""
        if self.ci95 is None or self.median is None:
            return math.inf
        return (self.ci95[1] - self.ci95[0]) / self.median


def estimate(ratios: Sequence[float]) -> Estimate:
    """The median of positive ratios, and Student's 95 % interval of their geometric mean."""
    n = len(ratios)
    if n == 0:
        return Estimate(None, None, 0)
    median = statistics.median(ratios)
    if n == 1:
        return Estimate(median, None, n)
    extremes = min(ratios), max(ratios)
    logarithms = [math.log(ratio) for ratio in ratios]
    centre = statistics.fmean(logarithms)
    half = half_width(logarithms)
    if half is None or n < FEWEST:
        return Estimate(median, None, n, extremes)
    return Estimate(median, (math.exp(centre - half), math.exp(centre + half)), n, extremes)


def apart(one: Estimate, other: Estimate) -> bool:
    """Whether two slowdowns differ measurably: both 95 % intervals are known and do not overlap."""
    if one.ci95 is None or other.ci95 is None:
        return False
    return one.ci95[1] < other.ci95[0] or other.ci95[1] < one.ci95[0]


def half_width(values: Sequence[float]) -> float | None:
    """Half the width of Student's 95 % interval of the mean; None for fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    return student_factor(n - 1) * statistics.stdev(values) / math.sqrt(n)


def more_values(n: int, half: float, target: float, most: int) -> int | None:
    """Values beyond ``n`` until half Student's interval is ``target``, not ``half``; None for > ``most``."""

    def scale(count: int) -> float:
        return student_factor(count - 1) / math.sqrt(count)

    deviation = half / scale(n)
    low = n
    high = n + most
    if deviation * scale(high) > target:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if deviation * scale(middle) <= target else (middle, high)
    return high - n


def median_interval(ascending: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the median of sorted samples of any distribution; None for fewer than 6.

    The number of samples below the median is binomial with p = 1/2.
    """
    n = len(ascending)
    below = -1
    share = 0.0
    while share + math.comb(n, below + 1) / 2**n <= (1 - CONFIDENCE) / 2:
        below += 1
        share += math.comb(n, below) / 2**n
    return None if below < 0 else (ascending[below], ascending[n - 1 - below])


def bounded_slowdown(response_s: float, dedicated_s: float, tau_s: float) -> float:
    """Response time over dedicated time; times shorter than ``tau_s`` count as ``tau_s``.

    So very short jobs do not dominate a mean. Source: Feitelson, Rudolph, Schwiegelshohn,
    Sevcik, Wong 1997, "Theory and practice in parallel job scheduling", section 3.
    """
    return max(1.0, response_s / max(dedicated_s, tau_s))


@cache
def student_factor(degrees: int) -> float:
    """Half the width of the interval around 0 in which Student's t lies with probability CONFIDENCE.

    Bisection of the distribution's finite series, exact up to rounding for whole degrees of
    freedom. Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4.
    """
    low = 0.0
    high = 1.0
    share = 0.5 + CONFIDENCE / 2
    while _student_share(high, degrees) < share:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _student_share(middle, degrees) < share else (low, middle)
    return (low + high) / 2


def _student_share(t: float, degrees: int) -> float:
    """Probability that Student's t with ``degrees`` degrees of freedom is below ``t`` >= 0."""
    angle = math.atan2(t, math.sqrt(degrees))
    cosine2 = math.cos(angle) ** 2
    odd = degrees % 2
    term = math.cos(angle) if odd else 1.0
    total = 0.0
    for k in range(degrees // 2):
        total += term
        term *= cosine2 * (2 * k + 1 + odd) / (2 * k + 2 + odd)
    inside = math.sin(angle) * total
    if odd:
        inside = 2 / math.pi * (angle + inside)
    return 0.5 + inside / 2
