"""Batch policies over buddy blocks: ``fcfs-bb``, ``scan-up`` and ``scan-down``.

Block sizes are powers of two. If no block is large enough for a job, because
the machine's size is no power of two, the job runs alone on the machine.

A machine whose size is a power of two is a tree of blocks in heap order: block 1 is the whole machine, blocks
2b and 2b + 1 are the halves of block b. For ``take`` and ``give``, leaf functions over arrays, ``free[b]`` is
1 for a block that is free as a whole; ``counts[d]`` is the number of these at depth d.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.policies import partitions
from coordinator.policies.partitions import width
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Job, Placement, Reason, View


def take(free: Any, counts: Any, depth: int) -> int:
    """Take a block of ``depth`` and return it, 0 if there is none. Arrays are modified in place.

    It comes from the smallest free block that is large enough, of equals the lowest, by repeated halving.
    """
    level = depth
    while level >= 0 and counts[level] == 0:
        level -= 1
    if level < 0:
        return 0
    block = 1 << level
    while free[block] == 0:
        block += 1
    free[block] = 0
    counts[level] -= 1
    while level < depth:
        level += 1
        block *= 2
        free[block + 1] = 1
        counts[level] += 1
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


@dataclass(frozen=True)
class _BlockState:
    blocks: Mapping[int, Placement]
    """The processors of each job's block; more than the job uses if its size is no power of two."""
    current: int = 0
    """Binary logarithm of the block size of the current queue."""


class _Blocks:
    """The buddy system of a machine on which some processors are taken."""

    def __init__(self, view: View, taken: Mapping[int, Placement]) -> None:
        self.taken = dict(taken)
        self._width = width(view.machine.processors)
        self._processors = partitions.free(view, taken)
        blocked = [True] * (2 * self._width)
        for processor in self._processors:
            blocked[self._width + processor] = False
        for block in range(self._width - 1, 0, -1):
            blocked[block] = blocked[2 * block] or blocked[2 * block + 1]
        self._free = [0] * (2 * self._width)
        self._counts = [0] * self._width.bit_length()
        for block in range(1, 2 * self._width):
            if not blocked[block] and (block == 1 or blocked[block >> 1]):
                self._free[block] = 1
                self._counts[block.bit_length() - 1] += 1

    def take(self, job: Job) -> Placement:
        """The processors for a job, the first ones of a new block; empty if there is no block."""
        depth = (self._width // width(job.processes)).bit_length() - 1
        block = take(self._free, self._counts, depth)
        if block:
            size = self._width >> depth
            first = block * size - self._width
            self.taken[job.number] = tuple(range(first, first + size))
        elif not self.taken and job.processes <= len(self._processors):
            self.taken[job.number] = tuple(self._processors)
            self._counts = [0] * len(self._counts)
        return self.taken.get(job.number, ())[: job.processes]


class OnBlocks(Policy):
    """Jobs get blocks in order of arrival, as long as there is one for the first that waits."""

    step = 0
    """With one queue for each block size, from the current queue to the next one; 0: one queue for all."""

    def decide(self, view: View, reason: Reason) -> Decision:
        """Admit jobs of the current queue; when it is empty, the next queue becomes current."""
        placements = partitions.still_running(view)
        state = view.state or _BlockState({})
        blocks = _Blocks(view, {number: state.blocks[number] for number in placements})
        sizes, current = width(view.machine.processors).bit_length(), state.current
        if view.previous is None and self.step < 0:
            current = sizes - 1
        queues: dict[int, list[Job]] = {}
        for job in partitions.waiting(view, placements):
            queues.setdefault(width(job.processes).bit_length() - 1 if self.step else 0, []).append(job)
        while queues:
            while current not in queues:
                current = (current + self.step) % sizes
            place = blocks.take(queues[current][0])
            if not place:
                break
            placements[queues[current].pop(0).number] = place
            if not queues[current]:
                del queues[current]
        return partitions.for_good(view, placements, _BlockState(blocks.taken, current))


@register("fcfs-bb")
class FirstComeBuddy(OnBlocks):
    """First come, first served on blocks of the binary buddy system."""

    source = "Hori et al. 1996, section 4.3"


@register("scan-up")
class ScanUp(OnBlocks):
    """One queue for each block size: serve it until it is empty, then the next larger one."""

    step = 1
    source = "Krueger, Lai, Radiya 1991; Hori et al. 1996, section 2.1"


@register("scan-down")
class ScanDown(OnBlocks):
    """One queue for each block size: serve it until it is empty, then the next smaller one."""

    step = -1
    source = "Krueger, Lai, Radiya 1991; Hori et al. 1996, section 2.1"
