"""Time sharing by the local schedulers alone: ``none`` and ``implicit``.

Lockstep stops nothing: on every processor the local scheduler picks a process of any job.
The two policies differ only in the experiment's ``blocking``: two-phase waits
coordinate the jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Reason, Slot, View


def folded(processes: int, processors: int) -> tuple[int, ...]:
    """The processors of the ranks: rank r runs on processor r modulo ``processors``."""
    return tuple(rank % processors for rank in range(processes))


@register("none")
@dataclass(frozen=True)
class Uncoordinated(Policy):
    """All arrived jobs share the processors under the local scheduler."""

    source: ClassVar[str] = "the local scheduler alone; Dusseau et al. 1996, section 4"
    folds: ClassVar[bool] = True

    def decide(self, view: View, why: Reason) -> Decision:
        """One endless slot in which each processor may run every process placed on it."""
        placements = {job.number: folded(job.processes, view.machine.processors) for job in view.jobs}
        runs = tuple(
            tuple(job.number for job in view.jobs if processor < job.processes)
            for processor in range(view.machine.processors)
        )
        return Decision(placements, (Slot(runs),))


@register("implicit")
@dataclass(frozen=True)
class Implicit(Uncoordinated):
    """Implicit scheduling: as ``none``; two-phase waits coordinate the jobs."""

    source: ClassVar[str] = "Dusseau, Arpaci, Culler 1996, sections 5 and 6"
