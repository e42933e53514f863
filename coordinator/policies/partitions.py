"""Steps that space-sharing policies have in common."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from coordinator.view import Decision, Job, Slot, View

Placements = dict[int, tuple[int, ...]]


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


def lowest(view: View, processes: int) -> tuple[int, ...]:
    """The lowest processors that are not lost, or as if none were: there the driver fails a larger job."""
    there = remaining(view)
    return there[:processes] if len(there) >= processes else tuple(range(processes))


def still_running(view: View) -> Placements:
    """The placements of the last decision, without the jobs that have left."""
    before = view.previous.placements if view.previous else {}
    return {job.number: before[job.number] for job in view.jobs if job.number in before}


def waiting(view: View, placements: Mapping[int, tuple[int, ...]]) -> list[Job]:
    """The jobs without processors, in order of arrival."""
    return [job for job in view.jobs if job.number not in placements]


def free(view: View, placements: Mapping[int, tuple[int, ...]]) -> list[int]:
    """The processors that no job has, ascending, without the lost ones."""
    taken = view.lost.union(*placements.values())
    return [p for p in range(view.machine.processors) if p not in taken]


def runs(placements: Mapping[int, tuple[int, ...]], processors: int) -> tuple[tuple[int, ...], ...]:
    """The jobs of each processor in a slot in which all these jobs run; no two share a processor."""
    return _runs(tuple(placements.items()), processors)


@lru_cache(maxsize=256)
def _runs(
    placements: tuple[tuple[int, tuple[int, ...]], ...], processors: int
) -> tuple[tuple[int, ...], ...]:
    """As ``runs``; an event leaves most slots of a table as they were."""
    found: list[tuple[int, ...]] = [()] * processors
    for number, place in placements:
        alone = (number,)
        for processor in place:
            found[processor] = alone
    return tuple(found)


def for_good(view: View, placements: Placements, memory: Any = None) -> Decision:
    """All placed jobs run until the next event; the policy finds ``memory`` in ``View.previous``."""
    return Decision(placements, (Slot(runs(placements, view.machine.processors)),), memory=memory)
