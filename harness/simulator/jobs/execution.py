"""Execution times, for kernels."""

from __future__ import annotations

import numpy as np

from coordinator.view import execution_time_s
from harness.simulator.compiled import hot, step
from harness.simulator.jobs.model import Columns

_time_s = step(execution_time_s)


@hot
def time_ns(jobs: Columns, job: int, processors: int) -> int:
    """How long a job takes alone on so many processors, in whole nanoseconds, at least one."""
    time_s = _time_s(processors, jobs.work_s[job], jobs.alpha_s[job], jobs.beta_s[job])
    return max(1, int(np.rint(time_s * 1e9)))
