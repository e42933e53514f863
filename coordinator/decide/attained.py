"""The service that each job has attained: the processor time that decisions have given it."""

from __future__ import annotations

from coordinator.view import Decision


class Attained:
    """Adds up processor time by job, decision by decision.

    A processor on which several jobs may run at a time serves them in equal parts; a table of slots serves
    them in proportion to the lengths of their slots, however far it has got.

    Attributes:
        service_ns: the processor time of each job so far.
    """

    def __init__(self) -> None:
        self.service_ns: dict[int, int] = {}
        self._until_ns = 0

    def count(self, decision: Decision | None, now_ns: int) -> None:
        """Add what ``decision`` has given since the last call."""
        passed_ns, self._until_ns = now_ns - self._until_ns, now_ns
        if decision is None:
            return
        lengths_ns = [slot.length_ns or 1 for slot in decision.slots]
        for slot, length_ns in zip(decision.slots, lengths_ns, strict=True):
            for jobs in slot.runs:
                for job in jobs:
                    part_ns = passed_ns * length_ns // (sum(lengths_ns) * len(jobs))
                    self.service_ns[job] = self.service_ns.get(job, 0) + part_ns
