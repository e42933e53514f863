"""The sentences of Anastasiadis and Sevcik 1997 on speedups, partition sizes and waiting times, checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from harness.papers import Claim, verdict
from harness.papers.anastasiadis97.model import LOADS, AdaptiveResults
from harness.papers.anastasiadis97.workload import MU, PROCESSORS

ALIKE = 0.1
"""The paper knows each mean within 5 %, and cannot tell two apart that differ by less."""

CLOSE = 0.5
"""Partition sizes that differ by fewer processors are very close, on the paper's axes up to 32."""

ALMOST_ALL = 0.9
LOW, HIGH = LOADS[:1], LOADS[-2:]
PLAIN = ("ASP", "AP1", "AEP")


def speedups(results: AdaptiveResults) -> list[Claim]:
    """Figure 2."""
    curves = {(curve.mu, curve.maximum): curve.speedups for curve in results.curves}
    exponents = sorted({mu for mu, _ in curves}, reverse=True)
    maxima = sorted({maximum for _, maximum in curves})
    best = {maximum: curves[exponents[0], maximum][maximum - 1] for maximum in maxima}
    far = max(abs(speedup / (maximum / 2) - 1) for maximum, speedup in best.items())
    ordered = all(
        curves[more, maximum][p] > curves[less, maximum][p]
        for maximum in maxima
        for more, less in pairwise(exponents)
        for p in range(1, min(PROCESSORS, maximum))
    )
    words = ", ".join(f"{speedup:.2f} for {maximum}" for maximum, speedup in best.items())
    ends = ", ".join(
        f"{'infinite' if mu == exponents[0] else mu}: {curves[mu, maxima[-1]][PROCESSORS - 1]:.1f}"
        for mu in exponents
    )
    return [
        Claim(
            "without alpha the speedup on p_max processors is about p_max / 2", words, verdict(far < ALIKE)
        ),
        Claim(
            "the smaller mu, the poorer the speedup, for every p_max and up to it",
            f"for p_max of {maxima[-1]}, on {PROCESSORS} processors, mu {ends}",
            verdict(ordered),
        ),
    ]


def _size(results: AdaptiveResults, workload: str, load: float, policy: str) -> float | None:
    """Mean partition size; None where the policy is saturated."""
    runs = results.runs(workload, load, policy)
    return None if runs.saturated else runs.mean("processors").mean


def _sizes(results: AdaptiveResults, policy: str, loads: Iterable[float] = LOADS) -> list[float]:
    every = (_size(results, workload, load, policy) for workload in MU for load in loads)
    return [size for size in every if size is not None]


def limits(results: AdaptiveResults) -> list[Claim]:
    """Figure 3."""
    names = ("SDF-Max 1", "SDF-Max 2", "SDF-Max 6", "SDF")
    best = {workload: [_fastest(results, workload, load, names) for load in LOADS] for workload in MU}
    falls = all(names.index(a) >= names.index(b) for row in best.values() for a, b in pairwise(row))
    shown = "; ".join(f"{workload} {', '.join(row)}" for workload, row in best.items())
    fixed = {name: _sizes(results, name) for name in names[:2]}
    exact = all(
        abs(size - limit) < 0.01
        for limit, sizes in zip((1, 2), fixed.values(), strict=True)
        for size in sizes
    )
    least = {name: min(_sizes(results, name)) for name in names[2:]}
    good = results.ratio("WK1", 0.7, "SDF", "DYN-EQUI")
    return [
        Claim(
            "the higher the load, the smaller the limit on allocations that is best",
            f"best at loads of 10 to 90 %: {shown}",
            verdict(falls),
        ),
        Claim(
            "SDF-Max 1 and SDF-Max 2 keep partition sizes of 1 and 2",
            ", ".join(f"{name} {min(sizes):.3f} to {max(sizes):.3f}" for name, sizes in fixed.items()),
            verdict(exact),
        ),
        Claim(
            "SDF-Max 6 and SDF do not lower their mean partition sizes much below four",
            ", ".join(f"{name} at least {size:.2f}" for name, size in least.items()),
            verdict(min(least.values()) >= 4 * (1 - ALIKE)),
        ),
        Claim(
            "SDF performs excellently on WK1 at 70 %: close to DYN-EQUI",
            f"{good.mean:.2f} +- {good.half or 0:.2f} times its response time",
            verdict(good.mean < 1 + ALIKE, abs(good.mean - 1 - ALIKE) > (good.half or 0)),
        ),
    ]


def _fastest(results: AdaptiveResults, workload: str, load: float, names: Sequence[str]) -> str:
    """The policy with the shortest mean response time; a saturated one's is infinite."""
    return min(names, key=lambda name: results.runs(workload, load, name).mean("response_s").mean)


