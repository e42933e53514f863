"""Execution times, for kernels."""

from __future__ import annotations

import numpy as np

from coordinator.view import execution_time_s, useful_processors
from harness.simulator.compiled import entry, hot, step
from harness.simulator.jobs.model import Columns, Floats, Integers, Jobs

_time_s = step(execution_time_s)
_useful_processors = step(useful_processors)


def useful(jobs: Jobs) -> Columns:
    """The jobs, with ``most`` limited to the processors that make a job faster by its user's estimate."""
    most = np.empty(len(jobs), dtype=np.int64)
    _limit(jobs.least, jobs.most, jobs.work_s * jobs.factor, jobs.beta_s * jobs.factor, most)
    return jobs.columns._replace(most=most)


@entry
def _limit(least: Integers, asked: Integers, work_s: Floats, beta_s: Floats, most: Integers) -> None:
    """Fill in ``most``, in place."""
    for job in range(len(most)):
        most[job] = _useful_processors(least[job], asked[job], work_s[job], beta_s[job])


@hot
def time_ns(jobs: Columns, job: int, processors: int) -> int:
    """Execution time of a job alone on ``processors``, in whole nanoseconds, at least one."""
    time_s = _time_s(processors, jobs.work_s[job], jobs.alpha_s[job], jobs.beta_s[job])
    return max(1, int(np.rint(time_s * 1e9)))
