"""The two-minute warning: whoever is about to lose its processor enters no critical section any more.

A process knows when its slot ends, if it does not run in the next one. ``warning_ns`` before that it stops
asking for locks, and spins until it runs again in a later slot; those that have asked before enter as usual.
The same on real ranks: ``await_slot`` of ``workloads/locks/lock.c``.

Source: Marsh, Scott, LeBlanc, Markatos, "First-Class User-Level Threads", 1991 (Psyche).
"""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.model import NEVER_NS, State


@step
def warned(state: State, q: int) -> bool:
    """Whether the slots are about to take process ``q``'s processor."""
    clock = state.clock[0]
    if clock.slot_end_ns - clock.now_ns >= state.machine[0].warning_ns:
        return False
    following = clock.slot + 1
    if following == len(state.slots):
        if not clock.cyclic:
            return False
        following = 0
    return bool(state.slots[following, q] == 0)


@step
def hold_off(state: State, q: int) -> None:
    """Process ``q``, which asks for a lock, spins for as long as it is warned."""
    process = state.processes[q]
    process.held_off = 1
    process.remaining_ns = NEVER_NS
    process.spin_end_ns = NEVER_NS
