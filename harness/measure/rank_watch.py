"""Watches the ranks below a command: for how long each has made no progress, and what it does instead.

A rank makes progress when a call of MPI ends with something done. The watch samples what ranks note
(``rank_notes``), so that no rank reads a clock for it.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.host import identity
from coordinator.host.processes import ancestors, children

if TYPE_CHECKING:
    from harness.measure.rank_notes import Counters, RankMemory, RankNote

LONGEST_GAP_S = 2.0
"""A longer time between two samples is not the ranks': lockstep or its host was stopped."""

POLL_GAP_S = 2.0
"""A rank that polls begins a call at least so often."""

RUNNING, ASLEEP, STOPPED, ENDED = "running", "asleep", "stopped", "ended"
STATES = {"R": RUNNING, "D": ASLEEP, "S": ASLEEP, "I": ASLEEP, "T": STOPPED, "t": STOPPED}

SYSTEM_CALLS = {
    "x86_64": {
        **{0: "read", 1: "write", 7: "poll", 23: "select", 34: "pause", 35: "nanosleep", 43: "accept"},
        **{45: "recvfrom", 47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock", 202: "futex"},
        **{230: "clock_nanosleep", 232: "epoll_wait", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait"},
    },
    "aarch64": {
        **{22: "epoll_pwait", 25: "fcntl", 32: "flock", 63: "read", 64: "write", 72: "pselect6", 73: "ppoll"},
        **{98: "futex", 101: "nanosleep", 115: "clock_nanosleep", 202: "accept", 207: "recvfrom"},
        **{212: "recvmsg", 260: "wait4"},
    },
}
"""Calls of the kernel in which processes sleep, by their numbers."""

MEMORY = "memfd:lockstep-whereabouts"
"""The name of ranks' memories, as the kernel shows it."""

OF_DESCRIPTORS = {"read", "write", "accept", "recvfrom", "recvmsg", "fcntl", "flock"}
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class RankState:
    """A rank: what it notes, for how long it has made no progress, and what its process does.

    ``cpu_share`` is its CPU time meanwhile, divided by that time; ``asleep_in`` the kernel's call in which
    its main thread sleeps, "" if it does not or the kernel hides it.
    """

    note: RankNote
    idle_s: float
    state: str
    cpu_share: float
    asleep_in: str
    begun: int  # calls that it has begun meanwhile: a rank that polls begins many
    wait_s: float  # since the last of them began

    @property
    def waited_s(self) -> float:
        """For how long it waits, if it does: in one call, or since its polls found something."""
        return self.idle_s if self.begun > 1 and self.wait_s < POLL_GAP_S else min(self.wait_s, self.idle_s)


@dataclass(frozen=True)
class JobState:
    """The ranks of a job that are on this host, in the order of their numbers."""

    ranks: tuple[RankState, ...]

    @property
    def size(self) -> int:
        """How many ranks it has on all hosts, as far as they have said so."""
        return max([one.note.ranks for one in self.ranks] + [len(self.ranks)])


@dataclass
class _Watched:
    """A rank, and when its counters last moved."""

    memory: RankMemory
    start: int
    command: str = ""  # words of its process; "" if no one takes ended jobs
    counters: Counters | None = None
    idle_s: float = 0.0
    wait_s: float = 0.0
    began: bool = True  # a call, between the last two looks
    moved: bool = True  # between the last two looks
    begun: int = 0  # calls that it had begun at its last progress
    cpu_ticks: int = 0
    state: str = RUNNING

    def look(self) -> None:
        """Take its counters, and start to count the time again if they show progress."""
        now = self.memory.counters()
        status = identity.stat(self.memory.pid)
        living = status is not None and status.start == self.start and status.state not in "ZX"
        before, self.state = self.state, STATES.get(status.state, RUNNING) if status and living else ENDED
        ended = self.state == ENDED != before  # its launcher may terminate the others now
        self.moved = ended or self.counters is None or now[:2] != self.counters[:2]
        self.began = self.counters is None or now.entered != self.counters.entered
        self.counters = now
        if self.moved:
            self.idle_s, self.begun, self.cpu_ticks = 0.0, now.entered, _cpu_ticks(self.memory.pid)

    def pass_time(self, gap_s: float) -> None:
        """So much time has passed since the last look."""
        self.wait_s = 0.0 if self.began else self.wait_s + gap_s
        self.idle_s += 0.0 if self.moved else gap_s

    @property
    def begun_meanwhile(self) -> int:
        return self.counters.entered - self.begun if self.counters else 0

    @property
    def job(self) -> tuple[int, int]:
        """The same for the ranks of a job; programs of one rank may have no launcher that names theirs."""
        alone = self.counters is not None and self.counters.ranks == 1
        return self.memory.job, self.memory.pid if alone else 0


@dataclass(frozen=True)
class Ended:
    """A rank of a job that has ended: what it has left, and the words of its process."""

    memory: RankMemory
    command: str


class RankWatch:
    """The ranks that have come, from whatever thread; all else is for one thread.

    ``ended`` gets the ranks of each job that has ended, or that ``close`` finds; their memory can be read
    until it returns.
    """

    def __init__(self, ended: Callable[[Sequence[Ended]], None] | None = None) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._come: list[tuple[int, int, str]] = []
        self._watched: list[_Watched] = []
        self._last_s = 0.0

    def add(self, descriptor: int, pid: int = 0) -> None:
        """A rank, by a descriptor of its memory, which is ours from now on; ``pid`` as in RankMemory."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        command = _command_of(pid) if self._ended is not None else ""
        with self._lock:
            if len(self._come) + len(self._watched) < limit // 2:  # registrations need some, too
                self._come.append((descriptor, pid, command))
            else:
                os.close(descriptor)

    @classmethod
    def around(cls, pid: int) -> RankWatch:
        """A watch of the ranks that a process watches: this one, or one above or below it."""
        watch = cls()
        for one in (pid, *ancestors(pid), *_below(pid)):
            if memories := _memories(one):
                for path in memories:
                    with suppress(OSError):
                        watch.add(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                break
        return watch

    def close(self) -> None:
        self.sample(self._last_s)
        for ranks in self._by_job():
            self._end(ranks)

    def sample(self, now_s: float) -> None:
        """Look at all ranks; jobs whose ranks have all ended are forgotten."""
        with self._lock:
            come, self._come = self._come, []
        if come:
            from harness.measure.rank_notes import RankMemory  # noqa: PLC0415 - not needed without ranks
        for descriptor, pid, command in come:
            memory = RankMemory(descriptor, pid)
            status = identity.stat(memory.pid)
            self._forget([one for one in self._watched if one.memory.pid == memory.pid])  # it has come again
            self._watched.append(_Watched(memory, status.start if status else -1, command))
        gap_s = min(now_s - self._last_s, LONGEST_GAP_S)
        self._last_s = now_s
        for one in self._watched:
            one.look()
        for ranks in self._by_job():
            held = all(one.state in (STOPPED, ENDED) for one in ranks)
            for one in ranks:
                one.pass_time(0.0 if held else gap_s)
            if all(one.state == ENDED for one in ranks):
                self._end(ranks)

    def _by_job(self) -> list[list[_Watched]]:
        jobs: dict[tuple[int, int], list[_Watched]] = {}
        for one in self._watched:
            jobs.setdefault(one.job, []).append(one)
        return list(jobs.values())

    def _end(self, ranks: Sequence[_Watched]) -> None:
        if self._ended is not None:
            self._ended([Ended(one.memory, one.command) for one in ranks])
        self._forget(ranks)

    def _forget(self, ranks: Sequence[_Watched]) -> None:
        for one in ranks:
            one.memory.close()
            self._watched.remove(one)

    def longest_idle_s(self) -> float:
        """For how long the rank that waits longest has made no progress."""
        return max((one.idle_s for one in self._watched if one.state != ENDED), default=0.0)

    def withstand(self, signum: int, command: int) -> bool:
        """Whether a signal kills neither the process of a command nor ranks, to which that may pass it on."""
        living = [one.memory.pid for one in self._watched if one.state != ENDED]
        return all(_withstands(pid, signum) for pid in (command, *living))

    def jobs(self) -> list[JobState]:
        """The jobs with all that their ranks note now."""
        jobs: dict[tuple[int, int], list[RankState]] = {}
        for one in self._watched:
            if (note := one.memory.read()) is not None:
                jobs.setdefault(one.job, []).append(_state(one, note))
        return [JobState(tuple(sorted(ranks, key=lambda one: one.note.rank))) for ranks in jobs.values()]


def _state(one: _Watched, note: RankNote) -> RankState:
    cpu_s = (_cpu_ticks(note.pid) - one.cpu_ticks) / TICKS
    share = min(1.0, max(0.0, cpu_s / one.idle_s)) if one.idle_s else 0.0
    asleep_in = _asleep_in(note.pid) if one.state == ASLEEP else ""
    return RankState(note, one.idle_s, one.state, share, asleep_in, one.begun_meanwhile, one.wait_s)


def _command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _below(pid: int) -> Iterator[int]:
    for child in children(pid):
        yield child
        yield from _below(child)


def _memories(pid: int) -> list[Path]:
    """The descriptors of ranks' memories that a process has."""
    found = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if MEMORY in str(path.readlink()):
                    found.append(path)
    return found


def _withstands(pid: int, signum: int) -> bool:
    """Whether a process handles or ignores a signal."""
    with suppress(OSError, ValueError):
        status = Path(f"/proc/{pid}/status").read_text()
        masks = [line.split()[1] for line in status.splitlines() if line.startswith(("SigIgn:", "SigCgt:"))]
        return any(int(mask, 16) >> (signum - 1) & 1 for mask in masks)
    return False


def _cpu_ticks(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def _asleep_in(pid: int) -> str:
    """The kernel's call in which the main thread of a process sleeps, with its descriptor if it has one."""
    with suppress(OSError, ValueError, IndexError):
        number, *arguments = Path(f"/proc/{pid}/syscall").read_text().split()
        name = SYSTEM_CALLS.get(os.uname().machine, {}).get(int(number), "")
        descriptor = str(int(arguments[0], 16)) if name in OF_DESCRIPTORS else ""
        return f"{name}({descriptor})" if name else ""
    return ""
