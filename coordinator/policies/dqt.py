"""Time-space sharing by a distributed queue tree: ``dqt`` and ``fair-dqt``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from coordinator.policies import partitions, queue_tree_front
from coordinator.policies.partitions import block, width
from coordinator.policies.queue_tree_front import Front, Walk
from coordinator.policies.registry import TimeSlicing, register
from coordinator.view import Decision, Job, Placement, Reason, Slot, View

DEPTH = 64
"""A walk through a tree of any machine remembers fewer nodes."""


@dataclass
class TreeState:
    """The queues of all nodes in heap order, and their front (``coordinator.policies.queue_tree_front``)."""

    fair: bool
    queues: dict[int, list[int]]
    nodes: dict[int, int]
    """The node of each job."""
    front: Front
    load: list[int]
    walk: Walk = field(repr=False, compare=False)
    """Copies share it."""
    left: set[int] = field(default_factory=set)
    """Nodes whose running task has left during this quantum."""

    @classmethod
    def empty(cls, nodes: int, fair: bool) -> TreeState:
        """A tree of ``nodes`` nodes without tasks."""
        *arrays, load, queued, below = ([0] * (2 * nodes + 2) for _ in range(7))
        return cls(fair, {}, {}, Front(*arrays), load, Walk([0] * DEPTH, queued, below))

    def copy(self) -> TreeState:
        """An independent copy."""
        queues = {node: list(queue) for node, queue in self.queues.items()}
        front, load = Front(*map(list, self.front)), list(self.load)
        nodes, left = dict(self.nodes), set(self.left)
        return replace(self, queues=queues, nodes=nodes, front=front, load=load, left=left)

    def running(self) -> list[int]:
        """The jobs that the front runs."""
        position = self.front.position
        reached = [node for node in self._reached()[0] if position[node] >= 0 and node not in self.left]
        return [self.queues[node][position[node]] for node in reached]

    def advance(self) -> bool:
        """Advance by one quantum; return whether a new round of the whole tree begins."""
        self.left.clear()
        queued, below = self._reached()
        for node in (*queued, *reversed(below)):
            status = queue_tree_front.over(node, self.front)
            if status == 2:
                for half in (2 * node, 2 * node + 1):
                    self.front.done[half] = 0 if self.front.tasks[half] else 1
                    self._begin(half)
            elif status == 1:
                self.front.done[node] = 1
                if node == 1 or not self.fair:
                    self._begin(node)
                if node == 1:
                    return True
        return not self.front.tasks[1]

    def enter(self, job: int, node: int, load: int) -> None:
        """Add a job to the queue of a node; ``load`` is its number of virtual processors."""
        self.nodes[job] = node
        self.queues.setdefault(node, []).append(job)
        first = queue_tree_front.enter(node, self.fair, self.front)
        if first:
            self._begin(first)
        self._add(node, load)

    def leave(self, job: int, load: int) -> None:
        """Remove a job; if it was running, its partition idles for the rest of the quantum."""
        node = self.nodes.pop(job)
        place = self.queues[node].index(job)
        if place == self.front.position[node]:
            self.left.add(node)
        self.queues[node].remove(job)
        queue_tree_front.leave(node, place, self.front)
        self._add(node, -load)
        if self.front.tasks[1] == 0:
            self.left.clear()

    def _reached(self) -> tuple[list[int], list[int]]:
        """Nodes in their queues, and nodes below them, each before its halves."""
        in_queue, deeper = queue_tree_front.reached(self.front, self.walk, self.fair)
        return self.walk.queued[:in_queue], self.walk.below[:deeper]

    def _begin(self, node: int) -> None:
        queue_tree_front.begin(node, self.front, self.walk.stack)

    def _add(self, node: int, load: int) -> None:
        while node:
            self.load[node] += load
            node >>= 1


@dataclass(frozen=True)
class _TableState:
    tree: TreeState
    """At the beginning of the table."""
    ending: TreeState | None
    """If a quantum ended when the table was made: the tree before the front advanced."""
    since_ns: int
    """When the table was made."""
    places: partitions.Placements


@dataclass(frozen=True)
class _QueueTree(TimeSlicing):
    """The queue tree, fair or not."""

    fair: ClassVar[bool]

    def decide(self, view: View, reason: Reason) -> Decision:
        """A table up to the end of the round, then whole rounds until an event.

        Jobs that leave exactly at the end of a quantum leave before the front advances. The
        state holds the tree at the beginning of the table. A lone job is never interrupted.
        """
        state: _TableState | None = view.state
        here = {job.number: job for job in view.jobs}
        tree, ending, fresh = self._tree(state, view, reason)
        come = [job for job in view.jobs if job.number not in tree.nodes]
        for newcomer in come:
            node = _node(tree, newcomer, view)
            tree.enter(newcomer.number, node, _size(node, view))
        before = state.places if state else {}
        kept = {n: place for n, place in before.items() if n in here and view.lost.isdisjoint(place)}
        placed = {n: kept.get(n) or _place(tree.nodes[n], here[n], view) for n in here}
        keep = _TableState(tree, ending, view.now_ns, placed)
        return self._table(keep, (fresh and not come) or not tree.front.tasks[1], view)

    def _tree(
        self, state: _TableState | None, view: View, reason: Reason
    ) -> tuple[TreeState, TreeState | None, bool]:
        """The tree now, the tree before a quantum that ends now, and whether a new round begins."""
        if state is None:
            return TreeState.empty(2 * width(view.machine.processors), self.fair), None, False
        here = {job.number for job in view.jobs}
        tree, ending = _at(state, view, reason)
        changed = ending or tree
        gone = [job for job in changed.nodes if job not in here]
        for job in gone:
            changed.leave(job, _size(changed.nodes[job], view))
        if ending is None:
            return tree, None, False
        tree = ending.copy()
        return tree, ending, tree.advance() and not gone

    def _table(self, state: _TableState, fresh: bool, view: View) -> Decision:
        """The slots up to the end of the round; they repeat if they are a whole round."""
        tree, placed = state.tree, state.places
        ahead = tree.copy()
        slots = []
        over = False
        while not over:
            running = {job: placed[job] for job in ahead.running()}
            slots.append(Slot(partitions.runs(running, view.machine.processors), self.quantum_ns))
            over = ahead.advance()
        lone = len(placed) <= 1 and not (tree.left and placed)
        if lone:
            return Decision(placed, (Slot(slots[0].runs),), state=state)
        goes_on = view.previous is not None and view.previous.slots[view.slot].length_ns is not None
        elapsed_ns = view.elapsed_ns if goes_on and view.elapsed_ns < self.quantum_ns else 0
        return Decision(placed, tuple(slots), cyclic=fresh, elapsed_ns=elapsed_ns, state=state)


def _at(state: _TableState, view: View, reason: Reason) -> tuple[TreeState, TreeState | None]:
    """The tree now and, if a quantum has just ended, the tree from which jobs leave before it advances."""
    assert view.previous is not None
    slots = view.previous.slots
    here = {job.number for job in view.jobs}
    lone = slots[0].length_ns is None
    passed = view.slots_over(reason)
    used_up = passed == len(slots)
    if passed == 0 and view.elapsed_ns == 0 and not lone:
        if view.now_ns > state.since_ns:
            passed = len(slots)  # a whole cycle
        elif state.ending is not None and not state.ending.nodes.keys() <= here:
            return state.tree, state.ending.copy()
    boundary = passed > 0 and (view.elapsed_ns == 0 or used_up)
    tree = state.tree.copy()
    for _ in range(passed - boundary):
        tree.advance()
    return tree, tree if boundary else None


def _size(node: int, view: View) -> int:
    return width(view.machine.processors) >> (node.bit_length() - 1)


def _node(tree: TreeState, job: Job, view: View) -> int:
    """The node for a new job: the smallest that holds it, down the lighter branches."""
    node = 1
    while node < width(view.machine.processors):
        halves = [h for h in (2 * node, 2 * node + 1) if len(block(h, view)) >= job.processes]
        if not halves:
            break
        node = halves[0] if len(halves) == 1 else queue_tree_front.lighter(node, tree.load)
    return node


def _place(node: int, job: Job, view: View) -> Placement:
    there = tuple(block(node, view)[: job.processes])
    return there if len(there) == job.processes else partitions.lowest(view, job.processes)


@register("dqt")
class QueueTree(_QueueTree):
    """Distributed queue tree: jobs share partitions in rounds; a lighter branch repeats its own rounds."""

    fair = False
    source = "Hori et al. 1996, section 3"


@register("fair-dqt")
class FairQueueTree(_QueueTree):
    """Distributed queue tree in which every job runs exactly once in each round."""

    fair = True
    source = "Hori et al. 1996, section 3.1"
