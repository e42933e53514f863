"""Slurm's notation for lists of hosts: "c[01-03,07],login" stands for c01, c02, c03, c07, and login."""

from __future__ import annotations

import itertools
import math
import re

MOST = 65_536
"""Names that one list may stand for: as many nodes as Slurm knows."""

_BRACKETS = re.compile(r"\[([^][]*)\]")
_NUMBERS = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def split(text: str) -> list[str]:
    """The parts of a list between its commas, those in brackets left out."""
    return re.split(r",(?![^][]*\])", text)


def expand(text: str) -> list[str]:
    """The names that a list stands for, in Slurm's order."""
    names: list[str] = []
    for part in split(text):
        texts = _BRACKETS.split(part)  # by turns a text and the inside of a pair of brackets
        if any(set(fixed) & set("[]") for fixed in texts[::2]):
            raise ValueError("has a bracket without its partner")
        ranges = [_ranges(numbers) for numbers in texts[1::2]]
        if len(names) + math.prod(sum(map(len, numbers)) for numbers, _ in ranges) > MOST:
            raise ValueError(f"stands for more than {MOST} names")
        columns = [[fixed] for fixed in texts]
        columns[1::2] = [
            [f"{number:0{width}}" for numbers, width in zip(*several, strict=True) for number in numbers]
            for several in ranges
        ]
        names += map("".join, itertools.product(*columns))
    return names


def _ranges(text: str) -> tuple[list[range], list[int]]:
    """The ranges of numbers in "01-03,07", and for each the digits that its numbers have at least."""
    ranges, widths = [], []
    for part in text.split(","):
        found = _NUMBERS.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if found is None or last < first:
            raise ValueError(f"has [{text}], which are no rising numbers")
        ranges.append(range(first, last + 1))
        widths.append(len(found[1]))
    return ranges, widths
