"""Remedies for processes that lose their processors in critical sections: docs/critical-sections.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from workloads.parameters import Bounds, Checked, OneOf

NO_REMEDY, WARNING, CONSCIOUS, INHERITANCE, ACTIVATIONS = range(5)

REMEDIES = {
    "none": NO_REMEDY,
    "defer": NO_REMEDY,
    "warning": WARNING,
    "activations": ACTIVATIONS,
    "conscious": CONSCIOUS,
    "inheritance": INHERITANCE,
}
"""The part of the processes themselves in each kind of remedy."""

HOLDER_CHECK_NS = 10_000
"""How often a process that spins under ``conscious`` or ``inheritance`` looks whether the holder runs."""


@dataclass(frozen=True)
class Remedy(Checked):
    """A remedy of a scheduler for processes that lose their processors in critical sections.

    Attributes:
        kind: "none". "defer", the do-not-preempt bit: a change of slot waits for a process in a section.
            "warning", Psyche's two-minute warning: no process enters a section shortly before its slot ends.
            "activations", as scheduler activations do: a stopped holder runs on in the place of another
            process of its job, until it leaves. "conscious", scheduler-conscious synchronization: locks go to
            processes that run, and processes spin for those that run. "inheritance": processes that spin
            lift the holder of the lock above others.
        deferrals: how often at most a change of slot waits for one process.
        deferral_us: for how long each time.
        warning_us: how long before the end of its slot a process enters no section.
    """

    kind: Annotated[str, OneOf(REMEDIES)] = "none"
    deferrals: Annotated[int, Bounds(1, 10)] = 4
    deferral_us: Annotated[float, Bounds(1, 1000)] = 50.0
    warning_us: Annotated[float, Bounds(1, 1e5)] = 100.0

    @property
    def code(self) -> int:
        """The part of the processes themselves."""
        return REMEDIES[self.kind]

    @property
    def times(self) -> int:
        """How often a change of slot waits for one process."""
        return self.deferrals if self.kind == "defer" else 0

    @property
    def warning_ns(self) -> int:
        """How long before the end of its slot a process enters no section any more; 0 without a warning."""
        return round(self.warning_us * 1e3) if self.kind == "warning" else 0

    @property
    def holder_check_ns(self) -> int:
        """How often a process that spins looks after the holder; 0 for never."""
        return HOLDER_CHECK_NS if self.code in (CONSCIOUS, INHERITANCE) else 0


NOTHING_DONE = Remedy()
