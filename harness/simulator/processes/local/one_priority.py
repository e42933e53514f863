"""Local schedulers with one priority: dispatch tables of one row for the rules of :mod:`.svr4`.

A process that wakes, or whose turn is over, queues up behind the ready processes. The starvation
update changes nothing.
"""

from __future__ import annotations

from harness.simulator.processes.local.svr4 import Table

ENDLESS = 2**31 - 1

ROUND_ROBIN_TICKS = 10
"""100 ms, the quantum of the SVR4 real-time class's middle priorities."""

RR_TICKS = 25
"""100 ms, the default of /proc/sys/kernel/sched_rr_timeslice_ms, in ticks of 4 ms."""


def fifo() -> Table:
    """First come, first served: a process keeps its processor until it blocks or finishes.

    If waits spin for ever, jobs never finish that come first on different processors; the
    simulation then ends at its time limit.
    Source: the SCHED_FIFO class of POSIX 1003.1b with a single priority.
    """
    return turns(ENDLESS)


def round_robin() -> Table:
    """Equal turns of one quantum.

    Source: Dusseau et al. 1996, section 7.2, which obtains it "by simply altering the tunable
    tables of the SVR4 scheduler to have one quantum length and one priority". A process for which
    a message comes runs at once only where it "is the only runnable process".
    """
    return turns(ROUND_ROBIN_TICKS)


def rr() -> Table:
    """SCHED_RR of Linux with one priority.

    Source: sched(7); Linux 6.18, kernel/sched/rt.c: task_tick_rt, enqueue_task_rt.
    """
    return turns(RR_TICKS)


def turns(ticks: int) -> Table:
    """A dispatch table of one row, with turns of ``ticks`` clock ticks."""
    return [(ticks, 0, 0, ENDLESS, 0)]
