"""How much a policy of regions wastes, from its decisions alone."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.decide.session import Plan
from coordinator.policies.regions.region_policy import RegionMemory


@dataclass(frozen=True)
class Fragmentation:
    """Shares of processor time and of requests; NaN where there was nothing to share.

    Attributes:
        internal: of the processor time of all regions, the share that no process used.
        external: of all processor time, the share that was free while a job waited that asks for no more.
        missed: of the requests for which enough processors were free, the share refused. A waiting job
            requests again at every decision.
    """

    internal: float
    external: float
    missed: float


class FragmentationMeter:
    """Adds up what consecutive plans of a run waste."""

    def __init__(self, processors: int) -> None:
        self._processors = processors
        self._memory = RegionMemory()
        self._used = 0
        self._since_ns = self._begin_ns = -1
        self._region_ns = self._unused_ns = self._free_ns = 0
        self._placed = self._missed = 0

    def watch(self, plan: Plan, now_ns: int) -> None:
        """Note that ``plan``, of a policy of regions, is in force from ``now_ns`` on."""
        if self._begin_ns < 0:
            self._begin_ns = self._since_ns = now_ns
        self._pass(now_ns)
        memory: RegionMemory = plan.decision.memory
        self._placed += len(memory.regions.keys() - self._memory.regions.keys())
        self._missed += 0 < memory.refused <= memory.free
        self._memory = memory
        self._used = sum(map(len, plan.decision.placements.values()))

    def _pass(self, now_ns: int) -> None:
        """Add the time up to ``now_ns``, in which the last plan was in force."""
        passed_ns = now_ns - self._since_ns
        self._since_ns = now_ns
        held = sum(map(len, self._memory.regions.values()))
        self._region_ns += passed_ns * held
        self._unused_ns += passed_ns * (held - self._used)
        if 0 < self._memory.refused <= self._memory.free:
            self._free_ns += passed_ns * self._memory.free

    def found(self) -> Fragmentation:
        all_ns = (self._since_ns - self._begin_ns) * self._processors
        return Fragmentation(
            internal=_share(self._unused_ns, self._region_ns),
            external=_share(self._free_ns, all_ns),
            missed=_share(self._missed, self._missed + self._placed),
        )


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
