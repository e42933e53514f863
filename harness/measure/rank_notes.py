"""What ranks of MPI programs note of themselves while they run, as they have left it in memory.

``workloads/native/whereabouts.h`` has the layout.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from workloads.native import calls
from workloads.validation import printable

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


class _Head(ctypes.Structure):
    _fields_ = [
        ("magic", ctypes.c_char * 8),
        ("job", ctypes.c_uint64),
        *(
            (name, ctypes.c_int32)
            for name in ("version", "bytes", "pid", "rank", "ranks", "stage", "calls", "members_used")
        ),
        ("places", _Place * PLACES),
    ]


class _Page(_Head):
    _fields_ = [
        ("communicators", _Communicator * COMMUNICATORS),
        ("started", _Started * STARTED),
        ("members", ctypes.c_int32 * MEMBERS),
    ]


HEAD_BYTES = ctypes.sizeof(_Head)
"""The bytes of what a rank counts, and of the calls in which its threads are."""

NOTES_BYTES = ctypes.sizeof(_Page)
"""The bytes of all that it notes; behind them are the names of calls."""

MOST_NAMES_BYTES = 4096 * NAME_BYTES

MOST_RANKS = 1_000_000
"""A process that says that its job has more ranks is not believed: lists of them would fill the memory."""


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

    Until MPI is initialized ``rank`` and ``ranks`` are what its launcher says, or -1; ``ranks`` above
    MOST_RANKS are -1, too. ``communicators`` is None if only its calls are known.
    """

    pid: int
    rank: int
    ranks: int
    stage: int
    threads: tuple[ThreadNote, ...]
    communicators: Mapping[int, Communicator] | None  # by their ids
    shared: bool = False  # it has more threads than places


class Counters(NamedTuple):
    """How far a rank has come: calls with something done, calls begun, and how many ranks its job has."""

    stage: int
    progressed: int
    entered: int
    ranks: int

    @classmethod
    def of(cls, page: bytes) -> Counters:
        """What a rank counts, by the first HEAD_BYTES of its memory."""
        first = _head(page)
        progressed = sum(one.progressed for one in first.places)
        entered = sum(one.entered for one in first.places)
        return cls(first.stage, progressed, entered, first.ranks)


class Identity(NamedTuple):
    """The process of a rank as it sees itself, and a number that the ranks of its job have in common."""

    pid: int
    job: int

    @classmethod
    def of(cls, page: bytes) -> Identity:
        """Who a rank is, by the first HEAD_BYTES of its memory."""
        first = _head(page)
        return cls(first.pid, first.job)


def whole_bytes(page: bytes) -> int:
    """How many bytes the memory of a rank has, with what is behind the names."""
    return int(_head(page).bytes)


def names_bytes(page: bytes) -> int:
    """How many bytes the names of calls have behind the notes."""
    return min(max(int(_head(page).calls) * NAME_BYTES, 0), MOST_NAMES_BYTES)


def _head(data: bytes) -> _Head:
    return _Head.from_buffer_copy(data[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0"))


def _page(data: bytes) -> _Page:
    """The notes that begin with these bytes; zeros follow."""
    return _Page.from_buffer_copy(data[:NOTES_BYTES].ljust(NOTES_BYTES, b"\0"))


def note(notes: bytes, texts: bytes, pid: int) -> RankNote | None:
    """What a rank notes, by the bytes of its memory; None if they are no rank's."""
    page, of_calls = _page(notes), names(texts)
    if page.magic != MAGIC or page.version != VERSION:
        return None
    comms = {
        place: _communicator(page, one, of_calls) for place, one in enumerate(page.communicators) if one.used
    }
    started = {one.handle: one.subject for one in page.started if one.handle}
    by_id = {one.id: one for one in comms.values() if one.id}
    return _rank_note(page, pid, tuple(_threads(page, of_calls, comms, started)), by_id)


def head_note(first: bytes, texts: bytes, pid: int) -> RankNote | None:
    """The same by the first HEAD_BYTES alone: without communicators and requests."""
    page = _head(first)
    if page.magic != MAGIC or page.version != VERSION:
        return None
    return _rank_note(page, pid, tuple(_threads(page, names(texts), {}, {})), None)


def _rank_note(
    page: _Head, pid: int, threads: tuple[ThreadNote, ...], comms: Mapping[int, Communicator] | None
) -> RankNote:
    shared = any(place.thread == SHARED for place in page.places)
    ranks = page.ranks if 0 <= page.ranks <= MOST_RANKS else -1
    return RankNote(pid, page.rank, ranks, page.stage, threads, comms, shared)


def names(data: bytes) -> list[str]:
    """The names of calls, by their bytes."""
    texts = (data[at : at + NAME_BYTES] for at in range(0, len(data), NAME_BYTES))
    return [printable(text.rstrip(b"\0").decode(errors="replace")) for text in texts]


def named(names: list[str], number: int) -> str:
    """The name of a call without "_c"; "" if there is none of this number."""
    return names[number].removesuffix("_c") if 0 <= number < len(names) else ""


def _communicator(page: _Page, one: _Communicator, names: list[str]) -> Communicator:
    members = None
    if 0 <= one.member <= one.member + one.ranks <= MEMBERS:
        members = tuple(page.members[one.member : one.member + one.ranks])
    origin, text = named(names, one.origin), printable(one.name.decode(errors="replace"))
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
    page: _Head, names: list[str], comms: Mapping[int, Communicator], started: Mapping[int, _Subject]
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
