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

    def drop(self, process):
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


def slot_of(lengths_ns, cyclic, elapsed_ns):
    """The slot of a table that is in force so long after the first began, and when in that time it ends.

    Where all slots are over, the last one is in force for ever.
    """
    endless = None in lengths_ns
    begin_ns = elapsed_ns // sum(lengths_ns) * sum(lengths_ns) if cyclic and not endless else 0
    for slot, length_ns in enumerate(lengths_ns):
        if length_ns is None or elapsed_ns < begin_ns + length_ns:
            return slot, None if length_ns is None else begin_ns + length_ns
        begin_ns += length_ns
    return len(lengths_ns) - 1, None
