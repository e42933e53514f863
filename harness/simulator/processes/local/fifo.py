"""First come, first served: a process keeps its processor until it blocks or finishes.

Source: the SCHED_FIFO class of POSIX 1003.1b with a single priority. With waits that spin
for ever, jobs whose processes got ahead of each other on different processors never finish;
the simulation then ends at its time limit.
"""

from __future__ import annotations

from harness.simulator.processes.local.svr4 import Table

ENDLESS_TICKS = 2**31 - 1
NO_HELP_S = 2**31 - 1

BOOSTS_WOKEN = False
"""A process for which a message comes queues up behind those that are ready."""


def table() -> Table:
    """The dispatch table's one row."""
    return [(ENDLESS_TICKS, 0, 0, NO_HELP_S, 0)]
