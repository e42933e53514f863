"""Kernel of the distributed queue tree: quantum by quantum, on a power-of-two machine.

An arrival takes effect when the next quantum begins, and a job ends with a quantum.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.policies import queue_tree_front
from harness.simulator.compiled import entry, hot, step
from harness.simulator.interruption import heeding
from harness.simulator.jobs.model import NEVER_NS, Integers, JobLevelOutcome, Jobs

_begin = hot(queue_tree_front.begin)
_reached = hot(queue_tree_front.reached)
_over = hot(queue_tree_front.over)
_enter = step(queue_tree_front.enter)
_leave = step(queue_tree_front.leave)
_lighter = step(queue_tree_front.lighter)

BEGUN = 3  # status of a node whose round begins again, with all that lies below
Nodes = NDArray[np.int32]  # half the memory of 64 bits, which matters for the largest trees


class Tree(NamedTuple):
    """The tree by node, in heap order, and the queues as doubly linked lists of jobs."""

    front: queue_tree_front.Front
    walk: queue_tree_front.Walk
    load: Nodes
    """Processors of all jobs in the branch."""
    finished: Nodes
    status: Nodes
    """The effect of the last quantum on each node that it reached."""
    size: Nodes
    """Processors of each node."""
    head: Nodes
    tail: Nodes
    current: Nodes
    """Job at ``position`` of each queue, -1 before the head."""
    after: Integers
    before: Integers
    node: Integers
    start: Integers
    """First quantum of each job, -1 before it."""
    left: Integers
    """Quanta that each job still needs."""


class Tasks(NamedTuple):
    """What is known of each job."""

    arrival: Integers
    """The quantum in which it arrives."""
    depth: Integers
    """Of the nodes that are large enough for it."""
    finish: Integers
    """The quantum with which it ends, -1 before."""


def empty(leaves: int, left: Integers) -> Tree:
    """A tree without jobs for ``leaves`` processors; ``left``: the quanta that each coming job needs."""
    nodes = 4 * leaves  # halves of leaves, too, which are always empty
    zeros = [np.zeros(nodes, dtype=np.int32) for _ in range(10)]
    depths = np.log2(np.maximum(1, np.arange(nodes))).astype(np.int32)
    links = [np.full(nodes, -1, dtype=np.int32) for _ in range(3)]
    jobs = [np.full(len(left), -1) for _ in range(4)]
    front = queue_tree_front.Front(*zeros[:4])
    walk = queue_tree_front.Walk(*zeros[4:7])
    return Tree._make([front, walk, *zeros[7:], (leaves >> depths).astype(np.int32), *links, *jobs, left])


def simulate(
    jobs: Jobs, processors: int, fair: bool, quantum_ns: int, busy: Integers | None = None
) -> JobLevelOutcome:
    """Simulate DQT or Fair-DQT.

    ``processors`` must be a power of two; sizes are rounded up to powers of two. ``busy`` gets the
    processors in use in each quantum, and the simulation ends with it; without it, with the last job.
    """
    arrival = -(-jobs.submit_ns // quantum_ns)
    depth = processors.bit_length() - 1 - np.ceil(np.log2(jobs.max_processes)).astype(np.int64)
    tree = empty(processors, -(-jobs.times_ns(jobs.max_processes) // quantum_ns))
    finish = np.full(len(jobs), -1)
    quanta, used = (NEVER_NS, np.zeros(0, dtype=np.int64)) if busy is None else (len(busy), busy)
    heeding(_run, tree, fair, quanta, Tasks(arrival, depth, finish), used)
    size = 1 << (processors.bit_length() - 1 - depth)
    return JobLevelOutcome(
        jobs,
        processors,
        np.where(tree.start >= 0, tree.start * quantum_ns, NEVER_NS),
        np.where(finish >= 0, finish * quantum_ns, NEVER_NS),
        jobs.max_processes.astype(float),
        np.where(tree.node >= 0, (tree.node - (1 << depth)) * size, -1),
    )


@hot
def _admit(tree: Tree, fair: bool, job: int, depth: int) -> None:
    """Send a new job down the lighter branches to its node and into the queue there."""
    node = 1
    size = tree.size[node] >> depth
    tree.load[node] += size
    while node >> depth == 0:
        node = _lighter(node, tree.load)
        tree.load[node] += size
    tree.node[job] = node
    tree.before[job] = tree.tail[node]
    if tree.tail[node] >= 0:
        tree.after[tree.tail[node]] = job
    else:
        tree.head[node] = job
    tree.tail[node] = job
    first = _enter(node, fair, tree.front)
    if first > 0:
        _begin(first, tree.front, tree.walk.stack)


@hot
def _remove(tree: Tree, job: int) -> None:
    """Take a job that is running out of its queue."""
    node = tree.node[job]
    before = tree.before[job]
    after = tree.after[job]
    if before >= 0:
        tree.after[before] = after
    else:
        tree.head[node] = after
    if after >= 0:
        tree.before[after] = before
    else:
        tree.tail[node] = before
    tree.current[node] = before
    _leave(node, tree.front.position[node], tree.front)
    size = tree.size[node]
    while node > 0:
        tree.load[node] -= size
        node >>= 1


@hot
def _advance(tree: Tree, fair: bool, queued: int, below: int) -> None:
    """Move the front on by one quantum.

    A pass from the bottom up marks the nodes whose rounds are over. A pass from the top down
    begins new rounds, at the topmost of these nodes only: else every level would begin all that
    lies below it once more.
    """
    _end_quantum(tree, queued, below)
    for i in range(below):
        _begin_anew(tree, fair, tree.walk.below[i])
    for i in range(queued):
        node = tree.walk.queued[i]
        _begin_anew(tree, fair, node)
        if tree.status[node] == 2:
            for half in range(2 * node, 2 * node + 2):
                tree.front.done[half] = 0 if tree.front.tasks[half] > 0 else 1
                _begin(half, tree.front, tree.walk.stack)


@hot
def _end_quantum(tree: Tree, queued: int, below: int) -> None:
    """Mark the nodes whose rounds are over, from the bottom up; the others go on to the next job."""
    for i in range(queued):
        node = tree.walk.queued[i]
        tree.status[node] = _over(node, tree.front)
        if tree.status[node] == 1:
            tree.front.done[node] = 1
        elif tree.status[node] == 0:
            job = tree.current[node]
            tree.current[node] = tree.head[node] if job < 0 else tree.after[job]
    for i in range(below - 1, -1, -1):
        node = tree.walk.below[i]
        tree.status[node] = _over(node, tree.front)
        if tree.status[node] == 1:
            tree.front.done[node] = 1


@hot
def _begin_anew(tree: Tree, fair: bool, node: int) -> None:
    """Begin the next round of a node if its own round is over, or a round above begins again."""
    if tree.status[node >> 1] == BEGUN:
        tree.status[node] = BEGUN
    elif tree.status[node] != 1:
        return
    elif node == 1 or not fair:
        tree.status[node] = BEGUN
        _begin(node, tree.front, tree.walk.stack)


@hot
def _run_reached(tree: Tree, queued: int, now: int) -> tuple[int, int]:
    """Run the front; returns the numbers of processors in use and of jobs that end."""
    used = gone = 0
    for i in range(queued):
        node = tree.walk.queued[i]
        if tree.front.position[node] == 0:
            tree.current[node] = tree.head[node]
        job = tree.current[node]
        if tree.start[job] < 0:
            tree.start[job] = now
        tree.left[job] -= 1
        used += tree.size[node]
        if tree.left[job] == 0:
            tree.finished[gone] = job
            gone += 1
    return used, gone


@entry
def _run(tree: Tree, fair: bool, quanta: int, tasks: Tasks, busy: Integers, ended: Integers) -> None:
    """One pass per quantum: admit jobs, run the front, remove jobs that end, move the front on."""
    n = len(tasks.arrival)
    now = 0
    arrived = 0
    unfinished = n
    while now < quanta and unfinished > 0 and not ended[0]:
        if tree.front.tasks[1] == 0:
            if arrived == n:
                break
            now = max(now, tasks.arrival[arrived])
        while arrived < n and tasks.arrival[arrived] <= now:
            _admit(tree, fair, arrived, tasks.depth[arrived])
            arrived += 1
        if now >= quanta:
            break
        queued, below = _reached(tree.front, tree.walk, fair)
        used, gone = _run_reached(tree, queued, now)
        if now < len(busy):
            busy[now] = used
        for i in range(gone):
            tasks.finish[tree.finished[i]] = now + 1
            _remove(tree, tree.finished[i])
        unfinished -= gone
        _advance(tree, fair, queued, below)
        now += 1
