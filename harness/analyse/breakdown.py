"""The breakdown: each processor's time during a run, split in five parts.

Source: Dusseau, Arpaci, Culler 1996, figures 3 and 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

PARTS = ("computing", "communicating", "synchronizing", "switching", "idle")
"""The fields of a breakdown."""

GRAIN = 2.0**40
"""Shares are whole multiples of 1 / GRAIN, so that five of them sum to exactly 1."""


@dataclass(frozen=True)
class Breakdown:
    """Shares of a processor's time, none negative, whose sum is exactly 1 in any order.

    ``communicating`` is processor time in waits of reads, ``synchronizing`` in waits of
    barriers, ``switching`` the cost of context switches; ``idle`` is the rest.
    """

    computing: float
    communicating: float
    synchronizing: float
    switching: float
    idle: float

    @classmethod
    def of(cls, computing: float, communicating: float, synchronizing: float, switching: float) -> Breakdown:
        """The breakdown with these four shares, each >= 0, scaled down if they exceed 1."""
        shares = (computing, communicating, synchronizing, switching)
        scale = GRAIN / max(1.0, sum(shares))
        whole = [int(share * scale) for share in shares]
        while (rest := int(GRAIN) - sum(whole)) < 0:  # rounding of the scale, by a grain or two
            whole[whole.index(max(whole))] += rest
        return cls(*(part / GRAIN for part in (*whole, rest)))


def of_run(
    ranks: Iterable[Mapping[str, Any]], processors: Sequence[int], makespan_ns: int, switch_ns: float
) -> Breakdown | None:
    """The breakdown of a run, averaged over its processors; None if a rank has no recorded activities.

    The window of each processor lasts from the first arrival to the last finish. The ranks
    on the processor recorded the CPU time of their activities. A context switch costs the
    calibrated ``switch_ns``. The kernel charges a voluntary switch to the wait that causes it, so its
    cost moves from the wait to ``switching``. It charges an involuntary switch to nobody, so its cost
    comes out of the unaccounted time, up to all of it. Simulated ranks record the cost (``switching_ns``).
    """
    placed: dict[int, list[Mapping[str, Any]]] = {processor: [] for processor in processors}
    for rank in ranks:
        if "computing_ns" not in rank:
            return None
        placed[rank["processor"]].append(rank)
    return mean([_of_processor(here, makespan_ns, switch_ns) for here in placed.values()])


def mean(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """The mean of at least one breakdown."""
    columns = zip(*(astuple(breakdown)[:4] for breakdown in breakdowns), strict=True)
    return Breakdown.of(*(sum(column) / len(breakdowns) for column in columns))


def _of_processor(ranks: Sequence[Mapping[str, Any]], window_ns: int, switch_ns: float) -> Breakdown:
    computing = sum(rank["computing_ns"] for rank in ranks)
    communicating = sum(rank["communicating_ns"] for rank in ranks)
    synchronizing = sum(rank["synchronizing_ns"] for rank in ranks)
    if any("switching_ns" in rank for rank in ranks):
        known = (computing, communicating, synchronizing, sum(rank["switching_ns"] for rank in ranks))
        return Breakdown.of(*(part / window_ns for part in known))
    waiting = communicating + synchronizing
    unaccounted = max(0, window_ns - computing - waiting)
    voluntary = min(waiting, switch_ns * sum(rank["voluntary_switches"] for rank in ranks))
    involuntary = min(unaccounted, switch_ns * sum(rank["involuntary_switches"] for rank in ranks))
    kept = (waiting - voluntary) / waiting if waiting else 0.0
    parts = (computing, communicating * kept, synchronizing * kept, voluntary + involuntary)
    return Breakdown.of(*(part / window_ns for part in parts))
