"""The sentences of Hori et al. 1996, checked against the simulations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from harness.papers import Claim, verdict
from harness.papers.hori96.model import SIZES

if TYPE_CHECKING:
    from harness.papers.hori96.model import Results, TreeCell, TreeOutcome

LINEAR = 0.03
"""Utilisation counts as linear within this of the load, and as close to DQT's within this of it."""

SMALL = 0.05
"""A degradation of utilisation up to this is small."""

COMPARED_LOAD = 0.9
"""The actual load at which systems of different sizes are compared."""

MOST = 2 / 3
"""A claim about "most" cases needs more than this share of them."""

LOW_LOADS, HIGH_LOADS = (0.2, 0.4), (0.9, 0.95, 0.97, 0.99)

SIGNIFICANT_LOADS = (0.8, 0.9, 0.95, 0.97, 0.99)


def _of(
    points: Results, policy: str, distribution: str, processors: int | None = 1024
) -> list[tuple[TreeCell, TreeOutcome]]:
    return [
        (cell, point)
        for cell, point in points.items()
        if cell.policy == policy
        and cell.distribution == distribution
        and processors in (None, cell.processors)
    ]


def _linear(points: Results) -> list[Claim]:
    made = []
    for distribution in ("proportional", "uniform", "inverse"):
        cells = _of(points, "dqt", distribution, None)
        worst_cell, worst = max(cells, key=lambda cell: cell[1].load - cell[1].utilisation)
        gap = worst.load - worst.utilisation
        text = f"DQT's utilisation is linear in the load to 0.99, P = 128 to 4096, {distribution} sizes"
        words = f"at most {gap:.3f} below the load (P = {worst_cell.processors}, load {worst.load:.2f})"
        made.append(Claim(text, words, verdict(gap <= LINEAR)))
    return [*made, _worst_sizes(points), _independent(points)]


def _worst_sizes(points: Results) -> Claim:
    """Mean shortfall of utilisation below loads of 0.9 and more, over all sizes of the system."""
    gaps = {
        distribution: float(
            np.mean(
                [
                    point.load - point.utilisation
                    for cell, point in _of(points, "dqt", distribution, None)
                    if cell.target in HIGH_LOADS
                ]
            )
        )
        for distribution in ("proportional", "uniform", "inverse")
    }
    text = "DQT's utilisation is somewhat poorer with uniform sizes than with the others"
    words = ", ".join(f"{name} {gap:.3f}" for name, gap in gaps.items())
    holds = max(gaps, key=lambda name: gaps[name]) == "uniform"
    return Claim(text, f"mean shortfall at loads of 0.9 and more: {words}", verdict(holds))


def _independent(points: Results) -> Claim:
    """RETR at one actual load, by interpolation: the actual load of each simulation is random."""
    spread: dict[str, list[float]] = {}
    for distribution in ("proportional", "uniform", "inverse"):
        curves = [_of(points, "dqt", distribution, size) for size in SIZES]
        reaching = [c for c in curves if max((point.load for _, point in c), default=0) >= COMPARED_LOAD]
        spread[distribution] = [_retr_at(COMPARED_LOAD, curve) for curve in reaching]
    ratios = {name: max(retrs) / min(retrs) for name, retrs in spread.items() if len(retrs) > 1}
    shown = ", ".join(f"{name} {ratio:.2f} of {len(spread[name])}" for name, ratio in ratios.items())
    text = "DQT behaves almost independently of the size of the system"
    words = f"RETR at an actual load of {COMPARED_LOAD}, largest over smallest: {shown or 'unknown'} sizes"
    return Claim(text, words, verdict(max(ratios.values(), default=0) < 1.5, len(ratios) == 3))


def _retr_at(load: float, curve: Sequence[tuple[TreeCell, TreeOutcome]]) -> float:
    """Mean RETR at an actual load, interpolated between neighbouring points by its inverse."""
    results = sorted((point.load, point.retr) for _, point in curve)
    loads, retrs = np.array(results).T
    return float(1 / np.interp(load, loads, 1 / retrs))


