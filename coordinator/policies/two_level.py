"""Two-level scheduling: each gang shares its processors with sequential processes during its slot.

The gangs are scheduled globally, in slots; each processor's local scheduler divides a slot between
the gang's process and the sequential ones that are placed there.
Source: Zhou, Brent, Qu 1997, sections 1 and 2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain

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
    there = set(range(view.machine.processors))
    come = [number for number in sequential if number not in placed]
    if come:
        processes = Counter(chain.from_iterable(decision.placements.values()))
        for number in come:
            ours = Counter(p for place in placed.values() for p in place)
            placed[number] = (min(there - view.lost or there, key=lambda p: (ours[p], processes[p], p)),)
    beside: dict[int, tuple[int, ...]] = {}
    for number in sequential:
        (processor,) = placed[number]
        beside[processor] = (*beside.get(processor, ()), number)
    slots = []
    for slot in decision.slots:
        runs = list(slot.runs)
        for processor, more in beside.items():
            runs[processor] += more
        slots.append(replace(slot, runs=tuple(runs)))
    return replace(decision, placements={**decision.placements, **placed}, slots=tuple(slots))


def _sequential(job: Job) -> bool:
    return job.processes == 1
