"""Which process of a job belongs on which processor of its subcube: recursive bipartition of least cut.

Source: after Ercal, Ramanujam and Sadayappan 1990, "Task allocation onto a hypercube by recursive mincut
bipartitioning".
"""

from __future__ import annotations

from collections.abc import Sequence


def addresses(partners: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The address of each process in a cube of as many processors; ``partners[p]`` are those it reads from.

    Bit by bit, the highest first, each group of processes with the same bits so far is halved. A pair of
    one group, or all of it, changes sides as long as this brings more partners to equal bits. Numbers
    of processes that are no power of two stay in rank order. Every exchange looks at all pairs of a group.
    """
    count = len(partners)
    found = [0] * count
    if count & (count - 1):
        return tuple(range(count))
    links = _links(partners)
    for bit in reversed(range(count.bit_length() - 1)):
        groups: dict[int, list[int]] = {}
        for process in range(count):
            groups.setdefault(found[process], []).append(process)
        for members in groups.values():
            for process in members[len(members) // 2 :]:
                found[process] |= 1 << bit
        better = True
        while better:
            better = False
            for members in groups.values():
                better |= _turn(members, found, bit, links) or _improve(members, found, bit, links)
    return tuple(found)


def _links(partners: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """For each process how many messages it exchanges with each other one."""
    links: list[dict[int, int]] = [{} for _ in partners]
    for process, others in enumerate(partners):
        for other in others:
            if other != process:
                links[process][other] = links[process].get(other, 0) + 1
                links[other][process] = links[other].get(process, 0) + 1
    return links


def _turn(members: Sequence[int], found: list[int], bit: int, links: Sequence[dict[int, int]]) -> bool:
    """Let all of a group change sides if it gains by that; False if it does not."""
    ours = set(members)
    gain = sum(
        count if (found[process] ^ found[other]) >> bit & 1 else -count
        for process in members
        for other, count in links[process].items()
        if other not in ours
    )
    for process in members if gain > 0 else ():
        found[process] ^= 1 << bit
    return gain > 0


def _improve(members: Sequence[int], found: list[int], bit: int, links: Sequence[dict[int, int]]) -> bool:
    """Exchange the pair of the group that gains most by it; False if none gains."""

    def gain(process: int) -> int:
        """Messages that no longer cross this bit if the process alone changes sides."""
        side = found[process] >> bit & 1
        return sum(
            count if found[other] >> bit & 1 != side else -count for other, count in links[process].items()
        )

    gains = {process: gain(process) for process in members}
    here = [process for process in members if not found[process] >> bit & 1]
    there = [process for process in members if found[process] >> bit & 1]
    best, one, other = max(
        ((gains[a] + gains[b] - 2 * links[a].get(b, 0), a, b) for a in here for b in there),
        key=lambda pair: (pair[0], -pair[1], -pair[2]),
        default=(0, 0, 0),
    )
    if best <= 0:
        return False
    found[one] ^= 1 << bit
    found[other] ^= 1 << bit
    return True
