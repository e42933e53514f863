"""Watches the ranks below a command: for how long each has made no progress, and what it does instead.

A rank makes progress when a call of MPI ends with something done. The watch samples what ranks note
(``rank_notes``), or asks them for it, so that no rank reads a clock for it.
"""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator.host.processes import ancestors, below
from harness.measure.rank_sight import ASLEEP, ENDED, RUNNING, SILENT, STOPPED, Rank, Sight

if TYPE_CHECKING:
    from harness.measure.rank_notes import RankNote

LONGEST_GAP_S = 2.0
"""A longer time between two samples is not the ranks': lockstep or its host was stopped."""

POLL_GAP_S = 2.0
"""A rank that polls begins a call at least so often."""

MEMORY = "memfd:lockstep-whereabouts"
"""The name of ranks' memories, as the kernel shows it."""

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class RankState:
    """A rank: what it notes, where it is, for how long it has made no progress, and what its process does.

    ``cpu_share`` is its CPU time meanwhile, divided by that time; ``asleep_in`` the kernel's call in which
    its main thread sleeps, "" if it does not or the kernel hides it.
    """

    note: RankNote
    host: str
    pid_here: int  # its process as seen from here; 0: it is elsewhere
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
    """The ranks of a job that have come, in the order of their numbers."""

    ranks: tuple[RankState, ...]

    @property
    def size(self) -> int:
        """How many ranks it has, as far as they have said so."""
        return max([one.note.ranks for one in self.ranks] + [len(self.ranks)])


@dataclass
class _Watched:
    """A rank, and when its counters last moved."""

    rank: Rank
    sight: Sight | None = None
    is_news: bool = False  # what the last look has seen
    unseen_s: float = 0.0  # since the last news
    idle_s: float = 0.0
    wait_s: float = 0.0
    began: bool = True  # a call, between the last two news
    moved: bool = True  # between the last two news
    begun: int = 0  # calls that it had begun at its last progress
    cpu_ticks: int = 0

    def look(self, now_s: float) -> None:
        """See whether its counters show progress, and start to count the time again if they do."""
        before, now = self.sight, self.rank.look(now_s)
        self.is_news = now is not None
        if now is None:
            return
        self.sight = now
        if self._is_held(now) and not (before and self._is_held(before)):
            self.unseen_s = 0.0  # it may have been suspended at once, and its job may continue
        # A launcher may terminate the others now.
        ended = now.state == ENDED and (before is None or before.state != ENDED)
        self.moved = ended or before is None or now.counters[:2] != before.counters[:2]
        self.began = before is None or now.counters.entered != before.counters.entered
        if self.moved:
            self.idle_s, self.begun, self.cpu_ticks = 0.0, now.counters.entered, now.cpu_ticks

    def pass_time(self, gap_s: float) -> None:
        """So much time has passed since the last look."""
        self.unseen_s += gap_s
        if self.is_news:
            self.wait_s = 0.0 if self.began else self.wait_s + self.unseen_s
            self.idle_s += 0.0 if self.moved else self.unseen_s
            self.unseen_s = 0.0

    @staticmethod
    def _is_held(sight: Sight) -> bool:
        return sight.state in (STOPPED, SILENT)

    @property
    def state(self) -> str:
        return self.sight.state if self.sight else RUNNING

    @property
    def job(self) -> tuple[object, ...]:
        """The same for the ranks of a job; programs of one rank may have no launcher that names theirs."""
        alone = self.sight is not None and self.sight.counters.ranks == 1
        return (self.rank.job, self.rank.process) if alone else (self.rank.job,)


