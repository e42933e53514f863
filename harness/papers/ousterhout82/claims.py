"""The survey's sentences about Ousterhout's packings, checked."""

from __future__ import annotations

import numpy as np

from harness.papers import Claims, Finding, Results, verdict
from harness.papers.ousterhout82.model import POPULATIONS, idle, most_idle

ABOUT = 0.05
"""The survey's "about 80 %" and "about half" are whole tenths."""

CLAIMS = Claims()


def _busy(results: Results, system: str) -> list[float]:
    return [busy.mean for busy in results.where(system=system).column("busy")]


def _mean(results: Results, system: str) -> float:
    return float(np.mean(_busy(results, system)))


@CLAIMS.of(
    "1", "under the matrix algorithm about 80 % of the processors run coscheduled processes on average"
)
def _full(results: Results) -> Finding:
    busy, matrix = _busy(results, "matrix"), _mean(results, "matrix")
    halves = [one.half or 0.0 for one in results.where(system="matrix").column("busy")]
    half = float(np.linalg.norm(halves)) / len(halves)
    words = f"{matrix:.1%} +- {half:.1%} on average, {min(busy):.0%} to {max(busy):.0%} by workload"
    apart = abs(matrix - 0.8)
    return words, verdict(apart <= ABOUT, abs(apart - ABOUT) > half)


@CLAIMS.of(
    "1", "in the worst case the matrix algorithm leaves about half of the processors idle, as jobs come"
)
def _worst(results: Results) -> Finding:
    """The survey's example has jobs of 4 and 5 on 8 processors: 7 of 16 slots are empty."""
    example = idle((4, 5), 8)
    most, sizes = most_idle(8, 4)
    words = f"{example:.0%} in the survey's example; at most {most:.0%} with up to 4 jobs "
    words += f"({' and '.join(map(str, sizes))}; P = 8)"
    return words, example == 7 / 16 and abs(most - 0.5) <= 0.5 / 8


@CLAIMS.of(
    "1", "in the worst case the matrix algorithm leaves about half of them idle, as jobs come and leave"
)
def _worst_later(results: Results) -> Finding:
    most = 1 - min(results.where(system="matrix").column("lowest"))
    return f"up to {most:.0%} between two decisions", most <= 0.5 + ABOUT


@CLAIMS.of("1", "the continuous algorithm packs better than the matrix algorithm")
def _better(results: Results) -> Finding:
    ours, theirs = _mean(results, "continuous"), _mean(results, "matrix")
    pairs = list(zip(_busy(results, "continuous"), _busy(results, "matrix"), strict=True))
    better = sum(continuous >= matrix - 0.005 for continuous, matrix in pairs)
    words = f"{ours:.0%} against {theirs:.0%}; not worse in {better} of {len(pairs)} workloads"
    return words, verdict(ours > theirs, abs(ours - theirs) > 0.005)


@CLAIMS.of("1", "the undivided algorithm reduces the fragmentation that arises in the continuous one")
def _fragmentation(results: Results) -> Finding:
    ours, theirs = _mean(results, "undivided"), _mean(results, "continuous")
    return f"{ours:.0%} against {theirs:.0%}", verdict(ours > theirs, abs(ours - theirs) > 0.005)


@CLAIMS.of("1", "where sizes are powers of two, hierarchical control balances the load across processors")
def _balance(results: Results) -> Finding:
    """Processes per processor: the difference between the most and the fewest."""
    ours, theirs = (
        results.where(system=system, distribution="powers of two").column("spread")
        for system in ("hierarchical control", "matrix")
    )
    pairs = list(zip(ours, theirs, strict=True))
    words = ", ".join(
        f"{a.mean:.2f} against {b.mean:.2f} ({n} jobs)" for n, (a, b) in zip(POPULATIONS, pairs, strict=True)
    )
    apart = [abs(b.mean - a.mean) > (a.half or 0) + (b.half or 0) for a, b in pairs]
    worse = any(far and a.mean >= b.mean for far, (a, b) in zip(apart, pairs, strict=True))
    words = f"processes per processor, most minus fewest, against the matrix: {words}"
    return words, verdict(not worse, worse or any(apart))


@CLAIMS.of("1", "filling holes with other jobs and unifying slots use more of the machine")
def _more(results: Results) -> Finding:
    filled, unified = (_mean(results, f"matrix, {how}") for how in ("holes filled", "unified"))
    matrix = _mean(results, "matrix")
    return f"{filled:.0%} and {unified:.0%} against {matrix:.0%}", min(filled, unified) > matrix
