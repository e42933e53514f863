"""The ranks that run on this host, of all users: by the tree of processes, below whatever launcher."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from coordinator.host import identity
from coordinator.host.bindings import Mask
from coordinator.host.cpu_time import counts
from coordinator.host.identity import Stat
from coordinator.host.processes import ancestors, is_launcher, name_of, threads

PARENTS_OF_RANKS = ("slurmstepd",)
"""Programs that start ranks besides launchers and their proxies, by the kernel's names for them."""

BUSY = 0.05
"""A rank whose threads want a processor for at least this share of the time uses one."""

BUSY_THREAD = 0.2
"""Each further thread that wants one for at least this share counts, too."""

Clocks = Mapping[tuple[int, int], int]
"""Of each thread, by its process and itself: how long it has run and waited for a processor, in ns."""


@dataclass(frozen=True)
class RankProcess:
    """A rank, with all processes that it has started.

    ``busy`` is how many of its threads have wanted a processor since the look before; None if it is new.
    ``alike``: whether all its threads may run on the same processors. If not, it has bound them itself.
    """

    pid: int
    launcher: int
    mask: Mask
    alike: bool
    busy: int | None
    pids: tuple[int, ...]


class RankProcesses:
    """Looks at all ranks of this host again and again."""

    def __init__(self) -> None:
        self._clocks: Clocks = {}
        self._looked_s = 0.0

    def look(self, now_s: float) -> list[RankProcess]:
        """All living ranks; what they use is known from the second look on."""
        table = identity.table()
        table = {pid: status for pid, status in table.items() if status.state not in "ZX"}
        parents = {pid for pid in table if is_launcher(pid) or name_of(pid) in PARENTS_OF_RANKS}
        below = defaultdict(list)
        for pid, status in table.items():
            below[status.parent].append(pid)
        clocks = dict[tuple[int, int], int]()
        ranks = []
        for pid in sorted(table.keys() - parents):
            if table[pid].parent in parents:
                pids = tuple(_family(pid, below, parents))
                of_rank = {key: clock for one in pids for key, clock in _clocks(one)}
                clocks |= of_rank
                masks = _masks(pids)
                if masks:
                    busy = self._busy(pid, of_rank, now_s - self._looked_s)
                    alike = len(masks) == 1
                    launcher = _outermost(table[pid].parent, table, parents)
                    ranks.append(RankProcess(pid, launcher, Mask().union(*masks), alike, busy, pids))
        self._clocks = clocks
        self._looked_s = now_s
        return ranks

    def _busy(self, pid: int, clocks: Clocks, gap_s: float) -> int | None:
        if (pid, pid) not in self._clocks or gap_s <= 0:
            return None
        shares = [(clock - self._clocks.get(key, clock)) / 1e9 / gap_s for key, clock in clocks.items()]
        if sum(shares) < BUSY:
            return 0
        return max(1, sum(share >= BUSY_THREAD for share in shares))


def below(ranks: list[RankProcess], root: int) -> set[int]:
    """The pids of those ranks whose launcher a process has started, itself or by others."""
    return {one.pid for one in ranks if root in (one.launcher, *ancestors(one.launcher))}


def move(rank: RankProcess, mask: Mask) -> bool:
    """Let all threads of a rank run on these processors only; whether it still had the mask that it had.

    A thread that starts meanwhile has the mask of its parent, so a second round finds it.
    """
    if _masks(rank.pids) != {rank.mask}:
        return False
    for _ in range(2):
        for pid in rank.pids:
            for thread in threads(pid):
                with suppress(OSError):  # it has ended, or belongs to another user now
                    os.sched_setaffinity(thread, mask)
    return True


def _family(pid: int, below: Mapping[int, list[int]], parents: set[int]) -> Iterator[int]:
    yield pid
    for child in below.get(pid, ()):
        if child not in parents:
            yield from _family(child, below, parents)


def _clocks(pid: int) -> Iterator[tuple[tuple[int, int], int]]:
    for thread in threads(pid):
        if both := counts(pid, thread):
            yield (pid, thread), sum(both)


def _masks(pids: tuple[int, ...]) -> set[Mask]:
    masks = set()
    for pid in pids:
        for thread in threads(pid):
            with suppress(OSError):
                masks.add(Mask(os.sched_getaffinity(thread)))
    return masks


def _outermost(pid: int, table: Mapping[int, Stat], parents: set[int]) -> int:
    """The launcher of a launcher's proxy."""
    while table[pid].parent in parents:
        pid = table[pid].parent
    return pid
