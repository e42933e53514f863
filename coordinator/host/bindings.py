"""To which processors running jobs are bound, and whether some share processors while others idle.

Launchers that bind ranks count processors from the first one, and know nothing of each other: two jobs
that are started side by side then share the first processors of a host, and leave the rest idle.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from coordinator.host.launchers import LAUNCHERS
from coordinator.host.processes import below, children, environment_of, threads
from coordinator.topology import ranges

Mask = frozenset[int]


@dataclass(frozen=True)
class BoundJob:
    """Some processes that belong together, and the processors on which each may run."""

    name: str  # for people
    masks: tuple[Mask, ...]  # of each process that works, so not of its launcher
    launcher: str = ""  # kind of the launcher that started them; empty if it is not known

    @property
    def processors(self) -> Mask:
        return Mask().union(*self.masks)

    @property
    def crowded(self) -> Mask:
        """Processors on which more of its processes must run than there are processors."""
        within = {
            mask: sum(n for other, n in Counter(self.masks).items() if other <= mask) for mask in self.masks
        }
        return Mask().union(*(mask for mask, processes in within.items() if processes > len(mask)))


@dataclass(frozen=True)
class Overlap:
    """Jobs, or processes of one, that share processors while others idle; what their launcher can do."""

    names: tuple[str, ...]
    shared: Mask
    idle: Mask
    remedy: str

    @property
    def sentence(self) -> str:
        """The same in words, without the remedy."""
        first, *more = self.names
        who = (
            f"{', '.join(self.names[:-1])} and {self.names[-1]} are both"
            if more
            else f"processes of {first} are"
        )
        return f"{who} bound to processors {ranges(self.shared)}, and {ranges(self.idle)} are idle"


def job(name: str, *pids: int) -> BoundJob:
    """The job whose launchers, or roots, these are; processes without children work. Maskless at its end."""
    working = [(pid, one) for pid in pids for one in (pid, *below(pid)) if not any(children(one))]
    masks = [mask for _, one in working if (mask := _mask(one))]
    environments = ((environment_of(pid), environment_of(one)) for pid, one in working)
    kinds = [kind for kind in LAUNCHERS.values() if kind.rank]
    launcher_kinds = (
        k.kind
        for root, own in environments
        for k in kinds
        if own.get(k.rank, "") not in ("", root.get(k.rank))
    )
    return BoundJob(name, tuple(masks), next(launcher_kinds, ""))


def overlaps(jobs: Sequence[BoundJob], processors: Collection[int]) -> Iterator[Overlap]:
    """Each job that crowds on processors, and each two that share some, if others of ``processors`` idle."""
    idle = Mask(processors).difference(*(one.processors for one in jobs))
    if not idle:
        return
    for one in jobs:
        if one.crowded:
            yield Overlap((one.name,), one.crowded, idle, _remedy(one))
    for one, other in combinations(jobs, 2):
        if shared := one.processors & other.processors:
            yield Overlap((one.name, other.name), shared, idle, _remedy(one))


def _remedy(bound: BoundJob) -> str:
    if not bound.launcher:
        return "bind each to other processors (taskset), or to none"
    return f"start both with {' '.join(LAUNCHERS[bound.launcher].unbound)}, or bind each to other processors"


def _mask(pid: int) -> Mask:
    """The processors on which the threads of a process may run; empty if it has ended."""
    allowed = Mask()
    for thread in threads(pid):
        with suppress(OSError):
            allowed |= os.sched_getaffinity(thread)
    return allowed
