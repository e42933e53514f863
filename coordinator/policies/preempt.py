"""Tiers of jobs: those of a higher tier take processors from those below, as partitions of Slurm do.

Each tier is a queue of its own (:mod:`coordinator.policies.ordered`). To it, processors of higher tiers are
in use, and those of lower ones are free.
"""

import math
from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Annotated

from coordinator.policies import partitions
from coordinator.policies.ordered import BACKFILLS, QUEUES, Ordered, Promises
from coordinator.policies.registry import TimeSlicing, register
from coordinator.view import Assignment, Decision, Job, Placement, Reason, Slot, View
from workloads.parameters import Bounds, Numbers, OneOf, TableOfNumbers

SUSPEND, REQUEUE, GANG = MODES = ("suspend", "requeue", "gang")

UNLISTED = 1
"""The tier of jobs whose partition has none, as in Slurm."""

NOBODY = -1
"""Below all tiers."""

Row = tuple[int, int]
"""A row of a tier, (tier, number): jobs that share no processor."""


@dataclass(frozen=True)
class _State:
    rows: Mapping[int, Row] = field(default_factory=dict)
    """The row of each job that has processors, or waits for those that it has claimed."""
    claims: partitions.Placements = field(default_factory=dict)
    """The processors of jobs that wait for the end of a grace."""
    grace_ends_ns: Mapping[int, int] = field(default_factory=dict)
    """When the job below them loses its processors."""
    promises: Mapping[Row, Promises] = field(default_factory=dict)
    rotations: Mapping[int, tuple[Row, ...]] = field(default_factory=dict)
    """Rows that take turns, those of the first slot first."""


@register("preempt")
class Preempt(TimeSlicing):
    """Jobs of a higher tier suspend those of lower tiers, requeue them, or share slots with them.

    Attributes:
        quantum_ms: length of a slot, where jobs take turns.
        mode: what becomes of a job whose processors a job of a higher tier takes: "suspend" stops it until
            all of its processors are its own again, "requeue" ends it and puts it back into the queue, and
            under "gang" both run in turn.
        tiers: the tier of each partition, such as { debug = 2, batch = 1 }; of others and of jobs without a
            partition 1.
        grace_s: how long a job continues alone after a job of a higher tier has claimed its processors;
            under "gang" none has to wait for a job that gives way already.
        rows: most jobs of one tier that share a processor in turn.
        order: as under ``ordered``, among the jobs of a tier.
        backfill: as under ``ordered``, among the jobs of a tier.
    """

    mode: Annotated[str, OneOf(MODES)] = SUSPEND
    tiers: Annotated[Numbers, TableOfNumbers(Bounds(0, 65_533, whole=True))] = Numbers()
    grace_s: Annotated[float, Bounds(0, 1e7)] = 0.0
    rows: Annotated[int, Bounds(1, 4)] = 1
    order: Annotated[str, OneOf(tuple(QUEUES))] = "fcfs"
    backfill: Annotated[str, OneOf(tuple(BACKFILLS))] = "none"
    source = "Slurm, PreemptType=preempt/partition_prio with PreemptMode=SUSPEND,GANG and REQUEUE"

    @property
    def relocates(self) -> bool:
        """Whether jobs that have begun may lose their processors."""
        return self.mode == REQUEUE

    def tier(self, job: Job) -> int:
        """The tier of a job's partition."""
        return int(dict(self.tiers).get(job.submitter.partition, UNLISTED))

    @property
    def queue(self) -> Ordered:
        """The rule by which jobs of a tier start."""
        return Ordered(self.order, self.backfill)

    def decide(self, view: View, reason: Reason) -> Decision:
        """Let the tiers take processors, the highest first; then say who runs when."""
        board = _Board(self, view)
        for tier in sorted({self.tier(job) for job in view.jobs}, reverse=True):
            board.fill(tier, reason)
        return board.decision()


