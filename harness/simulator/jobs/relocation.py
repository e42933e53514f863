"""What jobs pay that move while they run, or vacate their processors, and how often they do."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.migration import Migration


@dataclass(frozen=True)
class Relocated:
    """Totals of a schedule.

    Attributes:
        moves: how often a job moved while it ran.
        vacated: how often a job had to vacate its processors.
        lost_s: seconds of progress that was lost with it.
        paid_s: seconds that moves and restarts added to jobs.
    """

    moves: int
    vacated: int
    lost_s: float
    paid_s: float


class Relocations:
    """Charges jobs for relocations, and counts them.

    A job pays first and then continues its work. So what is left to do of its work is known from what is
    left in all. A job that moves while it still pays for the move before begins to pay anew.
    """

    def __init__(self, migration: Migration) -> None:
        self._migration = migration
        self._moves = self._vacated = self._lost_ns = self._paid_ns = 0
        self._work_ns: dict[int, int] = {}
        """What was left of a job's work when it last had to pay."""

    def move(self, job: int, left_ns: int) -> int:
        """What is left to do of a job that moves now with ``left_ns`` to do."""
        self._moves += 1
        return self._charge(job, self._migration.delay_ns, left_ns)

    def vacate(self, job: int, whole_ns: int, left_ns: int) -> int:
        """What is left to do of a job of ``whole_ns`` that vacates its processors with ``left_ns`` to do."""
        self._vacated += 1
        done_ns = whole_ns - self._work_left_ns(job, left_ns)
        kept_ns = self._migration.kept_ns(done_ns)
        self._lost_ns += done_ns - kept_ns
        self._work_ns.pop(job, None)
        return self._charge(job, self._migration.restart_ns if kept_ns else 0, whole_ns - kept_ns)

    def _work_left_ns(self, job: int, left_ns: int) -> int:
        return min(left_ns, self._work_ns.get(job, left_ns))

    def _charge(self, job: int, cost_ns: int, left_ns: int) -> int:
        self._work_ns[job] = self._work_left_ns(job, left_ns)
        self._paid_ns += cost_ns
        return self._work_ns[job] + cost_ns

    def found(self) -> Relocated:
        return Relocated(self._moves, self._vacated, self._lost_ns / 1e9, self._paid_ns / 1e9)
