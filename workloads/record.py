"""One rank's record (docs/formats.md, "ranks"): how it is made, and the check of each record that comes in.

Records come from processes that run other people's programs, so the check trusts nothing in them: a
wrong value would spoil the results of all other ranks much later.
"""

import base64
import reprlib
import resource
import socket
import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from time import monotonic_ns, thread_time_ns
from typing import Any

PLACE = ("job", "rank", "host", "pid", "processor", "start_ns", "finish_ns")  # fields of every rank

COUNTED = ("cpu_ns", "voluntary_switches", "involuntary_switches", "run_queue_ns", "waits", "rechecks")
"""Fields of every rank that waits two-phase."""

FOREIGN = (*COUNTED, "asleep_ns")  # fields that ``workloads.native`` counts in other people's programs

OBSERVED = ("looked_ns", "running_ns", "ready_ns")
"""Fields of ranks that execute other people's programs, from outside: the counts of the kernel."""

OURS = (
    *(PLACE + COUNTED),
    *("processes", "phases", "computing_ns", "communicating_ns", "synchronizing_ns", "served"),
)
"""Fields of every rank of our programs."""

BEYOND = 1 << 62  # all numbers are smaller, so that the difference of two fits the 64 bits of a store

HISTOGRAM_BINS = 64
"""Bin b of a histogram counts waits of 2**(b-1) <= ns < 2**b; bin 0 counts waits of 0 ns."""

TIMELINE_BYTES = 1 << 21  # the longest timeline (``workloads.timeline.ROWS``), unpacked

CODES = frozenset([*range(4), *range(16, 32)])
"""Codes of a timeline's rows: waits and sleeps, messages sent and received."""


def flaw(record: Mapping[str, Any], required: Collection[str] = ()) -> str:
    """Why this is no record of a rank, in words; empty if it is one."""
    missing = [key for key in required if key not in record]
    if missing:
        return f"it lacks {', '.join(missing)}"
    for key, value in record.items():
        known = FIELDS.get(key)
        if known is None:
            return f"nothing is known of {reprlib.repr(key)}"
        fits, wanted = known
        if not fits(value):
            return f"{key} is {reprlib.repr(value)}, not {wanted}"
    if record.get("start_ns", 0) > record.get("finish_ns", BEYOND):
        return f"its start_ns, {record['start_ns']}, is after its finish_ns, {record['finish_ns']}"
    return ""


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < BEYOND


def _counts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_count, value))


def _name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) < 256 and value.isprintable()


def _sizes(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_counts(pair) and len(pair) == 2 for pair in value)


def _waits(value: Any) -> bool:
    """Whether it has both kinds of waits, each as ``Waits`` records it."""

    def fits(name: str, found: Any) -> bool:
        if name.endswith("_histogram"):
            return _counts(found) and len(found) == HISTOGRAM_BINS
        return _count(found)

    return (
        isinstance(value, dict)
        and value.keys() == {"barrier", "read"}
        and all(isinstance(kind, dict) and kind.keys() == set(Waits.__slots__) for kind in value.values())
        and all(fits(*item) for kind in value.values() for item in kind.items())
    )


def _timeline(value: Any) -> bool:
    """Whether ``workloads.timeline`` may have packed it, of at most TIMELINE_BYTES."""
    try:
        stream = zlib.decompressobj()
        raw = stream.decompress(base64.b64decode(value, validate=True), TIMELINE_BYTES + 1)
    except (TypeError, ValueError, zlib.error):
        return False
    if not stream.eof or len(raw) > TIMELINE_BYTES or len(raw) % 32:
        return False
    return set(memoryview(raw[: len(raw) // 4]).cast("q")) <= CODES


_WHOLE = (_count, "a whole number of at least 0")

FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys((key for key in (*OURS, *FOREIGN, *OBSERVED) if key not in ("host", "waits")), _WHOLE),
    "host": (_name, "the name of a host"),
    "waits": (_waits, "counts of waits"),
    "estimate_ns": (lambda value: value == -1 or _count(value), "a whole number of at least -1"),
    "sizes": (_sizes, "pairs of whole numbers"),
    "responses_ns": (_counts, "whole numbers of at least 0"),
    "timeline": (_timeline, "a packed timeline"),
    "timeline_lost": _WHOLE,
}
"""The check of each field, and its rule in words."""


class Waits:
    """The waits of one kind, spun or blocked; ``blocks`` counts sleeps, maybe several a wait."""

    __slots__ = ("blocked", "blocked_histogram", "blocked_ns", "blocks", "spun", "spun_histogram", "spun_ns")

    def __init__(self) -> None:
        self.spun = self.blocked = self.blocks = 0
        self.spun_ns = self.blocked_ns = 0
        self.spun_histogram = [0] * HISTOGRAM_BINS
        self.blocked_histogram = [0] * HISTOGRAM_BINS

    def add(self, waited_ns: int, blocks: int) -> None:
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

    def lap(self) -> int:
        """The thread's CPU time since the last passage; this is the next one."""
        last, self.mark_ns = self.mark_ns, thread_time_ns()
        return self.mark_ns - last

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
