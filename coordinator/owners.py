"""Owners of workstations, who come and go: when each makes a load on the processors of a workstation."""

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class OwnerChange(NamedTuple):
    """From ``at_ns`` on an owner makes ``load`` on each of ``processors``; 0 if the owner is away."""

    at_ns: int
    processors: tuple[int, ...]
    load: float


@dataclass(frozen=True)
class Owner:
    """The owner of a workstation: a list of loads, or a model of presence.

    Attributes:
        processors: of the workstation.
        loads: (time in seconds, load from then on), in order of time.
        present_s: mean time for which the owner stays, exponentially distributed; 0 without a model.
        away_s: mean time for which the owner stays away; at first the owner is away.
        load: on the processors while the owner is present.
    """

    processors: tuple[int, ...]
    loads: tuple[tuple[float, float], ...] = ()
    present_s: float = 0.0
    away_s: float = 0.0
    load: float = 1.0

    def changes(self, seed: str) -> Iterator[OwnerChange]:
        """The changes of the load; with a model they never end, and the same seed gives the same ones."""
        for at_s, load in self.loads:
            yield OwnerChange(round(at_s * 1e9), self.processors, load)
        if not self.present_s:
            return
        draw = random.Random(seed)
        at_s = 0.0
        load = 0.0
        while True:
            at_s += draw.expovariate(1 / (self.present_s if load else self.away_s))
            load = 0.0 if load else self.load
            yield OwnerChange(round(at_s * 1e9), self.processors, load)


def changes(owners: Iterable[Owner], seed: int, repeat: int) -> Iterator[OwnerChange]:
    """The changes of all owners in order of time; seed and repeat fix the models' random times."""
    each = (owner.changes(f"{seed}/{repeat}/{index}") for index, owner in enumerate(owners))
    return heapq.merge(*each, key=lambda change: change.at_ns)
