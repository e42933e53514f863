"""What is known of a job, as the bound and the share of its processors.

Leaf functions over numbers, as in :mod:`coordinator.policies.allocation`.
"""

from __future__ import annotations

LARGEST, AVERAGE, KNEE, DEVIATION = range(4)
"""Bounds: see ``bound``."""

EQUAL, BY_AVERAGE, BY_ROOT, BY_WORK = range(4)
"""Shares: see ``weight``."""


def bound(
    kind: int, least: int, most: int, average: float, work_s: float, alpha_s: float, beta_s: float
) -> int:
    """The most processors that a job is given, a whole number from ``least`` to ``most``.

    ``least``, ``average`` and ``most`` are its parallelism, and T(p) = work_s / p + alpha_s + beta_s p.

    * LARGEST: ``most``.
    * AVERAGE: ``average``. Speedup and efficiency are then at least half of the best (Eager, Zahorjan,
      Lazowska 1989).
    * KNEE: where efficiency over execution time is greatest, so p T(p)^2 least; the processor
      working set (Ghosal, Serazzi, Tripathi 1991).
    * DEVIATION: ``average`` plus the standard deviation. The parallelism of a job that can use either 1
      or ``most`` processors, and ``average`` in the mean, has the variance (most - A) (A - 1).
    """
    found = float(most)
    if kind == AVERAGE:
        found = average
    elif kind == KNEE:
        # The derivative of p T(p)^2 is 0 where W = alpha p + 3 beta p^2.
        root = (alpha_s * alpha_s + 12.0 * beta_s * work_s) ** 0.5
        if (alpha_s + root) * most > 2.0 * work_s:
            found = 2.0 * work_s / (alpha_s + root)
    elif kind == DEVIATION:
        found = average + max(0.0, (most - average) * (average - 1.0)) ** 0.5
    return max(least, min(most, int(found + 0.5)))


def weight(kind: int, average: float, work_s: float) -> int:
    """The weight by which a job shares the processors with others, at least 1.

    * EQUAL: all weights are 1.
    * BY_AVERAGE: in proportion to ``average``, its average parallelism.
    * BY_ROOT: to the square root of its work. The sum of the execution times is then least if all jobs
      have perfect speedup.
    * BY_WORK: to its work. Execution times are then equal if all jobs have perfect speedup.
    """
    if kind == EQUAL:
        return 1
    value = average
    if kind == BY_ROOT:
        value = work_s**0.5
    elif kind == BY_WORK:
        value = work_s
    # Whole millionths: sums of whole numbers do not depend on the order in which jobs come and leave.
    return max(1, int(1e6 * min(value, 1e9) + 0.5))
