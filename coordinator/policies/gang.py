"""Gang scheduling (coscheduling): all processes of a job run in the same slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coordinator.policies.registry import register
from coordinator.view import Decision, Job, Reason, Slot, View
from workloads.validation import number, one_of

PACKINGS = ("matrix",)

Row = tuple[tuple[int, int, int], ...]
"""One row of the matrix: (job, first processor, processes) of each job in it."""


@register("gang")
@dataclass(frozen=True)
class Gang:
    """Rotating slots over the rows of a matrix of time slots by processors.

    Attributes:
        quantum_ms: length of a slot.
        packing: how jobs find their place. "matrix": the first row with enough
            neighbouring free processors, else a new row.
    """

    quantum_ms: float = 100.0
    packing: str = "matrix"
    source: ClassVar[str] = "Ousterhout 1982, matrix method; Dusseau et al. 1996, section 3.4"
    needs_mechanism: ClassVar[bool] = True

    def __post_init__(self) -> None:
        number("quantum_ms", self.quantum_ms, above=0)
        one_of("packing", self.packing, PACKINGS)

    def processes(self, job: Job, view: View) -> int | None:
        """As many as the job asks for."""
        return job.processes

    def decide(self, view: View, why: Reason) -> Decision:
        """One slot of a quantum per non-empty row, in turn; a lone row is never interrupted.

        Jobs keep the place they were given until they leave. The rotation goes on in the
        middle of the slot that the event interrupted, or with the next row if that one is
        empty now, so that a busy stream of arrivals favours no row.
        """
        before: list[Row] = list(view.previous.memory) if view.previous else []
        current = before[view.slot] if view.slot < len(before) else ()
        before = before[view.slot :] + before[: view.slot]
        here = {job.number for job in view.jobs}
        rows = [tuple(entry for entry in row if entry[0] in here) for row in before]
        goes_on = bool(current) and bool(rows[0])
        placed = {entry[0] for row in rows for entry in row}
        for job in view.jobs:
            if job.number not in placed:
                _place(rows, job, view.machine.processors)
        rows = [row for row in rows if row]
        quantum_ns = round(self.quantum_ms * 1e6) if len(rows) > 1 else None
        slots = tuple(Slot(_runs(row, view.machine.processors), quantum_ns) for row in rows)
        placements = {
            number: tuple(range(first, first + count)) for row in rows for number, first, count in row
        }
        idle = (Slot(((),) * view.machine.processors),)
        elapsed_ns = min(view.elapsed_ns, quantum_ns - 1) if quantum_ns and goes_on else 0
        return Decision(placements, slots or idle, elapsed_ns=elapsed_ns, memory=tuple(rows))


def _place(rows: list[Row], job: Job, processors: int) -> None:
    """Enter ``job`` in the first row with room, or a new one; ``rows`` is modified in place."""
    for index, row in enumerate(rows):
        taken = {p for _, first, count in row for p in range(first, first + count)}
        for first in range(processors - job.processes + 1):
            if taken.isdisjoint(range(first, first + job.processes)):
                rows[index] = (*row, (job.number, first, job.processes))
                return
    rows.append(((job.number, 0, job.processes),))


def _runs(row: Row, processors: int) -> tuple[tuple[int, ...], ...]:
    owner = {p: number for number, first, count in row for p in range(first, first + count)}
    return tuple((owner[p],) if p in owner else () for p in range(processors))
