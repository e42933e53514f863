"""First come, first served, on regions of a machine whose topology matters: the base of such policies.

A *region* is what an allocator takes for a job: the processors of its ranks, in rank order, and then
those that no job uses. So the decisions show how much is wasted inside regions (internal fragmentation),
and which jobs were refused although enough processors were free (external fragmentation).

Sets of processors are whole numbers: bit p is processor p. So a few operations look at all processors.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from coordinator.policies import partitions
from coordinator.policies.registry import Policy
from coordinator.view import Decision, Job, Machine, Placement, Reason, View

Region = tuple[int, ...]
"""What an allocator takes: processors of ranks in rank order, then those that no rank uses."""

NONE = -1
"""In place of a processor, where there is none."""


def mask(processors: Iterable[int]) -> int:
    """The set of these processors."""
    bits = 0
    for processor in processors:
        bits |= 1 << processor
    return bits


def members(processors: int) -> Iterator[int]:
    """The processors of a set, ascending."""
    while processors:
        yield first(processors)
        processors &= processors - 1


def first(processors: int) -> int:
    """The lowest processor of a set; NONE of an empty one."""
    return (processors & -processors).bit_length() - 1


@dataclass(frozen=True)
class RegionState:
    """The state of a decision, also for measurements of fragmentation.

    Attributes:
        regions: the region of each running job.
        free: processors that are in no region, and not lost.
        refused: processors that the first waiting job asks for; 0 if none waits.
    """

    regions: Mapping[int, Region] = field(default_factory=dict)
    free: int = 0
    refused: int = 0


class RegionPolicy(Policy):
    """Jobs get regions in order of arrival; behind one that gets none, all wait.

    A job for which the whole machine has no region, since its size does not suit or processors are lost,
    starts on the lowest processors when no other job runs.
    """

    @abstractmethod
    def region(self, free: int, processes: int, machine: Machine) -> Region:
        """The region for that many processes in the set ``free`` of processors; empty if there is none."""

    def arrange(self, job: Job, region: Region) -> Placement:
        """The processors of a job's region in the order of its ranks."""
        return region

    def decide(self, view: View, reason: Reason) -> Decision:
        """Admit jobs while there is a region for the first waiting one. A lost processor is in none."""
        placements = partitions.still_running(view)
        state = view.state or RegionState()
        regions = {number: state.regions[number] for number in placements}
        refused = 0
        free = mask(partitions.free(view, regions))
        for job in partitions.waiting(view, placements):
            region = self.region(free, job.processes, view.machine)
            if not region and not regions and job.processes <= free.bit_count():
                region = tuple(partitions.free(view, regions)[: job.processes])
            if not region:
                refused = job.processes
                break
            regions[job.number] = region
            placements[job.number] = self.arrange(job, region[: job.processes])
            free &= ~mask(region)
        return partitions.for_good(view, placements, RegionState(regions, free.bit_count(), refused))
