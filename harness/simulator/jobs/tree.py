"""Kernel of the distributed queue tree: quantum by quantum, on a power-of-two machine.

Arrivals take effect at the next beginning of a quantum, and a job ends with a quantum.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.policies import front
from harness.simulator.compiled import entry, step
from harness.simulator.jobs.model import NEVER_NS, Integers, Jobs, Outcome

_begin = step(front.begin)
_reached = step(front.reached)
_over = step(front.over)
_enter = step(front.enter)
_leave = step(front.leave)
_lighter = step(front.lighter)


Nodes = NDArray[np.int32]
"""Half the memory of 64 bits, which the largest trees feel."""

BEGUN = 3
"""Status of a node whose round begins anew, with all that lies below."""


class Tree(NamedTuple):
    """The tree by node, in heap order, and the queues as doubly linked lists of jobs."""

    lengths: Nodes
    tasks: Nodes
    position: Nodes
    done: Nodes
    load: Nodes
    head: Nodes
    tail: Nodes
    current: Nodes
    """Job at ``position`` of each queue, -1 before the head."""
    stack: Nodes
    nodes: Nodes
    finished: Nodes
    status: Nodes
    """What the last quantum did to each node that was reached."""
    after: Integers
    before: Integers
    node: Integers


def simulate(
    jobs: Jobs, processors: int, fair: bool, quantum_ns: int, quanta: int | None = None
) -> tuple[Outcome, Integers]:
    """Simulate DQT or Fair-DQT; returns also the processors in use in each quantum.

    ``processors`` must be a power of two; sizes are rounded up to powers of two. With
    ``quanta`` the simulation ends after so many; else when all jobs have ended (and busy
    processors are not recorded).
    """
    n = len(jobs)
    leaves = processors
    per_node = [np.zeros(4 * leaves, dtype=np.int32) for _ in range(5)]
    links = [np.full(4 * leaves, -1, dtype=np.int32) for _ in range(3)]
    scratch = [np.zeros(4 * leaves, dtype=np.int32) for _ in range(4)]
    per_job = [np.full(n, -1) for _ in range(3)]
    tree = Tree._make([*per_node, *links, *scratch, *per_job])
    arrival = -(-jobs.submit_ns // quantum_ns)
    left = -(-jobs.times_ns(jobs.most) // quantum_ns)
    depth = processors.bit_length() - 1 - np.ceil(np.log2(jobs.most)).astype(np.int64)
    start = np.full(n, -1)
    finish = np.full(n, -1)
    busy = np.zeros(quanta or 0, dtype=np.int64)
    _run(tree, fair, leaves, quanta or NEVER_NS, arrival, left, depth, start, finish, busy)
    size = 1 << (processors.bit_length() - 1 - depth)
    outcome = Outcome(
        jobs,
        processors,
        np.where(start >= 0, start * quantum_ns, NEVER_NS),
        np.where(finish >= 0, finish * quantum_ns, NEVER_NS),
        jobs.most.astype(float),
        np.where(tree.node >= 0, (tree.node - (1 << depth)) * size, -1),
    )
    return outcome, busy


def whole(jobs: Jobs, processors: int, fair: bool, quantum_ns: int) -> Outcome:
    """Simulate all jobs to their ends."""
    return simulate(jobs, processors, fair, quantum_ns)[0]


@step
def _admit(tree: Tree, fair: bool, leaves: int, job: int, depth: int) -> None:
    """Send a new job down the lighter branches to its node and into the queue there."""
    node = 1
    size = leaves >> depth
    for _ in range(depth):
        tree.load[node] += size
        node = _lighter(node, tree.load)
    tree.load[node] += size
    tree.node[job] = node
    tree.before[job] = tree.tail[node]
    if tree.tail[node] >= 0:
        tree.after[tree.tail[node]] = job
    else:
        tree.head[node] = job
    tree.tail[node] = job
    first = _enter(node, fair, tree.lengths, tree.tasks, tree.position, tree.done)
    if first > 0:
        _begin(first, tree.lengths, tree.tasks, tree.position, tree.done, tree.stack)


@step
def _remove(tree: Tree, leaves: int, job: int) -> None:
    """Take a job that is running out of its queue."""
    node = tree.node[job]
    before, after = tree.before[job], tree.after[job]
    if before >= 0:
        tree.after[before] = after
    else:
        tree.head[node] = after
    if after >= 0:
        tree.before[after] = before
    else:
        tree.tail[node] = before
    tree.current[node] = before
    _leave(node, tree.position[node], tree.lengths, tree.tasks, tree.position)
    size = leaves
    above = node
    while above > 1:
        size >>= 1
        above >>= 1
    while node > 0:
        tree.load[node] -= size
        node >>= 1


@step
def _advance(tree: Tree, fair: bool, found: int) -> None:
    """Move the front on by one quantum.

    From the bottom up to see whose rounds are over, then from the top down to begin new
    ones: only the topmost of nodes that are all through, or every level would begin anew
    all that lies below it.
    """
    for i in range(found - 1, -1, -1):
        node = tree.nodes[i]
        status = _over(node, tree.lengths, tree.tasks, tree.position, tree.done)
        tree.status[node] = status
        if status == 1:
            tree.done[node] = 1
        elif status == 0 and tree.position[node] < tree.lengths[node]:
            job = tree.current[node]
            tree.current[node] = tree.head[node] if job < 0 else tree.after[job]
    for i in range(found):
        node = tree.nodes[i]
        if node > 1 and tree.status[node >> 1] == BEGUN:
            tree.status[node] = BEGUN
        elif tree.status[node] == 1 and (node == 1 or not fair):
            tree.status[node] = BEGUN
            _begin(node, tree.lengths, tree.tasks, tree.position, tree.done, tree.stack)
        elif tree.status[node] == 2:
            for half in range(2 * node, 2 * node + 2):
                tree.done[half] = 0 if tree.tasks[half] > 0 else 1
                _begin(half, tree.lengths, tree.tasks, tree.position, tree.done, tree.stack)


@entry
def _run(
    tree: Tree,
    fair: bool,
    leaves: int,
    quanta: int,
    arrival: Integers,
    left: Integers,
    depth: Integers,
    start: Integers,
    finish: Integers,
    busy: Integers,
) -> None:
    """One pass a quantum: run the front, let jobs go, move the front, let jobs come."""
    n = len(arrival)
    now = 0
    arrived = 0
    unfinished = n
    while now < quanta and unfinished > 0:
        if tree.tasks[1] == 0:
            if arrived == n:
                break
            now = max(now, arrival[arrived])
        while arrived < n and arrival[arrived] <= now:
            _admit(tree, fair, leaves, arrived, depth[arrived])
            arrived += 1
        if now >= quanta:
            break
        found = _reached(tree.lengths, tree.tasks, tree.position, tree.done, fair, tree.stack, tree.nodes)
        used = 0
        gone = 0
        for i in range(found):
            node = tree.nodes[i]
            position = tree.position[node]
            if 0 <= position < tree.lengths[node]:
                if position == 0:
                    tree.current[node] = tree.head[node]
                job = tree.current[node]
                if start[job] < 0:
                    start[job] = now
                left[job] -= 1
                used += leaves >> depth[job]
                if left[job] == 0:
                    finish[job] = now + 1
                    tree.finished[gone] = job
                    gone += 1
        if now < len(busy):
            busy[now] = used
        for i in range(gone):
            _remove(tree, leaves, tree.finished[i])
        unfinished -= gone
        _advance(tree, fair, found)
        now += 1
