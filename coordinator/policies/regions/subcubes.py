"""How allocators find a free subcube in a hypercube.

An n-cube has C(n, k) 2^(n - k) subcubes of dimension k: processors that agree in n - k bits of their
numbers. An allocator *recognizes* a subcube if it finds it when nothing else is free.
``free`` is a set of processors (``processor_masks``); each function returns the processors of the first
free subcube in its own order, ascending, or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import combinations

from coordinator.policies.regions.processor_masks import NONE, first

Subcube = tuple[int, ...]
Dimensions = tuple[int, ...]


@cache
def _without(dimension: int, n: int) -> int:
    """The processors of an n-cube whose bit ``dimension`` is 0."""
    found = (1 << (1 << dimension)) - 1
    for other in range(dimension + 1, n):
        found |= found << (1 << other)
    return found


def corners(free: int, n: int, dimensions: Iterable[int]) -> int:
    """The lowest processors of all free subcubes along ``dimensions``."""
    for dimension in dimensions:
        free &= free >> (1 << dimension) & _without(dimension, n)
    return free


def _subcube(corner: int, dimensions: Dimensions) -> Subcube:
    found = [corner]
    for dimension in dimensions:
        found += [processor + (1 << dimension) for processor in found]
    return tuple(sorted(found))


def _lowest(free: int, n: int, choices: Iterable[Dimensions]) -> Subcube:
    """The free subcube with the lowest corner; of several the one of the first choice of dimensions."""
    found = ((first(corners(free, n, choice)), choice) for choice in choices)
    there = [(corner, index, choice) for index, (corner, choice) in enumerate(found) if corner != NONE]
    if not there:
        return ()
    corner, _, choice = min(there)
    return _subcube(corner, choice)


def buddy(free: int, n: int, k: int) -> Subcube:
    """A node of the buddy tree: a subcube of the k lowest dimensions.

    Recognizes 2^(n - k). Source: the survey's Fig. 2; Chen and Shin 1987, section III.
    """
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
    """The buddy tree as it is, then with other levels collapsed, one choice of k dimensions after another.

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
