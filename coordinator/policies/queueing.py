"""Gang scheduling with a service queue and a waiting queue: the two-queue systems.

One job at a time has the whole machine, rank r on the r-th processor that is not lost. The pointer of the
registration office (:mod:`coordinator.policies.registration_office`) chooses the next job.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Annotated, ClassVar

from coordinator.policies import partitions, registration_office, two_level
from coordinator.policies.registration_office import Office, Rules
from coordinator.policies.registry import Places, Policy, Quantum, register
from coordinator.view import Decision, Job, Reason, Slot, View
from workloads.parameters import Bounds, OneOf

PAPER = "Zhou, Brent, Qu 1997"


@dataclass(frozen=True)
class _RoundMemory:
    office: Office = ()
    """At the beginning of the table."""
    order: tuple[int, ...] = ()
    """The jobs of the table's slots."""
    taken: Mapping[int, int | None] = field(default_factory=dict)
    """The jobs that the round has taken, in order: see ``registration_office.one_round``."""
    round_ns: int = 0
    """When the round began."""
    placed: partitions.Placements = field(default_factory=dict)
    """The jobs that have begun."""


class _Queueing(Policy):
    """Each slot has one job; a table is the rest of a round."""

    needs_mechanism: ClassVar[bool] = True
    insert: bool = False
    share: Annotated[str, OneOf(two_level.SHARES)] = "none"

    @abstractmethod
    def rules(self) -> Rules:
        """The rules by which the pointer moves."""

    @abstractmethod
    def quantum_ns(self, level: int) -> int:
        """Length of a slot for a job at ``level``."""

    def decide(self, view: View, why: Reason) -> Decision:
        """Slots of the gangs, which with ``share`` run sequential jobs as well."""
        return two_level.decide(self.share, self._slots, view, why)

    def _slots(self, view: View, why: Reason) -> Decision:
        """The rest of the round, or a new one if the round is over or has just begun.

        A job that leaves during its slot gives up the rest of it. While the round
        has room, jobs join it at its end in the order of the pointer: a waiting job takes a free
        place before a newcomer. With ``insert`` new jobs get the next
        slots, outside the round's count. The memory holds the registration
        office at the beginning of the table.
        """
        memory = view.previous.memory if view.previous else _RoundMemory()
        here = {job.number: job for job in view.jobs}
        passed = view.slots_over(why)
        office = memory.office
        for job in memory.order[:passed]:
            office = registration_office.visited(office, job, self.rules())
        known = {node.job for node in office}
        office = registration_office.check_out(office, here)
        office = registration_office.register(office, (job for job in here if job not in known))
        turns = memory.order[passed:]
        begun = turns[:1] if view.elapsed_ns else ()
        taken = _still_taken(memory.taken, here, turns[len(begun) :])
        now = tuple(job for job in begun if job in here)
        rest = tuple(job for job in turns[len(begun) :] if job in here)
        round_ns = memory.round_ns
        if view.now_ns == round_ns or not now + rest:
            taken, round_ns, rest = {}, view.now_ns, ()
        order, all_taken = self._order(office, taken, now, rest)
        placed = {job: place for job, place in memory.placed.items() if job in here}
        placed |= {job: partitions.lowest(view, here[job].processes) for job in order}
        return self._decision(
            _RoundMemory(office, order, all_taken, round_ns, placed), view, view.elapsed_ns if now else 0
        )

    def _order(
        self, office: Office, taken: Mapping[int, int | None], now: tuple[int, ...], rest: tuple[int, ...]
    ) -> tuple[tuple[int, ...], Mapping[int, int | None]]:
        """The slots from ``now`` on, with inserted and joining jobs, and all jobs of the round."""
        unserved = (node.job for node in office if not node.level and not node.received)
        new = [job for job in unserved if self.insert and job not in now]
        taken = {**taken, **dict.fromkeys(new)}
        joined = registration_office.one_round(office, self.rules(), taken)
        levels = {node.job: node.level for node in office}
        later = (job for job in (*rest, *joined) if job not in new)
        return (*now, *new, *later), {**taken, **{job: levels[job] for job in joined}}

    def _decision(self, memory: _RoundMemory, view: View, elapsed_ns: int) -> Decision:
        processors = view.machine.processors
        levels = {node.job: node.level for node in memory.office}
        order, placements = memory.order, memory.placed
        if not order:
            return Decision({}, (Slot(((),) * processors),), memory=memory)
        slots = tuple(
            Slot(partitions.runs({job: placements[job]}, processors), self.quantum_ns(levels[job]))
            for job in order
        )
        first_ns = slots[0].length_ns or 0
        return Decision(
            placements, slots, cyclic=False, elapsed_ns=min(elapsed_ns, first_ns - 1), memory=memory
        )