class RankWatch:
    """The ranks that have come, from whatever thread; all else is for one thread. It waits for no rank.

    ``ended`` gets the ranks of each job that has ended, or that ``close`` finds; they can be read until it
    returns.
    """

    def __init__(self, ended: Callable[[Sequence[Rank]], None] | None = None) -> None:
        self._ended = ended
        self._lock = threading.Lock()
        self._come: list[Rank] = []
        self._watched: list[_Watched] = []
        self._last_s = 0.0

    def add(self, rank: Rank) -> bool:
        """Watch a rank from the next sample on; returns False if it would take too many descriptors.

        Each rank has one, and registrations need some, too.
        """
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        with self._lock:
            room = len(self._come) + len(self._watched) < limit // 2
            if room:
                self._come.append(rank)
        return room

    @classmethod
    def around(cls, pid: int) -> RankWatch:
        """A watch of the ranks on this host that a process watches: this one, or one above or below it."""
        from harness.measure.local_rank import LocalRank  # noqa: PLC0415 - not needed without ranks

        watch = cls()
        for one in (pid, *ancestors(pid), *below(pid)):
            if memories := _memories(one):
                for path in memories:
                    with suppress(OSError):
                        rank = LocalRank(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                        if not watch.add(rank):
                            rank.close()
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
        self._watched += map(_Watched, come)
        gap_s = min(now_s - self._last_s, LONGEST_GAP_S)
        self._last_s = now_s
        for one in self._watched:
            one.look(now_s)
        self._forget_former()
        for ranks in self._by_job():
            held = all(one.state in (STOPPED, SILENT, ENDED) for one in ranks)
            for one in ranks:
                one.pass_time(0.0 if held else gap_s)
            if all(one.state == ENDED for one in ranks):
                self._end(ranks)

    def _by_job(self) -> list[list[_Watched]]:
        jobs: dict[tuple[object, ...], list[_Watched]] = {}
        for one in self._watched:
            jobs.setdefault(one.job, []).append(one)
        return list(jobs.values())

    def _end(self, ranks: Sequence[_Watched]) -> None:
        if self._ended is not None:
            self._ended([one.rank for one in ranks])
        self._forget(ranks)

    def _forget_former(self) -> None:
        """A process that has come again is watched once."""
        last = {one.rank.process: one for one in self._watched}
        self._forget([one for one in self._watched if last[one.rank.process] is not one])

    def _forget(self, ranks: Sequence[_Watched]) -> None:
        for one in ranks:
            one.rank.close()
            self._watched.remove(one)

    def longest_idle_s(self) -> float:
        """For how long the rank that waits longest has made no progress."""
        return max((one.idle_s for one in self._watched if one.state != ENDED), default=0.0)

    def ask(self) -> None:
        """Have all ranks tell what they note; samples take what they answer."""
        for one in self._watched:
            one.rank.ask()

    def have_answered(self) -> bool:
        """Whether all ranks have answered since they were asked, but for those that are late."""
        return all(one.rank.has_answered() for one in self._watched)

    def withstand(self, signum: int, command: int) -> bool:
        """Whether a signal kills neither the process of a command nor ranks, to which that may pass it on."""
        from harness.measure.local_rank import withstands  # noqa: PLC0415 - rarely needed

        living = (one for one in self._watched if one.state != ENDED)
        return withstands(command, signum) and all(one.rank.withstands(signum) for one in living)

    def jobs(self) -> list[JobState]:
        """The jobs with all that their ranks have noted."""
        jobs: dict[tuple[object, ...], list[RankState]] = {}
        for one in self._watched:
            note = one.rank.note()
            if one.sight is not None and note is not None:
                jobs.setdefault(one.job, []).append(_state(one, one.sight, note))
        return [JobState(tuple(sorted(ranks, key=lambda one: one.note.rank))) for ranks in jobs.values()]


def _state(one: _Watched, sight: Sight, note: RankNote) -> RankState:
    cpu_s = (sight.cpu_ticks - one.cpu_ticks) / TICKS
    share = min(1.0, max(0.0, cpu_s / one.idle_s)) if one.idle_s else 0.0
    asleep_in = one.rank.asleep_in() if one.state == ASLEEP else ""
    begun = sight.counters.entered - one.begun
    return RankState(
        note=note,
        host=one.rank.host,
        pid_here=one.rank.pid_here,
        idle_s=one.idle_s,
        state=one.state,
        cpu_share=share,
        asleep_in=asleep_in,
        begun=begun,
        wait_s=one.wait_s,
    )


def _memories(pid: int) -> list[Path]:
    """The descriptors of ranks' memories that a process has."""
    found = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if MEMORY in str(path.readlink()):
                    found.append(path)
    return found
