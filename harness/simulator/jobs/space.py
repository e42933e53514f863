"""Kernel of run-to-completion space sharing: a queue, a count of free processors, a heap of ends.

The rule decides as in :class:`coordinator.decide.session.Session`, once after all departures and arrivals of
one instant.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coordinator.policies import allocation
from harness.simulator.compiled import entry, hot, step
from harness.simulator.interruption import heeding
from harness.simulator.jobs.execution import (
    Arrivals,
    arrivals,
    arriving,
    demanded,
    follow,
    next_instant,
    pop,
    push,
    time_ns,
)
from harness.simulator.jobs.model import NEVER_NS, Columns, Floats, Integers, JobLevelOutcome, Jobs, Times

_grant = hot(allocation.grant)
_differ = step(allocation.differ)
_divide = step(allocation.divide)


class Rule(NamedTuple):
    """The arguments of ``simulate``; ``until_last``: whether the last arrival ends the run as saturated."""

    processors: int
    rule: int
    order: int
    limit: int
    watched: int
    until_last: bool


class Demands(NamedTuple):
    """The users' estimates for each job: its demand, phi W and beta, and its weight by them."""

    demand_s: Floats
    work_s: Floats
    beta_s: Floats
    weights: Integers


class Scratch(NamedTuple):
    """The queue of waiting jobs, the processors granted to its first jobs, and the heap of ends."""

    queue: Integers
    grants: Integers
    ends_ns: Integers
    ending: Integers


def simulate(
    jobs: Jobs,
    processors: int,
    rule: int,
    order: int,
    limit: int,
    watched: int | None = None,
    *,
    bound: int = allocation.LARGEST,
    share: int = allocation.EQUAL,
) -> JobLevelOutcome:
    """Simulate a rule of :mod:`coordinator.policies.allocation`.

    Args:
        jobs: in order of arrival.
        processors: of the machine.
        rule: its number.
        order: of the queue: 0 arrival, 1 demand, 2 demand with differential allocation.
        limit: for the rule FIXED.
        watched: stop when the first ``watched`` jobs have ended; if they have not when the last
            job arrives, the outcome is saturated. None simulates all jobs to their ends.
        bound: of the processors of a job, see :mod:`coordinator.policies.allocation`.
        share: for the rules by weight, likewise.
    """
    n = len(jobs)
    times = Times.unknown(n)
    size = np.zeros(n, dtype=np.int64)
    limited, weights = demanded(jobs, bound, share)
    coming = arrivals(jobs)
    saturated = heeding(
        _run,
        Rule(processors, rule, order, limit, n if watched is None else watched, watched is not None),
        coming,
        limited,
        Demands(jobs.demand_s, jobs.work_s * jobs.factor, jobs.beta_s * jobs.factor, weights),
        Scratch(np.zeros(n + 1, dtype=np.int64), *np.zeros((3, processors + 1), dtype=np.int64)),
        times,
        size,
    )
    arrived = replace(jobs, submit_ns=coming.submit_ns)
    return JobLevelOutcome(arrived, processors, *times, size.astype(float), np.full(n, -1), bool(saturated))


@step
def _queue(queue: Integers, first: int, last: int, job: int, demand_s: Floats, ordered: bool) -> int:
    """Enter ``job`` into ``queue[first:last]`` behind its equals; returns the new ``first``."""
    if not ordered:
        queue[last] = job
        return first
    low = first
    high = last
    while low < high:
        middle = (low + high) >> 1
        if demand_s[queue[middle]] <= demand_s[job]:
            low = middle + 1
        else:
            high = middle
    if first > 0 and low - first < last - low:
        for place in range(first, low):
            queue[place - 1] = queue[place]
        queue[low - 1] = job
        return first - 1
    for place in range(last, low, -1):
        queue[place] = queue[place - 1]
    queue[low] = job
    return first


@entry
def _run(
    rule: Rule,
    arrivals: Arrivals,
    jobs: Columns,
    known: Demands,
    scratch: Scratch,
    times: Times,
    size: Integers,
    ended: Integers,
) -> bool:
    """The event loop; ``times`` and ``size`` are modified in place. Returns whether it saturated."""
    queue, grants = scratch.queue, scratch.grants
    n = len(jobs.submit_ns)
    free = rule.processors
    total = 0
    running = 0
    first = 0
    last = 0
    unfinished = rule.watched
    while unfinished > 0 and not ended[0]:
        now_ns = next_instant(scratch.ends_ns, running, arrivals)
        if now_ns == NEVER_NS:
            break
        while running > 0 and scratch.ends_ns[0] == now_ns:
            job = scratch.ending[0]
            pop(scratch.ends_ns, scratch.ending, running)
            running -= 1
            free += size[job]
            total -= known.weights[job]
            times.finish_ns[job] = now_ns
            unfinished -= job < rule.watched
            follow(arrivals, job, now_ns)
        job = arriving(arrivals, now_ns)
        while job >= 0:
            if rule.until_last and job == n - 1:
                return unfinished > 0
            before = first
            first = _queue(queue, first, last, job, known.demand_s, rule.order > 0)
            last += first == before
            total += known.weights[job]
            job = arriving(arrivals, now_ns)
        started = _grant(
            rule.rule,
            rule.limit,
            rule.processors,
            total,
            free,
            queue,
            first,
            last - first,
            jobs.least,
            jobs.most,
            known.weights,
            grants,
        )
        if rule.order < 2 and rule.rule >= allocation.IN_PROPORTION:
            _divide(rule.rule, started, queue, first, jobs.least, jobs.most, known.weights, grants)
        elif rule.order == 2 and started > 1:
            _differ(started, queue, first, jobs.least, jobs.most, known.work_s, known.beta_s, grants)
        for i in range(started):
            job = queue[first + i]
            size[job] = grants[i]
            free -= size[job]
            times.start_ns[job] = now_ns
            push(scratch.ends_ns, scratch.ending, running, now_ns + time_ns(jobs, job, size[job]), job)
            running += 1
        first += started
    return False
