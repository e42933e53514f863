"""From outside, in /proc: when the ranks of jobs go on, and when they are stopped."""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from coordinator.host.processes import JOB

SAMPLE_S = 0.002
ROUNDS_PER_SEARCH = 50
SEARCHES = 20
"""After so many a process that is no rank will not become one by exec."""


class Rank(NamedTuple):
    """A process: its job, by Lockstep's number or Slurm's, and its node."""

    job: str
    node: str


@dataclass(frozen=True)
class Spell:
    """A rank has gone on from one time of the wall clock to another; was it ``stopped`` then?"""

    rank: Rank
    begin_s: float
    end_s: float
    stopped: bool


class Watch:
    """Looks every SAMPLE_S at all ranks of benchmark programs under one Slurm, from entering to leaving."""

    def __init__(self, configuration: Path) -> None:
        self._configuration = str(configuration)
        self.spells: list[Spell] = []
        self._begun: dict[int, float] = {}
        self._ranks: dict[int, tuple[Rank, int]] = {}
        self._seen: Counter[str] = Counter()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def between(self, begin_s: float, end_s: float) -> list[Spell]:
        """The spells that began in an interval, in order."""
        ours = (spell for spell in self.spells if begin_s <= spell.begin_s <= end_s)
        return sorted(ours, key=lambda spell: spell.begin_s)

    def _look(self) -> None:
        rounds = 0
        while not self._over.wait(SAMPLE_S):
            if rounds % ROUNDS_PER_SEARCH == 0:
                self._search()
            rounds += 1
            for pid, (rank, stat) in list(self._ranks.items()):
                self._note(pid, rank, stat)

    def _search(self) -> None:
        for process in Path("/proc").iterdir():
            if process.name.isdigit() and self._seen[process.name] < SEARCHES:
                self._seen[process.name] += 1
                with suppress(OSError):
                    if (rank := identify(process, self._configuration)) is not None:
                        self._seen[process.name] = SEARCHES
                        self._ranks[int(process.name)] = rank, os.open(process / "stat", os.O_RDONLY)

    def _note(self, pid: int, rank: Rank, stat: int) -> None:
        """A rank that computes or waits spinning is ready to run; asleep it has not begun, or has ended."""
        now_s = time.time()
        letter = ""
        with suppress(OSError):  # it is gone
            letter = os.pread(stat, 256, 0).rpartition(b")")[2].split()[0].decode()
        if letter in ("R", "D"):
            self._begun.setdefault(pid, now_s)
        elif pid in self._begun:
            self.spells.append(Spell(rank, self._begun.pop(pid), now_s, letter in ("T", "t")))
        if letter in ("", "Z", "X"):
            os.close(stat)
            del self._ranks[pid]


def identify(process: Path, configuration: str) -> Rank | None:
    """The rank that a process is; None for any other process, and under another slurm.conf."""
    words = (process / "cmdline").read_bytes().split(b"\0")
    if b"workloads.rank" not in words or not Path(os.fsdecode(words[0])).name.startswith("python"):
        return None
    pairs = (pair.partition(b"=") for pair in (process / "environ").read_bytes().split(b"\0"))
    variables = {name.decode(): value.decode() for name, _, value in pairs}
    if variables.get("SLURM_CONF") != configuration:
        return None
    job = variables.get(JOB) or variables.get("SLURM_JOB_ID", "")
    return Rank(job, variables.get("SLURMD_NODENAME", ""))


def slots_s(spells: Sequence[Spell]) -> list[float]:
    """How long each spell was that ended with a stop."""
    return [spell.end_s - spell.begin_s for spell in spells if spell.stopped]


def overlaps_s(spells: Sequence[Spell]) -> list[float]:
    """For each stop how long a job had been going on by then that went on after it on the same node."""
    found = []
    for last in (spell for spell in spells if spell.stopped):
        others = (s for s in spells if s.rank.node == last.rank.node and s.rank.job != last.rank.job)
        next_ones = [s.begin_s for s in others if last.begin_s < s.begin_s and s.end_s > last.end_s]
        if next_ones:
            found.append(max(0.0, last.end_s - min(next_ones)))
    return found


def skews_s(spells: Sequence[Spell]) -> list[float]:
    """For each stop on the first node how much earlier or later the same job was stopped on another."""
    stops = [spell for spell in spells if spell.stopped]
    first = min((spell.rank.node for spell in stops), default="")
    found = []
    for one in (spell for spell in stops if spell.rank.node == first):
        others = [s.end_s for s in stops if s.rank.job == one.rank.job and s.rank.node != first]
        found += [min(abs(end_s - one.end_s) for end_s in others)] if others else []
    return found


def told_ms(values_s: Sequence[float]) -> str:
    if not values_s:
        return "none seen"
    median_ms, most_ms = 1e3 * statistics.median(values_s), 1e3 * max(values_s)
    return f"{median_ms:.0f}, {most_ms:.0f} ({len(values_s)})"
