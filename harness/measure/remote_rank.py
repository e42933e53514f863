"""A rank that has come by TCP, and answers questions about itself.

``workloads/native/answers.c`` is its side. It is on another host, in another network or of another user: its
process is not looked up here, and gets no signal from here.
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from harness.measure.rank_notes import (
    FINALIZED,
    HEAD_BYTES,
    MOST_NAMES_BYTES,
    NOTES_BYTES,
    Counters,
    Identity,
    RankNote,
    head_note,
    note,
)
from harness.measure.rank_sight import (
    ANSWER_S,
    ENDED,
    RUNNING,
    SILENT,
    STOPPED,
    Sight,
    kernel_call,
    process_fields,
)
from workloads.validation import printable

ASKING_S = 1.0
"""A rank is asked for its counters so often."""

COUNTERS, NOTES = b"c", b"n"
HEADER = struct.Struct("=IIIIQ")  # how many bytes of each part follow, and signals that the process handles
MOST_BYTES = (NOTES_BYTES, MOST_NAMES_BYTES, 1024, 256)
RECEIVED_BYTES = 1 << 16
LOOK_BYTES = 4 * (HEADER.size + sum(MOST_BYTES))
"""So much is taken at a look: a process that never stops sending must not keep us from other ranks."""

REFUSED = b"x"
"""Sent to a rank that will not be asked."""


@dataclass(frozen=True)
class Answer:
    """What a rank has answered; ``names`` are empty if it was asked for its counters only."""

    page: bytes
    names: bytes
    stat: bytes
    syscall: bytes
    handled: int

    @cached_property
    def counters(self) -> Counters:
        return Counters.of(self.page)


class RemoteRank:
    """As ``Rank``; owns the line. Nothing here waits for the rank.

    A rank whose line breaks comes again by another one. So one that has hung up, and does not come within
    ANSWER_S, has ended. One whose line was reset may have been cut off by the network: it is SILENT.
    """

    def __init__(self, line: socket.socket, host: str, place: str) -> None:
        """``place`` tells its process from others with the same number, on whatever host."""
        self.host, self.job, self.command, self.pid_here = printable(host), 0, "", 0
        self.process = place, -line.fileno()  # until it has answered
        self._line: socket.socket | None = line
        self._received = bytearray()
        self._question = b""  # that has been sent, and not answered so far
        self._asked_s = float("inf")  # the time of the first look is not known yet
        self._wanted = NOTES  # the question whose answer someone waits for
        self._latest: Answer | None = None
        self._notes: Answer | None = None
        self._read: tuple[bytes, RankNote | None] = b"", None  # a page, and what it notes
        self._has_ended = False
        self._has_hung_up = False
        self._lost_s = float("inf")  # when the line had ended
        self._late = False
        line.setblocking(False)
        self._send(NOTES)  # at once: it may be stopped soon

    def refuse(self) -> None:
        """It is not watched."""
        self._send(REFUSED)
        self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None

    def look(self, now_s: float) -> Sight | None:
        news = self._take()
        self._asked_s = min(self._asked_s, now_s)
        waits = self._line is not None and bool(self._question)
        self._late = waits and now_s - self._asked_s >= ANSWER_S
        if self._latest is not None and self._latest.counters.stage == FINALIZED:
            self._has_ended = True  # as far as MPI is concerned; its thread may wait for us to hang up
            self.close()
        self._ask_again(now_s)
        self._miss(now_s)
        if self._latest is None:
            return Sight(Counters(0, 0, 0, 0), ENDED, 0) if self._has_ended or self._is_lost else None
        counters, fields = self._latest.counters, process_fields(self._latest.stat)
        state, ticks = (fields[0], fields[1]) if fields else (RUNNING, 0)
        if self._has_ended:
            return Sight(counters, ENDED, ticks)
        if self._late or self._is_lost:
            return Sight(counters, self._state_of_late(), ticks)
        return Sight(counters, state, ticks) if news else None

    def ask(self) -> None:
        self._wanted = COUNTERS if self._has_told_all else NOTES

    def has_answered(self) -> bool:
        return not self._wanted or self._late or self._has_ended or self._is_lost

    def note(self) -> RankNote | None:
        """Without communicators if it has gone on since it told them, or may have: it does not answer."""
        if self._latest is None:
            return None
        pid, first = self.process[1], self._latest.page[:HEAD_BYTES]
        may_go_on = self._late or (self._line is None and not self._has_ended)
        if self._notes is not None and self._has_told_all and not may_go_on:
            page = first + self._notes.page[HEAD_BYTES:]
            if page != self._read[0]:
                self._read = page, note(page, self._notes.names, pid)
            return self._read[1]
        return head_note(first, self._notes.names if self._notes else b"", pid)

    @property
    def _has_told_all(self) -> bool:
        """Whether it has begun and ended no call since it told all that it notes, as far as is known."""
        if self._notes is None or self._latest is None:
            return False
        return self._notes.counters == self._latest.counters

    @property
    def _is_lost(self) -> bool:
        """Whether its line has ended, and it should have come again by now."""
        return self._line is None and (not self._has_hung_up or self._has_ended)

    def behind_names(self) -> tuple[int, int, list[str], bytes]:
        return -1, 0, [], b""

    def asleep_in(self) -> str:
        return kernel_call(self._latest.syscall) if self._latest else ""

    def withstands(self, signum: int) -> bool:
        return self._latest is not None and bool(self._latest.handled >> (signum - 1) & 1)

    def _ask_again(self, now_s: float) -> None:
        """Send the next question if it is time for one, and the last one is answered."""
        due = self._wanted or now_s - self._asked_s >= ASKING_S
        if self._line is not None and due and not self._question:
            self._send(self._wanted or COUNTERS)
            self._asked_s = now_s

    def _miss(self, now_s: float) -> None:
        """A rank that has hung up has ended if it does not come again in time."""
        if self._line is None:
            self._lost_s = min(self._lost_s, now_s)
            self._has_ended |= self._has_hung_up and now_s - self._lost_s >= ANSWER_S

    def _send(self, question: bytes) -> None:
        self._question = question
        if self._line is not None:
            try:
                self._line.send(question)
            except OSError as error:
                self._lose(error)

    def _state_of_late(self) -> str:
        """If the question has reached its host, the rank is stopped, or else the host may be out of reach."""
        if self._line is None:
            return SILENT
        unsent = bytearray(4)
        with suppress(OSError):
            fcntl.ioctl(self._line, termios.TIOCOUTQ, unsent)
        return SILENT if any(unsent) else STOPPED

    def _lose(self, error: OSError | None) -> None:
        """The line has ended: the rank has hung up, or a network or host between has cut it."""
        self._has_hung_up = error is None or isinstance(error, BrokenPipeError)
        self._question = b""
        self.close()

    def _take(self) -> bool:
        """Take answers that have come, and at most LOOK_BYTES; returns whether there are some."""
        news, left = False, LOOK_BYTES
        while self._line is not None and left > 0:
            try:
                came = self._line.recv(RECEIVED_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                self._lose(error)
                break
            self._received += came
            left -= len(came)
            while (answer := self._next()) is not None:
                self._note_answer(answer)
                news = True
            if not came:
                self._lose(None)
        return news

    def _next(self) -> Answer | None:
        """The first of the answers that have come as a whole."""
        if self._line is None or len(self._received) < HEADER.size:
            return None
        *sizes, handled = HEADER.unpack_from(self._received)
        if sizes[0] < HEAD_BYTES or any(size > most for size, most in zip(sizes, MOST_BYTES, strict=True)):
            self.close()  # it is no rank of ours: it is silent from now on
            return None
        if len(self._received) < HEADER.size + sum(sizes):
            return None
        del self._received[: HEADER.size]
        page, names, stat, syscall = map(self._cut, sizes)
        return Answer(page, names, stat, syscall, handled)

    def _cut(self, size: int) -> bytes:
        """The next bytes of what has been received."""
        part = bytes(self._received[:size])
        del self._received[:size]
        return part

    def _note_answer(self, answer: Answer) -> None:
        self._latest = answer
        if answer.names:
            self._notes = answer
        if self._question == COUNTERS and self._wanted and not self._has_told_all:
            self._wanted = NOTES  # it has gone on, so its counters are not enough
        elif answer.names or self._question == self._wanted:
            self._wanted = b""
        self._question = b""
        itself = Identity.of(answer.page)
        self.process, self.job = (self.process[0], itself.pid), itself.job
