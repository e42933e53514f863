"""Jobs on buddy blocks, on a machine whose size is a power of two: the batch policies of Hori et al. 1996."""

import numpy as np

from coordinator.policies import scan
from harness.simulator.compiled import step
from harness.simulator.jobs.case import Blocks, Case
from harness.simulator.jobs.model import Jobs
from harness.simulator.jobs.running import begin

_take = step(scan.take)
_give = step(scan.give)


def blocks(jobs: Jobs, processors: int) -> Blocks:
    """A machine that is one free block, and no job that waits."""
    n = len(jobs)
    levels = processors.bit_length()
    free = np.zeros(2 * processors, dtype=np.int64)
    counts = np.zeros(levels, dtype=np.int64)
    free[1] = counts[0] = 1
    needed = np.ceil(np.log2(jobs.max_processes)).astype(np.int64)
    return Blocks(free, counts, needed, np.full(levels, -1), np.full(levels, -1), np.full(n, -1))


@step
def enter(case: Case, job: int) -> None:
    """Let a job wait for a block."""
    blocks = case.blocks
    queue = blocks.levels[job] if case.scheme.direction != 0 else 0
    if blocks.heads[queue] < 0:
        blocks.heads[queue] = job
    else:
        blocks.following[blocks.tails[queue]] = job
    blocks.tails[queue] = job


@step
def leave(case: Case, job: int) -> None:
    """Return the block of a job that has ended."""
    level = case.blocks.levels[job]
    same = case.rule.processors >> level  # so many blocks have its size
    _give(case.blocks.free, case.blocks.counts, same + (case.first[job] >> level))


@step
def _first(case: Case) -> int:
    """The first job of the present queue, or of the next one that is not empty; -1 if all are."""
    now = case.now[0]
    heads = case.blocks.heads
    if case.scheme.direction != 0:
        for _ in range(len(heads)):
            if heads[now.current] >= 0:
                break
            now.current = (now.current + case.scheme.direction + len(heads)) % len(heads)
    job: int = heads[now.current]
    return job


@step
def start_on_blocks(case: Case) -> None:
    """Start jobs as long as there is a block for the first one."""
    blocks = case.blocks
    job = _first(case)
    while job >= 0:
        level = blocks.levels[job]
        block = _take(blocks.free, blocks.counts, len(blocks.counts) - 1 - level)
        if block == 0:
            break
        blocks.heads[case.now[0].current] = blocks.following[job]
        case.first[job] = (block << level) - case.rule.processors
        begin(case, job, case.demands.max_processes[job])
        job = _first(case)
