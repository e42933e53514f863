"""EASY backfilling, which most clusters use today, and its inner steps.

The simulator compiles these leaf functions over arrays, too. A compiled leaf cannot call a plain function, so
``easy`` takes ``reservation`` as an argument.
"""

from collections.abc import Callable
from typing import Any

from coordinator.policies import partitions
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Reason, View


def easy(
    now_ns: int,
    free: int,
    queue: Any,
    first: int,
    waiting: int,
    sizes: Any,
    estimates_ns: Any,
    running: int,
    ends_ns: Any,
    held: Any,
    starts: Any,
    reserve: Callable[..., tuple[int, int]],
) -> int:
    """Choose the waiting jobs that start now; return their number, their places in the queue in ``starts``.

    Jobs start in order while they fit. The first job that does not fit gets a reservation. A later
    job that fits now starts if, by the estimates, it ends by the time of the reservation, or if it needs
    only processors that the reservation leaves over. ``reserve`` is ``reservation``, plain or compiled;
    see there for ``running``, ``ends_ns`` and ``held``.
    Source: Lifka 1995, "The ANL/IBM SP scheduling system"; Mu'alem and Feitelson 2001.
    """
    count = 0
    while count < waiting and sizes[queue[first + count]] <= free:
        free -= sizes[queue[first + count]]
        starts[count] = count
        count += 1
    if count >= waiting or free == 0:
        return count
    shadow_ns, spare = reserve(now_ns, free, queue, first, count, sizes, estimates_ns, running, ends_ns, held)
    place = count + 1
    while place < waiting and free > 0:
        job = queue[first + place]
        size = sizes[job]
        if size <= free:
            in_time = now_ns + estimates_ns[job] <= shadow_ns
            if in_time or size <= spare:
                free -= size
                if not in_time:
                    spare -= size
                starts[count] = place
                count += 1
        place += 1
    return count


def reservation(
    now_ns: int,
    free: int,
    queue: Any,
    first: int,
    started: int,
    sizes: Any,
    estimates_ns: Any,
    running: int,
    ends_ns: Any,
    held: Any,
) -> tuple[int, int]:
    """The shadow time and the number of extra processors of the first waiting job that does not fit.

    It is the job behind the ``started`` ones, which start now and leave ``free`` processors. The shadow time
    is the earliest time at which, by the estimates, enough processors are free for it. Extra processors are
    those that are free then and that it does not need. ``ends_ns`` are the estimated ends of the ``running``
    jobs in ascending order, ``held`` their numbers of processors; an end in the past counts as now.
    Source: Mu'alem and Feitelson 2001.
    """
    needed = sizes[queue[first + started]]
    # Jobs that start now are not in ends_ns: inserting them costs more than
    # searching these few for the smallest end each time.
    shadow_ns = now_ns
    spare = free
    passed = 0
    last_ns = -1
    last = -1
    while True:
        soonest_ns = -1
        soonest = -1
        for i in range(started):
            end_ns = now_ns + estimates_ns[queue[first + i]]
            later = end_ns > last_ns or (end_ns == last_ns and i > last)
            if later and (soonest < 0 or end_ns < soonest_ns):
                soonest = i
                soonest_ns = end_ns
        ours = passed < running and (soonest < 0 or ends_ns[passed] <= soonest_ns)
        end_ns = max(now_ns, ends_ns[passed]) if ours else soonest_ns
        # Processors of other jobs that end at the shadow time are left over, too.
        if (not ours and soonest < 0) or (spare >= needed and end_ns > shadow_ns):
            return shadow_ns, spare - needed
        shadow_ns = end_ns
        if ours:
            spare += held[passed]
            passed += 1
        else:
            spare += sizes[queue[first + soonest]]
            last_ns = soonest_ns
            last = soonest


FOREVER_NS = 2**61
"""The estimate for a job without one."""


@register("easy")
class Easy(Policy):
    """First come, first served, but later jobs may start where they do not delay the first waiting one."""

    source = "Lifka 1995; Mu'alem and Feitelson 2001"

    def decide(self, view: View, why: Reason) -> Decision:
        """Start jobs that fit, reserve for the first that does not, backfill; the memory has the ends."""
        placements = partitions.still_running(view)
        before = view.previous.memory if view.previous else {}
        ends_ns = {number: before[number] for number in placements}
        free = partitions.free(view, placements)
        jobs = partitions.waiting(view, placements)
        known = [(job, job.estimate) for job in jobs]
        estimates_ns = [round(it.on(job.processes) * 1e9) if it else FOREVER_NS for job, it in known]
        starts = [0] * len(jobs)
        waiting = range(len(jobs)), 0, len(jobs), [job.processes for job in jobs], estimates_ns
        ends = sorted((ends_ns[number], len(place)) for number, place in placements.items())
        running = len(ends), [end_ns for end_ns, _ in ends], [held for _, held in ends]
        count = easy(view.now_ns, len(free), *waiting, *running, starts, reservation)
        for index in starts[:count]:
            job = jobs[index]
            placements[job.number] = tuple(free[: job.processes])
            free = free[job.processes :]
            ends_ns[job.number] = view.now_ns + estimates_ns[index]
        return partitions.for_good(view, placements, ends_ns)
