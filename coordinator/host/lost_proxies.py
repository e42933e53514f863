"""Launchers that wait for ever: MPICH's does if its proxy was killed, which has started its ranks.

Below a command of users there may be any launcher, and others may well have no child: Open MPI's has none for
ranks on other hosts. MPICH's has one for each host as long as its ranks live.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from coordinator.host.launch import LOOK_S, OrphanedLauncher
from coordinator.host.processes import Process, children

PROXY = "hydra_pmi_proxy"
LAUNCHERS = ("mpiexec", "mpirun")  # how the names of MPICH's launcher begin


class LostProxies:
    """Looks for such launchers among the descendants of a process."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[int, OrphanedLauncher] = {}
        self._due_s = 0.0

    def look(self) -> list[int]:
        """The pids of launchers that wait for processes that have ended; it looks every LOOK_S only."""
        if time.monotonic() < self._due_s:
            return []
        self._due_s = time.monotonic() + LOOK_S
        self._seen = {pid: self._seen.get(pid) or OrphanedLauncher() for pid in _launchers(self._root)}
        return [pid for pid, seen in self._seen.items() if seen.look(pid, time.monotonic_ns())]

    def end_launchers(self, tell: Callable[[str], None]) -> None:
        """End such launchers, and tell of each in a sentence."""
        for pid in self.look():
            tell(f"process {pid}, MPICH's launcher, waits for processes that were killed: it is ended")
            self._end(pid)

    def _end(self, pid: int) -> None:
        with suppress(OSError), closing(Process(pid)) as launcher:
            if pid in _launchers(self._root):  # still: its pid may have been another's before we had a handle
                launcher.send(signal.SIGKILL)


def _launchers(pid: int) -> Iterator[int]:
    """MPICH's launchers among a process and its descendants; what they have started is not looked at."""
    if _is_launcher(pid):
        yield pid
        return
    for child in children(pid):
        yield from _launchers(child)


def _is_launcher(pid: int) -> bool:
    with suppress(OSError):
        if Path(f"/proc/{pid}/comm").read_text(errors="replace").startswith(LAUNCHERS):
            program = Path(f"/proc/{pid}/exe").readlink()
            return program.name.startswith(LAUNCHERS) and program.with_name(PROXY).exists()
    return False
