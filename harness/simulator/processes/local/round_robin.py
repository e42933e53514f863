"""Round robin: one priority and one quantum for all.

Source: Dusseau et al. 1996, section 7.2, which obtains it "by simply altering the tunable
tables of the SVR4 scheduler to have one quantum length and one priority".
"""

from __future__ import annotations

from harness.simulator.processes.local.svr4 import Table

QUANTUM_TICKS = 10
"""100 ms, the quantum of the SVR4 real-time class's middle priorities."""

NO_HELP_S = 32000
"""The starvation timer has nothing to raise, and must not reorder the queue."""

BOOSTS_WOKEN = False
"""There are no priorities, so a process for which a message comes queues up behind those that
are ready: it runs at once only where it "is the only runnable process" (section 7.2)."""


def table(quantum_ticks: int = QUANTUM_TICKS) -> Table:
    """The dispatch table's one row."""
    return [(quantum_ticks, 0, 0, NO_HELP_S, 0)]
