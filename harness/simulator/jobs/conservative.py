"""Conservative backfilling: a plan of free processors from now on, with a reservation for each waiting job.

The plan is kept from event to event. As long as nothing ends before its time, no job could start earlier, so
only jobs that arrive are planned.
"""

import numpy as np

from coordinator.policies import backfilling
from harness.simulator.compiled import step
from harness.simulator.jobs import queue
from harness.simulator.jobs.case import Case, Reservations
from harness.simulator.jobs.model import NEVER_NS
from harness.simulator.jobs.running import begin

_earliest = step(backfilling.earliest)
_occupy = step(backfilling.occupy)

SPARE = 64
"""Steps that a plan may have more than its jobs need, before it is made again."""


def reservations(jobs: int, processors: int) -> Reservations:
    """Room for a plan of the ``jobs`` that wait."""
    room = 8 * processors + 10 * jobs + 2 * SPARE
    begins_ns, free = np.zeros((2, room), dtype=np.int64)
    free[0] = processors
    return Reservations(begins_ns, free, np.full(jobs, NEVER_NS))


@step
def start_reserved(case: Case) -> None:
    """Plan all waiting jobs in order, and start those whose time has come."""
    now = case.now[0]
    if len(case.scores) > 0:
        queue.sort(case)
    _advance(case)
    _hold(case)
    _postpone(case)
    _plan(case)
    place = now.first
    while place < now.last and now.free > 0:
        job = case.queue[place]
        size = case.demands.max_processes[job]
        if case.reservations.starts_ns[job] == now.time_ns and size <= now.free:
            begin(case, job, size)
            queue.take_out(case, place)
        place += 1


@step
def take(case: Case, size: int, begin_ns: int, end_ns: int) -> None:
    """Take processors out of the plan, or with a ``size`` below 0 give them back."""
    now = case.now[0]
    begins_ns, free = case.reservations.begins_ns, case.reservations.free
    now.steps = _occupy(size, begin_ns, end_ns, begins_ns, free, now.steps)


@step
def give_back(case: Case, size: int, end_ns: int) -> None:
    """Note that a job has ended, which was expected to run until ``end_ns``."""
    now = case.now[0]
    if end_ns > now.time_ns:
        take(case, -size, now.time_ns, end_ns)
        now.settled = 0


@step
def hold_on(case: Case, job: int) -> None:
    """Note that a running job has a longer prediction."""
    now = case.now[0]
    end_ns = case.times.start_ns[job] + case.expected.estimates_ns[job]
    if end_ns > now.time_ns:
        take(case, case.size[job], now.time_ns, end_ns)
        now.settled = 0


@step
def _advance(case: Case) -> None:
    """Drop the steps that are over; a plan with too many is made again."""
    now = case.now[0]
    begins_ns, free = case.reservations.begins_ns, case.reservations.free
    over = 0
    while over + 1 < now.steps and begins_ns[over + 1] <= now.time_ns:
        over += 1
    if over > 0:
        for i in range(over, now.steps):
            begins_ns[i - over] = begins_ns[i]
            free[i - over] = free[i]
        now.steps -= over
    begins_ns[0] = now.time_ns
    waiting = now.last - now.first
    if now.steps > 4 * (now.running + waiting) + SPARE:
        _renew(case)


@step
def _renew(case: Case) -> None:
    """The same plan, without steps between which nothing changes."""
    now = case.now[0]
    free = now.free
    for i in range(now.running):
        free += case.expected.held[i]
    now.steps = 1
    case.reservations.free[0] = free
    for i in range(now.running):
        if case.expected.ends_ns[i] > now.time_ns:
            take(case, case.expected.held[i], now.time_ns, case.expected.ends_ns[i])
    for place in range(now.first, now.last):
        job = case.queue[place]
        start_ns = case.reservations.starts_ns[job]
        end_ns = start_ns + case.expected.estimates_ns[job]
        if start_ns < NEVER_NS and end_ns > now.time_ns:
            take(case, case.demands.max_processes[job], max(start_ns, now.time_ns), end_ns)


@step
def _hold(case: Case) -> None:
    """Jobs that outlive their estimates have their processors at least until the next nanosecond."""
    now = case.now[0]
    place = 0
    while place < now.running and case.expected.ends_ns[place] <= now.time_ns:
        take(case, case.expected.held[place], now.time_ns, now.time_ns + 1)
        now.settled = 0
        place += 1


@step
def _postpone(case: Case) -> None:
    """Jobs that could not start at their reservations have them now."""
    now = case.now[0]
    for place in range(now.first, now.last):
        job = case.queue[place]
        start_ns = case.reservations.starts_ns[job]
        if start_ns < now.time_ns:
            size, length_ns = case.demands.max_processes[job], case.expected.estimates_ns[job]
            if start_ns + length_ns > now.time_ns:
                take(case, -size, now.time_ns, start_ns + length_ns)
            take(case, size, now.time_ns, now.time_ns + length_ns)
            case.reservations.starts_ns[job] = now.time_ns
            now.settled = 0


@step
def _plan(case: Case) -> None:
    """Give each job, in order, the earliest start that delays no other's reservation."""
    now = case.now[0]
    plan = case.reservations
    moved = 0
    for place in range(now.first, now.last):
        job = case.queue[place]
        before_ns = plan.starts_ns[job]
        if now.settled == 0 or before_ns == NEVER_NS:
            size, length_ns = case.demands.max_processes[job], case.expected.estimates_ns[job]
            own_ns = (before_ns, before_ns + length_ns)
            start_ns = plan.begins_ns[
                _earliest(size, length_ns, own_ns, plan.begins_ns, plan.free, now.steps)
            ]
            if start_ns != before_ns:
                if before_ns < NEVER_NS:
                    take(case, -size, before_ns, before_ns + length_ns)
                    moved = 1
                take(case, size, start_ns, start_ns + length_ns)
                plan.starts_ns[job] = start_ns
    now.settled = 1 - moved