def _limit(points: Results, policy: str, distribution: str) -> float:
    return max((point.utilisation for _, point in _of(points, policy, distribution)), default=np.nan)


def _batch(points: Results) -> list[Claim]:
    made = []
    for distribution in ("proportional", "uniform", "inverse"):
        limits = {
            name: _limit(points, name, distribution) for name in ("fcfs-bb", "scan-up", "fair-dqt", "dqt")
        }
        first = min(limits, key=lambda name: limits[name])
        words = ", ".join(f"{name} {value:.2f}" for name, value in limits.items())
        text = f"FCFS-BB saturates first, {distribution} sizes (highest utilisation reached)"
        made.append(Claim(text, words, verdict(first == "fcfs-bb")))
    made += [_external(points), _upwards(points)]
    for distribution in ("proportional", "uniform"):
        gap = _gap(points, "scan-up", distribution)
        text = f"ScanUp is close to DQT in utilisation, {distribution} sizes"
        made.append(Claim(text, f"at most {gap:.3f} below", verdict(gap <= LINEAR)))
    gap = _gap(points, "scan-up", "inverse")
    text = "ScanUp has relatively lower utilisation with inverse sizes"
    others = max(_gap(points, "scan-up", name) for name in ("proportional", "uniform"))
    made.append(Claim(text, f"up to {gap:.3f} below DQT, {others:.3f} with others", verdict(gap > others)))
    ratios = [
        scan.retr / dqt.retr
        for cell, scan, dqt in _pairs(points, "scan-up")
        if cell.distribution != "inverse"
    ]
    text = "the RETR curves of DQT and ScanUp almost overlap, proportional and uniform sizes"
    words = f"ScanUp's is {min(ratios):.1f} to {max(ratios):.1f} times DQT's"
    made.append(Claim(text, words, verdict(max(ratios) < 1.5)))
    gap = max(_gap(points, "fair-dqt", name) for name in ("proportional", "uniform", "inverse"))
    text = "Fair-DQT loses only little utilisation against DQT"
    made.append(Claim(text, f"at most {gap:.3f}", verdict(gap <= SMALL)))
    return made


def _external(points: Results) -> Claim:
    """The range of a policy's highest utilisation over the distributions of task sizes."""
    spans = {}
    for policy in ("fcfs-bb", "dqt"):
        limits = [_limit(points, policy, name) for name in ("proportional", "uniform", "inverse")]
        spans[policy] = (min(limits), max(limits))
    text = "FCFS-BB's utilisation depends strongly on the distribution of sizes"
    words = ", ".join(f"{name} reaches {low:.2f} to {high:.2f}" for name, (low, high) in spans.items())
    widths = {name: high - low for name, (low, high) in spans.items()}
    holds = widths["fcfs-bb"] > SMALL and widths["fcfs-bb"] > 2 * widths["dqt"]
    return Claim(text, words, verdict(holds))


def _upwards(points: Results) -> Claim:
    """ScanUp against ScanDown on the same tasks: mean RETR and utilisation (section 2.1)."""
    pairs = [
        (up, down)
        for distribution in ("proportional", "uniform", "inverse")
        for cell, up in _of(points, "scan-up", distribution)
        for other, down in _of(points, "scan-down", distribution)
        if other.target == cell.target
    ]
    ratios = [down.retr / up.retr for up, down in pairs]
    gaps = [up.utilisation - down.utilisation for up, down in pairs]
    better = all(ratio >= 1 for ratio in ratios) and all(gap >= 0 for gap in gaps)
    shorter = sum(ratio > 1 for ratio in ratios)
    words = (
        f"ScanDown's mean RETR is {min(ratios):.2f} to {max(ratios):.2f} times ScanUp's, longer in {shorter}"
    )
    words += f" of {len(pairs)} points; its utilisation is {min(gaps):.3f} to {max(gaps):.3f} lower"
    return Claim("ScanUp always does better than ScanDown", words, verdict(better))


def _gap(points: Results, policy: str, distribution: str) -> float:
    """The largest distance of a policy's utilisation below DQT's."""
    ours = {cell.target: point.utilisation for cell, point in _of(points, policy, distribution)}
    theirs = {cell.target: point.utilisation for cell, point in _of(points, "dqt", distribution)}
    return max(theirs[target] - ours[target] for target in ours if target in theirs)


