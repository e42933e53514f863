"""What ranks of MPI programs note of themselves while they run, as they have left it in memory.

``workloads/native/whereabouts.h`` has the layout. A rank passes on a descriptor of its memory with its
registration; it is read by ``pread``, so that nothing that happens to it can kill the reader.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from workloads.native import calls

ANY = -2
"""As a peer: any rank."""

WORLD, OF_WORLD = "MPI_COMM_WORLD", 2
NO_PEER, NOT_LISTED, SHARED = -9, -1, -1
PLACES, COMMUNICATORS, STARTED, MEMBERS, NAME_BYTES = 8, 64, 64, 16384, 48
MAGIC, VERSION = b"LOCKSTEP", 1
BEGINNING, RUNNING, FINALIZING, FINALIZED, NOT_NOTED = range(5)


class _Subject(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("call", "comm", "to", "source", "tag", "item_bytes")),
        ("items", ctypes.c_int64),
    ]


class _Place(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("entered", "left", "progressed")),
        *((name, ctypes.c_int32) for name in ("thread", "pending")),
        ("subject", _Subject),
        ("handles", ctypes.c_uint64 * 4),
        ("frame", ctypes.c_uint64),
    ]


class _Communicator(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("id", "members_digest", "collectives", "children")),
        *((name, ctypes.c_int32) for name in ("ranks", "member", "origin")),
        *((name, ctypes.c_int16) for name in ("used", "inter")),
        ("name", ctypes.c_char * NAME_BYTES),
    ]


class _Started(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_uint64), ("subject", _Subject)]


class _Page(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("job", ctypes.c_uint64),
        *(
            (name, ctypes.c_int32)
            for name in ("version", "bytes", "pid", "rank", "ranks", "stage", "calls", "members_used")
        ),
        ("places", _Place * PLACES),
        ("communicators", _Communicator * COMMUNICATORS),
        ("started", _Started * STARTED),
        ("members", ctypes.c_int32 * MEMBERS),
    ]


HEAD_BYTES = _Page.communicators.offset


@dataclass(frozen=True)
class Communicator:
    """A communicator, or the group of a window, as a rank knows it.

    ``id`` is the same at all its ranks, and 0 if that cannot be known. ``members`` are its ranks in
    MPI_COMM_WORLD, -1 for ranks of another one; None if there are too many to be listed. ``collectives``
    counts the collective calls that the rank has begun in it. ``origin`` is the call that made it, or "".
    """

    id: int
    ranks: int
    members: tuple[int, ...] | None
    collectives: int
    origin: str
    name: str
    inter: bool

    @property
    def spans_worlds(self) -> bool:
        """Whether there are ranks of another MPI_COMM_WORLD in it, or may be."""
        return self.inter or (self.members is not None and -1 in self.members)

    def world(self, rank: int) -> int | None:
        """The rank in MPI_COMM_WORLD of one of its ranks; None if it is not known, or of another world."""
        if self.members is None or not 0 <= rank < len(self.members) or self.members[rank] < 0:
            return None
        return self.members[rank]


@dataclass(frozen=True)
class CallNote:
    """A call of MPI by its name without "MPI_" and "_c", and what it is about.

    Peers are ranks of ``comm``, or ANY; of a collective call ``source`` is the root.
    """

    name: str
    kind: str  # in the table of ``workloads.native.calls``
    comm: Communicator | None
    to: int | None
    source: int | None
    tag: int
    items: int
    item_bytes: int  # 0 if unknown


@dataclass(frozen=True)
class ThreadNote:
    """A thread of a rank: its last call, and whether it is still in it."""

    thread: int
    within: bool
    entered: int  # how many calls it has begun
    call: CallNote | None
    # Of the requests that the call waits for, incomplete ones; ``whole``: no others are.
    pending: tuple[CallNote, ...]
    whole: bool = False


@dataclass(frozen=True)
class RankNote:
    """What a rank does.

    Until MPI is initialized ``rank`` and ``ranks`` are what its launcher says, or -1.
    """

    pid: int
    rank: int
    ranks: int
    stage: int
    threads: tuple[ThreadNote, ...]
    communicators: Mapping[int, Communicator]  # by their ids
    shared: bool = False  # it has more threads than places


class Counters(NamedTuple):
    """The stage of a rank, its calls that ended with something done, those begun; the ranks of its job."""

    stage: int
    progressed: int
    entered: int
    ranks: int


class RankMemory:
    """The memory of a rank, by a descriptor that this object owns.

    ``job`` is a number that the ranks of a job have in common.
    """

    def __init__(self, descriptor: int, pid: int = 0) -> None:
        """``pid`` is the rank's as seen from here; 0: as it sees itself."""
        self._descriptor = descriptor
        head = self._page(HEAD_BYTES)
        self.pid, self.job = pid or head.pid, head.job

    def close(self) -> None:
        os.close(self._descriptor)

    def _page(self, size: int) -> _Page:
        """Its first bytes; zeros where it has none."""
        data = b""
        with suppress(OSError):
            data = os.pread(self._descriptor, size, 0)
        return _Page.from_buffer_copy(data.ljust(ctypes.sizeof(_Page), b"\0"))

    def counters(self) -> Counters:
        """What it counts now."""
        head = self._page(HEAD_BYTES)
        progressed = sum(one.progressed for one in head.places)
        entered = sum(one.entered for one in head.places)
        return Counters(head.stage, progressed, entered, head.ranks)

    def read(self) -> RankNote | None:
        """What the rank notes now; None if the memory is none of ours."""
        page = self._page(ctypes.sizeof(_Page))
        if page.magic != MAGIC or page.version != VERSION:
            return None
        names = _names(self._descriptor, page.calls)
        comms = {
            place: _communicator(page, one, names) for place, one in enumerate(page.communicators) if one.used
        }
        started = {one.handle: one.subject for one in page.started if one.handle}
        threads = tuple(_threads(page, names, comms, started))
        by_id = {one.id: one for one in comms.values() if one.id}
        shared = any(place.thread == SHARED for place in page.places)
        return RankNote(self.pid, page.rank, page.ranks, page.stage, threads, by_id, shared)

    def behind_names(self) -> tuple[int, int, list[str], bytes]:
        """The rank and how many its job has, the names of its calls, and what follows them in its memory."""
        page = self._page(ctypes.sizeof(_Page))
        if page.magic != MAGIC or page.version != VERSION:
            return -1, 0, [], b""
        at, data = ctypes.sizeof(_Page) + page.calls * NAME_BYTES, b""
        with suppress(OSError):
            data = os.pread(self._descriptor, max(0, page.bytes - at), at)
        return page.rank, page.ranks, _names(self._descriptor, page.calls), data


