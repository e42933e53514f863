"""What may be done about processes that lose their processors in critical sections, by name.

`docs/policies.md` compares them. The do-not-preempt bit has a key of its own, since it has bounds of its own.
"""

from __future__ import annotations

from typing import NamedTuple

NO_REMEDY, WARNING, CONSCIOUS, INHERITANCE, ACTIVATIONS = range(5)

REMEDIES = {
    "none": NO_REMEDY,
    "warning": WARNING,
    "activations": ACTIVATIONS,
    "conscious": CONSCIOUS,
    "inheritance": INHERITANCE,
}
"""The remedies. ``warning``: Psyche's two-minute warning. ``activations``: as scheduler activations do, a
stopped holder runs on in the place of another process of its job, until it leaves. ``conscious``:
scheduler-conscious synchronization, locks go to processes that run, and processes spin for those that run.
``inheritance``: whoever spins lifts the holder of the lock above others."""

OF_SLOTS = ("warning", "activations")
"""Those that say something about slots, and so need slots of ours."""


HOLDER_CHECK_NS = 10_000
"""How often a process that spins under ``conscious`` or ``inheritance`` looks whether the holder runs."""


class Remedy(NamedTuple):
    """One of REMEDIES with its parameters.

    Attributes:
        kind: a value of REMEDIES.
        warning_ns: how long before the end of its slot a process enters no section any more; 0 without.
        holder_check_ns: how often who spins looks after the holder; 0 for never.
    """

    kind: int = NO_REMEDY
    warning_ns: int = 0
    holder_check_ns: int = 0


NOTHING_DONE = Remedy()


def remedy(name: str, warning_us: float) -> Remedy:
    """The remedy with this name; ``warning_us`` means something to the two-minute warning only."""
    kind = REMEDIES[name]
    holder_check_ns = HOLDER_CHECK_NS if kind in (CONSCIOUS, INHERITANCE) else 0
    return Remedy(kind, round(warning_us * 1e3) if kind == WARNING else 0, holder_check_ns)


def needs_slots(name: str) -> bool:
    """Whether the remedy does something only where our slots stop processes."""
    return name in OF_SLOTS


def needs_kernel(name: str) -> bool:
    """Whether the remedy does something only where the kernel alone says who runs."""
    return REMEDIES[name] == INHERITANCE
