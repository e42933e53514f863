"""Where ranks can go that share all their processors with another job while other processors idle.

Launchers that bind ranks count processors from the first one, and know nothing of each other. So the ranks of
two jobs get the same processors, and the others of the host have nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coordinator.host.bindings import Mask


@dataclass(frozen=True)
class Occupant:
    """A rank of another job: the processors on which it may run, and how many of its threads use one."""

    mask: Mask
    busy: int = 1


@dataclass(frozen=True)
class OwnRank:
    """A rank that may be moved to processors of ``allowed``; none if its place is a user's wish."""

    mask: Mask
    allowed: Mask
    busy: int = 1


def spread(own: Sequence[OwnRank], others: Sequence[Occupant]) -> dict[int, Mask]:
    """The new masks of those of our ranks, by their places in ``own``, that have to move.

    Such a rank shares each of its processors with other jobs, and for want of one has to take turns with them
    even if all ranks choose among their processors as well as they can. It moves only if each of its busy
    threads finds a processor that is free then. It gets as many processors as before if so many are free.
    """
    seats = _Seats()
    alone = _Seats()
    for other in others:
        seats.place(other.mask, other.busy)
    occupied = Mask().union(*(other.mask for other in others if other.busy))
    asleep = Mask().union(*(other.mask for other in others if not other.busy))
    crowded = dict[int, list[int]]()
    for place, rank in enumerate(own):
        wanted = min(max(1, rank.busy), len(rank.mask))
        seated = seats.place(rank.mask, wanted)
        fits_alone = len(alone.place(rank.mask, wanted)) == wanted
        if len(seated) < wanted and fits_alone and rank.mask <= occupied:
            crowded[place] = seated
    moved = dict[int, list[int]]()
    for place, seated in crowded.items():
        # Where others may run, only if there is nothing else.
        moved[place] = seats.move(seated, own[place], occupied | asleep)
    moved = {place: threads for place, threads in moved.items() if threads}
    free = seats.free(Mask().union(*(own[place].allowed for place in moved)))
    masks = {}
    for place, threads in moved.items():
        mask = seats.processors(threads)
        more = sorted((free - occupied - asleep) & own[place].allowed)
        masks[place] = mask | Mask(more[: max(0, len(own[place].mask) - len(mask))])
        free -= masks[place]
    return masks


class _Seats:
    """Threads on processors, one on each: as many as there can be (a maximum matching)."""

    def __init__(self) -> None:
        self._choices: list[list[int]] = []  # of each thread
        self._holder: dict[int, int] = {}  # of each processor, the thread
        self._seat: dict[int, int] = {}  # of each thread, the processor

    def place(self, mask: Mask, wanted: int, last: Mask = frozenset()) -> list[int]:
        """Place so many threads, as far as there is room; returns them. Others may change places for it."""
        choices = sorted(mask, key=lambda one: (one in last, one))
        placed = []
        for _ in range(min(wanted, len(mask))):
            thread = len(self._choices)
            self._choices.append(choices)
            if not self._augment(thread):
                break
            placed.append(thread)
        return placed

    def move(self, seated: Sequence[int], rank: OwnRank, last: Mask) -> list[int]:
        """Place the threads of a rank on what is allowed to it; without room for all of them, as before."""
        before = dict(self._holder), dict(self._seat)
        for thread in seated:
            del self._holder[self._seat.pop(thread)]
        wanted = min(max(1, rank.busy), len(rank.mask))
        placed = self.place(rank.allowed, wanted, last)
        if len(placed) < wanted:
            self._holder, self._seat = before
            return []
        return placed

    def processors(self, threads: Sequence[int]) -> Mask:
        return Mask(self._seat[thread] for thread in threads)

    def free(self, mask: Mask) -> Mask:
        return mask - self._holder.keys()

    def _augment(self, thread: int) -> bool:
        """Find a processor for a thread, along a shortest path of threads that give theirs up for others."""
        reached: dict[int, int] = {}
        queue = [thread]
        for one in queue:
            for processor in self._choices[one]:
                if processor in reached:
                    continue
                reached[processor] = one
                if processor not in self._holder:
                    self._shift(thread, processor, reached)
                    return True
                queue.append(self._holder[processor])
        return False

    def _shift(self, thread: int, processor: int, reached: Mapping[int, int]) -> None:
        while True:
            mover = reached[processor]
            left = self._seat.get(mover)
            self._holder[processor], self._seat[mover] = mover, processor
            if mover == thread or left is None:
                return
            processor = left
