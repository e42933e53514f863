"""The fields of a rank's record (docs/formats.md, "ranks"), and the check of each record that comes in.

Records come from processes that run other people's programs, so the check trusts nothing in them: a
wrong value would spoil the results of all other ranks much later.
"""

from __future__ import annotations

import base64
import reprlib
import zlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

PLACE = ("job", "rank", "host", "pid", "processor", "start_ns", "finish_ns")
"""Fields of every rank."""

COUNTED = ("cpu_ns", "voluntary_switches", "involuntary_switches", "run_queue_ns", "waits", "rechecks")
"""Fields of every rank that waits two-phase."""

FOREIGN = (*COUNTED, "asleep_ns")
"""Fields that ``workloads.native`` counts in other people's programs."""

OBSERVED = ("looked_ns", "running_ns", "ready_ns")
"""Fields of ranks that execute other people's programs, from outside: what the kernel counts."""

OURS = (
    *(PLACE + COUNTED),
    *("processes", "phases", "computing_ns", "communicating_ns", "synchronizing_ns", "served"),
)
"""Fields of every rank of our own programs."""

BEYOND = 1 << 62
"""All numbers are smaller, so that the difference of two fits the 64 bits of a store."""

BINS = 64
WAITS = ("blocked", "blocked_ns", "blocks", "spun", "spun_ns")
HISTOGRAMS = ("blocked_histogram", "spun_histogram")

TIMELINE_BYTES = 1 << 21
"""The longest timeline (``workloads.timeline.ROWS``), unpacked."""

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


def _estimate(value: Any) -> bool:
    return value == -1 or _count(value)


def _name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) < 256 and value.isprintable()


def _sizes(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_counts(pair) and len(pair) == 2 for pair in value)


def _waits(value: Any) -> bool:
    """Whether it has both kinds of waits, each as ``workloads.recorder.Waits`` records it."""
    if not isinstance(value, dict) or value.keys() != {"barrier", "read"}:
        return False
    return all(
        isinstance(kind, dict)
        and kind.keys() == {*WAITS, *HISTOGRAMS}
        and all(_count(kind[key]) for key in WAITS)
        and all(_counts(kind[key]) and len(kind[key]) == BINS for key in HISTOGRAMS)
        for kind in value.values()
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
    "estimate_ns": (_estimate, "a whole number of at least -1"),
    "sizes": (_sizes, "pairs of whole numbers"),
    "responses_ns": (_counts, "whole numbers of at least 0"),
    "timeline": (_timeline, "a packed timeline"),
    "timeline_lost": _WHOLE,
}
"""The check of each field, and its rule in words."""
