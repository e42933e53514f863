"""EASY backfilling, which most clusters use today, and its inner steps.

The simulator compiles these leaf functions over arrays, too.
"""

from typing import Any

from coordinator.policies import allocation, partitions
from coordinator.policies.adaptive import FirstCome
from coordinator.policies.registry import register
from coordinator.view import Decision, Job, Reason, View


def reservation(now_ns: int, spare: int, ends_ns: Any, held: Any) -> tuple[int, int]:
    """The shadow time and the number of extra processors of a job that needs more than are free.

    ``spare`` is the number of free processors less those that the job needs, so it is below 0. The shadow
    time is the earliest time at which, by the estimates, enough processors are free. Extra processors are
    those that are free then and that the job does not need. ``ends_ns`` are the estimated ends of the running
    jobs in ascending order, ``held`` their numbers of processors; an end in the past counts as now.
    Source: Mu'alem and Feitelson 2001.
    """
    shadow_ns = now_ns
    passed = 0
    # Processors of other jobs that end at the shadow time are left over, too.
    while passed < len(ends_ns) and (spare < 0 or ends_ns[passed] <= shadow_ns):
        shadow_ns = max(shadow_ns, ends_ns[passed])
        spare += held[passed]
        passed += 1
    return shadow_ns, spare


def backfill(
    now_ns: int, free: int, reserved: tuple[int, int], line: Any, sizes: Any, estimates_ns: Any, starts: Any
) -> int:
    """Choose jobs of ``line`` that start now; return their number, and their places in ``starts``.

    They wait behind a job that has not enough processors, and for which the shadow time and the extra
    processors are ``reserved``. A job that fits now starts if, by the estimates, it ends by the shadow time,
    or if it needs only extra processors.
    Source: Lifka 1995, "The ANL/IBM SP scheduling system"; Mu'alem and Feitelson 2001.
    """
    shadow_ns, spare = reserved
    count = 0
    place = 0
    while place < len(line) and free > 0:
        job = line[place]
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


FOREVER_NS = 2**61
"""The estimate for a job without one."""


def _estimate_ns(job: Job) -> int:
    return round(job.estimate.on(job.processes) * 1e9) if job.estimate else FOREVER_NS


@register("easy")
class Easy(FirstCome):
    """First come, first served, but later jobs may start where they do not delay the first waiting one."""

    backfilling = allocation.EASY
    source = "Lifka 1995; Mu'alem and Feitelson 2001"

    def decide(self, view: View, reason: Reason) -> Decision:
        """Start jobs that fit, reserve for the first that does not, backfill; the state has the ends."""
        placements = self.begun(view)
        before = view.state or {}
        ends_ns = {
            job.number: before[job.number] if job.number in before else view.now_ns + _estimate_ns(job)
            for job in view.jobs
        }
        free = partitions.free(view, placements)
        jobs = partitions.waiting(view, placements)
        if free and jobs:
            running = sorted((ends_ns[number], len(place)) for number, place in placements.items())
            spare = len(free) - jobs[0].processes
            soonest_ns = [end_ns for end_ns, _ in running]
            reserved = reservation(view.now_ns, spare, soonest_ns, [held for _, held in running])
            sizes = [job.processes for job in jobs]
            estimates_ns = [ends_ns[job.number] - view.now_ns for job in jobs]
            starts = [0] * len(jobs)
            line = range(1, len(jobs))
            count = backfill(view.now_ns, len(free), reserved, line, sizes, estimates_ns, starts)
            for place in starts[:count]:
                job = jobs[line[place]]
                placements[job.number] = tuple(free[: job.processes])
                free = free[job.processes :]
        return partitions.for_good(view, placements, {number: ends_ns[number] for number in placements})
