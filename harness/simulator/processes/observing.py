"""When simulated processes look at their messages: at the end of a phase, as in ``workloads.observer``."""

from __future__ import annotations

from harness.simulator.compiled import step
from harness.simulator.processes.model import GOING, LOOKS, REFILL, State


@step
def observe(state: State, q: int) -> None:
    """Process ``q`` has just begun another phase: it looks if it is time, or later if Python is busy."""
    process = state.processes[q]
    clock = state.clock[0]
    if clock.now_ns < process.observe_at_ns or clock.status not in (GOING, REFILL):
        return
    process.observe_at_ns = clock.now_ns + state.machine[0].observe_ns
    clock.status = LOOKS
    clock.subject = q
