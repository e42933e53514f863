"""A mechanism that only notes what it is told, and tables of slots."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from coordinator.node.switcher import Switcher
from coordinator.wire.protocol import Table


@dataclass
class Holder:
    """A mechanism that writes down what is held."""

    said: list[tuple[str, Any]] = field(default_factory=list)

    def adopt(self, process, job, rank):
        pass

    def hold(self, process):
        self.said.append(("hold", process))

    def run(self, process):
        self.said.append(("run", process))

    def free(self, process):
        self.said.append(("free", process))


def switching(mechanism, jobs=2, processors=2, **how):
    """A switcher of jobs with a rank on each processor, called JOB.RANK, and a clock that moves when told."""
    clock = [0]
    switcher = Switcher(mechanism, lambda: clock[0], **how)
    for job in range(jobs):
        for rank in range(processors):
            switcher.adopt(job, rank, f"{job}.{rank}")  # type: ignore[arg-type]
    return switcher, clock


def gang(from_ns, start_ns, *jobs, cyclic=True):
    """Slots of 10 ns, one for each job on both processors."""
    runs = tuple(((job,), (job,)) for job in jobs)
    places = tuple((job, rank, rank) for job in jobs for rank in range(2))
    return Table(from_ns, start_ns, cyclic, (10,) * len(jobs), runs, places)
