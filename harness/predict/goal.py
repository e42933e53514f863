"""Schedules in GOAL as recorded programs.

A schedule says of each rank which operations need which others, and a recording has one order for each rank.
``read`` takes the order in which an ideal machine carries the operations out: one processor for each rank,
and messages that take no time. In this order no rank waits for ever on another machine either: what a wait
needs came earlier in the order of all ranks.
"""

import heapq
import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.predict.goal_text import ANY, REMEDY, Operation, parsed
from harness.store.recording import (
    COPIED_BYTES,
    KIND,
    LONGEST_NS,
    OPERATION,
    WINDOW,
    RankRecording,
    Recording,
    RecordingError,
    Rows,
)
from workloads.validation import reason_of

MEETS_FROM_BYTES = 65_536
"""LogGOPSim's S: a longer message waits for its receive."""

TAGS = 255  # a recording keeps a tag modulo this

BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?(?:\s|//[^\n]*\n|/\*.*?\*/)*num_ranks\b", re.DOTALL)


def is_schedule(path: Path) -> bool:
    """Whether a file begins as a schedule; False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return BEGIN.match(file.read(1 << 16)) is not None
    except (OSError, ValueError):  # ValueError: a path that cannot be one
        return False


def read(path: Path) -> Recording:
    """The schedule in a file as a recording of all its ranks, whose calls take no time.

    Raises:
        RecordingError: the file cannot be read, is no schedule, or has operations that are never over.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise RecordingError(path, f"cannot be read: {reason_of(error)}") from error
    ranks = parsed(path, text)
    run = _Execution(path, ranks)
    run.carry_out()
    finish_ns = max(run.free_ns)
    if finish_ns > LONGEST_NS:
        raise RecordingError(path, f"takes {finish_ns} ns, and may take {LONGEST_NS}", REMEDY)
    everyone = {0: tuple(range(len(ranks)))}
    found = _found(run)
    recorded = []
    for rank, operations in enumerate(ranks):
        rows = _rows(operations, run.order[rank], found[rank])
        compute_ns = float(rows["compute_ns"].sum())
        window = np.zeros(1, WINDOW)
        window["operations"] = window["kept"] = len(rows)
        window["compute_ns"] = window["kept_compute_ns"] = compute_ns
        window["kept_end_ns"] = finish_ns
        recorded.append(
            RankRecording(
                *(rank, "", 0, finish_ns, True, False, 1, max(1, finish_ns), window, rows, everyone),
                meets_from_bytes=MEETS_FROM_BYTES,
                copy_ns=tuple(size / 4 for size in COPIED_BYTES),  # as of recordings that do not say it
                yield_interval_ns=0.0,
            )
        )
    return Recording((path.name,), len(ranks), tuple(recorded))


class Found(NamedTuple):
    """The message of a ``send`` or ``recv``: its other end, and its tag in the recording."""

    peer: int
    tag: int


class _Message(NamedTuple):
    rank: int
    place: int


class _Execution:
    """A schedule on an ideal machine: when each operation begins, and which messages meet."""

    def __init__(self, path: Path, ranks: Sequence[Sequence[Operation]]) -> None:
        self.path = path
        self.ranks = ranks
        self.free_ns = [0] * len(ranks)  # when the processor of each rank is free
        self.order: list[list[int]] = [[] for _ in ranks]  # places of the operations, as they begin
        self.senders: list[dict[int, _Message]] = [{} for _ in ranks]  # of each receive, by its place
        self._over = [[False] * len(operations) for operations in ranks]
        self._arrived: list[deque[_Message]] = [deque() for _ in ranks]  # messages without a receive
        self._posted: list[deque[int]] = [deque() for _ in ranks]  # receives without a message
        # When, serial number, whether an end, of which rank and operation.
        self._events: list[tuple[int, int, bool, int, int]] = []
        self._serial = 0

    def carry_out(self) -> None:
        for rank, operations in enumerate(self.ranks):
            for place, operation in enumerate(operations):
                if not operation.open:
                    self._add(0, rank, place)
        while self._events:
            now_ns, _, ends, rank, place = heapq.heappop(self._events)
            if ends:
                self._end(now_ns, rank, place)
            elif self.free_ns[rank] > now_ns:
                self._add(self.free_ns[rank], rank, place)
            else:
                self._begin(now_ns, rank, place)
        for rank, operations in enumerate(self.ranks):
            for place, operation in enumerate(operations):
                if not self._over[rank][place]:
                    reason = "depends on others for ever" if operation.open else "has no counterpart"
                    raise RecordingError(
                        self.path, f"line {operation.line}: {operation.what} of rank {rank} {reason}", REMEDY
                    )

    def _add(self, at_ns: int, rank: int, place: int, *, ends: bool = False) -> None:
        self._serial += 1
        heapq.heappush(self._events, (at_ns, self._serial, ends, rank, place))

    def _begin(self, now_ns: int, rank: int, place: int) -> None:
        operation = self.ranks[rank][place]
        self.order[rank].append(place)
        self._release(now_ns, rank, operation.begun)
        if operation.what == "calc":
            self.free_ns[rank] = now_ns + operation.amount
            self._add(self.free_ns[rank], rank, place, ends=True)
        elif operation.what == "send":
            self._send(now_ns, rank, place, operation)
        else:
            arrived = self._arrived[rank]
            for number, message in enumerate(arrived):
                if self._match(message, operation):
                    del arrived[number]
                    self._meet(now_ns, message, rank, place)
                    return
            self._posted[rank].append(place)

    def _send(self, now_ns: int, rank: int, place: int, operation: Operation) -> None:
        message = _Message(rank, place)
        if operation.amount < MEETS_FROM_BYTES:
            self._add(now_ns, rank, place, ends=True)
        posted = self._posted[operation.peer]
        for number, receive in enumerate(posted):
            if self._match(message, self.ranks[operation.peer][receive]):
                del posted[number]
                self._meet(now_ns, message, operation.peer, receive)
                return
        self._arrived[operation.peer].append(message)

    def _match(self, message: _Message, receive: Operation) -> bool:
        send = self.ranks[message.rank][message.place]
        return receive.peer in (ANY, message.rank) and receive.tag in (ANY, send.tag)

    def _meet(self, now_ns: int, message: _Message, rank: int, place: int) -> None:
        self.senders[rank][place] = message
        self._add(now_ns, rank, place, ends=True)
        if self.ranks[message.rank][message.place].amount >= MEETS_FROM_BYTES:
            self._add(now_ns, message.rank, message.place, ends=True)

    def _end(self, now_ns: int, rank: int, place: int) -> None:
        self._over[rank][place] = True
        self._release(now_ns, rank, self.ranks[rank][place].ended)

    def _release(self, now_ns: int, rank: int, places: Sequence[int]) -> None:
        for place in places:
            self.ranks[rank][place].open -= 1
            if not self.ranks[rank][place].open:
                self._add(now_ns, rank, place)


def _found(run: _Execution) -> list[dict[int, Found]]:
    """The messages of each rank, by places of ``send`` and ``recv``, without those that no rank takes.

    Between two ranks those of one tag are received in the order in which they are sent.
    """
    found: list[dict[int, Found]] = [{} for _ in run.order]
    begun = [{place: at for at, place in enumerate(order)} for order in run.order]
    pairs = defaultdict(list)
    for rank, senders in enumerate(run.senders):
        for place, message in senders.items():
            sent = begun[message.rank][message.place]
            pairs[message.rank, rank].append((sent, begun[rank][place], message.place, place))
    for (sender, receiver), messages in pairs.items():
        last: list[int] = []  # by tag, when the last one is received, negative: they ascend
        for _, received, sent_at, received_at in sorted(messages):
            tag = bisect_right(last, -received)
            last[tag : tag + 1] = [-received]
            found[sender][sent_at] = Found(receiver, tag % TAGS)
            found[receiver][received_at] = Found(sender, tag % TAGS)
    return found


def _rows(operations: Sequence[Operation], order: Sequence[int], found: Mapping[int, Found]) -> Rows:
    """What a rank did: it waits for a message where another operation needs that."""
    rows: list[tuple[float, float, int, int, int, int, int, int]] = []
    waiting: dict[int, None] = {}  # places of messages that have begun
    compute_ns = 0

    def add(kind: str, peer: int = ANY, request: int = 0, amount: int = 0, tag: int = 0) -> None:
        nonlocal compute_ns
        rows.append((compute_ns, 0.0, amount, peer, request, 0, KIND[kind], tag))
        compute_ns = 0

    for place in order:
        operation = operations[place]
        for before in operation.requires:
            if before in waiting:
                del waiting[before]
                add("WAIT", found[before].peer, before + 1)
        if operation.what == "calc":
            compute_ns += operation.amount
        elif place in found:
            kind = "ISEND" if operation.what == "send" else "IRECV"
            add(kind, found[place].peer, place + 1, operation.amount, found[place].tag)
            waiting[place] = None
    for before in waiting:
        add("WAIT", found[before].peer, before + 1)
    compute_ns = max(1, compute_ns)  # so that each program takes time
    add("COMPUTE")
    return np.array(rows, OPERATION)
