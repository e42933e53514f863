"""Detecting processes that somebody else has stopped, and launchers that have lost their children."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coordinator.host import identity
from coordinator.host.launch import OrphanedLauncher, Started
from coordinator.host.processes import children

LOOK_NS = 500_000_000
"""Time from one look at the launchers to the next."""


class Stopped:
    """Remembers which stopped processes it has reported."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def look(self, what: str, pid: int) -> str:
        """A sentence if the process is stopped and was not at the last look; otherwise empty."""
        process = identity.stat(pid)
        if process is None or process.state != "T":
            self._told.discard(pid)
            return ""
        if pid in self._told:
            return ""
        self._told.add(pid)
        return f"somebody else has stopped {what} (process {pid}); kill -CONT {pid} continues it"


class Launchers:
    """Watches the launchers of jobs.

    Args:
        warn: called with a message about each stopped launcher.
        wrapped: whether a shell that keeps its status started each launcher.
    """

    def __init__(self, warn: Callable[[str], None], *, wrapped: bool) -> None:
        self._warn = warn
        self._wrapped = wrapped
        self._stopped = Stopped()
        self._orphaned: dict[int, OrphanedLauncher] = {}
        self._due_ns = 0

    def look(self, now_ns: int, launchers: Mapping[int, Started | None]) -> list[int]:
        """Warn about stopped launchers, at most every LOOK_NS.

        Returns the jobs whose launchers live but wait for children that have ended.
        """
        if now_ns < self._due_ns:
            return []
        self._due_ns = now_ns + LOOK_NS
        orphaned = []
        for job, launcher in launchers.items():
            if launcher is None:
                continue
            pids = [launcher.pid, *(children(launcher.pid) if self._wrapped else ())]
            for pid in pids:
                if text := self._stopped.look(f"the launcher of job {job}", pid):
                    self._warn(text)
            if launcher.poll() is not None:
                self._orphaned.pop(launcher.pid, None)
            elif self._orphaned.setdefault(launcher.pid, OrphanedLauncher()).look(pids[-1], now_ns):
                orphaned.append(job)
        return orphaned


def parent(pid: int) -> int:
    """The pid of the parent of a process; 0 if it has gone."""
    process = identity.stat(pid)
    return process.parent if process else 0
