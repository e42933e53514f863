"""SCHED_RR of Linux with one priority: first come, first served, by turns of one interval.

A process that wakes queues up behind the others, and so does one whose interval is over.

Source: sched(7); Linux 6.18, kernel/sched/rt.c: task_tick_rt, enqueue_task_rt.
"""

from __future__ import annotations

from harness.simulator.processes.local.svr4 import Table

INTERVAL_TICKS = 25
"""100 ms, the default of /proc/sys/kernel/sched_rr_timeslice_ms, in ticks of 4 ms."""

NO_HELP_S = 2**31 - 1

BOOSTS_WOKEN = False


def table(interval_ticks: int = INTERVAL_TICKS) -> Table:
    """The dispatch table's one row."""
    return [(interval_ticks, 0, 0, NO_HELP_S, 0)]
