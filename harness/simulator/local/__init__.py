"""Local schedulers by name: which process a processor's own scheduler runs.

Each is a dispatch table for the rules of :mod:`.svr4`, which the kernel calls at a clock
tick, at the starvation update, when a process enters, and when one wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.simulator.local import eevdf, fifo, round_robin, rr, svr4
from harness.simulator.local.svr4 import Table


class LocalScheduler(NamedTuple):
    """A dispatch table and what else tells one local scheduler from another.

    Attributes:
        table: makes the dispatch table.
        requeues_unblocked: whether a process that is unblocked goes behind the ready ones.
        tick_ns: the clock tick.
        boosts_woken: whether a process that a message has woken goes before all others until it has
            handled it.
    """

    table: Callable[[], Table]
    requeues_unblocked: bool
    tick_ns: int = 10_000_000
    boosts_woken: bool = True


KNOWN = {
    "svr4": LocalScheduler(svr4.table, svr4.REQUEUES_UNBLOCKED),
    "round-robin": LocalScheduler(round_robin.table, round_robin.REQUEUES_UNBLOCKED),
    "eevdf": LocalScheduler(eevdf.table, eevdf.REQUEUES_UNBLOCKED, eevdf.TICK_NS),
    "rr": LocalScheduler(rr.table, rr.REQUEUES_UNBLOCKED, eevdf.TICK_NS, boosts_woken=False),
    "fifo": LocalScheduler(fifo.table, fifo.REQUEUES_UNBLOCKED),
}
