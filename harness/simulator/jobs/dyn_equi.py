"""Malleable jobs, whose processors change when others come and leave: dynamic equipartition."""

import numpy as np

from coordinator.policies import allocation
from harness.simulator.compiled import step
from harness.simulator.jobs.case import Case, Shares
from harness.simulator.jobs.execution import time_ns
from harness.simulator.jobs.model import NEVER_NS
from harness.simulator.jobs.queue import take_out

_share = step(allocation.share)


def shares(jobs: int, processors: int) -> Shares:
    """Of jobs none of which has begun."""
    ends_ns, since_ns = np.zeros((2, jobs), dtype=np.int64)
    return Shares(ends_ns, since_ns, np.zeros(jobs), *np.zeros((2, processors), dtype=np.int64))


@step
def leave(case: Case, job: int) -> None:
    """Take a job that has ended out of the queue."""
    _account(case, job)
    place = case.now[0].first
    while case.queue[place] != job:
        place += 1
    take_out(case, place)


@step
def divide_anew(case: Case) -> None:
    """Divide the processors among all jobs present, without costs; the last of too many get none."""
    now = case.now[0]
    shares = case.shares
    running = min(now.last - now.first, case.rule.processors)
    line = case.queue[now.first : now.first + running]
    for i in range(running):
        shares.caps[i] = case.demands.max_processes[line[i]]
    _share(case.rule.processors, running, shares.caps, shares.parts)
    now.running = 0  # the jobs that end next: the others' ends change until then
    for i in range(running):
        job = line[i]
        if shares.parts[i] != case.size[job]:
            _resize(case, job, shares.parts[i])
        if now.running > 0 and shares.ends_ns[job] < case.ends_ns[0]:
            now.running = 0
        if now.running == 0 or shares.ends_ns[job] == case.ends_ns[0]:
            case.ends_ns[now.running] = shares.ends_ns[job]
            case.ending[now.running] = job
            now.running += 1


@step
def _resize(case: Case, job: int, size: int) -> None:
    """Give a job other processors, or its first ones."""
    time = case.now[0].time_ns
    left_ns = time_ns(case.jobs, job, size)
    if case.times.start_ns[job] == NEVER_NS:
        case.times.start_ns[job] = time
        case.shares.since_ns[job] = time
    else:
        _account(case, job)
        old_ns = time_ns(case.jobs, job, case.size[job])
        left_ns = max(0, int(np.rint((case.shares.ends_ns[job] - time) * (left_ns / old_ns))))
    case.shares.ends_ns[job] = time + left_ns
    case.size[job] = size


@step
def _account(case: Case, job: int) -> None:
    """Add up the CPU time of a job that gets other processors now, or has ended."""
    time_ns = case.now[0].time_ns
    case.shares.held_ns[job] += float(time_ns - case.shares.since_ns[job]) * case.size[job]
    case.shares.since_ns[job] = time_ns
