"""Slurm's own gang scheduling, for comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from coordinator.policies.gang import Gang
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Reason, View
from workloads.parameters import Bounds

LEAST_MS = 5000.0


@register("slurm-gang")
@dataclass(frozen=True)
class SlurmGang(Policy):
    """Gang scheduling by Slurm: each job is a Slurm job, which Slurm's controller suspends and resumes.

    The simulator uses the decisions of this class, which models the controller; the controller
    itself decides about real jobs.

    Attributes:
        quantum_ms: length of a slot, the cluster's SchedulerTimeSlice, at least 5 s.
        retry: whether a job's script retries at once if Slurm refuses to start ranks
            because the job is suspended; otherwise srun retries, less and less often.
    """

    quantum_ms: Annotated[float, Bounds(LEAST_MS, 1e8)] = 30_000.0
    retry: bool = True
    source: ClassVar[str] = "Slurm 1.3 (2008) and later, slurm.conf(5): PreemptMode=GANG, SchedulerTimeSlice"

    def decide(self, view: View, why: Reason) -> Decision:
        """The decision of ``gang`` with the same quantum."""
        return Gang(self.quantum_ms).decide(view, why)
