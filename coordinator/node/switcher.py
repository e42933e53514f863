"""Switches slots: at each boundary of a table some processes leave and others come.

This is the agent's core. It decides nothing and owns no socket; a mechanism holds and runs the
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.decide.cycle import Cycle
from coordinator.host.mechanisms import Mechanism
from coordinator.host.processes import Process
from coordinator.wire.protocol import Table

FREE, RUN, HOLD = range(3)
"""States of a process: left to the local scheduler, selected by the slot, kept from running."""

Changes = list[list["tuple[Callable[[Process], None], _Rank, int]"]]
"""For each processor, in order: a deed of the mechanism, the rank, and its state after the deed."""


class Switching(NamedTuple):
    """A change of slot, as ``protocol.SwitchReport`` tells the driver.

    ``due_ns`` is the planned time, ``lateness_ns`` the delay of the last process,
    ``skew_ns`` the time between the first and the last processor.
    """

    slot: int
    due_ns: int
    lateness_ns: int
    skew_ns: int


@dataclass
class _Rank:
    job: int
    rank: int
    process: Process
    state: int = FREE


class Switcher:
    """Carries out tables on adopted processes.

    Args:
        mechanism: holds and runs processes; None if the policy's slots exclude nobody.
        clock: returns nanoseconds of the run's clock.
    """

    def __init__(self, mechanism: Mechanism | None, clock: Callable[[], int]) -> None:
        self._mechanism = mechanism
        self._clock = clock
        self._ranks: dict[tuple[int, int], _Rank] = {}
        self._table: Table | None = None
        self._cycle: Cycle | None = None
        self._places: dict[tuple[int, int], int] = {}
        self._coming: list[Table] = []
        self._due_ns: int | None = None
        self._prepared: tuple[int, Changes] | None = None

    def adopt(self, job: int, rank: int, process: Process) -> None:
        """Take over a rank; its state follows the table in force at once."""
        adopted = _Rank(job, rank, process)
        self._ranks[job, rank] = adopted
        if self._mechanism is not None:
            self._mechanism.adopt(process, job, rank)
            if self._cycle is not None:
                self._carry_out(self._changes([adopted], self._cycle.slot_at(self._clock())[0]))
        self._prepared = None

    def drop(self, job: int, rank: int) -> None:
        """Forget a rank that has gone."""
        self._ranks.pop((job, rank), None)
        self._prepared = None

    def holds(self, job: int, rank: int) -> bool:
        """Whether the rank is kept from running at this moment."""
        adopted = self._ranks.get((job, rank))
        return adopted is not None and adopted.state == HOLD

    def publish(self, table: Table) -> None:
        """Carry the table out from its ``from_ns`` on, in place of tables that begin then or later."""
        self._coming = [other for other in self._coming if other.from_ns < table.from_ns] + [table]

    def due_ns(self) -> int | None:
        """When ``switch`` must be called next; None if only a new table can change something."""
        if self._mechanism is None:
            return None
        ends = [self._due_ns] if self._due_ns is not None else []
        return min([*ends, *(table.from_ns for table in self._coming[:1])], default=None)

    def switch(self, now_ns: int) -> Switching | None:
        """Bring all processes to the state that ``now_ns`` asks for; None if nothing changed."""
        due_ns = self.due_ns()
        while self._coming and self._coming[0].from_ns <= now_ns:
            self._table = self._coming.pop(0)
            self._cycle = Cycle(self._table.start_ns, self._table.lengths_ns, self._table.cyclic)
            self._places = {(job, rank): p for job, ranks in self._table.placements for rank, p in ranks}
            self._prepared = None
        if self._cycle is None or self._mechanism is None:
            return None
        slot, end_ns = self._cycle.slot_at(now_ns)
        prepared, changes = self._prepared or (None, [])
        if slot != prepared:
            changes = self._changes(self._ranks.values(), slot)
        times = self._carry_out(changes)
        # After the end of a table that is not cyclic, there is nothing to wait for.
        self._due_ns = end_ns if end_ns is not None and end_ns > now_ns else None
        self._prepare(self._due_ns)
        if not times:
            return None
        if due_ns is None or due_ns > now_ns:
            due_ns = now_ns
        return Switching(slot, due_ns, times[-1] - due_ns, times[-1] - times[0])

    def _prepare(self, end_ns: int | None) -> None:
        """Work out what changes when the slot in force ends, so that the next switch takes less time."""
        self._prepared = None
        if end_ns is not None and self._cycle is not None:
            slot, _ = self._cycle.slot_at(end_ns)
            self._prepared = slot, self._changes(self._ranks.values(), slot)

    def release(self) -> None:
        """Free every process."""
        for rank in self._ranks.values():
            if rank.state != FREE and self._mechanism is not None:
                self._mechanism.free(rank.process)
                rank.state = FREE
        self._prepared = None

    def _changes(self, ranks: Iterable[_Rank], slot: int) -> Changes:
        """What brings ``ranks`` to the state of ``slot``: on each processor some leave, then others come."""
        assert self._table is not None and self._mechanism is not None
        placements = self._places
        runs = self._table.runs[slot]
        only = self._table.only[slot] if self._table.only else ()
        apart = {job for job, _ in only}
        changes: dict[int, list[tuple[int, _Rank]]] = {}
        for rank in ranks:
            # A rank without a place waits at its first or last line, where it harms nobody.
            processor = placements.get((rank.job, rank.rank), -1)
            chosen = rank.job not in apart or (rank.job, rank.rank) in only
            wanted = FREE if processor < 0 else RUN if chosen and rank.job in runs[processor] else HOLD
            if wanted != rank.state:
                changes.setdefault(processor, []).append((wanted, rank))
        deeds = {FREE: self._mechanism.free, RUN: self._mechanism.run, HOLD: self._mechanism.hold}
        return [
            [(deeds[wanted], rank, wanted) for wanted, rank in sorted(changed, key=lambda change: -change[0])]
            for _, changed in sorted(changes.items())
        ]

    def _carry_out(self, changes: Changes) -> list[int]:
        """Make changes; returns, for each processor, the time after its last one."""
        times = []
        for changed in changes:
            for deed, rank, state in changed:
                deed(rank.process)
                rank.state = state
            times.append(self._clock())
        return times
