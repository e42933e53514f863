"""The queue of waiting jobs, and which of them start: in order, and by backfilling."""

from coordinator.policies import allocation, easy
from harness.simulator.compiled import hot, step
from harness.simulator.jobs.case import Case
from harness.simulator.jobs.running import begin

_grant = hot(allocation.grant)
_differ = step(allocation.differ)
_divide = step(allocation.divide)
_reservation = step(easy.reservation)
_backfill = step(easy.backfill)


@step
def enter(case: Case, job: int) -> None:
    """Let a job wait, behind its equals in the order of the queue."""
    now = case.now[0]
    queue = case.queue
    low = now.last
    if len(case.keys) > 0:
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
