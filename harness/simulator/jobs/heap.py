"""A binary heap of (time, job) in two arrays, the smallest first, ties by job."""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.jobs.model import Integers


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
