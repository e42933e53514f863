"""Coscheduling of the processes that are seen to communicate, whatever else their jobs are."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

from coordinator.policies import packing
from coordinator.policies.partitions import Placements
from coordinator.policies.registry import TimeSlicing, register
from coordinator.policies.sharing import everywhere, shared
from coordinator.view import Decision, Reason, Slot, View
from workloads.parameters import Bounds

Member = tuple[int, int]
"""A process: the number of its job, and its rank."""

Groups = dict[Member, tuple[Member, ...]]
"""The groups that have turns, by their first processes: working sets, and by OTHERS all processes in none."""

OTHERS: Member = (-1, -1)


@register("working-sets")
class WorkingSets(TimeSlicing):
    """Slots for processes that get messages from each other often; the local schedulers share out the rest.

    A pair of processes communicates from the moment at which one of the two gets more than
    ``messages_per_ms`` messages of the other per millisecond of its CPU time, until neither gets
    half of that. The connected sets of these pairs are the activity working sets.

    Attributes:
        quantum_ms: length of a slot.
        observe_ms: least time from one look of a process at its messages to the next.
        messages_per_ms: as above.
    """

    observe_ms: Annotated[float, Bounds(1, 1e6)] = 50.0
    messages_per_ms: Annotated[float, Bounds(1e-6, 1e6)] = 0.25
    source = "Feitelson and Rudolph 1995; the survey, Demand-Based Coscheduling"
    allows_oversubscription = True

    @property
    def observation(self) -> Mapping[str, float]:
        """As in the base class."""
        return {"observe_ms": self.observe_ms, "messages_per_ms": self.messages_per_ms}

    def decide(self, view: View, reason: Reason) -> Decision:
        """A slot for each working set on several processors, in turn, and one for all other processes.

        Working sets without a processor in common share a slot. Other processes also run on processors
        that a slot leaves idle. Their own slot has as many quanta as there are of them on one processor.
        Without working sets there is one endless slot. The rotation goes on where it was interrupted. The
        state holds whose slots there are.
        """
        processors = view.machine.processors
        placements = everywhere(view)
        if not any(job.working_sets for job in view.jobs):
            state = ((OTHERS,),) if placements else ()
            return Decision(placements, (Slot(shared(placements, view)),), state=state)
        groups = _groups(view, placements)
        # The groups in the order of their turns: whose slot is in force first, and new ones last.
        last = view.state or ()
        present = [group for row in last[view.slot :] + last[: view.slot] for group in row if group in groups]
        order = (*present, *(group for group in groups if group not in present))
        rows = _rows(order, groups, placements, processors)
        if len(rows) < 2:
            return Decision(placements, (_slot(order, groups, placements, processors, None),), state=rows)
        goes_on = view.previous is not None and order[0] in view.previous.state[view.slot]
        elapsed_ns = view.elapsed_ns if goes_on else 0
        if elapsed_ns >= self._length_ns(rows[0], groups, placements):
            rows, elapsed_ns = (*rows[1:], rows[0]), 0
        slots = tuple(
            _slot(row, groups, placements, processors, self._length_ns(row, groups, placements))
            for row in rows
        )
        return Decision(placements, slots, elapsed_ns=elapsed_ns, state=rows)

    def _length_ns(self, row: tuple[Member, ...], groups: Groups, placements: Placements) -> int:
        quanta = 1
        if OTHERS in row:
            quanta = max(Counter(placements[job][rank] for job, rank in groups[OTHERS]).values())
        return quanta * self.quantum_ns


def _groups(view: View, placements: Placements) -> Groups:
    """The working sets on several processors, and the other processes if there are any."""
    groups: Groups = {}
    for job in view.jobs:
        place = placements[job.number]
        for ranks in job.working_sets:
            if len({place[rank] for rank in ranks}) > 1:
                groups[job.number, ranks[0]] = tuple((job.number, rank) for rank in ranks)
    together = {member for members in groups.values() for member in members}
    everybody = ((job, rank) for job, place in placements.items() for rank in range(len(place)))
    others = tuple(member for member in everybody if member not in together)
    return {**groups, OTHERS: others} if others else groups


def _rows(
    order: tuple[Member, ...], groups: Groups, placements: Placements, processors: int
) -> tuple[tuple[Member, ...], ...]:
    """The groups that share each slot: each is in the first row in which its processors are free."""
    seats = {}
    for number, group in enumerate(order):
        places = sorted({placements[job][rank] for job, rank in groups[group]})
        seats[number] = tuple(number * processors + place for place in places)
    joined = packing.unify(seats, processors)
    rows: dict[int, tuple[Member, ...]] = {}
    for number, group in enumerate(order):
        row = joined[number][0] // processors
        rows[row] = (*rows.get(row, ()), group)
    return tuple(rows.values())


def _slot(
    row: tuple[Member, ...], groups: Groups, placements: Placements, processors: int, length_ns: int | None
) -> Slot:
    """The slot of these groups, in which other processes have the processors that they do not use."""
    runs = {member for group in row for member in groups[group]}
    busy = {placements[job][rank] for job, rank in runs}
    runs |= {(job, rank) for job, rank in groups.get(OTHERS, ()) if placements[job][rank] not in busy}
    ranks: dict[int, list[int]] = {}
    for job, rank in runs:
        ranks.setdefault(job, []).append(rank)
    there: list[tuple[int, ...]] = [()] * processors
    for job, place in placements.items():
        for processor in {place[rank] for rank in ranks.get(job, ())}:
            there[processor] += (job,)
    divided = [job for job, chosen in ranks.items() if len(chosen) < len(placements[job])]
    allowed_ranks = tuple(sorted((job, rank) for job in divided for rank in ranks[job]))
    return Slot(tuple(there), length_ns, allowed_ranks)
