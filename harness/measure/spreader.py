"""Moves the ranks below a command off processors that they share with other jobs while others idle."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.host import identity
from coordinator.host.bindings import Mask
from coordinator.host.chosen_processors import chosen_by
from coordinator.host.processes import environment_of, name_of
from coordinator.host.processor_claims import gate
from coordinator.host.processor_load import ProcessorLoads
from coordinator.host.rank_processes import RankProcess, RankProcesses, below, move
from coordinator.host.spreading import Occupant, OwnRank, spread
from coordinator.topology import ranges
from harness.measure.planned_launch import host_cores, planned

INTERVAL_S = 1.0
"""A new overlap lasts at most for three looks: a rank has to be seen twice."""

SHARE = 0.01
"""Most share of a processor that the looks may use."""

TAKEN = 0.2
"""A processor of which programs that are no ranks use at least this share is not idle."""

MOST_MOVES = 50
"""After so many moves the ranks stay where they are: another job then moves, too, and not by this rule."""


@dataclass
class Spreader:
    """Looks after the bindings of all ranks below this process while a command runs.

    ``tell`` gets a line for each job that was moved, and one for each whose ``command`` or launcher has a
    word that chooses processors, which is then left.
    """

    command: Sequence[str]
    variables: Mapping[str, str]
    tell: Callable[[str], None]
    root: int = field(default_factory=os.getpid)

    _ranks: RankProcesses = field(default_factory=RankProcesses)
    _loads: ProcessorLoads = field(default_factory=ProcessorLoads)
    _taken: Mask = field(default_factory=Mask)  # by programs that are no ranks
    _due_s: float = 0.0
    _moves: int = 0
    _left: set[str] = field(default_factory=set)  # what was told of words that choose processors

    def look(self, now_s: float) -> None:
        """Look at all ranks of the host if it is time, and move those that have to."""
        if now_s < self._due_s or self._moves >= MOST_MOVES:
            return
        begin_s = time.thread_time()
        ranks = self._ranks.look(now_s)
        own = below(ranks, self.root)
        masks = {one: one.mask for one in ranks}
        self._taken = _taken(self._loads.look(), ranks)
        for launcher in dict.fromkeys(one.launcher for one in ranks if one.pid in own):
            self._mend(launcher, masks, own)
        self._due_s = now_s + max(INTERVAL_S, (time.thread_time() - begin_s) / SHARE)

    def _mend(self, launcher: int, masks: dict[RankProcess, Mask], own: Set[int]) -> None:
        """Move ranks of one job, if they have to; ``masks`` of all ranks then has their new ones."""
        job = [one for one in masks if one.launcher == launcher and one.busy is not None]
        others = [one for one in masks if one.launcher != launcher]
        # Ranks of ours that wait two-phase seem idle.
        there = [Occupant(masks[one], max(one.busy or 0, int(one.pid in own))) for one in others]
        allowed = _allowed(launcher) - self._taken
        ranks = [OwnRank(one.mask, allowed if one.alike else Mask(), one.busy or 1) for one in job]
        new = spread(ranks, there)
        if not new:
            return
        rivals = {one: masks[one] for one in others if one.busy or one.pid in own}
        if wish := self._wish(launcher) or _narrowed(launcher, [job[place] for place in new]):
            if wish not in self._left:
                self._left.add(wish)
                self.tell(f"--spread: {wish} chooses processors that other jobs use, too, so the ranks stay")
            return
        self._move({job[place]: mask for place, mask in new.items()}, rivals)
        masks |= {job[place]: mask for place, mask in new.items()}

    def _wish(self, launcher: int) -> str:
        """The word of the command, or of a launcher that it has started, that chooses processors."""
        return chosen_by(self.command, self.variables) or chosen_by(
            _words(launcher), environment_of(launcher)
        )

    def _move(self, new: Mapping[RankProcess, Mask], rivals: Mapping[RankProcess, Mask]) -> None:
        with gate():  # the other job may have a Lockstep of its own, which sees the same
            as_seen = all(map(_stands, rivals, rivals.values()))
            moved = [one for one, mask in new.items() if as_seen and move(one, mask)]
        self._moves += len(moved)
        if not moved:
            return
        left = Mask().union(*(one.mask for one in moved))
        there = Mask().union(*(new[one] for one in moved))
        launchers = dict.fromkeys(one.launcher for one, mask in rivals.items() if mask & left)
        count = "a rank" if len(moved) == 1 else f"{len(moved)} ranks"
        names = ", ".join(f"{name_of(one)} {one}" for one in launchers)
        self.tell(
            f"--spread: {count} of {name_of(moved[0].launcher)} {moved[0].launcher} moved from processors "
            f"{ranges(left)}, where ranks of {names} run, to {ranges(there)}"
        )


def _words(pid: int) -> list[str]:
    """The words of a process."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    return []


def _narrowed(launcher: int, ranks: Sequence[RankProcess]) -> str:
    """A rank that some program between its launcher, which binds none, and itself has bound; "" without one.

    Its own parent is the launcher or the launcher's proxy, and may run where that may.
    """
    launch = next(iter(planned(_words(launcher), environment_of(launcher), Mask())), None)
    if launch is None or launch.binding(host_cores()) != "none":
        return ""
    for one in ranks:
        status = identity.stat(one.pid)
        with suppress(OSError):
            if status and one.mask < Mask(os.sched_getaffinity(status.parent)):
                return f"a wrapper of process {one.pid} ({name_of(one.pid)})"
    return ""


def _taken(loads: Mapping[int, float], ranks: Sequence[RankProcess]) -> Mask:
    """The processors that are used although no rank which may have done it runs there."""
    of_ranks = Mask().union(*(one.mask for one in ranks if one.busy is None or one.busy))
    return Mask(processor for processor, load in loads.items() if load >= TAKEN) - of_ranks


def _allowed(launcher: int) -> Mask:
    """The processors to which ranks of a launcher may move: the caller's that it was left with itself."""
    with suppress(OSError):
        return Mask(os.sched_getaffinity(0) & os.sched_getaffinity(launcher))
    return Mask()


def _stands(rank: RankProcess, mask: Mask) -> bool:
    """Whether a rank may still run on the processors on which it might when it was looked at."""
    with suppress(OSError):
        return not rank.alike or Mask(os.sched_getaffinity(rank.pid)) == mask
    return True
