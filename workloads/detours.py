"""Detours: when the operating system takes a processor from a process that only computes.

The process watches the clock; where it jumps and the kernel has counted an involuntary switch,
another program ran. The jumps without one are interrupts, clock ticks among them, and time
that a hypervisor takes; they slow all down alike.

Source: Beckman, Iskra, Yoshii, Coghlan, "The Influence of Operating Systems on the Performance
of Collective Operations at Extreme Scale", 2006 (the selfish detour benchmark).
"""

from __future__ import annotations

import resource
from time import perf_counter_ns

JUMP_NS = 5_000
"""A clock that jumps by more has not been read in between; no switch takes less."""


def watch(duration_ns: int) -> list[int]:
    """Lengths in nanoseconds of the detours of this thread's processor in the next ``duration_ns``.

    Processor affinity is the caller's business.
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
