"""Gang scheduling (coscheduling): all processes of a job run in the same slots. Also Slurm's, to compare."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from coordinator.policies import packing, partitions
from coordinator.policies.packing import LINEAR, PACKINGS, Seating, Seats
from coordinator.policies.registry import Places, TimeSlicing, register
from coordinator.view import Assignment, Decision, Reason, Slot, View
from workloads.parameters import OneOf
from workloads.validation import InputError


@dataclass(frozen=True)
class _Phases:
    together: Decision
    """The decision with slots that all processors change together."""
    first: int
    """The part of its first slot with which the table begins."""
    parts: int
    """How many parts each of its slots has."""


def _in_phases(slots: Callable[[View, Reason], Decision], view: View, reason: Reason) -> Decision:
    """The decision of ``slots``, a table of equal slots that repeats, with a phase for each processor.

    Of P processors, processor p changes p/P of a quantum after processor 0: each slot has P parts, and in
    part k the processors after k still run the slot before. So the processes of a job are coscheduled for
    a part of a slot only, as where nothing synchronises the processors' clocks.
    Source: Ousterhout 1982 (as described in the survey): all processors switch together.
    """
    decision = slots(_together(view), reason)
    processors = view.machine.processors
    quantum_ns = decision.slots[0].length_ns
    if quantum_ns is None:
        return replace(decision, state=_Phases(decision, 0, 1))
    ends_ns = [quantum_ns * (k + 1) // processors for k in range(processors)]
    begins_ns = [0, *ends_ns[:-1]]
    parts = [
        Slot((*now.runs[: k + 1], *before.runs[k + 1 :]), ends_ns[k] - begins_ns[k])
        for before, now in zip((decision.slots[-1], *decision.slots), decision.slots, strict=False)
        for k in range(processors)
    ]
    first = next(k for k, end_ns in enumerate(ends_ns) if decision.elapsed_ns < end_ns)
    return replace(
        decision,
        slots=(*parts[first:], *parts[:first]),
        elapsed_ns=decision.elapsed_ns - begins_ns[first],
        state=_Phases(decision, first, processors),
    )


def _together(view: View) -> View:
    """The view with the last decision as it was without phases."""
    if view.previous is None:
        return view
    state: _Phases = view.previous.state
    slot, part = divmod((view.slot + state.first) % len(view.previous.slots), state.parts)
    quantum_ns = state.together.slots[slot].length_ns or 0
    elapsed_ns = view.elapsed_ns + quantum_ns * part // state.parts
    return replace(view, previous=state.together, slot=slot, elapsed_ns=elapsed_ns)


FILLS = ("none", "jobs", "processes")


@dataclass(frozen=True)
class _SeatState:
    seats: Seating
    windows: tuple[int, ...]
    """Where each slot's window begins in the array of seats."""


