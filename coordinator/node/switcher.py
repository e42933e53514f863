"""Switches slots: at each boundary of a table some processes leave and others come.

This is the agent's core. It decides nothing and owns no socket; a mechanism holds and runs the processes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.decide.cycle import Cycle
from coordinator.host.mechanisms import Mechanism
from coordinator.host.processes import Process
from coordinator.host.slot_helper import SlotHelper
from coordinator.wire.protocol import Table

FREE, RUN, HOLD = range(3)
"""States of a process: left to the local scheduler, selected by the slot, kept from running."""

MOST_LOADED = 10_000
"""Slots times ranks of the largest table that the helper gets; loading a larger one takes too long."""

Changes = list[list["tuple[_Rank, int]"]]  # for each processor, in order: a rank and its new state


class Switching(NamedTuple):
    """A change of slot, as ``protocol.SwitchReport`` tells the driver.

    ``due_ns`` is the planned time, ``switch_delay_ns`` the delay of the last process,
    ``skew_ns`` the time between the first and the last processor.
    """

    slot: int
    due_ns: int
    switch_delay_ns: int
    skew_ns: int


@dataclass
class _Rank:
    job: int
    rank: int
    process: Process
    unplaced: int = FREE
    state: int = FREE


class Switcher:
    """Executes tables on adopted processes.

    Args:
        mechanism: holds and runs processes; None if the policy's slots exclude no process.
        clock: returns nanoseconds of the run's clock.
        helper: makes changes in C where nothing has to be looked up for them.
        announce: if given, without a helper, it gets the job and number of every rank after every change,
            and when the slots stop that rank (the two-minute warning); None as long as they let it run on.
        after_change: called after every change.
    """

    def __init__(
        self,
        mechanism: Mechanism | None,
        clock: Callable[[], int],
        helper: SlotHelper | None = None,
        announce: Callable[[int, int, int | None], None] | None = None,
        after_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._mechanism = mechanism
        self._clock = clock
        self._helper = helper
        self._announce = announce
        self._after_change = after_change
        self._ranks: dict[tuple[int, int], _Rank] = {}
        self._table: Table | None = None
        self._cycle: Cycle | None = None
        self._places: dict[tuple[int, int], int] = {}
        self._coming: list[Table] = []
        self._slot = 0
        self._due_ns: int | None = None
        self._prepared: tuple[int, Changes] | None = None
        self._loaded: list[list[tuple[_Rank, int]]] | None = None

    def adopt(self, job: int, rank: int, process: Process, unplaced: int = FREE) -> None:
        """Take over a rank; its state follows the table in force at once, or is ``unplaced``."""
        adopted = _Rank(job, rank, process, unplaced)
        self._ranks[job, rank] = adopted
        if self._mechanism is not None:
            self._mechanism.adopt(process, job, rank)
            if self._cycle is not None:
                self._carry_out(self._changes([adopted], self._cycle.slot_at(self._clock())[0]))
        self.forget()

    def drop(self, job: int, rank: int) -> None:
        dropped = self._ranks.pop((job, rank), None)
        self.forget()
        if dropped is not None and self._mechanism is not None:
            self._mechanism.drop(dropped.process)

    def forget(self) -> None:
        """Work out again how processes change: some have come, gone, or become families."""
        self._prepared = self._loaded = None

    def holds(self, job: int, rank: int) -> bool:
        adopted = self._ranks.get((job, rank))
        return adopted is not None and adopted.state == HOLD

    def hold_again(self, job: int, rank: int) -> None:
        """Keep a rank from running, with the processes that have come to its family, if its slot is over."""
        if self.holds(job, rank) and self._mechanism is not None:
            self._mechanism.hold(self._ranks[job, rank].process)

    def publish(self, table: Table) -> None:
        """Carry the table out from its ``from_ns`` on, in place of tables that begin then or later."""
        if self._mechanism is not None:  # else no table changes anything
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
            self._places = {(job, rank): p for job, rank, p in self._table.placements}
            self.forget()
        if self._cycle is None or self._mechanism is None:
            return None
        self._slot, end_ns = slot, _ = self._cycle.slot_at(now_ns)
        prepared, changes = self._prepared or (None, [])
        if slot != prepared:
            changes = self._changes(self._ranks.values(), slot)
        times = self._carry_out(changes)
        self._after_change()
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
        if end_ns is not None and self._cycle is not None and not self.ready():
            slot, _ = self._cycle.slot_at(end_ns)
            self._prepared = slot, self._changes(self._ranks.values(), slot)
        if self._announce is not None:
            changes = self._prepared[1] if self._prepared else []
            leaves = {id(rank) for changed in changes for rank, state in changed if state == HOLD}
            for rank in self._ranks.values():
                self._announce(rank.job, rank.rank, end_ns if id(rank) in leaves else None)

    def ready(self) -> bool:
        """Whether ``run_ahead`` can make the next changes."""
        if self._helper is None or self._coming or self._due_ns is None:
            return False
        if self._loaded is None:
            self._loaded = self._load(self._helper)
        return bool(self._loaded)

    def run_ahead(self, due_ns: int, descriptor: int, until_ns: int) -> list[Switching]:
        """Change slots when ``ready``, to ``until_ns`` or less long; times are on the node's clock."""
        assert self._helper is not None and self._loaded and self._due_ns is not None
        notes, self._slot, end_ns = self._helper.run(self._slot, due_ns, descriptor, until_ns)
        ahead_ns = self._due_ns - due_ns
        self._due_ns = end_ns + ahead_ns
        self._prepared = None
        for rank, state in self._loaded[self._slot] if notes else ():
            rank.state = state
        return [
            Switching(
                note.slot, note.due_ns + ahead_ns, note.last_ns - note.due_ns, note.last_ns - note.first_ns
            )
            for note in notes
        ]

    def _load(self, helper: SlotHelper) -> list[list[tuple[_Rank, int]]]:
        """Give the helper the table in force; returns all states in each slot, nothing if it is refused."""
        assert self._table is not None and self._mechanism is not None
        table = self._table
        ranks = tuple(self._ranks.values())
        lengths_ns = [length for length in table.lengths_ns if length is not None]
        endless = not table.cyclic or len(lengths_ns) < len(table.lengths_ns)
        if endless or len(lengths_ns) * len(ranks) > MOST_LOADED:
            return []
        states = [list(self._wanted(ranks, slot)) for slot in range(len(lengths_ns))]
        slots = []
        for slot, states_of_slot in enumerate(states):
            changes = (
                (p, rank, state)
                for (p, rank, state), before in zip(states_of_slot, states[slot - 1], strict=True)
                if state != before[2]
            )
            orders = {
                processor: [self._mechanism.order(rank.process, state == RUN) for rank, state in changed]
                for processor, changed in _by_processor(changes).items()
            }
            orders_of = {
                p: [order for order in all_orders if order is not None] for p, all_orders in orders.items()
            }
            if orders_of != orders:
                return []
            slots.append(orders_of)
        try:
            helper.load(lengths_ns, slots)
        except OSError:  # this user may have no more threads
            self._helper = None
            return []
        return [[(rank, state) for _, rank, state in states_of_slot] for states_of_slot in states]

    def release(self) -> None:
        """Free every process. If one of others is stopped in its slot, they have stopped it themselves."""
        for rank in self._ranks.values():
            if rank.state not in (FREE, RUN if rank.unplaced else FREE) and self._mechanism is not None:
                self._mechanism.free(rank.process)
                rank.state = FREE
        self.forget()

    def _changes(self, ranks: Iterable[_Rank], slot: int) -> Changes:
        """The changes that bring ``ranks`` to the state of ``slot``, on each processor."""
        targets = (one for one in self._wanted(ranks, slot) if one[2] != one[1].state)
        return list(_by_processor(targets).values())

    def _wanted(self, ranks: Iterable[_Rank], slot: int) -> Iterator[tuple[int, _Rank, int]]:
        """Processor, rank, and its state in ``slot``."""
        assert self._table is not None
        runs = self._table.runs[slot]
        allowed_ranks = set(self._table.allowed_ranks[slot]) if self._table.allowed_ranks else set()
        apart = {job for job, _ in allowed_ranks}
        for rank in ranks:
            # A rank without a place waits at its first or last line, where it does no harm.
            processor = self._places.get((rank.job, rank.rank), -1)
            chosen = rank.job not in apart or (rank.job, rank.rank) in allowed_ranks
            placed = HOLD if processor >= 0 else rank.unplaced
            state = RUN if processor >= 0 and chosen and rank.job in runs[processor] else placed
            yield processor, rank, state

    def _carry_out(self, changes: Changes) -> list[int]:
        """Make changes; returns, for each processor, the time after its last one."""
        assert self._mechanism is not None
        deeds = {FREE: self._mechanism.free, RUN: self._mechanism.run, HOLD: self._mechanism.hold}
        times = []
        for changed in changes:
            for rank, state in changed:
                deeds[state](rank.process)
                rank.state = state
            times.append(self._clock())
        return times


def _by_processor(changes: Iterable[tuple[int, _Rank, int]]) -> dict[int, list[tuple[_Rank, int]]]:
    """Changes of each processor in order: some leave, then others come."""
    by_processor: dict[int, list[tuple[_Rank, int]]] = {}
    for processor, rank, state in changes:
        by_processor.setdefault(processor, []).append((rank, state))
    return {p: sorted(changed, key=lambda change: -change[1]) for p, changed in sorted(by_processor.items())}
