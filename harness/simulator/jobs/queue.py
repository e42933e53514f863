"""The queue of waiting jobs, and which of them start: in order, and by backfilling."""

import numpy as np

from coordinator.policies import allocation, backfilling, ordered
from harness.simulator.compiled import hot, step
from harness.simulator.jobs.case import Case
from harness.simulator.jobs.model import Floats, Jobs
from harness.simulator.jobs.running import begin

_grant = hot(allocation.grant)
_differ = step(allocation.differ)
_divide = step(allocation.divide)
_reservation = step(backfilling.reservation)
_backfill = step(backfilling.backfill)
_score = step(ordered.score)


def keys(jobs: Jobs, order: int) -> Floats:
    """(n,) the order of a queue that does not change, scores from the arrivals on; empty if it is theirs."""
    if order == allocation.ARRIVAL:
        return np.zeros(0)
    return jobs.demand_s if order == allocation.DEMAND else np.zeros(len(jobs))


@step
def enter(case: Case, job: int) -> None:
    """Let a job wait, behind its equals in the order of the queue."""
    now = case.now[0]
    queue = case.queue
    low = now.last
    if len(case.keys) > 0:
        if case.scheme.order.queue > allocation.DEMAND:
            case.keys[job] = _scored(case, job)
        low = now.first
        high = now.last
        while low < high:
            middle = (low + high) >> 1
            if case.keys[queue[middle]] <= case.keys[job]:
                low = middle + 1
            else:
                high = middle
        if now.first > 0 and low - now.first < now.last - low:
            for place in range(now.first, low):
                queue[place - 1] = queue[place]
            queue[low - 1] = job
            now.first -= 1
            return
        for place in range(now.last, low, -1):
            queue[place] = queue[place - 1]
    queue[low] = job
    now.last += 1


@step
def start_in_order(case: Case) -> None:
    """Start as many jobs from the front of the queue as there are processors for, then backfill."""
    now = case.now[0]
    if len(case.scores) > 0:
        sort(case)
    line = case.queue[now.first : now.last]
    started = _grant(case.rule, now.free, now.total, line, case.demands, case.grants)
    if case.scheme.order.differential:
        if started > 1:
            _differ(started, line, case.demands, case.grants)
    elif case.rule.kind >= allocation.IN_PROPORTION:
        _divide(case.rule.kind, started, line, case.demands, case.grants)
    for i in range(started):
        begin(case, line[i], case.grants[i])
    now.first += started
    if case.scheme.backfilling != allocation.NONE and now.first < now.last and now.free > 0:
        _start_behind(case)


@step
def sort(case: Case) -> None:
    """Put the queue in order by the scores of the jobs at this time, equal ones in order of arrival."""
    now = case.now[0]
    for end in range(now.first, now.last):
        place = end
        job = case.queue[place]
        case.scores[job] = _scored(case, job)
        while place > now.first and _before(case, job, case.queue[place - 1]):
            case.queue[place] = case.queue[place - 1]
            place -= 1
        case.queue[place] = job


@step
def _scored(case: Case, job: int) -> float:
    """The score of a job at this time."""
    submit_ns = case.arrivals.submit_ns[job]
    return float(
        _score(
            case.scheme.order.queue,
            submit_ns / 1e9,
            (case.now[0].time_ns - submit_ns) / 1e9,
            case.expected.estimates_ns[job] / 1e9,
            case.demands.max_processes[job],
        )
    )


@step
def _before(case: Case, job: int, other: int) -> bool:
    """Whether a job is in front of another one by their scores."""
    scores, submit_ns = case.scores, case.arrivals.submit_ns
    if scores[job] != scores[other]:
        return bool(scores[job] < scores[other])
    if submit_ns[job] != submit_ns[other]:
        return bool(submit_ns[job] < submit_ns[other])
    return job < other


@step
def _start_behind(case: Case) -> None:
    """Start jobs that do not delay the first one, for which there are not enough processors."""
    now = case.now[0]
    expected = case.expected
    sizes = case.demands.max_processes
    spare = now.free - sizes[case.queue[now.first]]
    running = now.running
    reserved = _reservation(now.time_ns, spare, expected.ends_ns[:running], expected.held[:running])
    behind = now.first + 1
    line = case.queue[behind : now.last]
    count = _backfill(now.time_ns, now.free, reserved, line, sizes, expected.estimates_ns, case.grants)
    for i in range(count):
        place = behind + case.grants[i]
        job = case.queue[place]
        begin(case, job, sizes[job])
        take_out(case, place)


@step
def take_out(case: Case, place: int) -> None:
    """Remove a job from the queue; those behind it stay at their places."""
    now = case.now[0]
    for i in range(place, now.first, -1):
        case.queue[i] = case.queue[i - 1]
    now.first += 1
