"""Programs with critical sections: the pattern LOCK.

Every process alternates between computation and a critical section, which it computes
under one of a few locks. It sends no message. Source: Zahorjan, Lazowska, Eager, "The Effect of
Scheduling Discipline on Spin Overhead in Shared Memory Parallel Systems", 1991 (locks).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, ClassVar

from workloads import patterns
from workloads.parameters import Bounds, OneOf
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import duration_name

TICKET, TEST_AND_SET, MCS = range(3)

LOCKS = {"ticket": TICKET, "test-and-test-and-set": TEST_AND_SET, "mcs": MCS}
"""Locks by name. Ticket and MCS serve in the order of arrival; test and test and set the first rank that
finds the lock free."""

OF_MESSAGES = ("read_gap_us", "read_imbalance", "opening_barrier", "read", "malleable", "checkpoint_phases")


@dataclass(frozen=True)
class LockProgram(Program):
    """A validated program of the pattern LOCK; ``granularity_us`` is the time between two sections."""

    kind: ClassVar[str] = "critical sections"
    sign: ClassVar[str] = "section_us"

    pattern: Annotated[str, OneOf((patterns.LOCK,))] = patterns.LOCK
    opening_barrier: bool = False
    section_us: Annotated[float, Bounds(0.001, 1e8)] = 20.0  # CPU time of each critical section
    # How many locks there are; each section draws its own, all equally likely.
    locks: Annotated[int, Bounds(1, 1000)] = 1
    lock: Annotated[str, OneOf(LOCKS)] = "ticket"  # a name of LOCKS

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name in OF_MESSAGES and value != field.default:
                raise InputError(
                    field.name,
                    value,
                    "the pattern LOCK has neither barriers nor reads, and keeps its processes",
                    "leave it out, or choose another pattern",
                )
        super().__post_init__()

    @property
    def label(self) -> str:
        locks = f"{self.locks} {self.lock} lock{'s' if self.locks > 1 else ''}"
        return f"{super().label}, sections of {duration_name(self.section_us)} under {locks}"

    def phase_us(self, latency_us: float = 0.0) -> float:
        """Duration of one phase alone on the machine, if no process waits or the locks are the bottleneck."""
        return max(self.granularity_us + self.section_us, self.processes * self.section_us / self.locks)

    def on(self, processes: int) -> LockProgram:
        """The same work on another number of processes: the same total of computation, sections included."""
        moulded = super().on(processes)
        assert isinstance(moulded, LockProgram)
        return dataclasses.replace(moulded, section_us=self.section_us * self.processes / processes)
