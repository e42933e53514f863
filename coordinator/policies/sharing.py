"""Time sharing by the local schedulers alone: ``none`` and ``implicit``.

Nothing is stopped: every processor runs whatever process of any job its own scheduler
picks. The two differ in how processes wait, which the experiment's ``blocking`` says: with
two-phase waits the waiting itself coordinates the jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Reason, Slot, View


def folded(processes: int, processors: int) -> tuple[int, ...]:
    """Rank r on processor r modulo their number: all jobs start at processor 0, larger ones go round."""
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
    """Implicit scheduling: no decision either; two-phase blocking does the coordinating."""

    source: ClassVar[str] = "Dusseau, Arpaci, Culler 1996, sections 5 and 6"
