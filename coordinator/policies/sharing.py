"""Time sharing by the local schedulers: ``none``, ``implicit`` and ``dynamic-coscheduling``.

Lockstep stops nothing: on every processor the local scheduler picks a process of any job.
``none`` and ``implicit`` differ only in the experiment's ``waiting``: two-phase waits
coordinate the jobs. Under ``dynamic-coscheduling`` messages do.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

from coordinator.policies import partitions
from coordinator.policies.registry import Policy, register
from coordinator.view import Assignment, Decision, Placement, Reason, Slot, View
from workloads.parameters import Bounds


def folded(processes: int, processors: Sequence[int]) -> Placement:
    """The processors of the ranks: ``processors`` in turn, then from the first one again."""
    return tuple(processors[rank % len(processors)] for rank in range(processes))


def everywhere(view: View) -> partitions.Placements:
    """The processors of all jobs, folded over those that are not lost; kept until one of a job's is lost."""
    there = partitions.remaining(view)
    kept = {n: place for n, place in partitions.still_running(view).items() if view.lost.isdisjoint(place)}
    return {job.number: kept.get(job.number) or folded(job.processes, there) for job in view.jobs}


@register("none")
class Uncoordinated(Policy):
    """All arrived jobs share the processors under the local scheduler."""

    source = "the local scheduler alone; Dusseau et al. 1996, section 4"
    allows_oversubscription = True

    def decide(self, view: View, reason: Reason) -> Decision:
        """One endless slot in which each processor may run every process placed on it."""
        placements = everywhere(view)
        return Decision(placements, (Slot(shared(placements, view)),))


def shared(placements: partitions.Placements, view: View) -> Assignment:
    """The jobs of each processor, in the order of ``placements``; all have all of their processors."""
    last = view.previous if view.previous and len(view.previous.slots) == 1 else None
    before = last.placements if last else {}
    stay = [number for number in before if number in placements]
    runs: list[tuple[int, ...]] = [()] * view.machine.processors
    gone, come = set[int](), [*placements]
    if last and come[: len(stay)] == stay and all(before[n] is placements[n] for n in stay):
        runs = list(last.slots[0].runs)
        gone, come = before.keys() - placements.keys(), come[len(stay) :]
    for processor in set[int]().union(*(before[number] for number in gone)):
        runs[processor] = tuple(number for number in runs[processor] if number not in gone)
    for number in come:
        for processor in set(placements[number]):
            runs[processor] += (number,)
    return tuple(runs)


@register("implicit")
class Implicit(Uncoordinated):
    """Implicit scheduling: as ``none``; two-phase waits coordinate the jobs."""

    source = "Dusseau, Arpaci, Culler 1996, sections 5 and 6"


@register("dynamic-coscheduling")
class DynamicCoscheduling(Uncoordinated):
    """Demand-based coscheduling: as ``none``; a message gets the processor for the process that it is for.

    Attributes:
        patience_us: how long a process spins for an answer before it has its peer run next.
        min_run_ms: how long a job keeps a processor that it has got so, even if others want it.
    """

    patience_us: Annotated[float, Bounds(1, 1e6)] = 50.0
    min_run_ms: Annotated[float, Bounds(0.1, 1e6)] = 1.0
    source = "Sobalvarro and Weihl 1995, dynamic coscheduling"

    @property
    def coscheduling(self) -> Mapping[str, float]:
        """As in the base class."""
        return {"patience_us": self.patience_us, "min_run_ms": self.min_run_ms}
