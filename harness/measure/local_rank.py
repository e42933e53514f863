"""A rank on this host, by a descriptor of the memory in which it notes what it does, and by ``/proc``."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

from harness.measure.rank_notes import (
    HEAD_BYTES,
    NOTES_BYTES,
    Counters,
    Identity,
    RankNote,
    names,
    names_bytes,
    note,
    whole_bytes,
)
from harness.measure.rank_sight import ENDED, Sight, kernel_call, process_fields
from workloads.validation import printable


class LocalRank:
    """As ``Rank``; owns the descriptor."""

    def __init__(self, descriptor: int, pid: int = 0) -> None:
        """``pid`` is the rank's as seen from here; 0: as it sees itself."""
        self._descriptor = descriptor
        itself = Identity.of(self._read(HEAD_BYTES))
        self.pid_here = pid or itself.pid
        self.job = itself.job
        self.host = socket.gethostname()
        self.process = self.host, self.pid_here
        words = self._of_process("cmdline").replace(b"\0", b" ").decode(errors="replace")
        self.command = printable(words.strip())
        fields = process_fields(self._of_process("stat"))
        self._start = fields[2] if fields else -1

    def close(self) -> None:
        os.close(self._descriptor)

    def look(self, now_s: float) -> Sight:
        counters = Counters.of(self._read(HEAD_BYTES))
        fields = process_fields(self._of_process("stat"))
        if fields is None or fields[2] != self._start:
            return Sight(counters, ENDED, 0)
        return Sight(counters, fields[0], fields[1])

    def ask(self) -> None:
        """Its memory can be read at any time."""

    def has_answered(self) -> bool:
        return True

    def note(self) -> RankNote | None:
        page = self._read(NOTES_BYTES)
        return note(page, self._read(names_bytes(page), NOTES_BYTES), self.pid_here)

    def behind_names(self) -> tuple[int, int, list[str], bytes]:
        page = self._read(NOTES_BYTES)
        told = note(page, b"", self.pid_here)
        if told is None:
            return -1, 0, [], b""
        begin = NOTES_BYTES + names_bytes(page)
        texts = names(self._read(names_bytes(page), NOTES_BYTES))
        return told.rank, told.ranks, texts, self._read(whole_bytes(page) - begin, begin)

    def asleep_in(self) -> str:
        return kernel_call(self._of_process("syscall"))

    def withstands(self, signum: int) -> bool:
        return withstands(self.pid_here, signum)

    def _read(self, size: int, begin: int = 0) -> bytes:
        """Bytes of its memory: by ``pread``, so that nothing that happens to it can kill the reader."""
        with suppress(OSError):
            return os.pread(self._descriptor, max(0, size), begin)
        return b""

    def _of_process(self, name: str) -> bytes:
        with suppress(OSError):
            return Path(f"/proc/{self.pid_here}/{name}").read_bytes()
        return b""


def withstands(pid: int, signum: int) -> bool:
    """Whether a process on this host handles or ignores a signal."""
    with suppress(OSError, ValueError):
        status = Path(f"/proc/{pid}/status").read_text()
        masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigIgn:", "SigCgt:"))]
        return any(int(mask, 16) >> (signum - 1) & 1 for mask in masks)
    return False
