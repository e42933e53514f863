"""``mesh``: space sharing of a mesh of two dimensions by submeshes, pages or blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from coordinator.policies.regions import submeshes
from coordinator.policies.regions.region_policy import RegionPolicy
from coordinator.policies.regions.submeshes import Grid
from coordinator.policies.registry import register
from coordinator.view import Machine
from workloads.parameters import Bounds, OneOf
from workloads.patterns import grid
from workloads.validation import InputError


@register("mesh")
@dataclass(frozen=True)
class MeshAllocation(RegionPolicy):
    """First come, first served on submeshes, or on any processors with a non-contiguous allocator.

    The mesh is the machine's, if that is a mesh or a torus (whose joined edges no submesh crosses); else
    the most nearly square one of all processors.

    Attributes:
        allocator: which processors it finds, and in which order (``submeshes.ALLOCATORS``).
        page: side of a page of "paging".
    """

    allocator: Annotated[str, OneOf(submeshes.ALLOCATORS)] = "first-fit"
    page: Annotated[int, Bounds(1, 4096)] = 1
    source: ClassVar[str] = (
        "Li and Cheng 1991; Chuang and Tzeng 1991; Ding and Bhuyan 1993; Zhu 1992; Morgenstern 1994; "
        "Lo et al. 1997; the survey"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.page > 1 and self.allocator != "paging":
            rule = f"the allocator {self.allocator!r} has no pages"
            raise InputError("page", self.page, rule, 'write allocator = "paging", or leave page out')

    def region(self, free: int, processes: int, machine: Machine) -> tuple[int, ...]:
        """Processors for so many processes, in rank order; empty if there are none."""
        mesh = _grid(machine)
        if self.allocator == "paging":
            return submeshes.paging(free, processes, mesh, self.page)
        return submeshes.ALLOCATORS[self.allocator](free, processes, mesh)


def _grid(machine: Machine) -> Grid:
    if machine.topology.sides:
        return Grid(*machine.topology.sides)
    rows, columns = grid(machine.processors)
    return Grid(columns, rows)