def _still_taken(
    taken: Mapping[int, int | None], here: Mapping[int, Job], to_come: Sequence[int]
) -> dict[int, int | None]:
    """``taken`` without the jobs that left unserved, and those that left before the first that is still here.

    A slot counts for the round while a job waits that was served before it, or in it.
    """
    left = {job: level for job, level in taken.items() if job in here or job not in to_come}
    return dict(dropwhile(lambda item: item[0] not in here, left.items()))


@register("two-queue")
@dataclass(frozen=True)
class TwoQueue(_Queueing):
    """A service queue of N jobs in round robin; the others wait for a place in it.

    Attributes:
        service: places in the service queue (N); 0 for any number (round robin); 1 is batch.
        quantum_ms: length of a slot.
        share: whether "sequential" jobs share everybody's slots, as under ``gang``.
    """

    service: Places = 3
    quantum_ms: Quantum = 100.0
    share: Annotated[str, OneOf(two_level.SHARES)] = "none"
    source: ClassVar[str] = f"{PAPER}, section 3"

    def rules(self) -> Rules:
        """One level only."""
        return Rules(self.service, (0,))

    def quantum_ns(self, level: int) -> int:
        """The same for all levels."""
        return round(self.quantum_ms * 1e6)


@register("modified-two-queue")
@dataclass(frozen=True)
class ModifiedTwoQueue(_Queueing):
    """A two-queue system in which new jobs go first, for as many slots as a short job takes.

    Attributes:
        service: places in the service queue (N), 0 for any number.
        slots: slots that a new job gets before it counts as a long one (f_0).
        quantum_ms: length of a slot of a new job (q_0).
        long_quantum_ms: length of a slot of a long job.
        insert: whether a new job gets the next slot instead of waiting for the next round.
        share: whether "sequential" jobs share everybody's slots, as under ``gang``.
    """

    service: Places = 3
    slots: Annotated[int, Bounds(1, 1_000_000)] = 1
    quantum_ms: Quantum = 100.0
    long_quantum_ms: Quantum = 300.0
    insert: bool = False
    share: Annotated[str, OneOf(two_level.SHARES)] = "none"
    source: ClassVar[str] = f"{PAPER}, section 4"

    def rules(self) -> Rules:
        """Two levels; a job stays at the second."""
        return Rules(self.service, (self.slots, 0))

    def quantum_ns(self, level: int) -> int:
        """The slot of a new job, or of a long one."""
        return round((self.long_quantum_ms if level else self.quantum_ms) * 1e6)


@register("multilevel-two-queue")
@dataclass(frozen=True)
class MultilevelTwoQueue(_Queueing):
    """A two-queue system whose waiting queue has levels: a longer job gets fewer but longer slots.

    Attributes:
        service: places in the service queue (N), 0 for any number.
        slots: slots that a job gets at each level (f_l) before it goes to the next one, 0
            for any number; the last entry holds for all further levels.
        quanta_ms: length of a slot at each level (q_l), with the same rule for further levels.
        limits: most jobs of each level in the service queue, 0 for any number, with the same
            rule (the adaptive service queue).
        insert: whether a new job gets the next slot instead of waiting for the next round.
        share: whether "sequential" jobs share everybody's slots, as under ``gang``.
    """

    service: Places = 4
    slots: tuple[Places, ...] = (1, 8, 7)
    quanta_ms: tuple[Quantum, ...] = (100.0, 300.0, 500.0)
    limits: tuple[Places, ...] = (0,)
    insert: bool = False
    share: Annotated[str, OneOf(two_level.SHARES)] = "none"
    source: ClassVar[str] = f"{PAPER}, sections 4 and 5"

    def rules(self) -> Rules:
        """The parameters as rules."""
        return Rules(self.service, self.slots, self.limits)

    def quantum_ns(self, level: int) -> int:
        """The entry for ``level``; the last one holds for all further levels."""
        return round(self.quanta_ms[min(level, len(self.quanta_ms) - 1)] * 1e6)