@register("gang")
class Gang(TimeSlicing):
    """Rotating slots over an array of time slots by processors.

    Attributes:
        quantum_ms: length of a slot.
        packing: how jobs get their seats: "matrix", "continuous", "undivided" or "buddy",
            see :mod:`coordinator.policies.packing`.
        fill: what runs on processors that a slot leaves idle (alternate selection): "none",
            other "jobs" all of whose processors are idle, or single "processes" as well.
        unify: whether a departure joins rows whose jobs use different processors
            (slot unification; packings "matrix" and "buddy").
        migrate: whether a departure moves gangs to other processors if that empties a row
            (packings "matrix" and "buddy").
        rows: most jobs that share a processor (Ousterhout's A), 0 for any number; a job that
            finds no place waits, and later jobs wait behind it.
        share: with "sequential", jobs of one process have no slots to themselves, but may run in
            all slots (two-level scheduling); with "none", they have slots like other jobs.
        synchronised: whether all processors change slots together, or each at its own phase.
    """

    packing: Annotated[str, OneOf(PACKINGS)] = "matrix"
    fill: Annotated[str, OneOf(FILLS)] = "none"
    unify: bool = False
    migrate: bool = False
    rows: Places = 0
    share: partitions.Share = "none"
    synchronised: bool = True
    source = (
        "Ousterhout 1982 (as described in the survey); Feitelson and Rudolph 1990 (buddy blocks); "
        "Dusseau et al. 1996, section 3.4; Zhou et al. 1997, section 1 (share)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.migrate and self.packing in LINEAR:
            rule = f"needs rows to empty, which are not in the packing {self.packing!r}"
            raise InputError("migrate", True, rule, 'write packing = "matrix", or leave migrate out')

    @property
    def moves(self) -> bool:
        """Whether processes that run may change processors."""
        return self.migrate

    def decide(self, view: View, reason: Reason) -> Decision:
        """Slots of the gangs, which with ``share`` run sequential jobs as well."""
        gangs = partial(partitions.two_level, self.share, self._slots)
        return gangs(view, reason) if self.synchronised else _in_phases(gangs, view, reason)

    def _slots(self, view: View, reason: Reason) -> Decision:
        """A slot of a quantum for each window, in turn; a lone window is never interrupted.

        Jobs keep their processors until they leave or a processor is lost. The rotation continues in
        the middle of the slot that the event interrupted, or with the next slot if that one is empty
        now, so that many arrivals favour no job; newcomers wait for their turn.
        """
        seats, current, goes_on = _kept(view)
        before: _SeatState | None = view.state
        # Other events of the same instant may be graver reasons.
        ended = before is not None and not before.seats.keys() <= {job.number for job in view.jobs}
        if self.unify and self.packing not in LINEAR and ended:
            seats = packing.unify(seats, view.machine.processors)
        if self.migrate and ended:
            seats = packing.migrate(self.packing, seats, view.machine.processors, view.lost)
        self._seat(seats, view)
        windows = self._rotation(seats, current, view)
        return self._decision(seats, windows, view, goes_on and windows[:1] == (current,))

    def _rotation(self, seats: Seating, current: int, view: View) -> tuple[int, ...]:
        windows = packing.windows(seats, view.machine.processors, self.packing in LINEAR)
        before: _SeatState | None = view.state
        if self.packing in LINEAR or before is None:
            return tuple(sorted(windows, key=lambda window: window < current))
        turn = before.windows.index(current) if before.windows else 0
        here = frozenset(windows)
        rotation = dict.fromkeys(w for w in before.windows[turn:] + before.windows[:turn] if w in here)
        return (*rotation, *(w for w in windows if w not in rotation))

    def _seat(self, seats: dict[int, Seats], view: View) -> None:
        """Find seats for the jobs without any, in order of arrival; ``seats`` is modified in place."""
        come = [job for job in view.jobs if job.number not in seats]
        taken = set[int]().union(*seats.values()) if come else set()
        processors = view.machine.processors
        for job in come:
            place = packing.seat(
                self.packing, taken, job.processes, processors, rows=self.rows, lost=view.lost
            )
            if place is None:
                break
            seats[job.number] = place
            taken.update(place)

    def _decision(self, seats: Seating, windows: tuple[int, ...], view: View, goes_on: bool) -> Decision:
        processors = view.machine.processors
        before: _SeatState | None = view.state
        kept = before.seats if before else {}
        placements = {
            n: view.previous.placements[n]
            if view.previous and kept.get(n) is place
            else tuple(seat % processors for seat in place)
            for n, place in seats.items()
        }
        quantum_ns = self.quantum_ns if len(windows) > 1 else None
        order = sorted(placements, key=lambda n: seats[n][0])
        firsts = [seats[n][0] for n in order]
        slots = tuple(
            Slot(self._runs(order, bisect_left(firsts, start), placements, whole, processors), quantum_ns)
            for start, whole in zip(windows, packing.whole(seats, windows, processors), strict=True)
        ) or (Slot(((),) * processors),)
        elapsed_ns = min(view.elapsed_ns, quantum_ns - 1) if quantum_ns and goes_on else 0
        return Decision(placements, slots, elapsed_ns=elapsed_ns, state=_SeatState(seats, windows))

    def _runs(
        self,
        order: list[int],
        place: int,
        placements: partitions.Placements,
        gangs: Iterable[int],
        processors: int,
    ) -> Assignment:
        """The jobs that run in a window: its gangs, then others that fill idle processors.

        These come in the order of their seats, first the one at ``place``.
        """
        chosen = {n: placements[n] for n in gangs}
        if self.fill != "none":
            busy = set[int]().union(*chosen.values())
            following = order[place:] + order[:place]
            for n in following:
                if busy.isdisjoint(placements[n]):
                    chosen[n] = placements[n]
                    busy.update(placements[n])
        if self.fill == "processes":
            others = {n: placements[n] for n in reversed(following) if n not in chosen}
            chosen = others | chosen  # the last one has a processor
        return partitions.runs(chosen, processors)


def _kept(view: View) -> tuple[dict[int, Seats], int, bool]:
    """The seats that jobs keep, the current window, and whether a gang of that window continues."""
    before: _SeatState | None = view.state
    if before is None or not before.windows:
        return {}, 0, False
    processors = view.machine.processors
    here = {job.number for job in view.jobs}
    current = before.windows[min(view.slot, len(before.windows) - 1)]
    seats = {
        number: place
        for number, place in before.seats.items()
        if number in here and not (view.lost and any(seat % processors in view.lost for seat in place))
    }
    return seats, current, any(packing.whole(seats, [current], processors))
