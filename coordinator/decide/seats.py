"""Selects the launched ranks that take part in a job: no process can move to another node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def seats(
    launched: Sequence[int], placement: Sequence[int], node_of: Sequence[int]
) -> tuple[int, ...] | None:
    """The rank for each place of ``placement``: the first unused one launched on its node.

    ``launched[r]`` is a processor of the node on which rank r was launched; ``node_of`` is the node of
    each processor. Returns None if a node has too few ranks.
    """
    waiting: dict[int, Iterator[int]] = {
        node: iter([rank for rank, processor in enumerate(launched) if node_of[processor] == node])
        for node in {node_of[processor] for processor in placement}
    }
    found = [next(waiting[node_of[processor]], None) for processor in placement]
    taken = tuple(rank for rank in found if rank is not None)
    return taken if len(taken) == len(found) else None
