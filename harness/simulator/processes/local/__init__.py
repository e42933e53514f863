"""Local schedulers by name: which process a processor's own scheduler runs.

Each is a dispatch table for the rules of :mod:`.svr4`, which the kernel calls at a clock
tick, at the starvation update, when a process enters, and when one wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.simulator.processes.local import eevdf, fifo, round_robin, rr, svr4
from harness.simulator.processes.local.svr4 import Table


class LocalScheduler(NamedTuple):
    """A dispatch table and what else tells one local scheduler from another.

    Attributes:
        table: makes the dispatch table.
        boosts_woken: whether a process that a message has woken goes before all others until it has
            handled it.
        tick_ns: the clock tick.
    """

    table: Callable[[], Table]
    boosts_woken: bool
    tick_ns: int = 10_000_000


KNOWN = {
    "svr4": LocalScheduler(svr4.table, svr4.BOOSTS_WOKEN),
    "round-robin": LocalScheduler(round_robin.table, round_robin.BOOSTS_WOKEN),
    "eevdf": LocalScheduler(eevdf.table, eevdf.BOOSTS_WOKEN, eevdf.TICK_NS),
    "rr": LocalScheduler(rr.table, rr.BOOSTS_WOKEN, eevdf.TICK_NS),
    "fifo": LocalScheduler(fifo.table, fifo.BOOSTS_WOKEN),
}
