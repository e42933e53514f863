"""Evidence that a process belongs to a run, besides the mark that it carries.

Some marks are unreadable: an execute-only program hides its environment, and
a program that sets its title overwrites it. So the journal names every process that the run has
started or taken over. Their descendants belong to the run, too; so do their sessions, which only
descendants of the leader can join, and all processes in the run's control group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.host import identity
from coordinator.host.identity import Stat


class JournaledProcess(NamedTuple):
    """A process that the journal names; ``job`` is None for one outside jobs."""

    pid: int
    start: int
    job: int | None


@dataclass(frozen=True)
class Evidence:
    """Processes that a journal names, and control groups that contain processes of the run only."""

    known: tuple[JournaledProcess, ...] = ()
    groups: tuple[Path, ...] = ()

    @classmethod
    def of(cls, notes: Iterable[Mapping[str, Any]], groups: Iterable[Path] = ()) -> Evidence:
        """The evidence in the notes of a journal, whose content may be anything."""
        known = []
        for note in notes:
            if process := identity.meant(note.get("process")):
                job = note.get("job")
                known.append(JournaledProcess(*process, job if type(job) is int else None))
        return cls(tuple(known), tuple(dict.fromkeys(groups)))

    def belonging(
        self, table: Mapping[int, Stat], marked: Collection[int], others: Collection[int], job: int | None
    ) -> set[int]:
        """The pids in ``table`` that belong to the run, or to one of its jobs."""
        known = [one for one in self.known if job in (None, one.job)]
        found = set(marked) | self._grouped(job)
        found |= {one.pid for one in known if one.pid in table and table[one.pid].start == one.start}
        children, sessions = defaultdict(list), defaultdict(list)
        for pid, process in table.items():
            children[process.parent].append(pid)
            sessions[process.session].append(pid)
        for one in known:
            # The kernel does not reuse the pid of a session's leader as long as the session exists.
            if one.pid not in table:
                found |= {pid for pid in sessions[one.pid] if table[pid].start >= one.start}
        coming = found & table.keys() - set(others)
        found = set()
        while coming:
            found |= coming
            below = {pid for one in coming for pid in children[one] + sessions[one]}
            coming = below - found - set(others)
        return found

    def _grouped(self, job: int | None) -> set[int]:
        """The pids in the control groups of the run, or of one of its jobs."""
        pattern = "**/cgroup.procs" if job is None else f"job-{job}-rank-*/cgroup.procs"
        found: set[int] = set()
        for group in self.groups:
            with suppress(OSError):
                for file in group.glob(pattern):
                    with suppress(OSError):
                        found |= set(map(int, file.read_bytes().split()))
        return found


NOTHING = Evidence()
