"""Slots that begin on each processor at a phase of its own, in place of slots that all change together.

Of P processors, processor p changes p/P of a quantum after processor 0. So the processes of a job are
coscheduled for a part of a slot only, as where nothing synchronises the processors' clocks.
Source: Ousterhout 1982 (as described in the survey): all processors switch together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from coordinator.view import Decision, Reason, Slot, View


@dataclass(frozen=True)
class _Phases:
    together: Decision
    """The decision with slots that all processors change together."""
    first: int
    """The part of its first slot with which the table begins."""
    parts: int
    """How many parts each of its slots has."""


def decide(
    synchronised: bool, slots: Callable[[View, Reason], Decision], view: View, why: Reason
) -> Decision:
    """The decision of ``slots``, a table of equal slots that repeats, unless not ``synchronised``.

    Then it is the same table with phases: each slot has P parts, and in part k the processors after k
    still run the slot before.
    """
    if synchronised:
        return slots(view, why)
    decision = slots(_together(view), why)
    processors = view.machine.processors
    quantum_ns = decision.slots[0].length_ns
    if quantum_ns is None:
        return replace(decision, memory=_Phases(decision, 0, 1))
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
        memory=_Phases(decision, first, processors),
    )


def _together(view: View) -> View:
    """The view with the last decision as it was without phases."""
    if view.previous is None:
        return view
    memory: _Phases = view.previous.memory
    slot, part = divmod((view.slot + memory.first) % len(view.previous.slots), memory.parts)
    quantum_ns = memory.together.slots[slot].length_ns or 0
    elapsed_ns = view.elapsed_ns + quantum_ns * part // memory.parts
    return replace(view, previous=memory.together, slot=slot, elapsed_ns=elapsed_ns)
