"""Reading the log of another driver."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from coordinator.drive.run_log.events import BEGINNING, EVENT, Beginning, Event
from coordinator.wire.line_format import LineError


def beginning(path: Path) -> Beginning:
    """The beginning of a run."""
    begun: Beginning = _lines(path, 1)[0]
    return begun


def events(path: Path) -> tuple[list[Event], int]:
    """The events since the beginning, and the size of the complete lines, in bytes."""
    _, *happened, size = _lines(path)
    return happened, size


def _lines(path: Path, most: int | None = None) -> list[Any]:
    """The beginning and the events in the first ``most`` complete lines, then their size in bytes."""
    whole = [line for line in _read(path).splitlines(keepends=True) if line.endswith(b"\n")][:most]
    try:
        first, *others = whole or [b""]
        return [BEGINNING.decode(first), *map(EVENT.decode, others), sum(map(len, whole))]
    except LineError as error:
        raise OSError(f"{path} is not the history of a run of this version: {error}") from error


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{path} is not a file that belongs to you alone")
        return file.read()
