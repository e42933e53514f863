"""For kernels: execution times, arrivals, lists, and heaps of events.

A heap is binary, of (time, job) in two arrays, the smallest first, ties by job.
"""

from typing import NamedTuple

import numpy as np

from coordinator.policies import allocation
from coordinator.view import arrival_after_ns, average_parallelism, execution_time_s, useful_processors
from harness.simulator.compiled import entry, hot, step
from harness.simulator.jobs.model import NEVER_NS, Columns, Floats, Integers, Jobs

_arrival_after_ns = step(arrival_after_ns)
_time_s = step(execution_time_s)
_useful_processors = step(useful_processors)
_average_parallelism = step(average_parallelism)
_bound = step(allocation.bound)
_weight = step(allocation.weight)


class Arrivals(NamedTuple):
    """When jobs arrive; one that follows another is known from the end of that one on."""

    submit_ns: Integers
    """Of a job that follows another, its own time of submission until it is known."""
    ahead: Integers
    """The jobs that follow none, in order of arrival."""
    think_ns: Integers
    follower: Integers
    """The first job that follows each, -1 for none; empty if no job follows another."""
    beside: Integers
    """The next job that follows the same one as each, -1 for none."""
    heap_ns: Integers
    heap: Integers
    """The jobs that follow others, are known and have not arrived."""
    counts: Integers
    """How many of ``ahead`` have arrived, and how many are in the heap."""


def arrivals(jobs: Jobs) -> Arrivals:
    """The arrivals of jobs before the first one."""
    n = len(jobs)
    count = np.zeros(2, dtype=np.int64)
    none = np.zeros(0, dtype=np.int64)
    if jobs.following is None:
        return Arrivals(jobs.submit_ns.copy(), np.arange(n), none, none, none, none, none, count)
    preceding, think_ns = jobs.following
    heap_ns, heap = np.zeros((2, np.count_nonzero(preceding >= 0)), dtype=np.int64)
    follower, beside = np.full((2, n), -1)
    for job in np.flatnonzero(preceding >= 0):
        beside[job], follower[preceding[job]] = follower[preceding[job]], job
    ahead = np.flatnonzero(preceding < 0)
    return Arrivals(jobs.submit_ns.copy(), ahead, think_ns, follower, beside, heap_ns, heap, count)


def demanded(jobs: Jobs, bound: int, share: int) -> allocation.Demands:
    """What jobs use: at most the useful processors, limited by ``bound``; and weights by ``share``.

    More processors than useful ones make a job no faster. All go by the users' estimates. Bounds and shares
    come from :mod:`coordinator.policies.allocation`.
    """
    work_s, alpha_s, beta_s = (column * jobs.factor for column in (jobs.work_s, jobs.alpha_s, jobs.beta_s))
    max_processes, weights = np.empty((2, len(jobs)), dtype=np.int64)
    demands = allocation.Demands(jobs.min_processes, max_processes, weights, work_s, beta_s)
    _demand(bound, share, jobs.max_processes, alpha_s, demands)
    return demands


@entry
def _demand(bound: int, share: int, asked: Integers, alpha_s: Floats, demands: allocation.Demands) -> None:
    for job in range(len(asked)):
        parameters = (demands.work_s[job], alpha_s[job], demands.beta_s[job])
        useful = _useful_processors(demands.min_processes[job], asked[job], parameters[0], parameters[2])
        average = _average_parallelism(useful, *parameters)
        demands.weights[job] = _weight(share, average, parameters[0])
        demands.max_processes[job] = _bound(bound, demands.min_processes[job], useful, average, *parameters)


@hot
def time_ns(jobs: Columns, job: int, processors: int) -> int:
    """Execution time of a job alone on ``processors``, in whole nanoseconds, at least one."""
    time_s = _time_s(processors, jobs.work_s[job], jobs.alpha_s[job], jobs.beta_s[job])
    return max(1, int(np.rint(time_s * 1e9)))


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
def coming(arrivals: Arrivals) -> int:
    """The job that arrives next, of those at one time the first one; -1 if none is known."""
    arrived = arrivals.counts[0]
    jobs = arrivals.counts[1]
    job = arrivals.ahead[arrived] if arrived < len(arrivals.ahead) else -1
    if jobs > 0:
        at_ns = arrivals.submit_ns[job] if job >= 0 else NEVER_NS
        if (arrivals.heap_ns[0], arrivals.heap[0]) < (at_ns, job):
            job = arrivals.heap[0]
    return job


@step
def arriving(arrivals: Arrivals, now_ns: int) -> int:
    """The next job that arrives at this time, which has arrived then; -1 if none does."""
    job = coming(arrivals)
    if job < 0 or arrivals.submit_ns[job] != now_ns:
        return -1
    jobs = arrivals.counts[1]
    if jobs > 0 and arrivals.heap[0] == job:
        pop(arrivals.heap_ns, arrivals.heap, jobs)
        arrivals.counts[1] -= 1
    else:
        arrivals.counts[0] += 1
    return job


@step
def follow(arrivals: Arrivals, job: int, now_ns: int) -> None:
    """Note that ``job`` has ended: the arrivals of those that follow it are known."""
    other = arrivals.follower[job] if len(arrivals.follower) > 0 else -1
    while other >= 0:
        at_ns = _arrival_after_ns(now_ns, arrivals.submit_ns[other], arrivals.think_ns[other])
        arrivals.submit_ns[other] = at_ns
        push(arrivals.heap_ns, arrivals.heap, arrivals.counts[1], at_ns, other)
        arrivals.counts[1] += 1
        other = arrivals.beside[other]


@step
def next_instant(ends_ns: Integers, running: int, arrivals: Arrivals) -> int:
    """When the next jobs depart or arrive; NEVER_NS if none do. The rule decides once for all of them."""
    job = coming(arrivals)
    now_ns = arrivals.submit_ns[job] if job >= 0 else NEVER_NS
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
