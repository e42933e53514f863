"""Two-level scheduling: each gang shares its processors with sequential processes during its slot.

The gangs are scheduled globally, in slots; each processor's local scheduler divides a slot between
the gang's process and the sequential ones that are placed there.
Source: Zhou, Brent, Qu 1997, sections 1 and 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from coordinator.view import Decision, Job, Reason, View

SHARES = ("none", "sequential")


def decide(share: str, gangs: Callable[[View, Reason], Decision], view: View, why: Reason) -> Decision:
    """The decision of ``gangs``; with ``share`` "sequential" about jobs of more than one process only.

    Then every job of one process keeps the processor that had the fewest such jobs when it
    came (among equals, the one with the fewest processes of gangs), and may run there in all slots.
    """
    if share == "none":
        return gangs(view, why)
    decision = gangs(replace(view, jobs=tuple(job for job in view.jobs if not _sequential(job))), why)
    before = view.previous.placements if view.previous else {}
    sequential = [job.number for job in view.jobs if _sequential(job)]
    placed = {n: before[n] for n in sequential if n in before and view.lost.isdisjoint(before[n])}
    processes = Counter(p for place in decision.placements.values() for p in place)
    there = set(range(view.machine.processors))
    for number in sequential:
        if number not in placed:
            ours = Counter(p for place in placed.values() for p in place)
            placed[number] = (min(there - view.lost or there, key=lambda p: (ours[p], processes[p], p)),)
    beside = [
        tuple(n for n in sequential if placed[n] == (processor,))
        for processor in range(view.machine.processors)
    ]
    slots = tuple(
        replace(slot, runs=tuple(jobs + more for jobs, more in zip(slot.runs, beside, strict=True)))
        for slot in decision.slots
    )
    return replace(decision, placements={**decision.placements, **placed}, slots=slots)


def _sequential(job: Job) -> bool:
    return job.processes == 1
