"""Kernel of the batch policies over buddy blocks, for rigid jobs on a power-of-two machine."""

from __future__ import annotations

import numpy as np

from coordinator.policies import buddy
from harness.simulator.compiled import entry, step
from harness.simulator.jobs.heap import pop, push
from harness.simulator.jobs.model import NEVER_NS, Integers, Jobs, Outcome

_take = step(buddy.take)
_give = step(buddy.give)


def simulate(jobs: Jobs, processors: int, direction: int) -> Outcome:
    """Simulate FCFS-BB (``direction`` 0), ScanUp (1) or ScanDown (-1).

    ``processors`` must be a power of two; every job has as many as it can use.
    """
    n = len(jobs)
    levels = processors.bit_length()
    start_ns = np.full(n, NEVER_NS)
    finish_ns = np.full(n, NEVER_NS)
    first = np.full(n, -1)
    free = np.zeros(2 * processors, dtype=np.int64)
    counts = np.zeros(levels, dtype=np.int64)
    free[1] = counts[0] = 1
    size_levels = np.ceil(np.log2(jobs.most)).astype(np.int64)
    _run(
        direction,
        levels,
        jobs.submit_ns,
        size_levels,
        jobs.times_ns(jobs.most),
        free,
        counts,
        np.full((2, levels), -1),
        np.full(n, -1),
        np.zeros((2, processors + 1), dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        start_ns,
        finish_ns,
        first,
    )
    return Outcome(jobs, processors, start_ns, finish_ns, jobs.most.astype(float), first)


@step
def _next(current: int, direction: int, levels: int, heads: Integers) -> int:
    """The queue to serve: the current one, or the next that is not empty."""
    for _ in range(levels):
        if heads[current] >= 0:
            return current
        current = (current + direction + levels) % levels
    return current


@entry
def _run(
    direction: int,
    levels: int,
    submit_ns: Integers,
    size_levels: Integers,
    times_ns: Integers,
    free: Integers,
    counts: Integers,
    ends: Integers,
    following: Integers,
    scratch: Integers,
    block: Integers,
    start_ns: Integers,
    finish_ns: Integers,
    first: Integers,
) -> None:
    """The event loop; queues are linked lists, FCFS has only one. The last three are modified in place."""
    heads, tails = ends[0], ends[1]
    ends_ns, ending = scratch[0], scratch[1]
    n = len(submit_ns)
    running = 0
    arrived = 0
    current = levels - 1 if direction < 0 else 0
    while arrived < n or running > 0:
        if running > 0 and (arrived == n or ends_ns[0] <= submit_ns[arrived]):
            now_ns = ends_ns[0]
            job = ending[0]
            pop(ends_ns, ending, running)
            running -= 1
            finish_ns[job] = now_ns
            _give(free, counts, block[job])
        else:
            now_ns = submit_ns[arrived]
            queue = size_levels[arrived] if direction != 0 else 0
            if heads[queue] < 0:
                heads[queue] = arrived
            else:
                following[tails[queue]] = arrived
            tails[queue] = arrived
            arrived += 1
        while True:
            if direction != 0:
                current = _next(current, direction, levels, heads)
            job = heads[current]
            if job < 0:
                break
            depth = levels - 1 - size_levels[job]
            place = _take(free, counts, depth)
            if place == 0:
                break
            heads[current] = following[job]
            block[job] = place
            first[job] = (place - (1 << depth)) << size_levels[job]
            start_ns[job] = now_ns
            push(ends_ns, ending, running, now_ns + times_ns[job], job)
            running += 1