def plain(results: AdaptiveResults) -> list[Claim]:
    """Figure 4(b), and waiting times."""
    cells = [(workload, load) for workload in MU for load in LOADS]
    apart = {cell: _differ(results, cell, "AP1", "ASP") for cell in cells}
    (workload, load), worst = max(apart.items(), key=lambda item: abs(item[1]))
    smaller = _below(results, "processors", "AEP", ("ASP", "AP1"), cells)
    waits = _below(results, "wait_s", "AEP", ("ASP", "AP1"), cells)
    return [
        Claim(
            "the partition sizes of ASP and AP1 are the same",
            f"at most {abs(worst):.0%} apart ({workload}, {load:.0%})",
            verdict(abs(worst) < ALIKE),
        ),
        Claim(
            "in almost all cases AEP has smaller partitions than ASP and AP1",
            f"in {smaller} of {len(cells)}",
            verdict(smaller >= ALMOST_ALL * len(cells)),
        ),
        Claim(
            "jobs tend to wait less under AEP than under ASP and AP1",
            f"in {waits} of {len(cells)} cases",
            verdict(waits >= 2 / 3 * len(cells)),
        ),
    ]


def _differ(results: AdaptiveResults, cell: tuple[str, float], policy: str, other: str) -> float:
    """Relative difference of the mean partition sizes of two policies; 0 where one is saturated."""
    ours, theirs = (_size(results, *cell, name) for name in (policy, other))
    return 0.0 if ours is None or theirs is None else ours / theirs - 1


def _below(
    results: AdaptiveResults,
    value: str,
    policy: str,
    others: Sequence[str],
    cells: Iterable[tuple[str, float]],
) -> int:
    """The number of cells in which ``policy`` has a smaller ``value`` than each of the ``others``."""
    return sum(
        all(
            results.runs(*cell, policy).mean(value).mean < results.runs(*cell, other).mean(value).mean
            for other in others
        )
        for cell in cells
    )


def ordered(results: AdaptiveResults) -> list[Claim]:
    """Figure 5: the same policies with the shortest demand first."""
    low = {
        name: [results.ratio(workload, load, f"{name}(1)", name).mean for workload in MU for load in LOW]
        for name in PLAIN
    }
    gains = {
        suffix: [
            1 - results.ratio(workload, load, f"AEP{suffix}", f"ASP{suffix}").mean
            for workload in MU
            for load in HIGH
        ]
        for suffix in ("", "(1)")
    }
    before, after = (sum(values) / len(values) for values in gains.values())
    high = [(workload, load) for workload in MU for load in HIGH]
    less = sum(_below(results, "wait_s", f"{name}(1)", (name,), high) for name in PLAIN)
    adapting = {
        name: all(a > b for w in MU for a, b in pairwise(_of_workload(results, w, f"{name}(1)")))
        for name in PLAIN
    }
    span = {name: _of_workload(results, "WK4", f"{name}(1)") for name in PLAIN}
    return [
        Claim(
            "at very low load (10 %) the order of the queue improves nothing",
            ", ".join(f"{name} {min(values):.2f} to {max(values):.2f}" for name, values in low.items()),
            verdict(min(min(values) for values in low.values()) > 1 - ALIKE / 2),
        ),
        Claim(
            "the advantage of AEP is considerably smaller with the shortest demand first (at least halved)",
            f"{before:.0%} against ASP at 70 and 90 %, {after:.0%} against ASP(1)",
            verdict(after <= before / 2),
        ),
        Claim(
            "the shortest demand first decreases the waiting time at high load (70 and 90 %)",
            f"in {less} of {len(PLAIN) * len(high)} cases",
            verdict(less == len(PLAIN) * len(high)),
        ),
        Claim(
            "it does not restrict the adaptability: partition sizes fall with the load",
            "on WK4 " + ", ".join(f"{n}(1) {max(s):.1f} to {min(s):.1f}" for n, s in span.items() if s),
            verdict(all(adapting.values())),
        ),
    ]


def _of_workload(results: AdaptiveResults, workload: str, policy: str) -> list[float]:
    every = (_size(results, workload, load, policy) for load in LOADS)
    return [size for size in every if size is not None]


def differential(results: AdaptiveResults) -> list[Claim]:
    """Figure 6(b)."""
    cells = [(workload, load) for workload in MU for load in LOADS]
    far = {
        (name, workload): abs((_size(results, workload, 0.9, name) or 0) - (reference or 0))
        for workload in MU
        for reference in [_size(results, workload, 0.9, "DYN-EQUI")]
        for name in ("ASP(2)", "AP1(2)", "AEP(2)")
    }
    (name, where), most = max(far.items(), key=lambda item: item[1])
    apart = {cell: _differ(results, cell, "AEP(2)", "AEP(1)") for cell in cells}
    worst = max(apart.values(), key=abs)
    waits = [_waits_apart(results, cell) for cell in cells]
    return [
        Claim(
            "at 90 % the mean partition sizes of the three are very close to DYN-EQUI's",
            f"at most {most:.2f} processors apart ({name} on {where})",
            verdict(most < CLOSE),
        ),
        Claim(
            "differential allocation leaves AEP's partition sizes and waiting times as they are",
            f"sizes at most {abs(worst):.0%} apart, waits {max(waits):.0%} of the response time",
            verdict(abs(worst) < ALIKE and max(waits) < ALIKE),
        ),
    ]


def _waits_apart(results: AdaptiveResults, cell: tuple[str, float]) -> float:
    """Difference of the mean waits of AEP(1) and AEP(2) over the response time of AEP(1)."""
    first, second = (results.runs(*cell, name) for name in ("AEP(1)", "AEP(2)"))
    if first.saturated or second.saturated:
        return 0.0
    return abs(first.mean("wait_s").mean - second.mean("wait_s").mean) / first.mean("response_s").mean
