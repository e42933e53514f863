"""Kernel of the distributed queue tree: quantum by quantum, on a power-of-two machine.

An arrival takes effect when the next quantum begins, and a job ends with a quantum.
"""

from __future__ import annotations

import numpy as np

from coordinator.policies import queue_tree_front
from harness.simulator.compiled import entry, hot, step
from harness.simulator.interruption import heeding
from harness.simulator.jobs.collapsed_branches import CollapsedTree, close, empty, reopen, reopen_ended, serve
from harness.simulator.jobs.model import NEVER_NS, Integers, JobLevelOutcome, Jobs

_begin = hot(queue_tree_front.begin)
_reached = hot(queue_tree_front.reached)
_over = hot(queue_tree_front.over)
_enter = step(queue_tree_front.enter)
_leave = step(queue_tree_front.leave)
_lighter = step(queue_tree_front.lighter)

BEGUN = 3
"""Status of a node whose round begins anew, with all that lies below."""


def simulate(
    jobs: Jobs, processors: int, fair: bool, quantum_ns: int, quanta: int | None = None
) -> tuple[JobLevelOutcome, Integers]:
    """Simulate DQT or Fair-DQT; also returns the processors in use in each quantum.

    ``processors`` must be a power of two; sizes are rounded up to powers of two. With
    ``quanta`` the simulation ends after that many. Without it, the simulation ends with the last
    job, and records no processors in use.
    """
    arrival = -(-jobs.submit_ns // quantum_ns)
    depth = processors.bit_length() - 1 - np.ceil(np.log2(jobs.most)).astype(np.int64)
    tree = empty(processors, -(-jobs.times_ns(jobs.most) // quantum_ns))
    finish = np.full(len(jobs), -1)
    busy = np.zeros(quanta or 0, dtype=np.int64)
    heeding(_run, tree, fair, processors, quanta or NEVER_NS, arrival, depth, finish, busy)
    size = 1 << (processors.bit_length() - 1 - depth)
    outcome = JobLevelOutcome(
        jobs,
        processors,
        np.where(tree.start >= 0, tree.start * quantum_ns, NEVER_NS),
        np.where(finish >= 0, finish * quantum_ns, NEVER_NS),
        jobs.most.astype(float),
        np.where(tree.node >= 0, (tree.node - (1 << depth)) * size, -1),
    )
    return outcome, busy


def whole(jobs: Jobs, processors: int, fair: bool, quantum_ns: int) -> JobLevelOutcome:
    """Simulate all jobs to their ends."""
    return simulate(jobs, processors, fair, quantum_ns)[0]


@hot
def _admit(tree: CollapsedTree, fair: bool, leaves: int, job: int, depth: int) -> None:
    """Send a new job down the lighter branches to its node and into the queue there."""
    node = 1
    size = leaves >> depth
    top = 0
    while True:
        tree.load[node] += size
        if tree.unit[node] == 1:
            reopen(tree, node)
            top = node if top == 0 else top
        if node >> depth > 0:
            break
        node = _lighter(node, tree.load)
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
    top = first if top == 0 else top
    while top > 0 and node >= top and close(tree, node):
        node >>= 1


@hot
def _remove(tree: CollapsedTree, job: int) -> None:
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
    size = tree.size[node]
    while node > 0:
        tree.load[node] -= size
        node >>= 1


@hot
def _advance(tree: CollapsedTree, fair: bool, queued: int, below: int) -> None:
    """Move the front on by one quantum.

    A pass from the bottom up marks the nodes whose rounds are over. A pass from the top down
    begins new rounds, at the topmost of these nodes only: else every level would begin all that
    lies below it once more. A unit's round is one quantum and begins anew by itself.
    """
    _end_quantum(tree, queued, below)
    for i in range(below):
        _begin_anew(tree, fair, tree.below[i])
    for i in range(queued):
        node = tree.queued[i]
        if tree.unit[node] == 1:
            continue
        _begin_anew(tree, fair, node)
        if tree.status[node] == 2:
            for half in range(2 * node, 2 * node + 2):
                tree.done[half] = 0 if tree.tasks[half] > 0 else 1
                _begin(half, tree.lengths, tree.tasks, tree.position, tree.done, tree.stack)


@hot
def _end_quantum(tree: CollapsedTree, queued: int, below: int) -> None:
    """Mark the nodes whose rounds are over, from the bottom up; the others go on to the next job."""
    for i in range(queued):
        node = tree.queued[i]
        if tree.unit[node] == 1:
            tree.done[node] = 1
            continue
        tree.status[node] = _over(node, tree.lengths, tree.tasks, tree.position, tree.done)
        if tree.status[node] == 1:
            tree.done[node] = 1
        elif tree.status[node] == 0:
            job = tree.current[node]
            tree.current[node] = tree.head[node] if job < 0 else tree.after[job]
    for i in range(below - 1, -1, -1):
        node = tree.below[i]
        tree.status[node] = _over(node, tree.lengths, tree.tasks, tree.position, tree.done)
        if tree.status[node] == 1:
            tree.done[node] = 1


@hot
def _begin_anew(tree: CollapsedTree, fair: bool, node: int) -> None:
    """Begin the next round of a node if its own round is over, or a round above begins anew."""
    if tree.status[node >> 1] == BEGUN:
        tree.status[node] = BEGUN
    elif tree.status[node] != 1:
        return
    elif node == 1 or not fair:
        tree.status[node] = BEGUN
        _begin(node, tree.lengths, tree.tasks, tree.position, tree.done, tree.stack)
    close(tree, node)


@hot
def _run_reached(tree: CollapsedTree, queued: int, now: int) -> tuple[int, int, int]:
    """Run the front; returns processors in use, jobs that end, and nodes reopened for them (counts)."""
    used = gone = opened = 0
    for i in range(queued):
        node = tree.queued[i]
        if tree.unit[node] == 1:
            used += tree.load[node]
            if serve(tree, node, now, 1):
                gone, opened = reopen_ended(tree, node, gone, opened)
            continue
        if tree.position[node] == 0:
            tree.current[node] = tree.head[node]
        job = tree.current[node]
        if tree.start[job] < 0:
            tree.start[job] = now
        tree.left[job] -= 1
        used += tree.size[node]
        if tree.left[job] == 0:
            tree.finished[gone] = job
            gone += 1
    return used, gone, opened


@entry
def _run(
    tree: CollapsedTree,
    fair: bool,
    leaves: int,
    quanta: int,
    arrival: Integers,
    depth: Integers,
    finish: Integers,
    busy: Integers,
    ended: Integers,
) -> None:
    """One pass per quantum: admit jobs, run the front, remove jobs that end, move the front on."""
    n = len(arrival)
    now = 0
    arrived = 0
    unfinished = n
    while now < quanta and unfinished > 0 and not ended[0]:
        if tree.tasks[1] == 0:
            if arrived == n:
                break
            now = max(now, arrival[arrived])
        while arrived < n and arrival[arrived] <= now:
            _admit(tree, fair, leaves, arrived, depth[arrived])
            arrived += 1
        if now >= quanta:
            break
        if tree.unit[1] == 1:
            until = arrival[arrived] if arrived < n else quanta
            alike = min(tree.least[1], min(until, quanta) - now) - 1
            if alike > 0:
                serve(tree, 1, now, alike)
                busy[now : now + alike] = tree.load[1]
                now += alike
        queued, below = _reached(
            tree.lengths, tree.tasks, tree.position, tree.done, fair, tree.stack, tree.queued, tree.below
        )
        used, gone, opened = _run_reached(tree, queued, now)
        if now < len(busy):
            busy[now] = used
        for i in range(gone):
            finish[tree.finished[i]] = now + 1
            _remove(tree, tree.finished[i])
        unfinished -= gone
        for i in range(opened - 1, -1, -1):
            close(tree, tree.opened[i])
        _advance(tree, fair, queued, below)
        now += 1
