"""The activity working sets of each job: the processes that communicate often, as they say themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Observations:
    """Puts together what the ranks of each job say.

    Source: Feitelson and Rudolph 1995. Ousterhout 1982 has the term.
    """

    def __init__(self) -> None:
        self._peers: dict[int, dict[int, frozenset[int]]] = {}

    def hear(self, job: int, rank: int, peers: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """The working sets of ``job`` once ``rank`` has named all from whom it gets messages often."""
        said = self._peers.setdefault(job, {})
        said[rank] = frozenset(peers)
        return connected(said)

    def forget(self, job: int) -> None:
        self._peers.pop(job, None)


def connected(peers: Mapping[int, Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """The connected sets of two and more ranks, each ascending; who names somebody is connected to it."""
    found: list[set[int]] = []
    for rank, named in peers.items():
        joined = {rank, *named}
        apart = [ranks for ranks in found if joined.isdisjoint(ranks)]
        found = [*apart, joined.union(*(ranks for ranks in found if ranks not in apart))]
    return tuple(sorted(tuple(sorted(ranks)) for ranks in found if len(ranks) > 1))
