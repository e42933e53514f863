"""The sentences of Hori et al. 1996, checked against the simulations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.papers import Claims, Finding, Results, verdict
from harness.papers.hori96.model import DISTRIBUTIONS, MACHINE, SIZES

LINEAR = 0.03
"""The tolerance for "utilisation equals the load" and for "utilisation equals DQT's"."""

SMALL = 0.05
"""A degradation of utilisation up to this is small."""

COMPARED_LOAD = 0.9
"""The actual load at which systems of different sizes are compared."""

MOST = 2 / 3
"""A claim about "most" cases needs more than this share of them."""

LOW_LOADS, HIGH_LOADS = (0.2, 0.4), (0.9, 0.95, 0.97, 0.99)
SIGNIFICANT_LOADS = (0.8, 0.9, 0.95, 0.97, 0.99)

CLAIMS = Claims()


def _of(results: Results, policy: str, distribution: Any = tuple(DISTRIBUTIONS), **more: Any) -> Results:
    """A policy's points, but for those at which more work arrived than the machine can do."""
    chosen = results.where(policy=policy, distribution=distribution, **({"processors": MACHINE} | more))
    return Results((cell, one) for cell, one in chosen.items() if one.load <= 1)


def _pairs(results: Results, policy: str, other: str = "dqt", **more: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The outcomes of two policies for the same tasks, and these tasks."""
    theirs = _of(results, other)
    for cell, ours in _of(results, policy, **more).items():
        if cell.but(policy=other) in theirs:
            yield cell, ours, theirs[cell.but(policy=other)]


@CLAIMS.of("5", "DQT's utilisation is linear in the load to 0.99, P = 128 to 4096, {} sizes", *DISTRIBUTIONS)
def _linear(results: Results, distribution: str) -> Finding:
    points = _of(results, "dqt", distribution, processors=SIZES)
    cell, worst = max(points.items(), key=lambda point: point[1].load - point[1].utilisation)
    gap = worst.load - worst.utilisation
    return f"at most {gap:.3f} below the load (P = {cell.processors}, load {worst.load:.2f})", gap <= LINEAR


@CLAIMS.of("5", "DQT's utilisation is somewhat poorer with uniform sizes than with the others")
def _worst_sizes(results: Results) -> Finding:
    """Mean shortfall of utilisation below loads of 0.9 and more, over all sizes of the system."""
    gaps = {}
    for name in DISTRIBUTIONS:
        points = _of(results, "dqt", name, processors=SIZES, target=HIGH_LOADS).values()
        gaps[name] = float(np.mean([point.load - point.utilisation for point in points]))
    words = ", ".join(f"{name} {gap:.3f}" for name, gap in gaps.items())
    worst = max(gaps, key=lambda name: gaps[name])
    return f"mean shortfall at loads of 0.9 and more: {words}", worst == "uniform"


@CLAIMS.of("5", "DQT behaves almost independently of the size of the system")
def _independent(results: Results) -> Finding:
    """RETR at one actual load, by interpolation: the actual load of each simulation is random."""
    spread: dict[str, list[float]] = {}
    for name in DISTRIBUTIONS:
        curves = [_of(results, "dqt", name, processors=size) for size in SIZES]
        reaching = [curve for curve in curves if max(curve.column("load"), default=0) >= COMPARED_LOAD]
        spread[name] = [_retr_at(COMPARED_LOAD, curve) for curve in reaching]
    ratios = {name: max(retrs) / min(retrs) for name, retrs in spread.items() if len(retrs) > 1}
    shown = ", ".join(f"{name} {ratio:.2f} of {len(spread[name])}" for name, ratio in ratios.items())
    words = f"RETR at an actual load of {COMPARED_LOAD}, largest over smallest: {shown or 'unknown'} sizes"
    return words, verdict(max(ratios.values(), default=0) < 1.5, len(ratios) == 3)


def _retr_at(load: float, curve: Results) -> float:
    """Mean RETR at an actual load, interpolated between neighbouring points by its inverse."""
    loads, retrs = np.array(sorted((point.load, point.retr) for point in curve.values())).T
    return float(1 / np.interp(load, loads, 1 / retrs))


def _limit(results: Results, policy: str, distribution: str) -> float:
    """The highest utilisation that the policy reaches."""
    return max(_of(results, policy, distribution).column("utilisation"), default=np.nan)


def _gap(results: Results, policy: str, *distributions: str) -> float:
    """The largest distance of a policy's utilisation below DQT's."""
    pairs = _pairs(results, policy, distribution=distributions)
    return float(max(dqt.utilisation - ours.utilisation for _, ours, dqt in pairs))


@CLAIMS.of("6", "FCFS-BB saturates first, {} sizes (highest utilisation reached)", *DISTRIBUTIONS)
def _saturates_first(results: Results, distribution: str) -> Finding:
    limits = {name: _limit(results, name, distribution) for name in ("fcfs-bb", "scan-up", "fair-dqt", "dqt")}
    words = ", ".join(f"{name} {value:.2f}" for name, value in limits.items())
    return words, min(limits, key=lambda name: limits[name]) == "fcfs-bb"


@CLAIMS.of("6", "FCFS-BB's utilisation depends strongly on the distribution of sizes")
def _external(results: Results) -> Finding:
    limits = {
        policy: [_limit(results, policy, name) for name in DISTRIBUTIONS] for policy in ("fcfs-bb", "dqt")
    }
    words = ", ".join(f"{name} reaches {min(some):.2f} to {max(some):.2f}" for name, some in limits.items())
    batch, dqt = (max(some) - min(some) for some in limits.values())
    return words, batch > SMALL and batch > 2 * dqt


@CLAIMS.of("6", "ScanUp always does better than ScanDown")
def _upwards(results: Results) -> Finding:
    """ScanUp against ScanDown on the same tasks: mean RETR and utilisation (section 2.1)."""
    pairs = list(_pairs(results, "scan-up", "scan-down"))
    ratios = [down.retr / up.retr for _, up, down in pairs]
    gaps = [up.utilisation - down.utilisation for _, up, down in pairs]
    words = f"ScanDown's mean RETR is {min(ratios):.2f} to {max(ratios):.2f} times ScanUp's, longer in "
    words += f"{sum(ratio > 1 for ratio in ratios)} of {len(pairs)} points; its utilisation is "
    words += f"{min(gaps):.3f} to {max(gaps):.3f} lower"
    return words, min(ratios) >= 1 and min(gaps) >= 0


@CLAIMS.of("6", "ScanUp is close to DQT in utilisation, {} sizes", "proportional", "uniform")
def _close(results: Results, distribution: str) -> Finding:
    gap = _gap(results, "scan-up", distribution)
    return f"at most {gap:.3f} below", gap <= LINEAR


@CLAIMS.of("6", "ScanUp has relatively lower utilisation with inverse sizes")
def _lower(results: Results) -> Finding:
    gap, others = _gap(results, "scan-up", "inverse"), _gap(results, "scan-up", "proportional", "uniform")
    return f"up to {gap:.3f} below DQT, {others:.3f} with others", gap > others


@CLAIMS.of("6", "the RETR curves of DQT and ScanUp almost overlap, proportional and uniform sizes")
def _overlap(results: Results) -> Finding:
    pairs = _pairs(results, "scan-up", distribution=("proportional", "uniform"))
    ratios = [scan.retr / dqt.retr for _, scan, dqt in pairs]
    return f"ScanUp's is {min(ratios):.1f} to {max(ratios):.1f} times DQT's", max(ratios) < 1.5


@CLAIMS.of("6", "Fair-DQT loses only little utilisation against DQT")
def _loss(results: Results) -> Finding:
    gap = _gap(results, "fair-dqt", *DISTRIBUTIONS)
    return f"at most {gap:.3f}", gap <= SMALL


@CLAIMS.of("7", "DQT always has a shorter {} RETR than Fair-DQT", "mean", "maximum")
def _shorter(results: Results, which: str) -> Finding:
    value = "retr" if which == "mean" else "most_retr"
    ratios = {
        f"{cell.distribution} {cell.target}": getattr(fair, value) / getattr(dqt, value)
        for cell, fair, dqt in _pairs(results, "fair-dqt")
    }
    shorter = [point for point, ratio in ratios.items() if ratio < 1]
    words = f"Fair-DQT's is {min(ratios.values()):.2f} to {max(ratios.values()):.2f} times DQT's"
    return words + (f"; shorter at {', '.join(shorter)}" if shorter else ""), not shorter


@CLAIMS.of("8", "DQT's correlation of size with RETR is positive in most cases: large tasks wait longer")
def _positive(results: Results) -> Finding:
    values = _of(results, "dqt").column("fairness")
    positive = sum(value > 0 for value in values)
    return f"in {positive} of {len(values)}", positive > MOST * len(values)


@CLAIMS.of("8", "Fair-DQT is fairer than DQT (loads of 0.8 and more)")
def _fairer(results: Results) -> Finding:
    pairs = list(_pairs(results, "fair-dqt", target=SIGNIFICANT_LOADS))
    better = sum(abs(fair.fairness) < abs(dqt.fairness) for _, fair, dqt in pairs)
    return f"in {better} of {len(pairs)} points", better > MOST * len(pairs)


@CLAIMS.of(
    "8",
    "DQT's correlation of size with RETR tends to be higher at lower load, {} sizes",
    "uniform",
    "inverse",
)
def _higher(results: Results, distribution: str) -> Finding:
    """Mean correlations at loads of 0.2 and 0.4, and of 0.9 and more."""
    low, high = (
        np.mean(_of(results, "dqt", distribution, target=loads).column("fairness"))
        for loads in (LOW_LOADS, HIGH_LOADS)
    )
    return f"{low:.2f} at loads of 0.2 and 0.4, {high:.2f} at 0.9 and more", bool(low > high)


@CLAIMS.of("8", "with inverse sizes ScanUp is almost fair")
def _fair(results: Results) -> Finding:
    worst = max(map(abs, _of(results, "scan-up", "inverse").column("fairness")))
    return f"correlation at most {worst:.2f} from 0", worst < 0.15


@CLAIMS.of("8", "with many large tasks ScanUp favours them at high load")
def _favours(results: Results) -> Finding:
    found = _of(results, "scan-up", "proportional", target=HIGH_LOADS).column("fairness")
    return "correlations " + ", ".join(f"{value:.2f}" for value in found), bool(found) and max(found) < 0
