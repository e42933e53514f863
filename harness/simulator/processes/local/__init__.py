"""Local schedulers by name: which process a processor's own scheduler runs.

Each is a dispatch table for the rules of :mod:`.svr4`, but ``eevdf`` has rules of its own. The
kernel calls the rules at a clock tick, at the starvation update, and when a process enters or wakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from harness.simulator.processes.local import eevdf, one_priority, svr4
from harness.simulator.processes.local.svr4 import Table


class LocalScheduler(NamedTuple):
    """A dispatch table and the other differences between local schedulers.

    Attributes:
        table: makes the dispatch table.
        boosts_woken: whether a process that a message has woken goes before all others until it has
            handled it.
        tick_ns: period of the clock tick.
    """

    table: Callable[[], Table]
    boosts_woken: bool = False
    tick_ns: int = 10_000_000


KNOWN = {
    "svr4": LocalScheduler(svr4.table, boosts_woken=True),  # Dusseau et al. 1996, section 3.3
    "round-robin": LocalScheduler(one_priority.round_robin),
    "eevdf": LocalScheduler(one_priority.fifo, tick_ns=eevdf.TICK_NS),  # its rules read no table
    "rr": LocalScheduler(one_priority.rr, tick_ns=eevdf.TICK_NS),
    "fifo": LocalScheduler(one_priority.fifo),
}
