"""Time-space sharing by a distributed queue tree: ``dqt`` and ``fair-dqt``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from coordinator.policies import front, places
from coordinator.policies.registry import register
from coordinator.policies.scan import width
from coordinator.view import Decision, Job, Reason, Slot, View
from workloads.validation import number


@dataclass
class Tree:
    """The queues of all nodes and the front, in heap order; see :mod:`coordinator.policies.front`."""

    fair: bool
    queues: dict[int, list[int]]
    nodes: dict[int, int]
    """The node of each job."""
    count: list[int]
    tasks: list[int]
    position: list[int]
    done: list[int]
    load: list[int]
    left: set[int] = field(default_factory=set)
    """Nodes whose running task has left in the middle of this quantum."""

    @classmethod
    def empty(cls, nodes: int, fair: bool) -> Tree:
        """A tree of ``nodes`` nodes without tasks."""
        count, tasks, position, done, load = ([0] * (2 * nodes + 2) for _ in range(5))
        return cls(fair, {}, {}, count, tasks, position, done, load)

    def copy(self) -> Tree:
        """One that can be changed without changing this one."""
        return Tree(
            fair=self.fair,
            queues={node: list(queue) for node, queue in self.queues.items()},
            nodes=dict(self.nodes),
            count=list(self.count),
            tasks=list(self.tasks),
            position=list(self.position),
            done=list(self.done),
            load=list(self.load),
            left=set(self.left),
        )

    def running(self) -> list[int]:
        """The jobs that the front runs."""
        found = []
        for node in self._reached():
            position = self.position[node]
            if 0 <= position < self.count[node] and node not in self.left:
                found.append(self.queues[node][position])
        return found

    def advance(self) -> bool:
        """Go on by one quantum; returns whether a new round of the whole tree begins."""
        self.left.clear()
        arrays = (self.count, self.tasks, self.position, self.done)
        for node in reversed(self._reached()):
            status = front.over(node, *arrays)
            if status == 2:
                for half in (2 * node, 2 * node + 1):
                    self.done[half] = 0 if self.tasks[half] else 1
                    self._begin(half)
            elif status == 1:
                self.done[node] = 1
                if node == 1 or not self.fair:
                    self._begin(node)
                if node == 1:
                    return True
        return self.tasks[1] == 0

    def enter(self, job: int, node: int, load: int) -> None:
        """Add a job to the queue of a node; ``load`` is its number of virtual processors."""
        self.nodes[job] = node
        self.queues.setdefault(node, []).append(job)
        first = front.enter(node, self.fair, self.count, self.tasks, self.position, self.done)
        if first:
            self._begin(first)
        self._add(node, load)

    def leave(self, job: int, load: int) -> None:
        """Remove a job; if it was running, its partition idles for the rest of the quantum."""
        node = self.nodes.pop(job)
        place = self.queues[node].index(job)
        if place == self.position[node]:
            self.left.add(node)
        self.queues[node].remove(job)
        front.leave(node, place, self.count, self.tasks, self.position)
        self._add(node, -load)

    def _reached(self) -> list[int]:
        nodes = [0] * len(self.count)
        arrays = (self.count, self.tasks, self.position, self.done)
        found = front.reached(*arrays, self.fair, [0] * len(self.count), nodes)
        return nodes[:found]

    def _begin(self, node: int) -> None:
        front.begin(node, self.count, self.tasks, self.position, self.done, [0] * len(self.count))

    def _add(self, node: int, load: int) -> None:
        while node:
            self.load[node] += load
            node >>= 1


@dataclass(frozen=True)
class _Memory:
    tree: Tree
    """At the beginning of the first slot."""
    places: places.Placements


class _QueueTree:
    needs_mechanism: ClassVar[bool] = True
    fair: ClassVar[bool]
    quantum_ms: float

    def __post_init__(self) -> None:
        number("quantum_ms", self.quantum_ms, above=0)

    def processes(self, job: Job, view: View) -> int | None:
        """As many as the job asks for."""
        return job.processes

    def decide(self, view: View, why: Reason) -> Decision:
        """A table up to the end of the round, then whole rounds until something changes.

        The memory holds the tree at the beginning of the table. A lone job is never
        interrupted.
        """
        memory: _Memory | None = view.previous.memory if view.previous else None
        processors = view.machine.processors
        tree = memory.tree.copy() if memory else Tree.empty(2 * width(processors), self.fair)
        fresh = False
        if memory and view.previous:
            passed = len(view.previous.slots) if why is Reason.SLOT_END else view.slot
            for _ in range(passed):
                fresh = tree.advance()
        changed = self._update(tree, view)
        fresh = (fresh and not changed) or not tree.tasks[1]
        placed = dict(memory.places) if memory else {}
        for job in view.jobs:
            if job.number not in placed:
                placed[job.number] = _place(tree.nodes[job.number], job, view)
        placed = {job.number: placed[job.number] for job in view.jobs}
        return self._table(tree, placed, fresh, view, why)

    def _update(self, tree: Tree, view: View) -> bool:
        """Bring the tree up to date with the jobs that are here; whether anything changed."""
        here = {job.number for job in view.jobs}
        gone = [job for job in tree.nodes if job not in here]
        for job in gone:
            tree.leave(job, _size(tree.nodes[job], view))
        come = [job for job in view.jobs if job.number not in tree.nodes]
        for newcomer in come:
            node = _node(tree, newcomer, view)
            tree.enter(newcomer.number, node, _size(node, view))
        return bool(gone or come)

    def _table(self, tree: Tree, placed: places.Placements, fresh: bool, view: View, why: Reason) -> Decision:
        processors = view.machine.processors
        quantum_ns = round(self.quantum_ms * 1e6)
        ahead = tree.copy()
        slots = []
        over = False
        while not over:
            running = {number: placed[number] for number in ahead.running()}
            slots.append(Slot(places.runs(running, processors), quantum_ns))
            over = ahead.advance()
        if len(view.jobs) <= 1 and not (tree.left and view.jobs):
            slots = [Slot(slots[0].runs)]
            return Decision(placed, tuple(slots), memory=_Memory(tree, placed))
        goes_on = view.previous is not None and why is not Reason.SLOT_END
        elapsed_ns = min(view.elapsed_ns, quantum_ns - 1) if goes_on and len(view.previous.slots) > 1 else 0  # type: ignore[union-attr]
        memory = _Memory(tree, placed)
        return Decision(placed, tuple(slots), cyclic=fresh, elapsed_ns=elapsed_ns, memory=memory)


def _range(node: int, view: View) -> list[int]:
    """The processors of a node that are there."""
    leaves = width(view.machine.processors)
    size = leaves >> (node.bit_length() - 1)
    first = node * size - leaves
    last = min(first + size, view.machine.processors)
    return [p for p in range(first, last) if p not in view.lost]


def _size(node: int, view: View) -> int:
    """Virtual processors that one task of the node costs."""
    return width(view.machine.processors) >> (node.bit_length() - 1)


def _node(tree: Tree, job: Job, view: View) -> int:
    """Where a new job goes: down the lighter branch to the smallest node that holds it."""
    node = 1
    while node < width(view.machine.processors):
        halves = [h for h in (2 * node, 2 * node + 1) if len(_range(h, view)) >= job.processes]
        if not halves:
            break
        node = halves[0] if len(halves) == 1 else front.lighter(node, tree.load)
    return node


def _place(node: int, job: Job, view: View) -> tuple[int, ...]:
    return tuple(_range(node, view)[: job.processes])


@register("dqt")
@dataclass(frozen=True)
class QueueTree(_QueueTree):
    """Distributed queue tree: partitions time-shared in rounds; a lighter branch repeats its own.

    Attributes:
        quantum_ms: length of a slot.
    """

    quantum_ms: float = 100.0
    fair: ClassVar[bool] = False
    source: ClassVar[str] = "Hori et al. 1996, section 3"


@register("fair-dqt")
@dataclass(frozen=True)
class FairQueueTree(_QueueTree):
    """Distributed queue tree in which every job runs exactly once a round.

    Attributes:
        quantum_ms: length of a slot.
    """

    quantum_ms: float = 100.0
    fair: ClassVar[bool] = True
    source: ClassVar[str] = "Hori et al. 1996, section 3.1"
