"""Process control: every job knows its share of the processors, and suspends processes by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies import allocation, partitions
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Job, Reason, Slot, View


@register("process-control")
@dataclass(frozen=True)
class ProcessControl(Policy):
    """Equal shares of the processors; a job with more processes suspends the others between its tasks.

    Jobs that cannot suspend processes share their processors under the local scheduler.
    """

    source: ClassVar[str] = "Tucker and Gupta 1989; the survey, section Space-Sharing Policies"
    folds: ClassVar[bool] = True

    def decide(self, view: View, why: Reason) -> Decision:
        """Divide the processors again among all jobs, the larger shares to earlier arrivals; nobody waits.

        The processes of jobs that cannot suspend any count as given; the others share what they leave, and
        have one process at least. Processes stay where they are unless others are better off.
        """
        there = [p for p in range(view.machine.processors) if p not in view.lost] or [0]
        before = partitions.still_running(view)
        placements: partitions.Placements = {}
        load = Counter(dict.fromkeys(there, 0))
        for job in view.jobs:
            if not job.malleable:
                kept = before.get(job.number) or _spread(job.processes, load)
                placements[job.number] = kept
                load.update(kept)
        able = [job for job in view.jobs if job.malleable]
        shares = _shares(len(there) - load.total(), able)
        # As many processes on a processor as there must be somewhere.
        most = -(-(load.total() + sum(shares.values())) // len(there))
        for job in able:
            stay = [p for p in before.get(job.number, ()) if p in there and load[p] < most]
            placements[job.number] = tuple(stay[: shares[job.number]])
            load.update(placements[job.number])
        for job in able:
            more = shares[job.number] - len(placements[job.number])
            new = _spread(more, load, placements[job.number])
            placements[job.number] += new
            load.update(new)
        runs = tuple(
            tuple(job.number for job in view.jobs if p in placements[job.number])
            for p in range(view.machine.processors)
        )
        return Decision({job.number: placements[job.number] for job in view.jobs}, (Slot(runs),))


def _shares(processors: int, jobs: list[Job]) -> dict[int, int]:
    """Equal shares, one processor at least."""
    parts = [0] * len(jobs)
    allocation.share(max(0, processors), len(jobs), [job.most for job in jobs], parts)
    return {job.number: max(1, part) for job, part in zip(jobs, parts, strict=True)}


def _spread(processes: int, load: Counter[int], without: Iterable[int] = ()) -> tuple[int, ...]:
    """Processors for so many processes, the least loaded ones, ``without`` some; each once, then again."""
    order = sorted(set(load) - set(without), key=lambda p: (load[p], p))
    return tuple(order[n % len(order)] for n in range(processes))
