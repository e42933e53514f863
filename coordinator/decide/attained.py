"""The service that each job has attained: the processor time that decisions have given it."""

from __future__ import annotations

from collections import defaultdict

from coordinator.decide.cycle import Cycle
from coordinator.view import Decision


class Attained:
    """Adds up processor time by job, decision by decision.

    A processor on which several processes may run at a time serves them in equal parts.

    Attributes:
        service_ns: the processor time of each job so far.
    """

    def __init__(self) -> None:
        self.service_ns: dict[int, int] = {}
        self._until_ns = 0

    def count(self, decision: Decision, cycle: Cycle, now_ns: int) -> None:
        """Add what the slots of a decision, in force since the last call, have given until now."""
        times_ns = cycle.in_force_ns(max(self._until_ns, cycle.start_ns), now_ns)
        self._until_ns = now_ns
        for slot, time_ns in enumerate(times_ns):
            for jobs in _served(decision, slot) if time_ns else ():
                for job in jobs:
                    self.service_ns[job] = self.service_ns.get(job, 0) + time_ns // len(jobs)


def _served(decision: Decision, slot: int) -> list[list[int]]:
    """For each processor that anybody uses in a slot the job of each process that may run there."""
    found = defaultdict(list)
    for job, placement in decision.placements.items():
        for rank, processor in enumerate(placement):
            if decision.slots[slot].allows(job, rank, processor):
                found[processor].append(job)
    return list(found.values())
