"""Kernel of dynamic equipartition: malleable jobs whose processors change when others come and leave."""

from dataclasses import replace

import numpy as np

from coordinator.policies import allocation
from harness.simulator.compiled import entry, step
from harness.simulator.interruption import heeding
from harness.simulator.jobs.execution import (
    Arrivals,
    arrivals,
    arriving,
    demanded,
    follow,
    next_instant,
    time_ns,
)
from harness.simulator.jobs.model import NEVER_NS, Columns, Floats, Integers, JobLevelOutcome, Jobs, Times

_share = step(allocation.share)


def simulate(jobs: Jobs, processors: int, watched: int | None = None) -> JobLevelOutcome:
    """Simulate DYN-EQUI without costs for repartitioning.

    ``watched`` as in :func:`harness.simulator.jobs.space.simulate`.
    """
    n = len(jobs)
    times = Times.unknown(n)
    held_ns = np.zeros(n)
    coming = arrivals(jobs)
    saturated = heeding(
        _run,
        processors,
        n if watched is None else watched,
        watched is not None,
        coming,
        demanded(jobs)[0],
        np.zeros((2, n + 1), dtype=np.int64),
        np.zeros((3, processors + 1), dtype=np.int64),
        times,
        held_ns,
    )
    size = held_ns / np.maximum(1, times.finish_ns - times.start_ns)
    arrived = replace(jobs, submit_ns=coming.submit_ns)
    return JobLevelOutcome(arrived, processors, *times, size, np.full(n, -1), bool(saturated), places={})


@step
def _remove_ended(here: Integers, left_ns: Integers, sizes: Integers, able: int, present: int) -> int:
    """Remove the jobs among the first ``able`` that have nothing left to do; returns how many."""
    gone = 0
    for i in range(able):
        if left_ns[i] == 0:
            gone += 1
        elif gone > 0:
            here[i - gone] = here[i]
            left_ns[i - gone] = left_ns[i]
            sizes[i - gone] = sizes[i]
    for i in range(able, present if gone > 0 else able):
        here[i - gone] = here[i]
    return gone


@entry
def _run(
    processors: int,
    watched: int,
    until_last: bool,
    arrivals: Arrivals,
    jobs: Columns,
    queue: Integers,
    scratch: Integers,
    times: Times,
    held_ns: Floats,
    ended: Integers,
) -> bool:
    """The event loop; ``times`` and ``held_ns`` are modified in place. Returns whether it saturated.

    ``here`` holds the jobs present in order of arrival, ``left_ns`` the time that each still needs
    on its present processors. Only the first ``processors`` jobs have processors.
    """
    here, left_ns = queue[0], queue[1]
    parts, caps, sizes = scratch[0], scratch[1], scratch[2]
    n = len(jobs.submit_ns)
    present = 0
    unfinished = watched
    now_ns = 0
    while unfinished > 0 and not ended[0]:
        able = min(present, processors)
        then_ns = next_instant(left_ns, 0, arrivals)
        if able > 0:
            then_ns = min(then_ns, now_ns + left_ns[np.argmin(left_ns[:able])])
        if then_ns == NEVER_NS:
            break
        for i in range(able):
            left_ns[i] -= then_ns - now_ns
            held_ns[here[i]] += float(then_ns - now_ns) * sizes[i]
            if left_ns[i] == 0:
                times.finish_ns[here[i]] = then_ns
                unfinished -= here[i] < watched
                follow(arrivals, here[i], then_ns)
        now_ns = then_ns
        gone = _remove_ended(here, left_ns, sizes, able, present)
        able -= gone
        present -= gone
        job = arriving(arrivals, now_ns)
        while job >= 0:
            if until_last and job == n - 1:
                return unfinished > 0
            here[present] = job
            present += 1
            job = arriving(arrivals, now_ns)
        runs = min(present, processors)
        for i in range(runs):
            caps[i] = jobs.most[here[i]]
        _share(processors, runs, caps, parts)
        for i in range(runs):
            job = here[i]
            new_ns = time_ns(jobs, job, parts[i])
            if i >= able:  # it starts
                times.start_ns[job] = now_ns
                left_ns[i] = new_ns
            elif parts[i] != sizes[i]:
                old_ns = time_ns(jobs, job, sizes[i])
                left_ns[i] = max(0, int(np.rint(left_ns[i] * (new_ns / old_ns))))
            sizes[i] = parts[i]
    return False
