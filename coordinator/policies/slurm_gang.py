"""Slurm's own gang scheduling, to be measured beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies.gang import Gang
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Reason, View
from workloads.bounds import within
from workloads.validation import flag, number

LEAST_MS = 5000.0


@register("slurm-gang")
@dataclass(frozen=True)
class SlurmGang(Policy):
    """Gang scheduling by Slurm: each job is one of Slurm's, whose controller suspends and resumes it.

    For the simulator, this class decides as the controller means to; real jobs are left
    to the controller.

    Attributes:
        quantum_ms: length of a slot, the cluster's SchedulerTimeSlice, at least 5 s.
        retry: whether a job's script asks again at once where Slurm refuses to start the ranks
            because the job is suspended, instead of leaving that to srun, which asks ever more rarely.
    """

    quantum_ms: float = 30_000.0
    retry: bool = True
    source: ClassVar[str] = "Slurm, slurm.conf(5): PreemptMode=GANG, SchedulerTimeSlice"

    def __post_init__(self) -> None:
        within("schedulers.quantum_ms", self.quantum_ms)
        number("quantum_ms", self.quantum_ms, least=LEAST_MS)
        flag("retry", self.retry)

    def decide(self, view: View, why: Reason) -> Decision:
        """As ``gang`` with slots as long."""
        return Gang(self.quantum_ms).decide(view, why)
