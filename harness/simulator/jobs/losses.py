"""What a schedule loses: to regions that do not fit, and to jobs that move or vacate their processors."""

from dataclasses import dataclass

from coordinator.decide.session import Plan
from coordinator.migration import Migration
from coordinator.policies.regions.region_policy import RegionState


@dataclass(frozen=True)
class Fragmentation:
    """Shares of CPU time and of requests; NaN where there was nothing to share."""

    internal: float  # of the CPU time of all regions, the share that no process used
    # Of all CPU time, the share that was free while a job waited that asks for no more.
    external: float
    # Of the requests for which enough processors were free, the share refused. A waiting job requests again
    # at every decision.
    missed: float


class FragmentationMeter:
    """Adds up what consecutive plans of a run waste."""

    def __init__(self, processors: int) -> None:
        self._processors = processors
        self._state = RegionState()
        self._used = 0
        self._since_ns = self._begin_ns = -1
        self._region_ns = self._unused_ns = self._free_ns = 0
        self._placed = self._missed = 0

    def watch(self, plan: Plan, now_ns: int) -> None:
        """Note that ``plan``, of a policy of regions, is in force from ``now_ns`` on."""
        if self._begin_ns < 0:
            self._begin_ns = self._since_ns = now_ns
        self._pass(now_ns)
        state: RegionState = plan.decision.state
        self._placed += len(state.regions.keys() - self._state.regions.keys())
        self._missed += 0 < state.refused <= state.free
        self._state = state
        self._used = sum(map(len, plan.decision.placements.values()))

    def _pass(self, now_ns: int) -> None:
        """Add the time up to ``now_ns``, in which the last plan was in force."""
        passed_ns = now_ns - self._since_ns
        self._since_ns = now_ns
        held = sum(map(len, self._state.regions.values()))
        self._region_ns += passed_ns * held
        self._unused_ns += passed_ns * (held - self._used)
        if 0 < self._state.refused <= self._state.free:
            self._free_ns += passed_ns * self._state.free

    def found(self) -> Fragmentation:
        all_ns = (self._since_ns - self._begin_ns) * self._processors
        return Fragmentation(
            internal=_share(self._unused_ns, self._region_ns),
            external=_share(self._free_ns, all_ns),
            missed=_share(self._missed, self._missed + self._placed),
        )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


@dataclass(frozen=True)
class Relocated:
    """Totals of a schedule."""

    moves: int  # how often a job moved while it ran
    vacated: int  # how often a job had to vacate its processors
    lost_s: float  # seconds of progress that was lost with it
    paid_s: float  # seconds that moves and restarts added to jobs


class Relocations:
    """Charges jobs for relocations, and counts them.

    A job pays first, then continues its work: its remaining time tells how much work remains. A job that
    moves again while it pays begins to pay again.
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
