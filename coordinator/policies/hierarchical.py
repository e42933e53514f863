"""Gang scheduling by distributed hierarchical control: ``dhc``.

The machine is a binary tree of controllers, one for each block of the buddy system. A job belongs
to one controller for good. The levels of the tree take turns, the largest blocks first; while a
level has its turn, each of its controllers time-slices its own jobs, independently of its peers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, chain

from coordinator.policies import partitions
from coordinator.policies.partitions import block, width
from coordinator.policies.registry import TimeSlicing, register
from coordinator.view import Decision, Job, Reason, Slot, View

Queues = Mapping[int, tuple[int, ...]]
"""The jobs of each controller that has any, in the order of their turns; the first one is next."""


@dataclass(frozen=True)
class _ControllerState:
    queues: Queues = field(default_factory=dict)
    """At the beginning of the table."""
    levels: tuple[int, ...] = ()
    """Whose turn each slot of the table is, 0 for the root."""
    fresh: bool = False
    """Whether a round begins with the table."""
    placed: partitions.Placements = field(default_factory=dict)


@register("dhc")
class HierarchicalControl(TimeSlicing):
    """Distributed hierarchical control: every block of the buddy system rotates its own jobs.

    Attributes:
        quantum_ms: length of a slot.
        share: whether "sequential" jobs share the slots of all jobs, as under ``gang``.
    """

    share: partitions.Share = "none"
    source = "Feitelson and Rudolph 1990 (as told in the survey)"

    def decide(self, view: View, reason: Reason) -> Decision:
        """Slots of the gangs, which with ``share`` run sequential jobs as well."""
        return partitions.two_level(self.share, self._slots, view, reason)

    def _slots(self, view: View, reason: Reason) -> Decision:
        """A table up to the end of the round; it repeats if a round begins and ends alike.

        An interrupted slot goes on unless all of its jobs have left. A newcomer goes to the least
        loaded block of its size; a lone table of one slot is never interrupted.
        """
        state = view.state or _ControllerState()
        passed = view.slots_over(reason) if state.levels else 0
        queues = state.queues
        for level in state.levels[:passed]:
            queues = _turned(queues, _running(queues, level))
        levels = state.levels[passed:]
        here = {job.number: job for job in view.jobs}
        begun = view.previous is not None and bool(levels) and view.elapsed_ns > 0
        if begun and view.previous and view.previous.running(view.slot).isdisjoint(here):
            levels, begun = levels[1:], False
        if state.fresh and passed == 0 and view.elapsed_ns == 0:
            levels = ()
        placed = {n: place for n, place in state.placed.items() if n in here and view.lost.isdisjoint(place)}
        queues = {node: tuple(n for n in queue if n in placed) for node, queue in queues.items()}
        queues = _joined(queues, placed, (job for job in view.jobs if job.number not in placed), view)
        rest = tuple(level for level in levels if any(node.bit_length() == level + 1 for node in queues))
        begun = begun and rest[:1] == levels[:1]
        return self._table(_ControllerState(queues, rest, not rest, placed), begun, view)

    def _table(self, rest: _ControllerState, begun: bool, view: View) -> Decision:
        queues, levels, placed = rest.queues, rest.levels or _round(rest.queues), rest.placed
        ahead = queues
        slots = []
        for level in levels:
            nodes = _running(ahead, level)
            running = {ahead[node][0]: placed[ahead[node][0]] for node in nodes}
            slots.append(Slot(partitions.runs(running, view.machine.processors), self.quantum_ns))
            ahead = _turned(ahead, nodes)
        state = _ControllerState(queues, levels, rest.fresh, placed)
        cyclic = rest.fresh and ahead == queues
        if len(slots) <= 1 and cyclic:
            runs = slots[0].runs if slots else ((),) * view.machine.processors
            return Decision(placed, (Slot(runs),), state=state)
        limited = view.previous is not None and view.previous.slots[view.slot].length_ns is not None
        elapsed_ns = min(view.elapsed_ns, self.quantum_ns - 1) if begun and limited else 0
        return Decision(placed, tuple(slots), cyclic=cyclic, elapsed_ns=elapsed_ns, state=state)


def _running(queues: Queues, level: int) -> set[int]:
    """The controllers that run when ``level`` has its turn: its own, and below idle ones their halves."""
    jobs: set[int] = set()
    for node in sorted(queues):
        higher = node if node >> level else 0
        while higher and higher not in jobs:
            higher >>= 1
        if node >> level and not higher:
            jobs.add(node)
    return jobs


def _turned(queues: Queues, nodes: Iterable[int]) -> Queues:
    """After a slot in which the first jobs of these controllers ran: they go to the end."""
    return {**queues, **{node: (*queues[node][1:], queues[node][0]) for node in nodes}}


def _round(queues: Queues) -> tuple[int, ...]:
    """As many slots for each level as its longest queue has jobs, so that each runs at least once."""
    longest: dict[int, int] = {}
    for node, queue in queues.items():
        level = node.bit_length() - 1
        longest[level] = max(longest.get(level, 0), len(queue))
    return tuple(level for level in sorted(longest) for _ in range(longest[level]))


def _joined(queues: Queues, placed: partitions.Placements, jobs: Iterable[Job], view: View) -> Queues:
    """The queues that are not empty, with newcomers at their ends; ``placed`` is modified in place."""
    queues = {node: queue for node, queue in queues.items() if queue}
    if not (come := list(jobs)):
        return queues
    there = [
        p < view.machine.processors and p not in view.lost for p in range(width(view.machine.processors))
    ]
    room = [0, *accumulate(there)]
    loads = [0] * len(there)
    for p in chain.from_iterable(placed.values()):
        loads[p] += there[p]
    for job in come:
        node, chosen = _controller(job, loads, room, view)
        queues[node] = (*queues.get(node, ()), job.number)
        placed[job.number] = tuple(chosen[: job.processes])
        for p in placed[job.number]:
            loads[p] += there[p]
    return queues


def _controller(job: Job, loads: list[int], room: list[int], view: View) -> tuple[int, list[int]]:
    """The least loaded block that is just large enough, and its processors.

    ``loads`` has the processes on each processor that is left, ``room`` the number of these before each.

    If none of that size has enough processors left, a larger one has to do; a job for which no
    block is left belongs to the whole machine as if nothing were lost.
    """
    first = width(view.machine.processors) // width(job.processes)
    load = [0, *accumulate(loads)]
    while first:
        size = len(loads) // first
        starts = range(0, len(loads), size)
        large = [s for s in starts if room[s + size] - room[s] >= job.processes]
        if large:
            start = min(large, key=lambda s: load[s + size] - load[s])
            node = first + start // size
            return node, block(node, view)
        first //= 2
    return 1, list(range(view.machine.processors))
