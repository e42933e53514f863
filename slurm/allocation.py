"""The allocation around a process: which nodes, and how many processors of each."""

import itertools
import math
import re
from collections.abc import Mapping

from slurm.command import SlurmError

MOST = 65_536  # names that one list may stand for: as many nodes as Slurm knows

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
            raise ValueError("must close each bracket")
        ranges = [_ranges(numbers) for numbers in texts[1::2]]
        if len(names) + math.prod(sum(map(len, numbers)) for numbers, _ in ranges) > MOST:
            raise ValueError(f"cannot stand for more than {MOST} names")
        columns = [[fixed] for fixed in texts]
        columns[1::2] = [
            [f"{number:0{width}}" for numbers, width in zip(*several, strict=True) for number in numbers]
            for several in ranges
        ]
        names += map("".join, itertools.product(*columns))
    return names


def _ranges(text: str) -> tuple[list[range], list[int]]:
    """The ranges of numbers in "01-03,07", and for each the digits that its numbers have at least."""
    ranges = []
    widths = []
    for part in text.split(","):
        match = _NUMBERS.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if match is None or last < first:
            raise ValueError(f"must have rising numbers in brackets, and has [{text}]")
        ranges.append(range(first, last + 1))
        widths.append(len(match[1]))
    return ranges, widths


_COUNT = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")


def inside(environment: Mapping[str, str]) -> bool:
    return "SLURM_JOB_ID" in environment


def nodes(environment: Mapping[str, str]) -> list[tuple[str, int]]:
    """Name and number of processors of each node, in Slurm's order; tasks per node count, if given."""
    if not inside(environment):
        raise SlurmError("SLURM_JOB_ID is not set here")
    try:
        hosts = expand(environment["SLURM_JOB_NODELIST"])
        tasks = environment.get("SLURM_NTASKS_PER_NODE", "")
        counts = [int(tasks)] * len(hosts) if tasks else per_node(environment["SLURM_JOB_CPUS_PER_NODE"])
    except (KeyError, ValueError) as error:
        raise SlurmError(f"the variables of the allocation cannot be read: {error}") from error
    if len(counts) != len(hosts):
        raise SlurmError(f"the allocation lists {len(hosts)} nodes, but processors of {len(counts)}")
    return list(zip(hosts, counts, strict=True))


def per_node(text: str) -> list[int]:
    """The numbers in Slurm's "2(x3),4", one for each node."""
    counts: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is not a list of numbers")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts
