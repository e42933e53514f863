"""The front of a distributed queue tree: leaf functions over arrays in heap order.

Node 1 is the root, nodes 2n and 2n + 1 the halves of node n. ``count[n]`` is the length of the run queue of
node n, ``tasks[n]`` that and the same of all nodes below. The front is where the tree runs: a node that is
reached is either *in its queue* (``position[n] < count[n]``: the place of the running task in the queue, -1
if that task has just left) or *below*, and then its halves are reached. ``done[n]`` is 1 for a half whose
round is over while the round of the other half is not.
Source: Hori et al. 1996, section 3.1.
"""

from typing import Any


def begin(node: int, count: Any, tasks: Any, position: Any, done: Any, stack: Any) -> None:
    """Begin a round of ``node``: its queue first. Arrays are modified in place."""
    stack[0] = node
    height = 1
    while height > 0:
        height -= 1
        at = stack[height]
        position[at] = 0
        if count[at] == 0 and tasks[at] > 0:
            for half in (2 * at, 2 * at + 1):
                done[half] = 0 if tasks[half] > 0 else 1
                stack[height] = half
                height += 1


def reached(
    count: Any, tasks: Any, position: Any, done: Any, fair: bool, stack: Any, queued: Any, below: Any
) -> tuple[int, int]:
    """The numbers of nodes that the front has reached: in their queues, and below.

    ``queued`` and ``below`` receive these nodes, in ``below`` each before its halves. Under the
    fair rule a half that is done rests until the other half is done, too.
    """
    stack[0] = 1
    height = 1 if tasks[1] > 0 else 0
    in_queue = 0
    deeper = 0
    while height > 0:
        height -= 1
        node = stack[height]
        if position[node] < count[node]:
            queued[in_queue] = node
            in_queue += 1
            continue
        below[deeper] = node
        deeper += 1
        for half in (2 * node + 1, 2 * node):
            if tasks[half] > 0 and not (fair and done[half] == 1):
                stack[height] = half
                height += 1
    return in_queue, deeper


def over(node: int, count: Any, tasks: Any, position: Any, done: Any) -> int:
    """End a quantum at ``node``: 1 if its round is over, 2 if its halves must begin, else 0.

    The caller has ended the quantum at its halves before, if they are reached. Arrays are modified in place.
    """
    if tasks[node] == 0:
        return 1
    if position[node] < count[node]:
        position[node] += 1
        if position[node] < count[node]:
            return 0
        return 2 if tasks[node] > count[node] else 1
    for half in (2 * node, 2 * node + 1):
        if tasks[half] == 0:
            done[half] = 1
    return 1 if done[2 * node] == 1 and done[2 * node + 1] == 1 else 0


def lighter(node: int, load: Any) -> int:
    """The half of ``node`` with the lighter load, the left one of equals (section 3.2)."""
    return 2 * node if load[2 * node] <= load[2 * node + 1] else 2 * node + 1


def enter(node: int, fair: bool, count: Any, tasks: Any, position: Any, done: Any) -> int:
    """Add a task at the end of the queue of ``node``; return the node that must begin, 0 for none.

    An empty branch begins at once if the front has reached it; a queue that
    the front has passed runs its newcomer in the next round. Arrays are modified in place.
    """
    first = 0
    open_ = True
    depth = 0
    while (node >> depth) > 1:
        depth += 1
    while depth >= 0:
        at = node >> depth
        if open_ and first == 0:
            if tasks[at] == 0:
                first = at
                done[at] = 0
            else:
                in_queue = at != node and position[at] < count[at]
                open_ = not in_queue and not (fair and at > 1 and done[at] == 1)
        tasks[at] += 1
        depth -= 1
    if first == 0 and position[node] >= count[node]:
        position[node] = count[node] + 1
    count[node] += 1
    return first


def leave(node: int, place: int, count: Any, tasks: Any, position: Any) -> None:
    """Remove the task at ``place`` in the queue of ``node``. Arrays are modified in place."""
    if place <= position[node]:
        position[node] -= 1
    count[node] -= 1
    while node > 0:
        tasks[node] -= 1
        node >>= 1
