"""EASY backfilling, which most clusters use today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies import backfill, partitions
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Job, Reason, View

FOREVER_NS = 2**61
"""The estimate for a job without one."""


@register("easy")
@dataclass(frozen=True)
class Easy(Policy):
    """First come, first served, but later jobs may start where they do not delay the first waiting one."""

    source: ClassVar[str] = "Lifka 1995; Mu'alem and Feitelson 2001"

    def decide(self, view: View, why: Reason) -> Decision:
        """Start the jobs that fit in order, reserve for the first that does not, and backfill.

        The memory holds the estimated end of each running job.
        """
        placements = partitions.still_running(view)
        before = view.previous.memory if view.previous else {}
        ends_ns = {number: before[number] for number in placements}
        free = partitions.free(view, placements)
        jobs = partitions.waiting(view, placements)
        estimates_ns = [_estimate_ns(job) for job in jobs]
        starts = [0] * len(jobs)
        running = sorted(placements, key=lambda number: ends_ns[number])
        count = backfill.easy(
            view.now_ns,
            len(free),
            range(len(jobs)),
            0,
            len(jobs),
            [job.processes for job in jobs],
            estimates_ns,
            len(running),
            [ends_ns[number] for number in running],
            [len(placements[number]) for number in running],
            starts,
            backfill.reservation,
        )
        for index in starts[:count]:
            job = jobs[index]
            placements[job.number] = tuple(free[: job.processes])
            free = free[job.processes :]
            ends_ns[job.number] = view.now_ns + estimates_ns[index]
        return partitions.for_good(view, placements, ends_ns)


def _estimate_ns(job: Job) -> int:
    return round(job.estimate.on(job.processes) * 1e9) if job.estimate else FOREVER_NS
