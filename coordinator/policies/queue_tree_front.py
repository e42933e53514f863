"""The front of a distributed queue tree: leaf functions over arrays in heap order.

They modify the arrays in place. Node 1 is the root, nodes 2n and 2n + 1 the halves of node n. The front is
where the tree runs: a node that is reached is either *in its queue* (``position[n] < count[n]``) or *below*,
and then its halves are reached.
Source: Hori et al. 1996, section 3.1.
"""

from typing import Any, NamedTuple


class Front(NamedTuple):
    """Arrays indexed by node."""

    count: Any
    """The length of the run queue."""
    tasks: Any
    """That and the same of all nodes below."""
    position: Any
    """The place of the running task in the queue, -1 if that task has just left."""
    done: Any
    """1 for a half whose round is over while the round of the other half is not."""


class Walk(NamedTuple):
    """Scratch for walks through the tree."""

    stack: Any
    """The nodes to which a walk still has to go."""
    queued: Any
    """The nodes that ``reached`` has found in their queues."""
    below: Any
    """Those that it has found below, each before its halves."""


def begin(node: int, front: Front, stack: Any) -> None:
    """Begin a round of ``node``: its queue first."""
    stack[0] = node
    height = 1
    while height > 0:
        height -= 1
        at = stack[height]
        front.position[at] = 0
        if front.count[at] == 0 and front.tasks[at] > 0:
            for half in (2 * at, 2 * at + 1):
                front.done[half] = 0 if front.tasks[half] > 0 else 1
                stack[height] = half
                height += 1


def reached(front: Front, walk: Walk, fair: bool) -> tuple[int, int]:
    """The numbers of nodes that the front has reached: in their queues, and below.

    Under the fair rule a half that is done rests until the other half is done, too.
    """
    walk.stack[0] = 1
    height = 1 if front.tasks[1] > 0 else 0
    in_queue = 0
    deeper = 0
    while height > 0:
        height -= 1
        node = walk.stack[height]
        if front.position[node] < front.count[node]:
            walk.queued[in_queue] = node
            in_queue += 1
            continue
        walk.below[deeper] = node
        deeper += 1
        for half in (2 * node + 1, 2 * node):
            if front.tasks[half] > 0 and not (fair and front.done[half] == 1):
                walk.stack[height] = half
                height += 1
    return in_queue, deeper


def over(node: int, front: Front) -> int:
    """End a quantum at ``node``: 1 if its round is over, 2 if its halves must begin, else 0.

    The caller has ended the quantum at its halves before, if they are reached.
    """
    if front.tasks[node] == 0:
        return 1
    if front.position[node] < front.count[node]:
        front.position[node] += 1
        if front.position[node] < front.count[node]:
            return 0
        return 2 if front.tasks[node] > front.count[node] else 1
    for half in (2 * node, 2 * node + 1):
        if front.tasks[half] == 0:
            front.done[half] = 1
    return 1 if front.done[2 * node] == 1 and front.done[2 * node + 1] == 1 else 0


def lighter(node: int, load: Any) -> int:
    """The half of ``node`` with the lighter load, the left one of equals (section 3.2)."""
    return 2 * node if load[2 * node] <= load[2 * node + 1] else 2 * node + 1


def enter(node: int, fair: bool, front: Front) -> int:
    """Add a task at the end of the queue of ``node``; return the node that must begin, 0 for none.

    An empty branch begins at once if the front has reached it; a queue that
    the front has passed runs its newcomer in the next round.
    """
    first = 0
    open_ = True
    depth = 0
    while (node >> depth) > 1:
        depth += 1
    while depth >= 0:
        at = node >> depth
        if open_ and first == 0:
            if front.tasks[at] == 0:
                first = at
                front.done[at] = 0
            else:
                in_queue = at != node and front.position[at] < front.count[at]
                open_ = not in_queue and not (fair and at > 1 and front.done[at] == 1)
        front.tasks[at] += 1
        depth -= 1
    if first == 0 and front.position[node] >= front.count[node]:
        front.position[node] = front.count[node] + 1
    front.count[node] += 1
    return first


def leave(node: int, place: int, front: Front) -> None:
    """Remove the task at ``place`` in the queue of ``node``."""
    if place <= front.position[node]:
        front.position[node] -= 1
    front.count[node] -= 1
    while node > 0:
        front.tasks[node] -= 1
        node >>= 1
