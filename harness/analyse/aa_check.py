"""An A/A check: how often this host tells a scheduler apart from itself, and what it can tell apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.analyse.statistics import FEWEST, Estimate, apart, estimate
from harness.store.records import DEDICATED, POLICY, RunRecord, quantile

COMPARED = 5
"""Repeats of a comparison, as in the built-in experiments."""

POWER = 0.8
"""The share of comparisons that tell the smallest difference."""

EXPECTED = 0.05
"""Most false positives of a host whose runs scatter independently."""

Pair = tuple[float, float]
"""The slowdowns of two equal runs of one repeat, by the same dedicated time."""


@dataclass(frozen=True)
class AaCheck:
    """The result of an A/A check.

    Attributes:
        pairs: measured pairs of runs.
        repeats: repeats of each side of a comparison.
        comparisons: number of comparisons that were made of the pairs.
        different: number of those whose 95 % intervals do not overlap, which are false positives.
        smallest: the least difference that POWER of the comparisons tell, as a share of the slowdown.
    """

    pairs: int
    repeats: int
    comparisons: int
    different: int
    smallest: float

    @property
    def false_positives(self) -> float:
        return self.different / self.comparisons


def check(pairs: Sequence[Pair]) -> AaCheck | None:
    """The check of pairs in the order of their runs; None for fewer than three.

    A comparison takes COMPARED pairs in a row, as an experiment does, so drifts of the host count. In each
    pair either run may belong to either scheduler: all ways to deal them out are compared.
    """
    if len(pairs) < FEWEST:
        return None
    repeats = min(COMPARED, len(pairs))
    compared = list(_comparisons(pairs, repeats))
    needed = sorted(_needed(one, other) for one, other in compared)
    different = sum(apart(one, other) for one, other in compared)
    return AaCheck(len(pairs), repeats, len(compared), different, max(0.0, quantile(needed, POWER) - 1))


def pairs(records: Sequence[RunRecord]) -> list[Pair]:
    """The pairs among the runs of ``harness.measure.aa_runs``, without pairs in which a run failed."""
    alone = {one.repeat: one.makespan_ns for one in records if one.kind == DEDICATED}
    shared = {one.repeat: one.makespan_ns for one in records if one.kind == POLICY}
    known = [(sole, shared.get(n), shared.get(n + 1)) for n, sole in sorted(alone.items())]
    return [(one / sole, other / sole) for sole, one, other in known if sole and one and other]


def _comparisons(pairs: Sequence[Pair], repeats: int) -> Iterator[tuple[Estimate, Estimate]]:
    for first in range(len(pairs) - repeats + 1):
        block = pairs[first : first + repeats]
        for swaps in itertools.product((0, 1), repeat=repeats):
            yield (
                estimate([pair[swap] for pair, swap in zip(block, swaps, strict=True)]),
                estimate([pair[1 - swap] for pair, swap in zip(block, swaps, strict=True)]),
            )


def _needed(one: Estimate, other: Estimate) -> float:
    """The factor by which the second must be greater for its interval to lie above the first."""
    assert one.ci95 and other.ci95
    return one.ci95[1] / other.ci95[0]
