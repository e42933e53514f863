"""What is better beyond noise, before or after, or under two schedulers; how often a host errs about that."""

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.analyse.rows import Row
from harness.analyse.statistics import FEWEST, Estimate, apart, estimate, student_factor
from harness.spec.naming import setting_names
from harness.store.records import DEDICATED, POLICY, RunRecord, quantile
from workloads.late import Late

if TYPE_CHECKING:
    from harness.simulator.jobs import metrics
else:  # who only measures needs no simulator, and a small installation has no numpy
    metrics = Late("harness.simulator.jobs.metrics")

BETTER = "better"
WORSE = "worse"
NO_DIFFERENCE = "no difference that can be told"
NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class Comparison:
    """A row and its counterpart."""

    before: Row | None  # None if only the latter exists
    after: Row | None  # None if only the former exists
    ratio: float | None = None  # geometric mean of the slowdowns after over that before; None if unknown
    interval: tuple[float, float] | None = None  # its 95 % interval; None if unknown
    verdict: str = NO_VERDICT  # BETTER (after is faster), WORSE, NO_DIFFERENCE or NO_VERDICT
    reason: str = ""  # of no verdict; else empty

    @property
    def known(self) -> Row:
        row = self.before or self.after
        assert row is not None
        return row

    def plain(self) -> dict[str, Any]:
        sides = {"before": self.before, "after": self.after}
        found = {side: one and one.first_side for side, one in sides.items()}
        low, high = self.interval or (None, None)
        return {
            "workload": self.known.workload,
            "settings": dict(self.known.settings),
            **{f"scheduler_{side}": one and one.name for side, one in sides.items()},
            **{side: one and one.workload_slowdown.median for side, one in found.items()},
            **{f"n_{side}": len(one.by_repeat) if one else 0 for side, one in found.items()},
            **{"ratio": self.ratio, "low": low, "high": high, "verdict": self.verdict, "reason": self.reason},
        }


def of_two_stores(
    before: Sequence[Row], after: Sequence[Row], *, same_seed: bool = False
) -> list[Comparison]:
    """Each row of ``before`` with the same row of ``after``, then the rows of ``after`` alone.

    The jobs of a log, and random ones of the ``same_seed``, are the very same in each repeat of both.
    """
    left = list(after)
    comparisons = []
    for one in before:
        other = next((it for it in left if _same_point(it, one) and it.name == one.name), None)
        if other is None:
            comparisons.append(Comparison(one, None, reason="only before"))
        else:
            left.remove(other)
            same_jobs = one.schedule is not None and ("log" in one.schedule.source or same_seed)
            comparisons.append(paired(one, other) if same_jobs else _unpaired(one, other))
    return comparisons + [Comparison(None, other, reason="only after") for other in left]


def of_two_schedulers(rows: Sequence[Row], before: str, after: str) -> list[Comparison]:
    """Two schedulers at each point, by the ratios within each repeat: its dedicated times are the same."""
    return [
        paired(one, other)
        for one in rows
        for other in rows
        if one.name == before and other.name == after and _same_point(one, other)
    ]


def _same_point(one: Row, other: Row) -> bool:
    ours, theirs = (row.schedule and row.schedule.comparable for row in (one, other))
    return one.jobs == other.jobs and one.settings == other.settings and ours == theirs


def paired(before: Row, after: Row) -> Comparison:
    """Two rows by the ratios within each repeat, or batch of jobs."""
    return _judged(before, after, _together(*(row.first_side.by_repeat for row in (before, after))))


def _unpaired(before: Row, after: Row) -> Comparison:
    return _judged(before, after, _apart(*([*row.first_side.by_repeat.values()] for row in (before, after))))


Ratio = tuple[float, tuple[float, float] | None, int]
"""A ratio of slowdowns, its 95 % interval if there is one, and the repeats behind it."""


def verdict(interval: tuple[float, float] | None) -> str:
    if interval is None:
        return NO_VERDICT
    return BETTER if interval[1] < 1 else WORSE if interval[0] > 1 else NO_DIFFERENCE


def _judged(before: Row, after: Row, change: Ratio | None) -> Comparison:
    if change is None:
        lacking, it = ("after", after) if before.first_side.by_repeat else ("before", before)
        known = it.withheld.reason if it.withheld else f"saturated {it.saturated}" if it.saturated else ""
        reason = f"not measurable {lacking}: {known}" if known else f"no run succeeded {lacking}"
        return Comparison(before, after, reason=reason)
    ratio, interval, repeats = change
    reason = "" if interval else f"{repeats} repeat{'s' if repeats > 1 else ''}: {FEWEST} at least"
    if reason and before.schedule and "log" in before.schedule.source:
        reason = f"too few jobs: {metrics.FEWEST_JOBS} at least"
    return Comparison(before, after, ratio, interval, verdict(interval), reason)


