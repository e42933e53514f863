"""Time that the operating system takes from a process that only computes: interruptions and clock ticks.

If the clock jumps and the kernel has counted an involuntary switch, another program ran: an interruption.
Jumps without a switch are interrupts, and time that a hypervisor takes; they slow all processes down alike.
A change of time slices at a clock tick, such an interrupt, happens only at its end. Source: Beckman, Iskra,
Yoshii, Coghlan, "The Influence of Operating Systems on the Performance of Collective Operations at Extreme
Scale", 2006 (the selfish detour benchmark). ``python -P -m workloads.os_noise PROCESSOR`` prints
:func:`queried_slice_ns`.
"""

import os
import resource
import statistics
import sys
import time
from collections import Counter
from collections.abc import Sequence
from time import perf_counter_ns, thread_time_ns
from typing import NamedTuple

CLOCK_MONOTONIC_COARSE = 6
"""It advances with the clock tick. The time module does not name it."""

JUMP_NS = 5_000  # after a jump by more, the process may not have run in between; no switch takes less

AWAY_NS = 500_000
"""A process that does not run for longer has lost the processor to one that computes, too."""

BIN_NS = 100_000

TURNS_NS = 200_000_000  # how long two processes take turns
NEAR_NS = 20_000  # clock ticks come at the same phase of their period, within less


class Jump(NamedTuple):
    """A jump of the clock: when it began, how long it is, and whether another program ran."""

    began_ns: int
    length_ns: int
    switched: bool


def watch(duration_ns: int) -> list[Jump]:
    """The jumps of the clock on this thread's processor in the next ``duration_ns``."""
    jumps = []
    switches = _involuntary_switches()
    last = perf_counter_ns()
    end = last + duration_ns
    while last < end:
        now = perf_counter_ns()
        if now - last > JUMP_NS:
            switched = _involuntary_switches()
            jumps.append(Jump(last, now - last, switched > switches))
            switches = switched
            now = perf_counter_ns()
        last = now
    return jumps


def queried_slice_ns(processor: int) -> float:
    """How long this process, from now on on ``processor``, runs before another session's has a time slice.

    The most frequent length, to 0.1 ms, for others may cut slices short. Both ask for their CPU time
    all the while, as synthetic programs do. Linux then ends this time with the slice; but where sessions are
    groups of the scheduler (autogroup), it does so at the next clock tick.
    """
    end = perf_counter_ns() + TURNS_NS
    rival = os.fork()
    if not rival:
        os.setsid()
    os.sched_setaffinity(0, {processor})
    turns = []
    began = last = perf_counter_ns()
    while last < end:
        thread_time_ns()
        now = perf_counter_ns()
        if now - last > AWAY_NS:
            turns.append(last - began)
            began = now
        last = now
    if not rival:
        os._exit(0)
    os.waitpid(rival, 0)
    return statistics.mode(round(turn / BIN_NS) * BIN_NS for turn in turns or [0])


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
    lengths_ns = [jump.length_ns for jump in silent if jump.began_ns % period_ns // NEAR_NS in phase]
    unseen = duration_ns // period_ns - len(lengths_ns)
    return lengths_ns + [0] * unseen if unseen <= len(lengths_ns) else []


def _involuntary_switches() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


if __name__ == "__main__":
    sys.stdout.write(f"{queried_slice_ns(int(sys.argv[1]))}\n")
