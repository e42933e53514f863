"""Noise of the operating system: detours that take a processor from its process for a moment.

Kernel threads and other programs run for a short while at random times. A detour takes time, and
makes the local scheduler choose again. Without detours, jobs whose processes take turns in
opposite orders on two processors would stay out of step for ever. With detours the processes of a
job run together by chance: with n jobs, in one slice of n.

A detour prolongs the activity of the processor: a computation, a spin, a switch. It does not delay
the message that ends a wait, and has no effect on an idle processor.

Source: Beckman, Iskra, Yoshii, Coghlan, "The Influence of Operating Systems on the Performance
of Collective Operations at Extreme Scale", 2006 (detours).
"""

from __future__ import annotations

import math

from harness.simulator.compiled import step
from harness.simulator.processes.events import set_activity
from harness.simulator.processes.local import scheduler
from harness.simulator.processes.model import NOBODY, State
from harness.simulator.processes.processor import preempt


@step
def exponential(state: State, p: int, mean_ns: int) -> int:
    """The next random time of processor ``p``, exponential with mean ``mean_ns``."""
    processor = state.processors[p]
    processor.random = (processor.random * 1103515245 + 12345) & 0x7FFFFFFF
    return int(-math.log((processor.random + 1) / (1 << 31)) * mean_ns)


@step
def detour(state: State, p: int) -> None:
    """Begin a detour on processor ``p``, and set the time of the next one."""
    processor = state.processors[p]
    machine = state.machine[0]
    clock = state.clock[0]
    length_ns = exponential(state, p, machine.detour_length_ns)
    processor.detour_ns = clock.now_ns + length_ns + 1 + exponential(state, p, machine.detour_gap_ns)
    q = processor.current
    if q == NOBODY:
        return
    process = state.processes[q]
    if scheduler.outranked_after_interrupt(state, p, q):
        preempt(state, p, True)
    # Nobody is charged for the detour.
    processor.charged_ns += length_ns
    process.dispatched_ns += length_ns
    set_activity(state, p, processor.activity_ns - clock.now_ns + length_ns)