def _pairs(points: Results, policy: str) -> Iterable[tuple[TreeCell, TreeOutcome, TreeOutcome]]:
    for distribution in ("proportional", "uniform", "inverse"):
        ours = {cell.target: (cell, point) for cell, point in _of(points, policy, distribution)}
        theirs = {cell.target: point for cell, point in _of(points, "dqt", distribution)}
        for target, (cell, point) in ours.items():
            if target in theirs:
                yield cell, point, theirs[target]


def _retr(points: Results) -> list[Claim]:
    pairs = list(_pairs(points, "fair-dqt"))
    made = []
    for name, value in (("mean", "retr"), ("maximum", "most_retr")):
        ratios = {
            f"{cell.distribution} {cell.target}": getattr(fair, value) / getattr(dqt, value)
            for cell, fair, dqt in pairs
        }
        shorter = [point for point, ratio in ratios.items() if ratio < 1]
        words = f"Fair-DQT's is {min(ratios.values()):.2f} to {max(ratios.values()):.2f} times DQT's"
        words += f"; shorter at {', '.join(shorter)}" if shorter else ""
        made.append(Claim(f"DQT always has a shorter {name} RETR than Fair-DQT", words, verdict(not shorter)))
    return made


def _fair(points: Results) -> list[Claim]:
    made = []
    values = [
        point.fairness
        for distribution in ("proportional", "uniform", "inverse")
        for _, point in _of(points, "dqt", distribution)
    ]
    positive = sum(value > 0 for value in values)
    text = "DQT's correlation of size with RETR is positive in most cases: large tasks wait longer"
    made.append(Claim(text, f"in {positive} of {len(values)}", verdict(positive > MOST * len(values))))
    pairs = [
        (fair, dqt) for cell, fair, dqt in _pairs(points, "fair-dqt") if cell.target in SIGNIFICANT_LOADS
    ]
    better = sum(abs(fair.fairness) < abs(dqt.fairness) for fair, dqt in pairs)
    text = "Fair-DQT is fairer than DQT (loads of 0.8 and more)"
    made.append(Claim(text, f"in {better} of {len(pairs)} points", verdict(better > MOST * len(pairs))))
    made += [_low(points, distribution) for distribution in ("uniform", "inverse")]
    scan = [point.fairness for _, point in _of(points, "scan-up", "inverse")]
    text = "with inverse sizes ScanUp is almost fair"
    worst = max(map(abs, scan))
    made.append(Claim(text, f"correlation at most {worst:.2f} from 0", verdict(worst < 0.15)))
    scan = [point.fairness for cell, point in _of(points, "scan-up", "proportional") if cell.target >= 0.9]
    text = "with many large tasks ScanUp favours them at high load"
    words = "correlations " + ", ".join(f"{value:.2f}" for value in scan)
    made.append(Claim(text, words, verdict(bool(scan) and max(scan) < 0)))
    return made


def _low(points: Results, distribution: str) -> Claim:
    """Mean correlations at loads of 0.2 and 0.4, and of 0.9 and more."""
    low, high = (
        [point.fairness for cell, point in _of(points, "dqt", distribution) if cell.target in loads]
        for loads in (LOW_LOADS, HIGH_LOADS)
    )
    text = f"DQT's correlation of size with RETR tends to be higher at lower load, {distribution} sizes"
    words = f"{np.mean(low):.2f} at loads of 0.2 and 0.4, {np.mean(high):.2f} at 0.9 and more"
    return Claim(text, words, verdict(bool(np.mean(low) > np.mean(high))))


def _feasible(check: Callable[[Results], list[Claim]]) -> Callable[[Results], list[Claim]]:
    """``check`` without the points at which more work arrived than the machine can do."""
    return lambda results: check({cell: point for cell, point in results.items() if point.load <= 1})


CLAIMS = {
    "5": _feasible(_linear),
    "6": _feasible(_batch),
    "7": _feasible(_retr),
    "8": _feasible(_fair),
}
