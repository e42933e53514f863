"""For kernels: execution times, lists, and a heap of ends.

The heap is binary, of (time, job) in two arrays, the smallest first, ties by job.
"""

import numpy as np

from coordinator.policies import allocation
from coordinator.view import average_parallelism, execution_time_s, useful_processors
from harness.simulator.compiled import entry, hot, step
from harness.simulator.jobs.model import NEVER_NS, Columns, Floats, Integers, Jobs

_time_s = step(execution_time_s)
_useful_processors = step(useful_processors)
_average_parallelism = step(average_parallelism)
_bound = step(allocation.bound)
_weight = step(allocation.weight)


def demanded(
    jobs: Jobs, bound: int = allocation.LARGEST, share: int = allocation.EQUAL
) -> tuple[Columns, Integers]:
    """The jobs with ``most`` limited to the useful processors and by ``bound``, and weights by ``share``.

    More processors than useful ones make a job no faster. All go by the users' estimates. Bounds and shares
    come from :mod:`coordinator.policies.allocation`.
    """
    most, weights = np.empty((2, len(jobs)), dtype=np.int64)
    work_s, alpha_s, beta_s = (column * jobs.factor for column in (jobs.work_s, jobs.alpha_s, jobs.beta_s))
    _demand(bound, share, jobs.least, jobs.most, work_s, alpha_s, beta_s, most, weights)
    return jobs.columns._replace(most=most), weights


@entry
def _demand(
    bound: int,
    share: int,
    least: Integers,
    asked: Integers,
    work_s: Floats,
    alpha_s: Floats,
    beta_s: Floats,
    most: Integers,
    weights: Integers,
) -> None:
    for job in range(len(most)):
        known = (work_s[job], alpha_s[job], beta_s[job])
        useful = _useful_processors(least[job], asked[job], work_s[job], beta_s[job])
        average = _average_parallelism(useful, *known)
        weights[job] = _weight(share, average, work_s[job])
        most[job] = _bound(bound, least[job], useful, average, *known)


@hot
def time_ns(jobs: Columns, job: int, processors: int) -> int:
    """Execution time of a job alone on ``processors``, in whole nanoseconds, at least one."""
    time_s = _time_s(processors, jobs.work_s[job], jobs.alpha_s[job], jobs.beta_s[job])
    return max(1, int(np.rint(time_s * 1e9)))


@step
def close_gap(values: Integers, place: int, count: int) -> None:
    """Remove the entry at ``place`` from the first ``count``; ``values`` are modified in place."""
    for i in range(place, count - 1):
        values[i] = values[i + 1]


@step
def push(times_ns: Integers, jobs: Integers, size: int, time_ns: int, job: int) -> None:
    """Enter an event into a heap of ``size``; arrays are modified in place."""
    place = size
    while place > 0:
        above = (place - 1) >> 1
        if times_ns[above] < time_ns or (times_ns[above] == time_ns and jobs[above] < job):
            break
        times_ns[place] = times_ns[above]
        jobs[place] = jobs[above]
        place = above
    times_ns[place] = time_ns
    jobs[place] = job


@step
def next_instant(ends_ns: Integers, running: int, submit_ns: Integers, arrived: int) -> int:
    """When the next jobs depart or arrive; NEVER_NS if none do. The rule decides once for all of them."""
    now_ns = submit_ns[arrived] if arrived < len(submit_ns) else NEVER_NS
    return min(now_ns, ends_ns[0]) if running > 0 else now_ns


@step
def pop(times_ns: Integers, jobs: Integers, size: int) -> None:
    """Remove the first event of a heap of ``size``; arrays are modified in place."""
    last = size - 1
    time_ns = times_ns[last]
    job = jobs[last]
    place = 0
    below = 1
    while below < last:
        right = below + 1
        if right < last and (
            times_ns[right] < times_ns[below]
            or (times_ns[right] == times_ns[below] and jobs[right] < jobs[below])
        ):
            below = right
        if time_ns < times_ns[below] or (time_ns == times_ns[below] and job < jobs[below]):
            break
        times_ns[place] = times_ns[below]
        jobs[place] = jobs[below]
        place = below
        below = 2 * place + 1
    times_ns[place] = time_ns
    jobs[place] = job
