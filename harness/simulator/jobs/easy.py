"""Kernel of EASY backfilling for rigid jobs."""

from dataclasses import replace

import numpy as np

from coordinator.policies import easy
from harness.simulator.compiled import entry, hot, step
from harness.simulator.interruption import heeding
from harness.simulator.jobs.execution import (
    Arrivals,
    arrivals,
    arriving,
    close_gap,
    follow,
    next_instant,
    pop,
    push,
)
from harness.simulator.jobs.model import NEVER_NS, Integers, JobLevelOutcome, Jobs, Times

# Only hot functions may take functions: else numba would compile their callers anew in every process.
_easy = hot(easy.easy)
_reservation = hot(easy.reservation)


def simulate(jobs: Jobs, processors: int) -> JobLevelOutcome:
    """Simulate EASY; every job has as many processors as it can use."""
    n = len(jobs)
    times = Times.unknown(n)
    coming = arrivals(jobs)
    heeding(
        _run,
        processors,
        coming,
        jobs.most,
        jobs.times_ns(jobs.most),
        jobs.estimates_ns(),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros((5, processors + 1), dtype=np.int64),
        times,
    )
    arrived = replace(jobs, submit_ns=coming.submit_ns)
    return JobLevelOutcome(arrived, processors, *times, jobs.most.astype(float), np.full(n, -1))


@step
def _hold(
    expected_ns: Integers, held: Integers, owner: Integers, running: int, end_ns: int, job: int, size: int
) -> None:
    """Insert a running job among the others, which are in ascending order of their estimated ends."""
    place = running
    while place > 0 and expected_ns[place - 1] > end_ns:
        expected_ns[place] = expected_ns[place - 1]
        held[place] = held[place - 1]
        owner[place] = owner[place - 1]
        place -= 1
    expected_ns[place] = end_ns
    held[place] = size
    owner[place] = job


@step
def _close_gaps(queue: Integers, first: int, starts: Integers, count: int) -> int:
    """Remove the jobs at the places ``starts``, ascending from ``first``; returns the new ``first``."""
    # Each removal moves the jobs before it, and ``first``, by one place.
    for i in range(count):
        for place in range(first + starts[i], first, -1):
            queue[place] = queue[place - 1]
        first += 1
        for later in range(i + 1, count):
            starts[later] -= 1
    return first


@entry
def _run(
    processors: int,
    arrivals: Arrivals,
    sizes: Integers,
    times_ns: Integers,
    estimates_ns: Integers,
    queue: Integers,
    starts: Integers,
    scratch: Integers,
    times: Times,
    ended: Integers,
) -> None:
    """The event loop; ``times`` are modified in place."""
    ends_ns, ending, expected_ns, held, owner = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    free = processors
    running = 0
    first = 0
    last = 0
    while not ended[0]:
        now_ns = next_instant(ends_ns, running, arrivals)
        if now_ns == NEVER_NS:
            break
        while running > 0 and ends_ns[0] == now_ns:
            job = ending[0]
            pop(ends_ns, ending, running)
            place = 0
            while owner[place] != job:
                place += 1
            for column in (expected_ns, held, owner):
                close_gap(column, place, running)
            running -= 1
            free += sizes[job]
            times.finish_ns[job] = now_ns
            follow(arrivals, job, now_ns)
        job = arriving(arrivals, now_ns)
        while job >= 0:
            queue[last] = job
            last += 1
            job = arriving(arrivals, now_ns)
        count = _easy(
            now_ns,
            free,
            queue,
            first,
            last - first,
            sizes,
            estimates_ns,
            running,
            expected_ns,
            held,
            starts,
            _reservation,
        )
        for i in range(count):
            job = queue[first + starts[i]]
            times.start_ns[job] = now_ns
            free -= sizes[job]
            push(ends_ns, ending, running, now_ns + times_ns[job], job)
            _hold(expected_ns, held, owner, running, now_ns + estimates_ns[job], job, sizes[job])
            running += 1
        first = _close_gaps(queue, first, starts, count)
