"""The journal of a run: a line of JSON for each thing to undo, written before the thing is done.

Only its user can write to it; readers check every line nevertheless.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 24
"""Readers stop here; the largest run writes a fraction of this."""


class Journal:
    """The journal at a path; the file need not exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: int | None = None

    def add(self, entry: Mapping[str, Any]) -> None:
        """Add a line in one write, so that a reader sees all of it or nothing."""
        line = json.dumps(entry).encode() + b"\n"
        with self._opened(os.O_WRONLY | os.O_CREAT) as descriptor:
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def entries(self) -> list[dict[str, Any]]:
        """All lines that are JSON objects; none if the journal is gone."""
        try:
            with self._opened(os.O_RDONLY) as descriptor:
                regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                data = os.pread(descriptor, MOST_BYTES, 0) if regular else b""
        except OSError:
            return []
        found = []
        for line in data.splitlines():
            with suppress(ValueError, RecursionError):
                found.append(json.loads(line))
        return [entry for entry in found if isinstance(entry, dict)]

    def keep(self) -> None:
        """Keep the file open, so that it can be read and written even if its path vanishes."""
        if self._kept is None:
            self._kept = self._open(os.O_RDWR)

    def close(self) -> None:
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        if self._kept is not None:
            yield self._kept
            return
        descriptor = self._open(flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, flags: int) -> int:
        # A link or a pipe may have this name.
        return os.open(self._path, flags | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
