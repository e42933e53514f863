"""Sets of processors as whole numbers: bit p is processor p. So a few operations look at all processors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

NONE = -1
"""In place of a processor, where there is none."""


def mask(processors: Iterable[int]) -> int:
    """The set of these processors."""
    found = 0
    for processor in processors:
        found |= 1 << processor
    return found


def members(processors: int) -> Iterator[int]:
    """The processors of a set, ascending."""
    while processors:
        yield first(processors)
        processors &= processors - 1


def first(processors: int) -> int:
    """The lowest processor of a set; NONE of an empty one."""
    return (processors & -processors).bit_length() - 1
