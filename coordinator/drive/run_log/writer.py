"""Writing the log of a run."""

from __future__ import annotations

import os
from contextlib import suppress
from io import FileIO
from pathlib import Path

from coordinator.drive.run_log.events import BEGINNING, EVENT, Beginning, Event


class Writer:
    """Writes the log of a run. It never fails: without room, it removes the log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._early: list[Event] = []
        self._file: FileIO | None = None

    def begin(self, beginning: Beginning) -> None:
        """Begin the log; from now on another driver can take over."""
        coming = self._path.with_suffix(".new")
        with suppress(OSError):
            self._file = FileIO(coming, "w", opener=_private)
            self._write(BEGINNING.encode(beginning), *map(EVENT.encode, self._early))
            coming.rename(self._path)
        self._early = []

    def go_on(self, size: int) -> None:
        """Continue another driver's log after ``size`` bytes, and cut off an incomplete last line."""
        with suppress(OSError):
            os.truncate(self._path, size)
            self._file = FileIO(self._path, "a")
            self._write(*map(EVENT.encode, self._early))

    def add(self, event: Event) -> None:
        """Write an event, before the driver handles it."""
        if self._file is None:
            self._early.append(event)
            return
        try:
            self._write(EVENT.encode(event))
        except OSError:
            self.end()

    def _write(self, *lines: bytes) -> None:
        assert self._file is not None
        text = b"".join(lines)
        if self._file.write(text) < len(text):
            raise OSError("no room for all of it")

    def end(self) -> None:
        """Remove the log; from now on no driver can take over."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # it holds keys
