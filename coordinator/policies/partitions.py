"""Steps that policies have in common."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any

from coordinator.view import Assignment, Decision, Job, Placement, Reason, Slot, View
from workloads.parameters import OneOf

Placements = dict[int, Placement]


def width(processors: int) -> int:
    """The smallest power of two that is at least ``processors``."""
    return 1 << (processors - 1).bit_length()


def block(node: int, view: View) -> list[int]:
    """The processors of a node of the binary tree (1 the root, 2n and 2n + 1 the halves), but lost ones."""
    leaves = width(view.machine.processors)
    size = leaves >> (node.bit_length() - 1)
    first = node * size - leaves
    last = min(first + size, view.machine.processors)
    return [p for p in range(first, last) if p not in view.lost] if view.lost else list(range(first, last))


def remaining(view: View) -> tuple[int, ...]:
    """The processors that are not lost, ascending; all if none is left."""
    every = range(view.machine.processors)
    return tuple(p for p in every if p not in view.lost) or tuple(every)


def lowest(view: View, processes: int) -> Placement:
    """The lowest processors that are not lost, or as if none were: there the driver fails a larger job."""
    there = remaining(view)
    return there[:processes] if len(there) >= processes else tuple(range(processes))


def still_running(view: View) -> Placements:
    """The placements of the last decision, without the jobs that have left."""
    before = view.previous.placements if view.previous else {}
    return {job.number: before[job.number] for job in view.jobs if job.number in before}


def waiting(view: View, placements: Mapping[int, Placement]) -> list[Job]:
    """The jobs without processors, in order of arrival."""
    return [job for job in view.jobs if job.number not in placements]


def free(view: View, placements: Mapping[int, Placement]) -> list[int]:
    """The processors that no job has, ascending, without the lost ones."""
    taken = view.lost.union(*placements.values())
    return [p for p in range(view.machine.processors) if p not in taken]


def runs(placements: Mapping[int, Placement], processors: int) -> Assignment:
    """The jobs of each processor in a slot in which all these jobs run; no two share a processor."""
    return _runs(tuple(placements.items()), processors)


@lru_cache(maxsize=256)
def _runs(placements: tuple[tuple[int, Placement], ...], processors: int) -> Assignment:
    """As ``runs``; an event leaves most slots of a table as they were."""
    jobs_of: list[tuple[int, ...]] = [()] * processors
    for number, place in placements:
        alone = (number,)
        for processor in place:
            jobs_of[processor] = alone
    return tuple(jobs_of)


def for_good(view: View, placements: Placements, state: Any = None) -> Decision:
    """All placed jobs run until the next event; the policy finds ``state`` in ``View.previous``."""
    return Decision(placements, (Slot(runs(placements, view.machine.processors)),), state=state)


Share = Annotated[str, OneOf(("none", "sequential"))]
"""With whom jobs of one process share slots (``two_level``)."""


def two_level(share: str, gangs: Callable[[View, Reason], Decision], view: View, reason: Reason) -> Decision:
    """The decision of ``gangs``; with ``share`` "sequential" about jobs of more than one process only.

    Then every job of one process keeps the processor that had the fewest such jobs when it came (among
    equals, the one with the fewest processes of gangs), and may run there in all slots: each processor's
    local scheduler divides a slot between the gang's process and these.
    Source: two-level scheduling, Zhou, Brent, Qu 1997, sections 1 and 2.
    """
    if share == "none":
        return gangs(view, reason)
    decision = gangs(replace(view, jobs=tuple(job for job in view.jobs if job.processes > 1)), reason)
    before = view.previous.placements if view.previous else {}
    sequential = [job.number for job in view.jobs if job.processes == 1]
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
