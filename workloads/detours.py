"""Detours: when the operating system takes a processor from a process that only computes.

The process watches the clock. If the clock jumps and the kernel has counted an involuntary switch,
another program ran. Jumps without a switch are interrupts, such as clock ticks, and time that a
hypervisor takes; they slow all processes down alike.

Source: Beckman, Iskra, Yoshii, Coghlan, "The Influence of Operating Systems on the Performance
of Collective Operations at Extreme Scale", 2006 (the selfish detour benchmark).
"""

from __future__ import annotations

import resource
from time import perf_counter_ns

JUMP_NS = 5_000
"""After a jump by more, the process may not have run in between; no switch takes less."""


def watch(duration_ns: int) -> list[int]:
    """Lengths in nanoseconds of the detours of this thread's processor in the next ``duration_ns``.

    The caller sets the processor affinity.
    """
    found = []
    switches = _involuntary_switches()
    last = perf_counter_ns()
    end = last + duration_ns
    while last < end:
        now = perf_counter_ns()
        if now - last > JUMP_NS:
            switched = _involuntary_switches()
            if switched > switches:
                found.append(now - last)
                switches = switched
            now = perf_counter_ns()
        last = now
    return found


def _involuntary_switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
