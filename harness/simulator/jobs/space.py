"""Kernel of run-to-completion space sharing: a queue, a count of free processors, a heap of ends.

Every event is decided for itself, as in :class:`coordinator.session.Session`: departures
before arrivals, jobs that depart at the same time by number.
"""

from __future__ import annotations

import numpy as np

from coordinator.policies import allocation
from harness.simulator.compiled import entry, step
from harness.simulator.jobs.heap import pop, push
from harness.simulator.jobs.model import NEVER_NS, Floats, Integers, Jobs, Outcome

_grant = step(allocation.grant)
_differ = step(allocation.differ)


def simulate(
    jobs: Jobs,
    processors: int,
    rule: int,
    order: int,
    limit: int,
    watched: int | None = None,
) -> Outcome:
    """Simulate a rule of :mod:`coordinator.policies.allocation`.

    Args:
        jobs: in order of arrival.
        processors: of the machine.
        rule: which.
        order: of the queue: 0 arrival, 1 demand, 2 that and differential allocation.
        limit: for the rule FIXED.
        watched: stop when so many of the first jobs have ended; if they have not by the
            arrival of the last job, the outcome is saturated. None: go on to the end.
    """
    n = len(jobs)
    start_ns = np.full(n, NEVER_NS)
    finish_ns = np.full(n, NEVER_NS)
    size = np.zeros(n, dtype=np.int64)
    saturated = _run(
        processors,
        rule,
        order,
        limit,
        n if watched is None else watched,
        watched is not None,
        jobs.submit_ns,
        jobs.least,
        jobs.most,
        jobs.work_s,
        jobs.alpha_s,
        jobs.beta_s,
        jobs.demand_s,
        jobs.work_s * jobs.factor,
        jobs.beta_s * jobs.factor,
        np.zeros(n + 1, dtype=np.int64),
        np.zeros((3, processors + 1), dtype=np.int64),
        start_ns,
        finish_ns,
        size,
    )
    return Outcome(jobs, processors, start_ns, finish_ns, size.astype(float), np.full(n, -1), bool(saturated))


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
    processors: int,
    rule: int,
    order: int,
    limit: int,
    watched: int,
    until_last: bool,
    submit_ns: Integers,
    least: Integers,
    most: Integers,
    work_s: Floats,
    alpha_s: Floats,
    beta_s: Floats,
    demand_s: Floats,
    known_work_s: Floats,
    known_beta_s: Floats,
    queue: Integers,
    scratch: Integers,
    start_ns: Integers,
    finish_ns: Integers,
    size: Integers,
) -> bool:
    """The event loop; the last three arrays are modified in place. Returns whether it saturated."""
    grants = scratch[0]
    ends_ns = scratch[1]
    ending = scratch[2]
    n = len(submit_ns)
    free = processors
    running = 0
    first = 0
    last = 0
    arrived = 0
    unfinished = watched
    while unfinished > 0:
        if running > 0 and (arrived == n or ends_ns[0] <= submit_ns[arrived]):
            now_ns = ends_ns[0]
            job = ending[0]
            pop(ends_ns, ending, running)
            running -= 1
            free += size[job]
            finish_ns[job] = now_ns
            unfinished -= job < watched
        elif arrived < n:
            if until_last and arrived == n - 1:
                return True
            now_ns = submit_ns[arrived]
            before = first
            first = _queue(queue, first, last, arrived, demand_s, order > 0)
            last += first == before
            arrived += 1
        else:
            break
        started = _grant(
            rule, limit, processors, running, free, queue, first, last - first, least, most, grants
        )
        if order == 2 and started > 1:
            _differ(started, queue, first, least, most, known_work_s, known_beta_s, grants)
        for i in range(started):
            job = queue[first + i]
            given = grants[i]
            time_s = work_s[job] / given + alpha_s[job] + beta_s[job] * given
            start_ns[job] = now_ns
            size[job] = given
            free -= given
            push(ends_ns, ending, running, now_ns + max(1, int(np.rint(time_s * 1e9))), job)
            running += 1
        first += started
    return False