def _together(before: Mapping[int, float], after: Mapping[int, float]) -> Ratio | None:
    both = [after[repeat] / before[repeat] for repeat in before.keys() & after.keys()]
    return (statistics.geometric_mean(both), estimate(both).ci95, len(both)) if both else None


def _apart(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """From two independent series; None if one is empty.

    Source of the degrees of freedom: Welch 1947, "The generalization of 'Student's' problem when several
    different population variances are involved"; rounded down, which widens the interval.
    """
    if not before or not after:
        return None
    logs = [[math.log(value) for value in values] for values in (before, after)]
    centre = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    repeats = min(map(len, logs))
    if repeats < FEWEST:
        return math.exp(centre), None, repeats
    parts = [statistics.variance(values) / len(values) for values in logs]
    squares = sum(part**2 / (len(values) - 1) for part, values in zip(parts, logs, strict=True))
    degrees = int(sum(parts) ** 2 / squares) if squares else 1
    half = student_factor(max(1, degrees)) * math.sqrt(sum(parts))
    return math.exp(centre), (math.exp(centre - half), math.exp(centre + half)), repeats


def flat(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What :meth:`Comparison.plain` gives, with a heading for each setting."""
    rows = list(rows)
    headings = setting_names(dict.fromkeys(key for row in rows for key in row["settings"]))
    return [
        {name: row["settings"].get(key) for key, name in headings.items()}
        | {key: value for key, value in row.items() if key != "settings"}
        for row in rows
    ]


COMPARED = 5  # repeats of a comparison, as in the built-in experiments
POWER = 0.8  # the share of comparisons that tell the smallest difference
EXPECTED = 0.05  # most false positives of a host whose runs scatter independently
Pair = tuple[float, float]  # the slowdowns of two equal runs of one repeat, by the same dedicated time


@dataclass(frozen=True)
class AaCheck:
    """The result of an A/A check."""

    pairs: int  # measured pairs of runs
    repeats: int  # repeats of each side of a comparison
    comparisons: int  # number of comparisons that were made of the pairs
    different: int  # number of those whose 95 % intervals do not overlap, which are false positives
    smallest: float  # the smallest difference that POWER of the comparisons tell, as a share of the slowdown

    @property
    def false_positives(self) -> float:
        return self.different / self.comparisons


def aa_check(pairs: Sequence[Pair]) -> AaCheck | None:
    """The check of pairs in the order of their runs; None for fewer than three.

    A comparison takes COMPARED pairs in a row, as an experiment does, so drifts of the host count. In each
    pair either run may belong to either scheduler: all ways to deal them out are compared.
    """
    if len(pairs) < FEWEST:
        return None
    repeats = min(COMPARED, len(pairs))
    compared = list(comparisons(pairs, repeats))
    # The factor by which the second must be greater for its interval to lie above the first.
    ends = [(one.ci95, other.ci95) for one, other in compared]
    needed = sorted(ours[1] / theirs[0] for ours, theirs in ends if ours and theirs)
    different = sum(apart(one, other) for one, other in compared)
    return AaCheck(len(pairs), repeats, len(compared), different, max(0.0, quantile(needed, POWER) - 1))


def aa_pairs(records: Sequence[RunRecord]) -> list[Pair]:
    """The pairs among the runs of ``harness.measure.host_check``, without pairs in which a run failed."""
    alone = {one.repeat: one.makespan_ns for one in records if one.kind == DEDICATED}
    shared = {one.repeat: one.makespan_ns for one in records if one.kind == POLICY}
    triples = [(sole, shared.get(n), shared.get(n + 1)) for n, sole in sorted(alone.items())]
    return [(one / sole, other / sole) for sole, one, other in triples if sole and one and other]


def comparisons(pairs: Sequence[Pair], repeats: int) -> Iterator[tuple[Estimate, Estimate]]:
    for first in range(len(pairs) - repeats + 1):
        block = pairs[first : first + repeats]
        for swaps in itertools.product((0, 1), repeat=repeats):
            yield (
                estimate([pair[swap] for pair, swap in zip(block, swaps, strict=True)]),
                estimate([pair[1 - swap] for pair, swap in zip(block, swaps, strict=True)]),
            )
