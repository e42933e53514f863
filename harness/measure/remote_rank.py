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


class RemoteRank:
    """As ``Rank``; owns the line. Nothing here waits for the rank."""

    def __init__(self, line: socket.socket, host: str) -> None:
        self.host, self.job, self.command, self.pid_here = printable(host), 0, "", 0
        self.process = self.host, -line.fileno()  # until it has answered
        self._line: socket.socket | None = line
        self._received = bytearray()
        self._question = b""  # that has been sent, and not answered so far
        self._asked_s = float("inf")  # the time of the first look is not known yet
        self._wants_notes = True
        self._latest: Answer | None = None
        self._notes: Answer | None = None
        self._has_ended = False
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
        if self._latest is not None and Counters.of(self._latest.page).stage == FINALIZED:
            self._has_ended = True  # as far as MPI is concerned; its thread may wait for us to hang up
            self.close()
        self._ask_again(now_s)
        if self._latest is None:
            return Sight(Counters(0, 0, 0, 0), ENDED, 0) if self._has_ended else None
        counters, fields = Counters.of(self._latest.page), process_fields(self._latest.stat)
        state, ticks = (fields[0], fields[1]) if fields else (RUNNING, 0)
        if self._has_ended:
            return Sight(counters, ENDED, ticks)
        if self._late or self._line is None:
            return Sight(counters, self._state_of_late(), ticks)
        return Sight(counters, state, ticks) if news else None

    def ask(self) -> None:
        self._wants_notes = True

    def has_answered(self) -> bool:
        return not self._wants_notes or self._late or self._line is None

    def note(self) -> RankNote | None:
        """Without communicators if it has gone on since it told them, or may have: it does not answer."""
        if self._latest is None:
            return None
        pid, first = self.process[1], self._latest.page[:HEAD_BYTES]
        told = self._notes is not None and Counters.of(self._notes.page) == Counters.of(first)
        may_go_on = self._late or (self._line is None and not self._has_ended)
        if self._notes is not None and told and not may_go_on:
            return note(first + self._notes.page[HEAD_BYTES:], self._notes.names, pid)
        return head_note(first, self._notes.names if self._notes else b"", pid)

    def behind_names(self) -> tuple[int, int, list[str], bytes]:
        return -1, 0, [], b""

    def asleep_in(self) -> str:
        return kernel_call(self._latest.syscall) if self._latest else ""

    def withstands(self, signum: int) -> bool:
        return self._latest is not None and bool(self._latest.handled >> (signum - 1) & 1)

    def _ask_again(self, now_s: float) -> None:
        """Send the next question if it is time for one, and the last one is answered."""
        due = self._wants_notes or now_s - self._asked_s >= ASKING_S
        if self._line is not None and due and not self._question:
            self._send(NOTES if self._wants_notes else COUNTERS)
            self._asked_s = now_s

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
        """The line has ended: with the rank, or because its host cannot be reached."""
        self._has_ended = error is None or isinstance(error, ConnectionResetError | BrokenPipeError)
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
        if answer.names or self._question == NOTES:
            self._wants_notes = False
        if answer.names:
            self._notes = answer
        self._question = b""
        self._latest = answer
        itself = Identity.of(answer.page)
        self.process, self.job = (self.host, itself.pid), itself.job
