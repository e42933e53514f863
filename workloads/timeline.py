"""A rank's timeline: its waits and messages with their times, in a ring of rows that never grows.

A row is four whole numbers: a code, two times in nanoseconds and a peer.

=========================  =============  ======  =======================
code                       first time     second  peer
=========================  =============  ======  =======================
BARRIER, READ              wait began     ended   rank read from, or -1
SLEPT                      fell asleep    awoke   -1
GONE                       another ran    until   -1
RAN + activity             it ran         until   rank read from, or -1
SENT + kind of message     when           count   receiver
RECEIVED + kind            when           count   sender
=========================  =============  ======  =======================

Counts number the messages from one rank to another, so that a reader can match both ends of
a message. Between its waits a rank computes. RAN is for simulated processes, whose activities
(:data:`ACTIVITIES`) are known without measuring; their SLEPT has the rank read from, too.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from workloads.late import Late

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = Late("numpy")


BARRIER, READ, SLEPT, GONE = range(4)
RAN = 8
SENT = 16
RECEIVED = 24
ACTIVITIES = ("computing", "communicating", "synchronizing", "switching")

MEASURED = frozenset([BARRIER, READ, SLEPT, GONE, *range(SENT, 2 * RECEIVED - SENT)])
SIMULATED = frozenset([SLEPT, *range(RAN, RAN + len(ACTIVITIES))])
"""Codes of the rows of real and of simulated ranks."""

ROWS = 1 << 16
"""A rank keeps this many latest rows: 2 MiB, or the last 5 to 20 s at a granularity of 1 ms."""

WIDTH = 4
ROW = struct.Struct("<4q")


class Timeline:
    """The last ``rows`` rows that were added, in memory allocated once, at the beginning."""

    def __init__(self, rows: int = ROWS) -> None:
        self._bytes = bytearray(ROW.size * rows)
        self._pack = ROW.pack_into
        self._next = 0
        self._rounds = 0

    def add(self, code: int, first: int, second: int, peer: int = -1) -> None:
        """Add a row, over the oldest if there is no room."""
        at = self._next
        if at == len(self._bytes):
            at = 0
            self._rounds += 1
        self._pack(self._bytes, at, code, first, second, peer)
        self._next = at + ROW.size

    @property
    def lost(self) -> int:
        return ((self._rounds - 1) * len(self._bytes) + self._next) // ROW.size if self._rounds else 0

    def rows(self, origin_ns: int) -> NDArray[np.int64]:
        """The rows, oldest first, times counted from ``origin_ns``; shape (n, 4)."""
        numbers = np.frombuffer(self._bytes, dtype="<i8").astype(np.int64).reshape(-1, WIDTH)
        newest = self._next // ROW.size
        rows = np.roll(numbers, -newest, axis=0) if self._rounds else numbers[:newest]
        rows[:, 1] -= origin_ns
        rows[rows[:, 0] < SENT, 2] -= origin_ns
        return rows


def pack(rows: NDArray[np.int64]) -> bytes:
    """``rows`` in a few bytes each: column by column, times as differences, compressed."""
    columns = rows.T.astype("<i8").copy()
    columns[2] -= np.where(columns[0] < SENT, columns[1], 0)
    columns[1] = np.diff(columns[1], prepend=0)
    return zlib.compress(columns.tobytes())


def unpack(packed: bytes) -> NDArray[np.int64]:
    """The rows that were packed; shape (n, 4)."""
    columns = np.frombuffer(zlib.decompress(packed), dtype="<i8").reshape(WIDTH, -1).astype(np.int64)
    columns[1] = np.cumsum(columns[1])
    columns[2] += np.where(columns[0] < SENT, columns[1], 0)
    return columns.T.copy()
