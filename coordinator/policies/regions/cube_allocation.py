"""``hypercube``: space sharing of a hypercube by subcubes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from coordinator.policies.regions import bipartition, subcubes
from coordinator.policies.regions.region_policy import RegionPolicy
from coordinator.policies.registry import register
from coordinator.view import Job, Machine
from workloads.parameters import OneOf

MAPPINGS = ("order", "bipartition")


@register("hypercube")
@dataclass(frozen=True)
class HypercubeAllocation(RegionPolicy):
    """First come, first served on subcubes; sizes are rounded up to powers of two.

    Processor numbers are the addresses in the cube, whatever the machine's topology. If the number of
    processors is no power of two, the cube lacks its last ones.

    Attributes:
        allocator: which subcubes it finds, and in which order (``subcubes.ALLOCATORS``).
        mapping: which rank has which processor of a subcube: the "order" of addresses, or the one of
            recursive "bipartition" of a program whose communication is known.
    """

    allocator: Annotated[str, OneOf(subcubes.ALLOCATORS)] = "buddy"
    mapping: Annotated[str, OneOf(MAPPINGS)] = "order"
    source: ClassVar[str] = (
        "Chen and Shin 1987; Al-Dhelaan and Bose 1989; Chuang and Tzeng 1992; "
        "Ercal, Ramanujam and Sadayappan 1990 (mapping); the survey"
    )

    def arrange(self, job: Job, region: tuple[int, ...]) -> tuple[int, ...]:
        """Ranks by address, or with partners on neighbouring processors."""
        known = self.mapping == "bipartition" and len(job.partners) == len(region)
        return tuple(region[address] for address in bipartition.addresses(job.partners)) if known else region

    def region(self, free: int, processes: int, machine: Machine) -> tuple[int, ...]:
        """A subcube for so many processes, by ascending addresses; empty if none is found."""
        n, k = subcubes.dimension(machine.processors), subcubes.dimension(processes)
        return subcubes.ALLOCATORS[self.allocator](free, n, k) if k <= n else ()
