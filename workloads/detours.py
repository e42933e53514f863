"""Time that the operating system takes from a process that only computes: detours and clock ticks.

If the clock jumps and the kernel has counted an involuntary switch, another program ran: a detour. Jumps
without a switch are interrupts, and time that a hypervisor takes; they slow all processes down alike. A
change of turns at a clock tick, such an interrupt, happens only at its end. Source: Beckman, Iskra, Yoshii,
Coghlan, "The Influence of Operating Systems on the Performance of Collective Operations at Extreme Scale",
2006 (the selfish detour benchmark).
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Sequence
from time import perf_counter_ns
from typing import NamedTuple

CLOCK_MONOTONIC_COARSE = 6
"""It advances with the clock tick. The time module does not name it."""

JUMP_NS = 5_000
"""After a jump by more, the process may not have run in between; no switch takes less."""

NEAR_NS = 20_000
"""Clock ticks come at the same phase of their period, within less."""


class Jump(NamedTuple):
    """A jump of the clock: when it began, how long it is, and whether another program ran."""

    began_ns: int
    length_ns: int
    switched: bool


def watch(duration_ns: int) -> list[Jump]:
    """The jumps of the clock on this thread's processor in the next ``duration_ns``."""
    found = []
    switches = _involuntary_switches()
    last = perf_counter_ns()
    end = last + duration_ns
    while last < end:
        now = perf_counter_ns()
        if now - last > JUMP_NS:
            switched = _involuntary_switches()
            found.append(Jump(last, now - last, switched > switches))
            switches = switched
            now = perf_counter_ns()
        last = now
    return found


def tick_ns() -> int:
    return round(time.clock_getres(CLOCK_MONOTONIC_COARSE) * 1e9)


def ticks_ns(jumps: Sequence[Jump], duration_ns: int, period_ns: int) -> list[int]:
    """Lengths of the clock ticks among ``jumps``, which a process saw in ``duration_ns``.

    They begin every ``period_ns``, at the phase at which most jumps begin. Those that are too short to be
    seen count 0. The list is empty if half of all are: the processor may have none.
    """
    silent = [jump for jump in jumps if not jump.switched]
    bins = Counter(jump.began_ns % period_ns // NEAR_NS for jump in silent)
    count = -(-period_ns // NEAR_NS)
    first = max(range(count), key=lambda one: bins[one] + bins[(one + 1) % count])
    phase = {first, (first + 1) % count}
    found = [jump.length_ns for jump in silent if jump.began_ns % period_ns // NEAR_NS in phase]
    unseen = duration_ns // period_ns - len(found)
    return found + [0] * unseen if unseen <= len(found) else []


def _involuntary_switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
