"""Collapsed branches of a queue tree: all tasks of such a branch run in every quantum.

Such a branch, a *unit*, repeats itself until a task arrives or ends. Until then the kernel looks
at its top node only. The top counts the service, and hands it down one path when the unit changes.
For the rules of :mod:`coordinator.policies.queue_tree_front` a unit is a queue of one task. A unit
may contain units.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.simulator.compiled import hot
from harness.simulator.jobs.model import Integers

Nodes = NDArray[np.int32]
"""Half the memory of 64 bits, which matters for the largest trees."""


class CollapsedTree(NamedTuple):
    """The tree by node, in heap order, and the queues as doubly linked lists of jobs."""

    lengths: Nodes
    tasks: Nodes
    position: Nodes
    done: Nodes
    load: Nodes
    """Processors of all jobs in the branch."""
    unit: Nodes
    """1 for the top node of a unit, which counts as a queue of one task."""
    members: Nodes
    """Jobs in a unit."""
    own: Nodes
    """Jobs in the queue of a unit's top node: 1, the only job of the unit, or 0."""
    waiting: Nodes
    """1 for a unit with a job that has not started yet."""
    size: Nodes
    """Processors of each node."""
    stack: Nodes
    queued: Nodes
    below: Nodes
    finished: Nodes
    opened: Nodes
    status: Nodes
    """The effect of the last quantum on each node that it reached."""
    head: Nodes
    tail: Nodes
    current: Nodes
    """Job at ``position`` of each queue, -1 before the head."""
    least: Integers
    """Quanta until the first job of a unit ends."""
    lag: Integers
    """Quanta of service that a unit has not handed down yet."""
    after: Integers
    before: Integers
    node: Integers
    left: Integers
    """Quanta that each job still needs; for a job in a unit, when the unit was made."""
    start: Integers
    """First quantum of each job, -1 before it."""


def empty(leaves: int, left: Integers) -> CollapsedTree:
    """A tree without jobs for ``leaves`` processors; ``left``: the quanta that each coming job needs."""
    nodes = 4 * leaves  # halves of leaves, too, which are always empty
    narrow = [np.zeros(nodes, dtype=np.int32) for _ in range(9)]
    depths = np.log2(np.maximum(1, np.arange(nodes))).astype(np.int32)
    size = (leaves >> depths).astype(np.int32)
    scratch = [np.zeros(nodes, dtype=np.int32) for _ in range(6)]
    links = [np.full(nodes, -1, dtype=np.int32) for _ in range(3)]
    wide = [np.zeros(nodes, dtype=np.int64) for _ in range(2)]
    jobs = [np.full(len(left), -1) for _ in range(4)]
    return CollapsedTree._make([*narrow, size, *scratch, *links, *wide, *jobs[:3], left, jobs[3]])


@hot
def close(tree: CollapsedTree, node: int) -> bool:
    """Collapse a branch into a unit if it can be one; returns whether it is one.

    The branch must be about to begin a round, or begin one before the front reaches it.
    """
    if tree.unit[node] == 1 or tree.tasks[node] == 0 or tree.load[node] > tree.size[node]:
        return bool(tree.unit[node] == 1)
    if tree.lengths[node] == 0:
        least = -1
        waiting = 0
        for half in range(2 * node, 2 * node + 2):
            if tree.tasks[half] > 0:
                if tree.unit[half] == 0:
                    return False
                least = tree.least[half] if least < 0 else min(least, tree.least[half])
                waiting |= tree.waiting[half]
        tree.least[node] = least
        tree.waiting[node] = waiting
    elif tree.tasks[node] == 1:
        tree.least[node] = tree.left[tree.head[node]]
        tree.waiting[node] = 1 if tree.start[tree.head[node]] < 0 else 0
    else:
        return False
    tree.unit[node] = 1
    tree.own[node] = tree.lengths[node]
    tree.members[node] = tree.tasks[node]
    tree.lag[node] = 0
    tree.lengths[node] = 1
    tree.tasks[node] = 1
    tree.position[node] = 0
    return True


@hot
def reopen(tree: CollapsedTree, node: int) -> None:
    """Turn a unit back into a branch, in its state at the beginning of a round."""
    tree.unit[node] = 0
    tree.lengths[node] = tree.own[node]
    tree.tasks[node] = tree.members[node]
    tree.position[node] = 0
    if tree.own[node] == 1:
        tree.left[tree.head[node]] = tree.least[node]
        return
    for half in range(2 * node, 2 * node + 2):
        tree.done[half] = 1
        if tree.tasks[half] > 0:
            tree.done[half] = 0
            tree.position[half] = 0
            tree.least[half] -= tree.lag[node]
            tree.lag[half] += tree.lag[node]


@hot
def serve(tree: CollapsedTree, node: int, now: int, quanta: int) -> bool:
    """Give all jobs of a unit ``quanta`` quanta from ``now`` on; returns whether one has ended."""
    if tree.waiting[node] == 1:
        _start(tree, node, now)
    tree.lag[node] += quanta
    tree.least[node] -= quanta
    return bool(tree.least[node] == 0)


@hot
def _start(tree: CollapsedTree, node: int, now: int) -> None:
    """Note that the jobs of a unit that were waiting start now."""
    tree.stack[0] = node
    height = 1
    while height > 0:
        height -= 1
        at = tree.stack[height]
        tree.waiting[at] = 0
        if tree.own[at] == 1:
            tree.start[tree.head[at]] = now
            continue
        for half in range(2 * at, 2 * at + 2):
            if tree.tasks[half] > 0 and tree.waiting[half] == 1:
                tree.stack[height] = half
                height += 1


@hot
def reopen_ended(tree: CollapsedTree, node: int, gone: int, opened: int) -> tuple[int, int]:
    """Reopen a unit along the paths to its jobs that have ended.

    Appends the jobs to ``finished``, after ``gone`` others, and the reopened nodes to ``opened``,
    parents first. Returns the new lengths of both.
    """
    tree.stack[0] = node
    height = 1
    while height > 0:
        height -= 1
        at = tree.stack[height]
        reopen(tree, at)
        tree.opened[opened] = at
        opened += 1
        if tree.lengths[at] == 1:
            tree.current[at] = tree.head[at]
            tree.finished[gone] = tree.head[at]
            gone += 1
            continue
        for half in range(2 * at, 2 * at + 2):
            if tree.tasks[half] > 0 and tree.least[half] == 0:
                tree.stack[height] = half
                height += 1
    return gone, opened
