"""Communication patterns as index arrays: who reads from whom, and in which order.

Source: Dusseau, Arpaci, Culler, "Effective Distributed Scheduling of Parallel Workloads",
SIGMETRICS 1996, section 3.2.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING

from workloads.bounds import PROCESSES
from workloads.late import Late
from workloads.validation import one_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = Late("numpy")


TASKS = "TASKS"  # a central queue of tasks (``workloads.tasks``), without any reads or barriers
LOCK = "LOCK"  # critical sections in place of messages (``workloads.locks.lock_program``)

BULK_SYNCHRONOUS = ("BARRIER", "NEWS", "TRANSPOSE")

PATTERNS = (*BULK_SYNCHRONOUS, TASKS, LOCK)


def grid(processes: int) -> tuple[int, int]:
    """Rows and columns of the grid of ``processes`` cells that is most nearly square; rows <= columns."""
    rows = math.isqrt(processes)
    while processes % rows:
        rows -= 1
    return rows, processes // rows


def reads_per_phase(pattern: str, processes: int) -> int:
    return {"BARRIER": 0, "NEWS": 4, "TRANSPOSE": processes, TASKS: 0, LOCK: 0}[pattern]


def reads(pattern: str, processes: int) -> NDArray[np.int64]:
    """The processes from which each process reads in one communication phase.

    Returns an array of shape (processes, reads per phase): row p lists the targets of
    process p in order. BARRIER, TASKS and LOCK have no reads. NEWS reads its north, east, west and south
    neighbour on a periodic near-square grid, so neighbours coincide, or are the process
    itself, where the grid is thin. TRANSPOSE reads (p + i) mod P for i = 0 to P - 1: itself first.
    """
    one_of("pattern", pattern, PATTERNS)
    PROCESSES.check("processes", processes)
    p = np.arange(processes)
    if pattern in ("BARRIER", TASKS, LOCK):
        return np.empty((processes, 0), dtype=np.int64)
    if pattern == "TRANSPOSE":
        return (p[:, None] + np.arange(processes)) % processes
    rows, columns = grid(processes)
    row, column = np.divmod(p, columns)
    north = (row - 1) % rows * columns + column
    south = (row + 1) % rows * columns + column
    east = row * columns + (column + 1) % columns
    west = row * columns + (column - 1) % columns
    return np.stack([north, east, west, south], axis=1)


MOST_KNOWN = 128  # schedulers learn the partners of processes in programs of at most so many


@cache
def partners(pattern: str, processes: int) -> tuple[tuple[int, ...], ...]:
    """``reads`` as plain tuples, for schedulers; empty without reads, or above MOST_KNOWN processes."""
    if reads_per_phase(pattern, processes) == 0 or processes > MOST_KNOWN:
        return ()
    return tuple(tuple(row) for row in reads(pattern, processes).tolist())