class _Board:
    """The processors while a decision is made."""

    def __init__(self, policy: Preempt, view: View) -> None:
        self._policy = policy
        self._view = view
        self._before: _State = view.state or _State()
        self._tiers = {job.number: policy.tier(job) for job in view.jobs}
        # A job that had not begun on a lost node starts again elsewhere.
        running = partitions.still_running(view)
        self._placed = {number: place for number, place in running.items() if view.lost.isdisjoint(place)}
        self._claims = {
            number: place
            for number, place in self._before.claims.items()
            if number in self._tiers and view.lost.isdisjoint(place)
        }
        held = self._held()
        self._rows = {number: row for number, row in self._before.rows.items() if number in held}
        self._promises = dict(self._before.promises)
        slots = view.previous.slots if view.previous else ()
        self._ran = frozenset(chain.from_iterable(jobs for slot in slots for jobs in slot.runs))
        self._grace_ends_ns: dict[int, int] = {}
        self._vacates: list[int] = []

    def fill(self, tier: int, reason: Reason) -> None:
        """Start jobs of a tier, row by row, as long as one starts; the tiers above it come first."""
        for number in [number for number in self._claims if self._tiers[number] == tier]:
            self._take(number, self._claims.pop(number))
        while any(self._start((tier, row), reason) for row in range(self._policy.rows)):
            pass

    def _held(self) -> partitions.Placements:
        return {**self._placed, **self._claims}

    def _start(self, row: Row, reason: Reason) -> bool:
        """Start the jobs that the queue of the row's tier lets start; returns whether any does."""
        tier, _ = row
        view, held = self._view, self._held()
        above = _apart({number: place for number, place in held.items() if self._tiers[number] > tier})
        ours = {number: place for number, place in held.items() if self._rows[number] == row}
        busy = {**above, **ours}
        seen = replace(
            view,
            jobs=tuple(
                job
                for job in view.jobs
                if job.number in busy or (self._tiers[job.number] == tier and job.number not in held)
            ),
            previous=Decision(busy, (), state=self._promised(row, busy)),
        )
        answer = self._policy.queue.decide(seen, reason)
        if answer.state is not None:
            self._promises[row] = answer.state
        open_here = set(range(view.machine.processors)).difference(view.lost, *busy.values())
        come = [number for number in answer.placements if number not in busy]
        for number in come:
            place = self._choose(len(answer.placements[number]), open_here)
            open_here.difference_update(place)
            self._rows[number] = row
            self._take(number, place)
        return bool(come)

    def _promised(self, row: Row, busy: partitions.Placements) -> Promises:
        """What estimates have promised to the row's jobs, with the starts of those of other rows."""
        begins_ns = ChainMap(*(dict(promises.begins_ns) for promises in self._promises.values()))
        before, held = self._promises.get(row, Promises()), self._held()
        starts_ns = {number: at_ns for number, at_ns in before.starts_ns.items() if number not in held}
        return Promises({number: begins_ns[number] for number in busy if number in begins_ns}, starts_ns)

    def _choose(self, size: int, open_here: Collection[int]) -> Placement:
        """Processors for a job as Slurm chooses them: without a job, and of tiers as low as possible.

        A job that is suspended has no use of the rest of its processors, but is not lost: the lowest
        processors are taken. Jobs are requeued in turn, the oldest first, and none that could stay.
        """
        jobs_on: dict[int, list[int]] = {processor: [] for processor in sorted(open_here)}
        for number, place in self._held().items():
            for processor in jobs_on.keys() & {*place}:
                jobs_on[processor].append(number)
        if self._policy.mode == REQUEUE:
            lost = self._fewest(size, jobs_on)
            return tuple(p for p, jobs in jobs_on.items() if lost.issuperset(jobs))[:size]
        tier_of = {p: max((self._tiers[n] for n in jobs), default=NOBODY) for p, jobs in jobs_on.items()}
        least = sorted(tier_of.values())[size - 1]
        return tuple(processor for processor, tier in tier_of.items() if tier <= least)[:size]

    def _fewest(self, size: int, jobs_on: Mapping[int, list[int]]) -> frozenset[int]:
        """Jobs without which ``size`` of these processors are free, and of which none could stay."""
        lost: list[int] = []

        def enough(without: Collection[int]) -> bool:
            return sum(all(n in without for n in jobs) for jobs in jobs_on.values()) >= size

        here = {number for jobs in jobs_on.values() for number in jobs}
        arrival_ns = {job.number: job.arrival_ns for job in self._view.jobs}
        in_turn = sorted(here, key=lambda number: (self._tiers[number], arrival_ns[number], number))
        while not enough(lost):
            lost.append(in_turn.pop(0))
        for number in lost[::-1]:
            if enough(others := [other for other in lost if other != number]):
                lost = others
        return frozenset(lost)

    def _take(self, number: int, place: Placement) -> None:
        """Place a job, or let it claim the processors as long as a job below it has a grace."""
        now_ns, tier = self._view.now_ns, self._tiers[number]
        below = [n for n, on in self._held().items() if self._tiers[n] < tier and not {*on}.isdisjoint(place)]
        for other in below:
            if self._claims.pop(other, None):
                del self._rows[other]
        victims = [other for other in below if other in self._placed]
        grace_ns = round(self._policy.grace_s * 1e9)
        for other in victims if grace_ns else ():
            if other in self._ran and not self._gives_way(other):
                end_ns = self._before.grace_ends_ns.get(other, now_ns + grace_ns)
                self._grace_ends_ns[other] = end_ns
        if any(self._grace_ends_ns.get(other, now_ns) > now_ns for other in victims):
            self._claims[number] = place
            return
        self._placed[number] = place
        for other in victims if self._policy.mode == REQUEUE else ():
            self._vacates.append(other)
            del self._placed[other], self._rows[other]

    def _gives_way(self, number: int) -> bool:
        """Whether a job shares processors with one of a higher tier, so that its grace is over."""
        here = {*self._placed[number]}
        above = (place for other, place in self._placed.items() if self._tiers[other] > self._tiers[number])
        return not all(map(here.isdisjoint, above))

    def decision(self) -> Decision:
        """The placements, and a slot for each turn of the rows."""
        view, quantum_ns = self._view, self._policy.quantum_ns
        rotations = self._rotations()
        fronts = {group: rows[0] for group, rows in rotations.items()}
        runs = [
            self._runs(row for rows in rotations.values() for row in _turned(rows, turn))
            for turn in range(math.lcm(*map(len, rotations.values())))
        ]
        alike = len({*runs}) == 1
        were = {group: _turned(rows, view.slot)[0] for group, rows in self._before.rotations.items()}
        goes_on = not alike and all(fronts.get(group, front) == front for group, front in were.items())
        ends_ns = [end_ns for end_ns in self._grace_ends_ns.values() if end_ns > view.now_ns]
        rows = {number: self._rows[number] for number in self._held()}
        return Decision(
            self._placed,
            tuple(Slot(each, None if alike else quantum_ns) for each in (runs[:1] if alike else runs)),
            elapsed_ns=min(view.elapsed_ns, quantum_ns - 1) if goes_on else 0,
            state=_State(rows, self._claims, self._grace_ends_ns, self._promises, rotations),
            timer_ns=min(ends_ns) - view.now_ns if ends_ns else None,
            vacates=tuple(self._vacates),
        )

    def _rotations(self) -> dict[int, tuple[Row, ...]]:
        """The rows that take turns with each other: those of a tier, or all of them under "gang"."""
        together: dict[int, list[Row]] = {}
        for row in sorted({self._rows[number] for number in self._placed}, key=lambda row: (-row[0], row[1])):
            together.setdefault(0 if self._policy.mode == GANG else row[0], []).append(row)
        rotations = {}
        for group, rows in together.items():
            before = _turned(self._before.rotations.get(group, ()), self._view.slot)
            kept = [row for row in before if row in rows]
            rotations[group] = (*kept, *(row for row in rows if row not in kept))
        return rotations

    def _runs(self, rows: Iterable[Row]) -> Assignment:
        """The jobs of these rows that find all of their processors idle, in this order."""
        chosen: partitions.Placements = {}
        busy: set[int] = set()
        for row in rows:
            for number, place in self._placed.items():
                if self._rows[number] == row and busy.isdisjoint(place):
                    chosen[number] = place
                    busy.update(place)
        return partitions.runs(chosen, self._view.machine.processors)


def _apart(placements: partitions.Placements) -> partitions.Placements:
    """The same processors, each with the first of its jobs only."""
    taken: set[int] = set()
    apart = {}
    for number, place in placements.items():
        if mine := tuple(processor for processor in place if processor not in taken):
            apart[number] = mine
            taken.update(mine)
    return apart


def _turned(rows: tuple[Row, ...], turns: int) -> tuple[Row, ...]:
    """A rotation after so many slots."""
    first = turns % len(rows) if rows else 0
    return rows[first:] + rows[:first]
