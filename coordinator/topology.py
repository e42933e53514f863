"""How the processors of a machine are connected, and how many hops are between two of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workloads.machine import HYPERCUBE, MESH, TORUS, TREE, check_values
from workloads.validation import InputError


@dataclass(frozen=True)
class Topology:
    """The connections between processors, which are numbered from 0.

    Attributes:
        name: ``flat``: every two processors are one hop apart. ``hypercube``: two processors
            are connected if their numbers differ in one bit. ``mesh``: a grid, processor p in column
            p mod ``sides[0]`` and row p div ``sides[0]``. ``torus``: the same with its edges joined.
            ``tree``: the processors are the leaves of a binary tree, whose inner nodes are switches.
        sides: columns and rows of a mesh or a torus; empty for the others.
    """

    name: str = "flat"
    sides: tuple[int, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any], processors: int) -> Topology:
        """The topology that a [machine] table gives a machine of ``processors`` processors."""
        fields = {key: values[key] for key in ("topology", "sides") if key in values}
        check_values(fields)
        topology = cls(fields.get("topology", cls.name), tuple(fields.get("sides", ())))
        if topology.name == HYPERCUBE and processors & (processors - 1):
            raise InputError(
                "topology",
                topology.name,
                f"a hypercube has a power of two of processors, and processors is {processors}",
                "write processors = 16, or another topology",
            )
        if topology.sides and math.prod(topology.sides) != processors:
            columns, rows = topology.sides
            raise InputError(
                "sides",
                list(topology.sides),
                f"{columns} x {rows} are not the {processors} processors of the machine",
                "give columns and rows whose product they are",
            )
        return topology

    def table(self) -> dict[str, Any]:
        """The values of a [machine] table that give this topology; none for a flat one."""
        named = {} if self == FLAT else {"topology": self.name}
        return named | ({"sides": [*self.sides]} if self.sides else {})

    def hops(self, a: int, b: int) -> int:
        """The length of the shortest way from processor ``a`` to ``b``; 0 from a processor to itself."""
        if self.name == HYPERCUBE:
            return (a ^ b).bit_count()
        if self.name in (MESH, TORUS):
            across, along = (abs(i - j) for i, j in zip(self._place(a), self._place(b), strict=True))
            if self.name == TORUS:
                across = min(across, self.sides[0] - across)
                along = min(along, self.sides[1] - along)
            return across + along
        if self.name == TREE:
            return 2 * (a ^ b).bit_length()
        return int(a != b)

    def _place(self, processor: int) -> tuple[int, int]:
        return processor % self.sides[0], processor // self.sides[0]


FLAT = Topology()


Runs = Sequence[tuple[int, int]]
"""The first and the last of each run of consecutive processors."""


def runs(processors: Iterable[int]) -> Runs:
    """The processors as runs, ascending."""
    return joined((processor, processor) for processor in processors)


def joined(apart: Iterable[tuple[int, int]]) -> Runs:
    """The same processors in as few runs as possible, ascending."""
    pairs: list[tuple[int, int]] = []
    for first, last in sorted(apart):
        if pairs and pairs[-1][1] == first - 1:
            pairs[-1] = (pairs[-1][0], last)
        else:
            pairs.append((first, last))
    return pairs


def ranges(processors: Iterable[int]) -> str:
    return written(runs(processors))


def written(runs: Runs) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
