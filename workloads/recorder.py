"""One rank's record: where its time went, how each wait ended, what the kernel counted."""

from __future__ import annotations

import resource
import socket
from pathlib import Path
from time import monotonic_ns, thread_time_ns
from typing import Any

HISTOGRAM_BINS = 64
"""Bin b of a histogram counts waits of 2**(b-1) <= ns < 2**b; bin 0 counts waits of 0 ns."""


class Waits:
    """The waits of one kind: how many completed while spinning, how many after blocking.

    ``blocks`` counts sleeps: one wait can sleep several times, since a process that is
    woken by a request serves it and sleeps again.
    """

    __slots__ = ("blocked", "blocked_histogram", "blocked_ns", "blocks", "spun", "spun_histogram", "spun_ns")

    def __init__(self) -> None:
        self.spun = self.blocked = self.blocks = 0
        self.spun_ns = self.blocked_ns = 0
        self.spun_histogram = [0] * HISTOGRAM_BINS
        self.blocked_histogram = [0] * HISTOGRAM_BINS

    def add(self, waited_ns: int, blocks: int) -> None:
        """Record a wait of ``waited_ns`` that slept ``blocks`` times."""
        if blocks:
            self.blocked += 1
            self.blocks += blocks
            self.blocked_ns += waited_ns
            self.blocked_histogram[waited_ns.bit_length()] += 1
        else:
            self.spun += 1
            self.spun_ns += waited_ns
            self.spun_histogram[waited_ns.bit_length()] += 1

    def record(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Recorder:
    """Collects a rank's record between :meth:`start` and :meth:`finish`.

    The program charges CPU time to the three activities of a process as it passes from one
    to the next; ``mark_ns`` is the thread's CPU time at the last passage.
    """

    def __init__(self) -> None:
        self.barriers = Waits()
        self.reads = Waits()
        self.computing_ns = self.communicating_ns = self.synchronizing_ns = 0
        self.mark_ns = 0
        self._start_ns = self._cpu_ns = 0
        self._kernel = (0, 0, 0)

    def start(self) -> None:
        self._kernel = _kernel_counts()
        self._start_ns = monotonic_ns()
        self._cpu_ns = self.mark_ns = thread_time_ns()

    def finish(self) -> dict[str, Any]:
        """The program has ended; returns the record (docs/formats.md, "ranks")."""
        cpu_ns = thread_time_ns()
        finish_ns = monotonic_ns()
        voluntary, involuntary, queued = (
            after - before for after, before in zip(_kernel_counts(), self._kernel, strict=True)
        )
        return {
            "host": socket.gethostname(),
            "start_ns": self._start_ns,
            "finish_ns": finish_ns,
            "cpu_ns": cpu_ns - self._cpu_ns,
            "computing_ns": self.computing_ns,
            "communicating_ns": self.communicating_ns,
            "synchronizing_ns": self.synchronizing_ns,
            "voluntary_switches": voluntary,
            "involuntary_switches": involuntary,
            "run_queue_ns": queued,
            "waits": {"barrier": self.barriers.record(), "read": self.reads.record()},
        }


def _kernel_counts() -> tuple[int, int, int]:
    """Voluntary and involuntary switches and run-queue wait (ns) of this thread so far."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    try:
        queued = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
    except (OSError, IndexError):  # a kernel without CONFIG_SCHED_INFO
        queued = 0
    return usage.ru_nvcsw, usage.ru_nivcsw, queued
