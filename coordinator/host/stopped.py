"""Noticing processes of a run that are stopped, but not by the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.host.launch import Started

LOOK_NS = 500_000_000
"""From one look at the launchers to the next."""


class Stopped:
    """Remembers what has been told."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def look(self, what: str, pid: int) -> str:
        """What there is to tell of a process: that it is stopped, and was not when it was looked at last."""
        if _state(pid)[0] != "T":
            self._told.discard(pid)
            return ""
        if pid in self._told:
            return ""
        self._told.add(pid)
        return f"{what} (process {pid}) has been stopped, and not by this run; kill -CONT {pid} continues it"


class Launchers:
    """Looks at the launchers of jobs now and then.

    Args:
        warn: is told.
        wrapped: whether what was started is a shell that keeps the launcher's status.
    """

    def __init__(self, warn: Callable[[str], None], *, wrapped: bool) -> None:
        self._warn = warn
        self._wrapped = wrapped
        self._stopped = Stopped()
        self._due_ns = 0

    def look(self, now_ns: int, launchers: Mapping[int, Started | None]) -> None:
        """Tell of those that somebody has stopped, unless they were looked at a moment ago."""
        if now_ns < self._due_ns:
            return
        self._due_ns = now_ns + LOOK_NS
        for job, launcher in launchers.items():
            if launcher is None:
                continue
            for pid in (launcher.pid, *(children(launcher.pid) if self._wrapped else ())):
                if text := self._stopped.look(f"the launcher of job {job}", pid):
                    self._warn(text)


def parent(pid: int) -> int:
    """The pid of the parent of a process; 0 if it has gone."""
    return _state(pid)[1]


def children(pid: int) -> list[int]:
    """The pids of the children of a process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:
        return []


def _state(pid: int) -> tuple[str, int]:
    """The state letter and the parent of a process; none if it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1])
    except (OSError, IndexError):
        return "", 0
