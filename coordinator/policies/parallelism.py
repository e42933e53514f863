"""Dynamic allocation: processors that a program cannot use in its present phase go to others at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from coordinator.policies.dynamic import DynamicEquipartition
from coordinator.policies.registry import register
from coordinator.view import Decision, Job, Reason, View


@register("dynamic")
@dataclass(frozen=True)
class DynamicAllocation(DynamicEquipartition):
    """As dyn-equi, also when a program's parallelism changes: equal shares of what each job can use now.

    Of the processors that do not divide, jobs get one more that have had least service so far.
    """

    source: ClassVar[str] = "after McCann, Vaswani, Zahorjan 1993; the survey, section Space-Sharing Policies"
    follows_phases: ClassVar[bool] = True

    def decide(self, view: View, why: Reason) -> Decision:
        """Equal shares of the processors, as far as jobs can use them in their present phases."""
        jobs = sorted(map(_now, view.jobs), key=lambda job: view.attained_ns.get(job.number, 0))
        return super().decide(replace(view, jobs=tuple(jobs)), why)


def _now(job: Job) -> Job:
    """The job as if it asked for what it can use now."""
    if job.usable is None or not job.malleable:
        return job
    return replace(job, processes=min(job.processes, job.usable))
