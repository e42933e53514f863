"""The service that each job has attained: the processor time that decisions have given it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from coordinator.decide.cycle import Cycle
from coordinator.view import Slot


class Attained:
    """Adds up processor time by job, decision by decision.

    A processor on which several jobs may run at a time serves them in equal parts.

    Attributes:
        service_ns: the processor time of each job so far.
    """

    def __init__(self) -> None:
        self.service_ns: dict[int, int] = {}
        self._until_ns = 0

    def count(self, slots: Sequence[Slot], cycle: Cycle, now_ns: int) -> None:
        """Add what the slots of a decision, in force since the last call, have given until now."""
        times_ns = cycle.in_force_ns(max(self._until_ns, cycle.start_ns), now_ns)
        self._until_ns = now_ns
        for slot, time_ns in zip(slots, times_ns, strict=True):
            for jobs, processors in Counter(slot.runs).items() if time_ns else ():
                for job in jobs:
                    part_ns = time_ns * processors // len(jobs)
                    self.service_ns[job] = self.service_ns.get(job, 0) + part_ns
