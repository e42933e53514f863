"""Gang scheduling with a service queue and a waiting queue: the two-queue systems.

One job at a time has the whole machine, rank r on the r-th processor that is not lost. The pointer of the
registration office chooses the next job. The office is a list of jobs: every node has its level l and the
number f of slots that its job has received at that level. From left to right both are nonincreasing: the
jobs with most service are on the left, newcomers on the right. The pointer visits levels from 0 (new jobs)
down and each level from left to right. A job that has received its f_l slots goes to level l + 1 with f = 0;
it is then the rightmost there, so no node ever moves in the list.
Source: Zhou, Brent, Qu 1997, sections 2 to 5.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import Annotated, TypeVar

from coordinator.policies import partitions
from coordinator.policies.registry import Places, Policy, Quantum, register
from coordinator.view import Decision, Job, Reason, Slot, View
from workloads.parameters import Bounds

PAPER = "Zhou, Brent, Qu 1997"


@dataclass(frozen=True)
class Registration:
    """A registered job. ``received`` is f: slots that it has received at ``level``."""

    job: int
    level: int = 0
    received: int = 0


@dataclass(frozen=True)
class Rules:
    """The rules by which the pointer moves.

    Attributes:
        service: jobs that a round serves (N), 0 for all.
        slots: slots at each level (f_l), 0 for any number; the last one also holds for all levels below it.
        limits: most jobs of each level in a round, 0 for any number; the last one also holds for all levels
            below it (the adaptive service queue).
        quanta_ms: length of a slot at each level, with the same rule.
    """

    service: int
    slots: tuple[int, ...]
    limits: tuple[int, ...] = (0,)
    quanta_ms: tuple[float, ...] = (100.0,)


Office = tuple[Registration, ...]
N = TypeVar("N", int, float)


def at(values: tuple[N, ...], level: int) -> N:
    """The value for ``level``; the last one holds for all further levels."""
    return values[min(level, len(values) - 1)]


def registered(office: Office, jobs: Iterable[int]) -> Office:
    """The office with new jobs at the right end, at level 0."""
    return office + tuple(Registration(job) for job in jobs)


def check_out(office: Office, here: Iterable[int]) -> Office:
    """The office with only the jobs that are ``here``."""
    stay = set(here)
    return tuple(node for node in office if node.job in stay)


def visited(office: Office, job: int, rules: Rules) -> Office:
    """The office after ``job`` has received one more slot."""
    return tuple(_served(node, rules) if node.job == job else node for node in office)


def _served(node: Registration, rules: Rules) -> Registration:
    allowed = at(rules.slots, node.level)
    if allowed and node.received + 1 >= allowed:
        return Registration(node.job, node.level + 1, 0)
    return replace(node, received=node.received + 1)


def one_round(office: Office, rules: Rules, taken: Mapping[int, int | None] | None = None) -> tuple[int, ...]:
    """The jobs that the pointer must still visit in a round, in order.

    ``taken`` holds the jobs that the round has visited or will visit, each with its level at that
    time, or None if it does not count. The pointer visits no job twice.
    """
    levels = [level for level in (taken or {}).values() if level is not None]
    counts = Counter(levels)
    served: list[int] = []
    for node in sorted(office, key=lambda node: node.level):  # stable: left to right
        limit = at(rules.limits, node.level)
        full = rules.service and len(levels) + len(served) >= rules.service
        if full or (limit and counts[node.level] >= limit) or node.job in (taken or {}):
            continue
        served.append(node.job)
        counts[node.level] += 1
    return tuple(served)


@dataclass(frozen=True)
class _RoundState:
    office: Office = ()
    """At the beginning of the table."""
    order: tuple[int, ...] = ()
    """The jobs of the table's slots."""
    taken: Mapping[int, int | None] = field(default_factory=dict)
    """The jobs that the round has taken, in order: see ``one_round``."""
    round_ns: int = 0
    """When the round began."""
    placed: partitions.Placements = field(default_factory=dict)
    """The jobs that have begun."""


