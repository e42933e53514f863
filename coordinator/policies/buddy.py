"""The binary buddy system over processors: leaf functions over arrays.

A machine whose size is a power of two is a tree of blocks in heap order: block 1 is the whole
machine, blocks 2b and 2b + 1 are the halves of block b. ``free[b]`` is 1 for a block that is
free as a whole; ``counts[d]`` is the number of these at depth d.
"""

from __future__ import annotations

from typing import Any


def take(free: Any, counts: Any, depth: int) -> int:
    """Take a block of ``depth`` and return it; 0 if there is none. Arrays are modified in place.

    It comes from the smallest free block that is large enough, of equals the one with the
    lowest processors, by repeated halving.
    """
    found = depth
    while found >= 0 and counts[found] == 0:
        found -= 1
    if found < 0:
        return 0
    block = 1 << found
    while free[block] == 0:
        block += 1
    free[block] = 0
    counts[found] -= 1
    while found < depth:
        found += 1
        block *= 2
        free[block + 1] = 1
        counts[found] += 1
    return block


def give(free: Any, counts: Any, block: int) -> None:
    """Return a block and join free halves. Arrays are modified in place."""
    depth = 0
    while (block >> depth) > 1:
        depth += 1
    while block > 1 and free[block ^ 1] == 1:
        free[block ^ 1] = 0
        counts[depth] -= 1
        block >>= 1
        depth -= 1
    free[block] = 1
    counts[depth] += 1