def _names(descriptor: int, count: int) -> list[str]:
    data = b""
    with suppress(OSError):
        data = os.pread(descriptor, min(max(count, 0), 4096) * NAME_BYTES, ctypes.sizeof(_Page))
    texts = (data[at : at + NAME_BYTES] for at in range(0, len(data), NAME_BYTES))
    return [text.rstrip(b"\0").decode(errors="replace") for text in texts]


def named(names: list[str], number: int) -> str:
    """The name of a call without "_c"; "" if there is none of this number."""
    return names[number].removesuffix("_c") if 0 <= number < len(names) else ""


def _communicator(page: _Page, one: _Communicator, names: list[str]) -> Communicator:
    members = None
    if 0 <= one.member <= one.member + one.ranks <= MEMBERS:
        members = tuple(page.members[one.member : one.member + one.ranks])
    origin, text = named(names, one.origin), one.name.decode(errors="replace")
    if one.used == OF_WORLD:
        text = WORLD
    return Communicator(one.id, one.ranks, members, one.collectives, origin, text, bool(one.inter))


def _call(subject: _Subject, names: list[str], comms: Mapping[int, Communicator]) -> CallNote | None:
    name = named(names, subject.call)
    if not name:
        return None
    to, source = (None if peer == NO_PEER else peer for peer in (subject.to, subject.source))
    kind = _KINDS.get(name, "")
    return CallNote(
        name, kind, comms.get(subject.comm), to, source, subject.tag, subject.items, subject.item_bytes
    )


_KINDS = calls.kinds()


def _threads(
    page: _Page, names: list[str], comms: Mapping[int, Communicator], started: Mapping[int, _Subject]
) -> Iterator[ThreadNote]:
    for place in page.places:
        if place.thread <= 0:  # unused, or of several threads
            continue
        call = _call(place.subject, names, comms) if place.entered else None
        within = place.entered != place.left
        handles = list(place.handles)[: max(0, place.pending)] if within else []
        pending = [_call(started[one], names, comms) for one in handles if one in started]
        known = tuple(one for one in pending if one is not None)
        whole = len(known) == place.pending < len(place.handles)
        yield ThreadNote(place.thread, within, place.entered, call, known, whole)
