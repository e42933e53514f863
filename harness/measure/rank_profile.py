"""What a rank keeps of the times of its calls (``lockstep exec --profile``), as it has left it in memory.

``workloads/native/profile.h`` has the layout. Times are of the clock that all processes of a host share.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from harness.measure.rank_notes import named

if TYPE_CHECKING:
    from harness.measure.rank_sight import Rank

CALLS, AWAITED, ARRIVALS = 1024, 1024, 4096


class _InCall(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("calls", "within_ns")),
        *((name, ctypes.c_int32) for name in ("kept", "level")),
    ]


class _Awaited(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("call", "rank")),
        *((name, ctypes.c_int64) for name in ("calls", "within_ns")),
    ]


class _Arrival(ctypes.Structure):
    _fields_ = [
        ("comm", ctypes.c_uint64),
        ("number", ctypes.c_uint32),
        ("ranks", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("entered_ns", "within_ns")),
        *((name, ctypes.c_int32) for name in ("call", "root")),
    ]


class _Profile(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("begin_ns", "until_ns", "within_ns")),
        *((name, ctypes.c_int32) for name in ("kept", "reserved")),
        ("in_call", _InCall * CALLS),
        ("awaited", _Awaited * AWAITED),
        ("arrivals", _Arrival * ARRIVALS),
    ]


class InCall(NamedTuple):
    """How often a rank has called a call, and how long it was in there altogether."""

    calls: int
    within_ns: int


class Arrival(NamedTuple):
    """A rank's arrival at the collective call ``number`` of the communicator ``comm`` of ``ranks`` ranks.

    ``root`` is a rank in MPI_COMM_WORLD, or -1.
    """

    call: str
    comm: int
    number: int
    ranks: int
    entered_ns: int
    within_ns: int
    root: int


@dataclass(frozen=True)
class RankProfile:
    """The times of a rank; calls are named without "MPI_" and "_c".

    ``elapsed_ns`` is the time from the end of MPI_Init to the end of the last call, and ``outside_ns`` that
    part of it in which the first thread was in no call. ``awaited_ns`` is the time in calls that waited for
    one rank, by call and rank. ``arrivals`` are those at all collective calls, or at a sample of them, in
    which the ranks of a communicator keep the same ones.
    """

    rank: int
    ranks: int
    elapsed_ns: int
    outside_ns: int
    in_call: Mapping[str, InCall]
    awaited_ns: Mapping[tuple[str, int], int]
    arrivals: Sequence[Arrival]

    @property
    def within_ns(self) -> int:
        """The time of all threads in calls."""
        return sum(one.within_ns for one in self.in_call.values())


def profile_of(rank: Rank) -> RankProfile | None:
    """The profile of a rank; None if it keeps none, or MPI was not initialized."""
    own, ranks, names, data = rank.behind_names()
    if len(data) < ctypes.sizeof(_Profile):
        return None
    page = _Profile.from_buffer_copy(data)
    if page.begin_ns == 0:
        return None
    in_call: dict[str, InCall] = {}
    for number, one in enumerate(page.in_call):
        if one.calls > 0:
            before = in_call.get(name := named(names, number), InCall(0, 0))
            in_call[name] = InCall(before.calls + one.calls, before.within_ns + max(0, one.within_ns))
    awaited_ns: dict[tuple[str, int], int] = defaultdict(int)
    for pair in page.awaited:
        if pair.calls > 0:
            awaited_ns[named(names, pair.call), pair.rank] += max(0, pair.within_ns)
    arrivals = [
        Arrival(
            *(named(names, one.call), one.comm, one.number, one.ranks),
            *(one.entered_ns, max(0, one.within_ns), one.root),
        )
        for one in page.arrivals[: max(0, page.kept)]
    ]
    elapsed_ns = max(0, page.until_ns - page.begin_ns)
    outside_ns = max(0, elapsed_ns - page.within_ns)
    return RankProfile(own, ranks, elapsed_ns, outside_ns, in_call, awaited_ns, arrivals)
