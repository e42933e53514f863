"""Kernel of the batch policies over buddy blocks, for rigid jobs on a power-of-two machine."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coordinator.policies import scan
from harness.simulator.compiled import entry, step
from harness.simulator.interruption import heeding
from harness.simulator.jobs.execution import Arrivals, arrivals, arriving, follow, next_instant, pop, push
from harness.simulator.jobs.model import NEVER_NS, Integers, JobLevelOutcome, Jobs, Times

_take = step(scan.take)
_give = step(scan.give)


class Needs(NamedTuple):
    """Size (its base-2 logarithm, rounded up) and execution time of each job."""

    levels: Integers
    times_ns: Integers


class Blocks(NamedTuple):
    """The free blocks (:mod:`coordinator.policies.scan`)."""

    free: Integers
    counts: Integers


class Queues(NamedTuple):
    """Linked lists of waiting jobs, one for each size; -1 ends a list."""

    heads: Integers
    tails: Integers
    following: Integers


def simulate(jobs: Jobs, processors: int, direction: int) -> JobLevelOutcome:
    """Simulate FCFS-BB (``direction`` 0), ScanUp (1) or ScanDown (-1).

    ``processors`` must be a power of two. Every job gets as many as it can use.
    """
    n = len(jobs)
    levels = processors.bit_length()
    times = Times.unknown(n)
    first = np.full(n, -1)
    blocks = Blocks(np.zeros(2 * processors, dtype=np.int64), np.zeros(levels, dtype=np.int64))
    blocks.free[1] = blocks.counts[0] = 1
    needs = Needs(np.ceil(np.log2(jobs.most)).astype(np.int64), jobs.times_ns(jobs.most))
    queues = Queues(np.full(levels, -1), np.full(levels, -1), np.full(n, -1))
    scratch = np.zeros((2, processors + 1), dtype=np.int64)
    coming = arrivals(jobs)
    heeding(
        _run, direction, coming, needs, blocks, queues, scratch, np.zeros(n, dtype=np.int64), times, first
    )
    arrived = replace(jobs, submit_ns=coming.submit_ns)
    return JobLevelOutcome(arrived, processors, *times, jobs.most.astype(float), first)


@step
def _next(current: int, direction: int, levels: int, heads: Integers) -> int:
    """The queue to serve: the current one, or the next that is not empty."""
    for _ in range(levels):
        if heads[current] >= 0:
            return current
        current = (current + direction + levels) % levels
    return current


@step
def _enter(queues: Queues, queue: int, job: int) -> None:
    if queues.heads[queue] < 0:
        queues.heads[queue] = job
    else:
        queues.following[queues.tails[queue]] = job
    queues.tails[queue] = job


@entry
def _run(
    direction: int,
    arrivals: Arrivals,
    needs: Needs,
    blocks: Blocks,
    queues: Queues,
    scratch: Integers,
    block: Integers,
    times: Times,
    first: Integers,
    ended: Integers,
) -> None:
    """The event loop; FCFS has only one queue. ``times`` and ``first`` are modified in place."""
    heads = queues.heads
    levels = len(heads)
    ends_ns, ending = scratch[0], scratch[1]
    running = 0
    current = levels - 1 if direction < 0 else 0
    while not ended[0]:
        now_ns = next_instant(ends_ns, running, arrivals)
        if now_ns == NEVER_NS:
            break
        while running > 0 and ends_ns[0] == now_ns:
            job = ending[0]
            pop(ends_ns, ending, running)
            running -= 1
            times.finish_ns[job] = now_ns
            _give(blocks.free, blocks.counts, block[job])
            follow(arrivals, job, now_ns)
        job = arriving(arrivals, now_ns)
        while job >= 0:
            _enter(queues, needs.levels[job] if direction != 0 else 0, job)
            job = arriving(arrivals, now_ns)
        while True:
            if direction != 0:
                current = _next(current, direction, levels, heads)
            job = heads[current]
            if job < 0:
                break
            depth = levels - 1 - needs.levels[job]
            place = _take(blocks.free, blocks.counts, depth)
            if place == 0:
                break
            heads[current] = queues.following[job]
            block[job] = place
            first[job] = (place - (1 << depth)) << needs.levels[job]
            times.start_ns[job] = now_ns
            push(ends_ns, ending, running, now_ns + needs.times_ns[job], job)
            running += 1