class _Queueing(Policy):
    """Each slot has one job; a table is the rest of a round."""

    stops_processes = True
    insert: bool = False
    share: partitions.Share = "none"

    @abstractmethod
    def rules(self) -> Rules:
        """The rules by which the pointer moves."""

    def decide(self, view: View, reason: Reason) -> Decision:
        return partitions.two_level(self.share, self._slots, view, reason)

    def _slots(self, view: View, reason: Reason) -> Decision:
        """The rest of the round, or a new one if the round is over or has just begun.

        A job that leaves during its slot gives up the rest of it. While the round
        has room, jobs join it at its end in the order of the pointer: a waiting job takes a free
        place before a newcomer. With ``insert`` new jobs get the next
        slots, outside the round's count. The state holds the registration
        office at the beginning of the table.
        """
        state = view.state or _RoundState()
        here = {job.number: job for job in view.jobs}
        passed = view.slots_over(reason)
        office = state.office
        for job in state.order[:passed]:
            office = visited(office, job, self.rules())
        jobs = {node.job for node in office}
        office = check_out(office, here)
        office = registered(office, (job for job in here if job not in jobs))
        turns = state.order[passed:]
        current = turns[:1] if view.elapsed_ns else ()
        taken = _still_taken(state.taken, here, turns[len(current) :])
        now = tuple(job for job in current if job in here)
        rest = tuple(job for job in turns[len(current) :] if job in here)
        round_ns = state.round_ns
        if view.now_ns == round_ns or not now + rest:
            taken, round_ns, rest = {}, view.now_ns, ()
        order, all_taken = self._order(office, taken, now, rest)
        placed = {job: place for job, place in state.placed.items() if job in here}
        placed |= {job: partitions.lowest(view, here[job].processes) for job in order}
        return self._decision(
            _RoundState(office, order, all_taken, round_ns, placed), view, view.elapsed_ns if now else 0
        )

    def _order(
        self, office: Office, taken: Mapping[int, int | None], now: tuple[int, ...], rest: tuple[int, ...]
    ) -> tuple[tuple[int, ...], Mapping[int, int | None]]:
        """The slots from ``now`` on, with inserted and joining jobs, and all jobs of the round."""
        unserved = (node.job for node in office if not node.level and not node.received)
        new = [job for job in unserved if self.insert and job not in now]
        taken = {**taken, **dict.fromkeys(new)}
        joined = one_round(office, self.rules(), taken)
        levels = {node.job: node.level for node in office}
        later = (job for job in (*rest, *joined) if job not in new)
        return (*now, *new, *later), {**taken, **{job: levels[job] for job in joined}}

    def _decision(self, state: _RoundState, view: View, elapsed_ns: int) -> Decision:
        processors = view.machine.processors
        levels = {node.job: node.level for node in state.office}
        order, placements = state.order, state.placed
        if not order:
            return Decision({}, (Slot(((),) * processors),), state=state)
        quanta_ms = self.rules().quanta_ms
        slots = tuple(
            Slot(partitions.runs({job: placements[job]}, processors), round(at(quanta_ms, levels[job]) * 1e6))
            for job in order
        )
        first_ns = slots[0].length_ns or 0
        return Decision(
            placements, slots, cyclic=False, elapsed_ns=min(elapsed_ns, first_ns - 1), state=state
        )


def _still_taken(
    taken: Mapping[int, int | None], here: Mapping[int, Job], to_come: Sequence[int]
) -> dict[int, int | None]:
    """``taken`` without those that left unserved, and without those before the first that is still here."""
    remaining = {job: level for job, level in taken.items() if job in here or job not in to_come}
    return dict(dropwhile(lambda item: item[0] not in here, remaining.items()))


@register("two-queue")
class TwoQueue(_Queueing):
    """A service queue of N jobs in round robin; the others wait for a place in it.

    Attributes:
        service: places in the service queue (N); 0 for any number (round robin); 1 is batch.
        quantum_ms: length of a slot.
        share: whether "sequential" jobs share the slots of all jobs, as under ``gang``.
    """

    service: Places = 3
    quantum_ms: Quantum = 100.0
    share: partitions.Share = "none"
    source = f"{PAPER}, section 3"

    def rules(self) -> Rules:
        """One level only."""
        return Rules(self.service, (0,), quanta_ms=(self.quantum_ms,))


@register("modified-two-queue")
class ModifiedTwoQueue(_Queueing):
    """A two-queue system in which new jobs go first, for as many slots as a short job takes.

    Attributes:
        service: places in the service queue (N), 0 for any number.
        slots: slots that a new job gets before it counts as a long one (f_0).
        quantum_ms: length of a slot of a new job (q_0).
        long_quantum_ms: length of a slot of a long job.
        insert: whether a new job gets the next slot instead of waiting for the next round.
        share: whether "sequential" jobs share the slots of all jobs, as under ``gang``.
    """

    service: Places = 3
    slots: Annotated[int, Bounds(1, 1_000_000)] = 1
    quantum_ms: Quantum = 100.0
    long_quantum_ms: Quantum = 300.0
    insert: bool = False
    share: partitions.Share = "none"
    source = f"{PAPER}, section 4"

    def rules(self) -> Rules:
        """Two levels; a job stays at the second."""
        return Rules(self.service, (self.slots, 0), quanta_ms=(self.quantum_ms, self.long_quantum_ms))


@register("multilevel-two-queue")
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
        share: whether "sequential" jobs share the slots of all jobs, as under ``gang``.
    """

    service: Places = 4
    slots: tuple[Places, ...] = (1, 8, 7)
    quanta_ms: tuple[Quantum, ...] = (100.0, 300.0, 500.0)
    limits: tuple[Places, ...] = (0,)
    insert: bool = False
    share: partitions.Share = "none"
    source = f"{PAPER}, sections 4 and 5"

    def rules(self) -> Rules:
        """The parameters as rules."""
        return Rules(self.service, self.slots, self.limits, self.quanta_ms)
