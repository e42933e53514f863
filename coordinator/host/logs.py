"""Limiting the output files of a run, so that they do not fill the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from coordinator.host.launch import HEAD_BYTES, TAIL_BYTES
from coordinator.host.rundir import RunDirectory

LOG_BYTES = 1 << 26
"""A longer file loses its middle."""

PERIOD_NS = 250_000_000
"""Least time from one check of the sizes to the next."""


class Logs:
    """The output files of a run.

    Args:
        directory: of the run.
        warn: called once for each file that has lost output.
    """

    def __init__(self, directory: RunDirectory, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self._warn = warn
        self._shortened: set[str] = set()
        self._due_ns = 0

    def bound(self, now_ns: int) -> None:
        """Shorten files that have grown too long. Call it whenever awake: nothing wakes up for it."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + PERIOD_NS
        with suppress(OSError):
            for path in self._directory.path.glob("*.log"):
                if shorten(path) and path.name not in self._shortened:
                    self._shortened.add(path.name)
                    self._warn(
                        f"the output of {path.stem} exceeds {LOG_BYTES >> 20} MiB: "
                        "only its beginning and end are kept"
                    )


def shorten(path: Path) -> bool:
    """Free the middle of a file that uses more than LOG_BYTES; return whether it did.

    Writers continue at the same offset, so the middle becomes a hole. Output written in the
    microseconds of the cut may be lost.
    """
    if path.stat().st_blocks * 512 <= LOG_BYTES:
        return False
    with path.open("r+b", buffering=0) as file:
        at = max(HEAD_BYTES, file.seek(0, os.SEEK_END) - TAIL_BYTES)
        file.seek(at)
        end = file.read(TAIL_BYTES)
        file.truncate(HEAD_BYTES)
        file.seek(at)
        file.write(end)
    return True
