"""``hypercube``: space sharing of a hypercube by subcubes.

An n-cube has C(n, k) 2^(n - k) subcubes of dimension k: processors that agree in n - k bits of their
numbers. An allocator *recognizes* a subcube if it finds it when nothing else is free.
``free`` is a set of processors (``region_policy``); each allocator returns the processors of the first
free subcube in its own order, ascending, or nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from typing import Annotated

from coordinator.policies.regions.region_policy import NONE, Region, RegionPolicy, first
from coordinator.policies.registry import register
from coordinator.view import Job, Machine, Placement
from workloads.parameters import OneOf

Subcube = tuple[int, ...]
Dimensions = tuple[int, ...]


@cache
def _without(dimension: int, n: int) -> int:
    """The processors of an n-cube whose bit ``dimension`` is 0."""
    pattern = (1 << (1 << dimension)) - 1
    for other in range(dimension + 1, n):
        pattern |= pattern << (1 << other)
    return pattern


def corners(free: int, n: int, dimensions: Iterable[int]) -> int:
    """The lowest processors of all free subcubes along ``dimensions``."""
    for dimension in dimensions:
        free &= free >> (1 << dimension) & _without(dimension, n)
    return free


def _subcube(corner: int, dimensions: Dimensions) -> Subcube:
    processors = [corner]
    for dimension in dimensions:
        processors += [processor + (1 << dimension) for processor in processors]
    return tuple(sorted(processors))


def _lowest(free: int, n: int, choices: Iterable[Dimensions]) -> Subcube:
    """The free subcube with the lowest corner; of several the one of the first choice of dimensions."""
    corners_of = ((first(corners(free, n, choice)), choice) for choice in choices)
    there = [(corner, index, choice) for index, (corner, choice) in enumerate(corners_of) if corner != NONE]
    if not there:
        return ()
    corner, _, choice = min(there)
    return _subcube(corner, choice)


def buddy(free: int, n: int, k: int) -> Subcube:
    """One of 2^(n - k) subcubes of the k lowest dimensions (the survey's Fig. 2; Chen and Shin 1987, III)."""
    return _lowest(free, n, [tuple(range(k))])


def gray_code(free: int, n: int, k: int) -> Subcube:
    """Two neighbouring blocks of 2^(k - 1) processors in the order of the binary reflected Gray code.

    The first and the last block are neighbours, too. Recognizes 2^(n - k + 1) subcubes for 0 < k < n.
    Source: Chen and Shin 1987, "Processor allocation in an n-cube multiprocessor using Gray codes".
    """
    if k in (0, n):
        order = (number ^ number >> 1 for number in range(1 << n))
        corner = next((p for p in order if free >> p & 1), NONE) if k == 0 else 0
        return _subcube(corner, tuple(range(k))) if corners(free, n, range(k)) else ()
    blocks = corners(free, n, range(k - 1))
    codes = [(number ^ number >> 1) << (k - 1) for number in range(1 << (n - k + 1))]
    for one, other in zip(codes, codes[1:] + codes[:1], strict=True):
        if blocks >> one & blocks >> other & 1:
            along = (*range(k - 1), first(one ^ other))
            return _subcube(min(one, other), along)
    return ()


def modified_buddy(free: int, n: int, k: int) -> Subcube:
    """A block of the buddy tree with 2^(k - 1) processors, and another across any higher dimension.

    Recognizes (n - k + 1) 2^(n - k) subcubes for k > 0.
    Source: Al-Dhelaan and Bose 1989, "A new strategy for processors allocation in an N-cube multiprocessor".
    """
    if k == 0:
        return buddy(free, n, k)
    return _lowest(free, n, ((*range(k - 1), partner) for partner in range(k - 1, n)))


def tree_collapsing(free: int, n: int, k: int) -> Subcube:
    """The whole buddy tree, then with other levels collapsed, one choice of k dimensions after another.

    Recognizes all subcubes. The order in which levels collapse is lexicographic here.
    Source: Chuang and Tzeng 1992, "A fast recognition-complete processor allocation strategy for
    hypercube computers".
    """
    for dimensions in combinations(range(n), k):
        corner = first(corners(free, n, dimensions))
        if corner != NONE:
            return _subcube(corner, dimensions)
    return ()


def all_subcubes(free: int, n: int, k: int) -> Subcube:
    """The free subcube with the lowest corner, whatever its dimensions: the reference."""
    return _lowest(free, n, combinations(range(n), k))


ALLOCATORS: dict[str, Callable[[int, int, int], Subcube]] = {
    "buddy": buddy,
    "gray-code": gray_code,
    "modified-buddy": modified_buddy,
    "tree-collapsing": tree_collapsing,
    "all-subcubes": all_subcubes,
}


def dimension(processors: int) -> int:
    """The dimension of the smallest cube of at least so many processors."""
    return (processors - 1).bit_length()


def addresses(partners: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The address of each process in a cube of as many processors; ``partners[p]`` are those it reads from.

    Bit by bit, the highest first, each group of processes with the same bits so far is halved. A pair of
    one group, or all of it, changes sides as long as this brings more partners to equal bits. Numbers
    of processes that are no power of two stay in rank order. Every exchange looks at all pairs of a group.
    """
    count = len(partners)
    result = [0] * count
    if count & (count - 1):
        return tuple(range(count))
    links = _links(partners)
    for bit in reversed(range(count.bit_length() - 1)):
        groups: dict[int, list[int]] = {}
        for process in range(count):
            groups.setdefault(result[process], []).append(process)
        for members in groups.values():
            for process in members[len(members) // 2 :]:
                result[process] |= 1 << bit
        better = True
        while better:
            better = False
            for members in groups.values():
                better |= _turn(members, result, bit, links) or _improve(members, result, bit, links)
    return tuple(result)


def _links(partners: Sequence[Sequence[int]]) -> list[dict[int, int]]:
    """For each process how many messages it exchanges with each other one."""
    links: list[dict[int, int]] = [{} for _ in partners]
    for process, others in enumerate(partners):
        for other in others:
            if other != process:
                links[process][other] = links[process].get(other, 0) + 1
                links[other][process] = links[other].get(process, 0) + 1
    return links


def _turn(members: Sequence[int], places: list[int], bit: int, links: Sequence[dict[int, int]]) -> bool:
    """Let all of a group change sides if it gains by that; False if it does not."""
    ours = set(members)
    gain = sum(
        count if (places[process] ^ places[other]) >> bit & 1 else -count
        for process in members
        for other, count in links[process].items()
        if other not in ours
    )
    for process in members if gain > 0 else ():
        places[process] ^= 1 << bit
    return gain > 0


def _improve(members: Sequence[int], places: list[int], bit: int, links: Sequence[dict[int, int]]) -> bool:
    """Exchange the pair of the group that gains most by it; False if none gains."""

    def gain(process: int) -> int:
        """Messages that no longer cross this bit if the process alone changes sides."""
        side = places[process] >> bit & 1
        return sum(
            count if places[other] >> bit & 1 != side else -count for other, count in links[process].items()
        )

    gains = {process: gain(process) for process in members}
    here = [process for process in members if not places[process] >> bit & 1]
    there = [process for process in members if places[process] >> bit & 1]
    best, one, other = max(
        ((gains[a] + gains[b] - 2 * links[a].get(b, 0), a, b) for a in here for b in there),
        key=lambda pair: (pair[0], -pair[1], -pair[2]),
        default=(0, 0, 0),
    )
    if best <= 0:
        return False
    places[one] ^= 1 << bit
    places[other] ^= 1 << bit
    return True


MAPPINGS = ("order", "bipartition")


@register("hypercube")
class HypercubeAllocation(RegionPolicy):
    """First come, first served on subcubes; sizes are rounded up to powers of two.

    Processor numbers are the addresses in the cube, whatever the machine's topology. If the number of
    processors is no power of two, the cube lacks its last ones.

    Attributes:
        allocator: which subcubes it finds, and in which order (``ALLOCATORS``).
        mapping: which rank has which processor of a subcube: the "order" of addresses, or the one of
            recursive "bipartition" of a program whose communication is known.
    """

    allocator: Annotated[str, OneOf(ALLOCATORS)] = "buddy"
    mapping: Annotated[str, OneOf(MAPPINGS)] = "order"
    source = (
        "Chen and Shin 1987; Al-Dhelaan and Bose 1989; Chuang and Tzeng 1992; "
        "Ercal, Ramanujam and Sadayappan 1990 (mapping); the survey"
    )

    def arrange(self, job: Job, region: Region) -> Placement:
        """Ranks by address, or with partners on neighbouring processors."""
        regular = self.mapping == "bipartition" and len(job.partners) == len(region)
        return tuple(region[address] for address in addresses(job.partners)) if regular else region

    def region(self, free: int, processes: int, machine: Machine) -> Region:
        """A subcube for that many processes, by ascending addresses; empty if none is found."""
        n, k = dimension(machine.processors), dimension(processes)
        return ALLOCATORS[self.allocator](free, n, k) if k <= n else ()
