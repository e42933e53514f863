"""Local schedulers by name: which process a processor's own scheduler runs.

Each is a dispatch table for the rules of :mod:`.svr4`, which the kernel calls at a clock
tick, at the starvation update, when a process enters, and when one wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.simulator.local import fifo, round_robin, svr4
from harness.simulator.local.svr4 import Table


class LocalScheduler(NamedTuple):
    """A dispatch table, and whether an unblocked process goes behind the ready ones."""

    table: Callable[[], Table]
    requeues_unblocked: bool


KNOWN = {
    "svr4": LocalScheduler(svr4.table, svr4.REQUEUES_UNBLOCKED),
    "round-robin": LocalScheduler(round_robin.table, round_robin.REQUEUES_UNBLOCKED),
    "fifo": LocalScheduler(fifo.table, fifo.REQUEUES_UNBLOCKED),
}
