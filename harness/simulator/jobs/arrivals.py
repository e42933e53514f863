"""Streams of random jobs: when they arrive and what they need.

Every function takes its random generator; the same seed gives the same jobs.
"""

import math
from collections.abc import Sequence

import numpy as np

from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Floats, Integers, Jobs
from workloads.machine import ARRIVALS
from workloads.validation import InputError, number, one_of, whole


def gaps_s(
    process: str,
    count: int,
    mean_s: float,
    random: np.random.Generator,
    *,
    cv: float = 2.0,
    unit_s: float = 1.0,
) -> Floats:
    """``count`` times between arrivals, in seconds.

    Args:
        process: "exponential"; "hyperexponential" (two stages, balanced means, coefficient
            of variation ``cv``); "geometric": whole numbers of ``unit_s``, none of them 0.
        count: how many.
        mean_s: their mean.
        random: the random generator.
        cv: coefficient of variation for "hyperexponential", above 1.
        unit_s: the unit for "geometric", at most ``mean_s``.

    Raises:
        InputError: for a value out of range.
    """
    one_of("arrivals", process, ARRIVALS)
    whole("count", count, minimum=1)
    number("mean_s", mean_s, above=0)
    if process == "exponential":
        return random.exponential(mean_s, count)
    if process == "hyperexponential":
        number("cv", cv, above=1)
        share = (1 + math.sqrt((cv**2 - 1) / (cv**2 + 1))) / 2
        means_s = np.where(random.random(count) < share, mean_s / (2 * share), mean_s / (2 * (1 - share)))
        return np.asarray(random.exponential(1.0, count) * means_s)
    number("unit_s", unit_s, above=0, maximum=mean_s)
    return np.asarray(random.geometric(unit_s / mean_s, count) * unit_s, dtype=float)


def hyperexponential(
    count: int, shares: Sequence[float], means: Sequence[float], random: np.random.Generator
) -> Floats:
    """``count`` exponential values, each with one of the ``means``, chosen with probability ``shares``."""
    stage = random.choice(len(means), size=count, p=shares)
    return np.asarray(random.exponential(1.0, count) * np.asarray(means)[stage])


def in_ns(times_s: Floats) -> Integers:
    """Seconds as whole nanoseconds.

    Raises:
        InputError: for a time at which no job of a schedule can arrive or end.
    """
    last_s = float(np.max(times_s, initial=0.0))
    if not last_s * WHOLE_NS < NEVER_NS:
        raise InputError(
            "model",
            last_s,
            f"its jobs must arrive within {NEVER_NS / WHOLE_NS:.3g} s, and one comes after that",
            "write shorter means, fewer jobs or a greater load",
        )
    return np.rint(times_s * WHOLE_NS).astype(np.int64)


def moldable(submit_s: Floats, max_processes: Integers, work_s: Floats, mu: Floats) -> Jobs:
    """Moldable jobs with Sevcik's execution time function, from their maximum parallelism ``max_processes``.

    beta = W / most^2; alpha = W most^(-2 mu), 0 for infinite ``mu``.
    Source: Anastasiadis and Sevcik 1997, equations (6) and (9).
    """
    beta_s = work_s / max_processes.astype(float) ** 2
    alpha_s = np.where(np.isinf(mu), 0.0, work_s * max_processes.astype(float) ** (-2 * np.minimum(mu, 1e6)))
    ones = np.ones(len(max_processes), dtype=np.int64)
    return Jobs(in_ns(submit_s), ones, max_processes, work_s, alpha_s, beta_s, ones.astype(float))
