"""Shares of time: of each processor in six parts, the breakdown, and of the ranks of commands in three.

Source of the breakdown: Dusseau, Arpaci, Culler 1996, figures 3 and 5. Commands record no activities, so
their CPU time has none; the kernel knows of their ranks whether they run, are ready, or sleep.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Self

from workloads.record import RankResult

PARTS = ("computing", "communicating", "synchronizing", "switching", "idle", "others")
"""The fields of a breakdown."""

GRAIN = 2.0**40  # shares are whole multiples of 1 / GRAIN, so that all of them sum to exactly 1


@dataclass(frozen=True)
class Breakdown:
    """Shares of the CPU time, none negative, whose sum is exactly 1 in any order."""

    computing: float
    communicating: float  # CPU time in waits of reads
    synchronizing: float  # CPU time in waits of barriers
    switching: float  # the cost of context switches
    idle: float  # the rest
    others: float = 0.0  # the time of other programs

    @classmethod
    def of(cls, computing: float, communicating: float, synchronizing: float, switching: float) -> Self:
        """The breakdown with these four shares, each >= 0, scaled down if they exceed 1."""
        shares = (computing, communicating, synchronizing, switching)
        scale = GRAIN / max(1.0, sum(shares))
        whole = [int(share * scale) for share in shares]
        while (rest := int(GRAIN) - sum(whole)) < 0:  # rounding of the scale, by a grain or two
            whole[whole.index(max(whole))] += rest
        return cls(*(part / GRAIN for part in (*whole, rest)))

    def beside(self, others: float) -> Self:
        """The breakdown of processors of which other programs took a share: out of what seemed idle."""
        share = min(int(others * GRAIN) / GRAIN, self.idle)
        return replace(self, idle=self.idle - share, others=self.others + share)


def of_run(
    ranks: Iterable[RankResult], processors: Sequence[int], makespan_ns: int, switch_ns: float
) -> Breakdown | None:
    """The breakdown of a run, averaged over its processors; None if a rank has no recorded activities.

    The window of each processor lasts from the first arrival to the last finish. The ranks
    on the processor recorded the CPU time of their activities. A context switch costs the
    calibrated ``switch_ns``. The kernel charges a voluntary switch to the wait that causes it, so its
    cost moves from the wait to ``switching``. It charges an involuntary switch to no process, so its cost
    comes out of the unaccounted time, up to all of it. Simulated ranks record the cost (``switching_ns``).
    """
    placed: dict[int, list[RankResult]] = {processor: [] for processor in processors}
    for rank in ranks:
        if rank.computing_ns is None:
            return None
        placed[rank.processor].append(rank)
    return mean([_of_processor(here, makespan_ns, switch_ns) for here in placed.values()])


def mean(breakdowns: Sequence[Breakdown]) -> Breakdown:
    columns = zip(*map(astuple, breakdowns), strict=True)
    *parts, _, others = (sum(column) / len(breakdowns) for column in columns)
    return Breakdown.of(*parts).beside(others)


def _of_processor(ranks: Sequence[RankResult], window_ns: int, switch_ns: float) -> Breakdown:
    computing = sum(rank.computing_ns or 0 for rank in ranks)
    communicating = sum(rank.communicating_ns or 0 for rank in ranks)
    synchronizing = sum(rank.synchronizing_ns or 0 for rank in ranks)
    if (switching := total(rank.switching_ns for rank in ranks)) is not None:
        measured_parts = (computing, communicating, synchronizing, switching)
        return Breakdown.of(*(part / window_ns for part in measured_parts))
    waiting = communicating + synchronizing
    unaccounted = max(0, window_ns - computing - waiting)
    voluntary = min(waiting, switch_ns * sum(rank.voluntary_switches or 0 for rank in ranks))
    involuntary = min(unaccounted, switch_ns * sum(rank.involuntary_switches or 0 for rank in ranks))
    kept = (waiting - voluntary) / waiting if waiting else 0.0
    parts = (computing, communicating * kept, synchronizing * kept, voluntary + involuntary)
    return Breakdown.of(*(part / window_ns for part in parts))


STATES = ("running", "ready", "asleep")


@dataclass(frozen=True)
class States:
    """Shares of the ranks' time, of which all but ``in_waits`` sum to 1 (docs/reference)."""

    running: float
    ready: float
    asleep: float
    in_waits: float | None


def states(ranks: Iterable[RankResult]) -> States | None:
    """The states of all ranks together; None without commands, or if the kernel did not count for some rank.

    Several threads of a rank count as one: running as long as their sum, but at most all the time, and
    ready for the rest of it at most.
    """
    ranks = list(ranks)
    totals = [count for count in map(counts, ranks) if count is not None]
    if not totals or len(totals) < len(ranks) or all(rank.running_ns is None for rank in ranks):
        return None
    whole_ns = sum(time_ns for time_ns, _, _ in totals)
    running_ns = sum(min(ran_ns, time_ns) for time_ns, ran_ns, _ in totals)
    ready_ns = sum(max(0, min(ready_ns, time_ns - ran_ns)) for time_ns, ran_ns, ready_ns in totals)
    running = running_ns / whole_ns
    ready = ready_ns / whole_ns
    return States(running, ready, max(0.0, 1.0 - running - ready), _in_waits(ranks))


def counts(rank: RankResult) -> tuple[int, int, int] | None:
    """How long the kernel counted for a rank, and how long it ran and was ready in that time."""
    if rank.looked_ns:
        return rank.looked_ns, rank.running_ns or 0, rank.ready_ns or 0
    if rank.computing_ns is not None and rank.elapsed_ns:
        return rank.elapsed_ns, rank.cpu_ns or 0, rank.run_queue_ns or 0
    return None


def total(values: Iterable[int | None]) -> int | None:
    """The sum of these counts of ranks; None if any is unknown."""
    numbers = list(values)
    return None if None in numbers else sum(value or 0 for value in numbers)


def _in_waits(ranks: Sequence[RankResult]) -> float | None:
    waits = [rank.waits for rank in ranks if rank.waits]
    whole_ns = sum(rank.elapsed_ns for rank in ranks)
    if len(waits) < len(ranks) or not whole_ns:
        return None
    return min(1.0, sum(kind.spun_ns + kind.blocked_ns for one in waits for kind in one.kinds) / whole_ns)
