"""Processor sets as in Mach: processors of its own for a time, then the pool."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies import partitions
from coordinator.policies.registry import Policy, Quantum, register
from coordinator.view import Decision, Job, Reason, Slot, View


@register("processor-sets")
@dataclass(frozen=True)
class ProcessorSets(Policy):
    """A job has its own processors for a time; then jobs that wait share them under the local scheduler.

    Attributes:
        hold_ms: for how long a job keeps its processors to itself.
    """

    hold_ms: Quantum = 1000.0
    source: ClassVar[str] = "Black 1990 (Mach); the survey, section Space-Sharing Policies"

    def decide(self, view: View, why: Reason) -> Decision:
        """Start jobs in order of arrival while the pool has enough processors for the first that waits.

        The pool has the processors that nobody has, and the processors of jobs whose time is over. A
        job that gets only processors that nobody has keeps them to itself for its time. No process
        moves. If a job waits, the table ends when the next set's time does. The memory holds the ends of
        these times.
        """
        placements = partitions.still_running(view)
        before: dict[int, int] = view.previous.memory if view.previous else {}
        ends_ns = {n: end_ns for n, end_ns in before.items() if n in placements and end_ns > view.now_ns}
        waiting = partitions.waiting(view, placements)
        while waiting and (place := _place(waiting[0], view, placements, ends_ns)):
            job = waiting.pop(0).number
            if set(place) <= set(partitions.free(view, placements)):
                ends_ns[job] = view.now_ns + round(self.hold_ms * 1e6)
            placements[job] = place
        length_ns = min(ends_ns.values()) - view.now_ns if waiting and ends_ns else None
        runs = tuple(
            tuple(job for job, place in placements.items() if processor in place)
            for processor in range(view.machine.processors)
        )
        return Decision(placements, (Slot(runs, length_ns),), cyclic=length_ns is None, memory=ends_ns)


def _place(job: Job, view: View, placements: partitions.Placements, kept: dict[int, int]) -> tuple[int, ...]:
    """The processors of the pool with the fewest jobs, none if it is too small; ``kept`` jobs keep theirs."""
    taken = {p for number in kept for p in placements[number]} | view.lost
    jobs = Counter(p for place in placements.values() for p in place)
    pool = sorted(set(range(view.machine.processors)) - taken, key=lambda p: (jobs[p], p))
    return tuple(pool[: job.processes]) if job.processes <= len(pool) else ()
