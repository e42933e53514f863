"""The sentences of Anastasiadis and Sevcik 1997, checked against the simulations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from types import SimpleNamespace

from harness.papers import FAILS, HOLDS, OPEN, Cell, Claims, Finding, Results, sweep, verdict
from harness.papers.anastasiadis97.model import (
    DIFFERENTIAL,
    LIMITED,
    LOADS,
    MAXIMA,
    MU,
    ORDERED,
    PLAIN,
    PROCESSORS,
    REFERENCE,
    ratio,
)
from harness.predict.replicate import Mean

RESOLUTION = 0.05
"""Relative half-width of the paper's intervals: the paper cannot see that a policy is worse by less."""

ALIKE = 2 * RESOLUTION
"""The paper knows each mean within RESOLUTION, and cannot tell two apart that differ by less."""

CLOSE = 0.5
"""Partition sizes that differ by fewer processors are very close, on the paper's axes up to 32."""

ALMOST_ALL = 0.9
CELLS = sweep(workload=MU, load=LOADS)
HIGH = sweep(workload=MU, load=LOADS[-2:])
HIGHEST = sweep(workload=MU, load=LOADS[-1:])

CLAIMS = Claims()


def _above(ratio: Mean) -> bool:
    """Whether a ratio is above 1 beyond its interval."""
    return ratio.mean - (ratio.half or 0) > 1


def _below(ratio: Mean) -> bool:
    return ratio.mean + (ratio.half or 0) < 1


def _below_bound(ratio: Mean, bound: float) -> str:
    """Whether a ratio is below ``bound``; its interval says whether that is significant."""
    return verdict(ratio.mean < bound, abs(ratio.mean - bound) > (ratio.half or 0))


def _all_of(verdicts: Iterable[str]) -> str:
    """The verdict of a claim about several cells: it fails if it fails in one."""
    every = set(verdicts)
    return next(one for one in (FAILS, OPEN, HOLDS) if one in every)


def _shown(ratio: Mean) -> str:
    return f"{ratio.mean:.2f} +- {ratio.half or 0:.2f}"


def _mean(results: Results, cell: Cell, policy: str, name: str) -> float:
    return float(results[cell.but(policy=policy)].mean(name).mean)


def _sizes(results: Results, policy: str, cells: Iterable[Cell] = CELLS) -> list[float]:
    """Mean partition sizes, but of cells in which the policy is saturated."""
    every = (results[cell.but(policy=policy)] for cell in cells)
    return [runs.mean("processors").mean for runs in every if not runs.saturated]


def _size_apart(results: Results, cell: Cell, policy: str, other: str) -> float:
    """Relative difference of the mean partition sizes of two policies; 0 where one is saturated."""
    if any(results[cell.but(policy=name)].saturated for name in (policy, other)):
        return 0.0
    ours, theirs = (_mean(results, cell, name, "processors") for name in (policy, other))
    return ours / theirs - 1


def _smaller(
    results: Results, name: str, policy: str, others: Sequence[str], cells: Iterable[Cell] = CELLS
) -> int:
    """The number of cells in which ``policy`` has a smaller mean than each of the ``others``."""
    return sum(
        all(_mean(results, cell, policy, name) < _mean(results, cell, other, name) for other in others)
        for cell in cells
    )


def _waiting(results: Results, policy: str) -> tuple[list[SimpleNamespace], str]:
    """The waiting ratios of a policy, and in words."""
    found = sorted(results.where(figure="1", policy=policy).values(), key=lambda one: one.actual_load)
    words = (f"{one.found:.2f} (theory {one.predicted:.2f}) at {one.actual_load:.2f}" for one in found)
    return found, ", ".join(words)


@CLAIMS.of("1", "the waiting time is shorter under AEP than under AP1")
def _waits(results: Results) -> Finding:
    (aep, words), (ap1, _) = _waiting(results, "AEP"), _waiting(results, "AP1")
    return words, all(a.found <= b.found + 1e-9 for a, b in zip(aep, ap1, strict=True))


@CLAIMS.of("1", "at the highest load AP1 keeps W near T, while W becomes small against T under AEP")
def _highest(results: Results) -> Finding:
    aep, ap1 = (_waiting(results, policy)[0][-1].found for policy in ("AEP", "AP1"))
    return f"W/T {ap1:.2f} and {aep:.2f}", ap1 > 0.5 and aep < ap1 / 2


@CLAIMS.of("1", "W/T of AEP and AP1 follow (1 - load)/load and 1/load (within a factor of 2 from 0.5 on)")
def _theory(results: Results) -> Finding:
    (aep, of_aep), (ap1, of_ap1) = _waiting(results, "AEP"), _waiting(results, "AP1")
    ratios = [one.found / one.predicted for one in (*aep, *ap1) if one.actual_load >= 0.5]
    return f"AEP {of_aep}; AP1 {of_ap1}", all(0.5 <= one <= 2 for one in ratios)


EXPONENTS = sorted(MU["WK4"], reverse=True)


@CLAIMS.of("2", "without alpha the speedup on p_max processors is about p_max / 2")
def _half_of_linear(results: Results) -> Finding:
    best = {p: results[Cell(mu=EXPONENTS[0], maximum=p)].speedups[p - 1] for p in MAXIMA}
    words = ", ".join(f"{speedup:.2f} for {maximum}" for maximum, speedup in best.items())
    return words, max(abs(speedup / (maximum / 2) - 1) for maximum, speedup in best.items()) < ALIKE


@CLAIMS.of("2", "the smaller mu, the poorer the speedup, for every p_max and up to it")
def _poorer(results: Results) -> Finding:
    curves = {
        (cell.mu, cell.maximum): found.speedups for cell, found in results.where(maximum=MAXIMA).items()
    }
    ends = ", ".join(
        f"{'infinite' if mu == EXPONENTS[0] else mu}: {curves[mu, MAXIMA[-1]][PROCESSORS - 1]:.1f}"
        for mu in EXPONENTS
    )
    ordered = all(
        curves[more, maximum][p] > curves[less, maximum][p]
        for maximum in MAXIMA
        for more, less in pairwise(EXPONENTS)
        for p in range(1, min(PROCESSORS, maximum))
    )
    return f"for p_max of {MAXIMA[-1]}, on {PROCESSORS} processors, mu {ends}", ordered


@CLAIMS.of(
    "3",
    "{} saturates at {:.0%} on {}",
    ("SDF", 0.9, "WK1"),
    ("SDF-Max 2", 0.9, "WK1"),
    ("SDF-Max 6", 0.9, "WK1"),
    ("SDF", 0.5, "WK3"),
    ("SDF-Max 6", 0.5, "WK3"),
)
def _saturates(results: Results, policy: str, load: float, workload: str) -> Finding:
    runs = results[Cell(workload=workload, load=load, policy=policy)]
    return f"in {runs.stuck} of {runs.stuck + len(runs.metrics)} replications", runs.saturated


@CLAIMS.of("3", "SDF-Max 1 never saturates")
def _never(results: Results) -> Finding:
    hit = [c for c in CELLS if results[c.but(policy="SDF-Max 1")].saturated]
    return ", ".join(f"{c.workload} {c.load:.0%}" for c in hit) or f"in none of {len(CELLS)} cells", not hit


@CLAIMS.of("3", "the higher the load, the smaller the limit on allocations that is best")
def _best_limit(results: Results) -> Finding:
    """The best has the shortest mean response time; a saturated policy's is infinite."""
    best = {
        workload: [
            min(LIMITED, key=lambda name, cell=cell: _mean(results, cell, name, "response_s"))  # type: ignore[misc]
            for cell in CELLS
            if cell.workload == workload
        ]
        for workload in MU
    }
    falls = all(LIMITED.index(a) >= LIMITED.index(b) for row in best.values() for a, b in pairwise(row))
    words = "; ".join(f"{workload} {', '.join(row)}" for workload, row in best.items())
    return f"best at loads of 10 to 90 %: {words}", falls


@CLAIMS.of("3", "SDF-Max 1 and SDF-Max 2 keep partition sizes of 1 and 2")
def _kept(results: Results) -> Finding:
    sizes = {name: _sizes(results, name) for name in LIMITED[:2]}
    words = ", ".join(f"{name} {min(some):.3f} to {max(some):.3f}" for name, some in sizes.items())
    exact = (abs(size - limit) < 0.01 for limit, name in enumerate(sizes, 1) for size in sizes[name])
    return words, all(exact)


@CLAIMS.of("3", "SDF-Max 6 and SDF do not lower their mean partition sizes much below four")
def _least(results: Results) -> Finding:
    least = {name: min(_sizes(results, name)) for name in LIMITED[2:]}
    words = ", ".join(f"{name} at least {size:.2f}" for name, size in least.items())
    return words, min(least.values()) >= 4 * (1 - ALIKE)


@CLAIMS.of("3", "SDF performs excellently on WK1 at 70 %: close to DYN-EQUI")
def _good(results: Results) -> Finding:
    good = ratio(results, Cell(workload="WK1", load=0.7), "SDF")
    return f"{_shown(good)} times its response time", _below_bound(good, 1 + ALIKE)


@CLAIMS.of("4", "ASP and AP1 have almost the same response time everywhere")
def _alike(results: Results) -> Finding:
    ratios = [ratio(results, cell, "AP1", "ASP") for cell in CELLS]
    apart = [Mean(abs(one.mean - 1), one.half, one.n) for one in ratios]
    cell, worst = max(zip(CELLS, apart, strict=True), key=lambda pair: pair[1].mean)
    words = f"at most {worst.mean:.0%} apart ({cell.workload}, {cell.load:.0%})"
    return words, _all_of(_below_bound(one, ALIKE) for one in apart)


def _shorter(results: Results, policy: str, other: str) -> Finding:
    ratios = [ratio(results, cell, policy, other) for cell in CELLS]
    above = [(cell, one) for cell, one in zip(CELLS, ratios, strict=True) if _above(one)]
    below = sum(map(_below, ratios))
    words = f"lower in {below} of {len(CELLS)} cells, down to {min(one.mean for one in ratios):.2f}"
    higher = ", ".join(f"{cell.workload} {cell.load:.0%}: {one.mean:.2f}" for cell, one in above)
    seen = any(one.mean > 1 + RESOLUTION for _, one in above)
    return f"{words}; higher in {higher or 'none'}", FAILS if seen else HOLDS if below else OPEN


SHORTER = "{} has a shorter response time than {}, or one as long within 5 %"
CLAIMS.of("4", SHORTER, ("AEP", "ASP"), ("AEP", "AP1"))(_shorter)


@CLAIMS.of("4", "the partition sizes of ASP and AP1 are the same")
def _same_sizes(results: Results) -> Finding:
    apart = [(abs(_size_apart(results, cell, "AP1", "ASP")), cell) for cell in CELLS]
    worst, cell = max(apart, key=lambda pair: pair[0])
    return f"at most {worst:.0%} apart ({cell.workload}, {cell.load:.0%})", worst < ALIKE


@CLAIMS.of("4", "in almost all cases AEP has smaller partitions than ASP and AP1")
def _smaller_sizes(results: Results) -> Finding:
    smaller = _smaller(results, "processors", "AEP", ("ASP", "AP1"))
    return f"in {smaller} of {len(CELLS)}", smaller >= ALMOST_ALL * len(CELLS)


@CLAIMS.of("4", "jobs tend to wait less under AEP than under ASP and AP1")
def _less_wait(results: Results) -> Finding:
    waits = _smaller(results, "wait_s", "AEP", ("ASP", "AP1"))
    return f"in {waits} of {len(CELLS)} cases", waits >= 2 / 3 * len(CELLS)


def _ordered(results: Results, name: str, cells: Iterable[Cell] = HIGH) -> list[Mean]:
    """With the shortest demand first over first come, first served."""
    return [ratio(results, cell, f"{name}(1)", name) for cell in cells]


@CLAIMS.of("5", "{0}(1) improves on {0} at high load (70 and 90 %)", *PLAIN)
def _improves(results: Results, name: str) -> Finding:
    ratios = _ordered(results, name)
    words = f"ratios {min(r.mean for r in ratios):.2f} to {max(r.mean for r in ratios):.2f}"
    return words, FAILS if any(map(_above, ratios)) else verdict(True, all(map(_below, ratios)))


@CLAIMS.of("5", "at high load the response time falls, in some cases, by more than half")
def _by_half(results: Results) -> Finding:
    lowest = min((r for name in PLAIN for r in _ordered(results, name)), key=lambda ratio: ratio.mean)
    return f"down to {_shown(lowest)}", _below_bound(lowest, 0.5)


@CLAIMS.of("5", "at very low load (10 %) the order of the queue improves nothing")
def _low(results: Results) -> Finding:
    cells = [cell for cell in CELLS if cell.load == LOADS[0]]
    low = {name: [one.mean for one in _ordered(results, name, cells)] for name in PLAIN}
    words = ", ".join(f"{name} {min(values):.2f} to {max(values):.2f}" for name, values in low.items())
    return words, min(map(min, low.values())) > 1 - ALIKE / 2


@CLAIMS.of(
    "5", "the advantage of AEP is considerably smaller with the shortest demand first (at least halved)"
)
def _halved(results: Results) -> Finding:
    before, after = (
        sum(1 - ratio(results, cell, f"AEP{suffix}", f"ASP{suffix}").mean for cell in HIGH) / len(HIGH)
        for suffix in ("", "(1)")
    )
    return f"{before:.0%} against ASP at 70 and 90 %, {after:.0%} against ASP(1)", after <= before / 2


@CLAIMS.of("5", "the shortest demand first decreases the waiting time at high load (70 and 90 %)")
def _waits_fall(results: Results) -> Finding:
    less = sum(_smaller(results, "wait_s", f"{name}(1)", (name,), HIGH) for name in PLAIN)
    return f"in {less} of {len(PLAIN) * len(HIGH)} cases", less == len(PLAIN) * len(HIGH)


@CLAIMS.of("5", "it does not restrict the adaptability: partition sizes fall with the load")
def _adapts(results: Results) -> Finding:
    sizes = {
        (name, workload): _sizes(results, name, sweep(workload=[workload], load=LOADS))
        for workload in MU
        for name in ORDERED
    }
    shown = ((name, some) for (name, workload), some in sizes.items() if workload == "WK4" and some)
    words = ", ".join(f"{name} {max(some):.1f} to {min(some):.1f}" for name, some in shown)
    return f"on WK4 {words}", all(a > b for some in sizes.values() for a, b in pairwise(some))


CLAIMS.of("6", SHORTER, ("AEP(2)", "ASP(2)"), ("AEP(2)", "AP1(2)"))(_shorter)


@CLAIMS.of("6", "differential allocation hardly changes ASP(1) and AP1(1)")
def _little(results: Results) -> Finding:
    changes = [
        (abs(ratio(results, cell, f"{name}(2)", f"{name}(1)").mean - 1), name, cell)
        for name in ("ASP", "AP1")
        for cell in CELLS
    ]
    most, name, cell = max(changes, key=lambda change: change[0])
    return f"at most {most:.0%} ({name}, {cell.workload}, {cell.load:.0%})", most <= ALIKE


@CLAIMS.of(
    "6",
    "differential allocation is effective with AEP: the gain of AEP(2) is considerable at high loads",
)
def _effective(results: Results) -> Finding:
    """Sections 6.4 and 7; the gain counts as considerable if the paper could see it."""
    ratios = [ratio(results, cell, "AEP(2)", "AEP(1)") for cell in HIGH]
    best = min(ratios, key=lambda ratio: ratio.mean)
    words = f"AEP(2) takes {_shown(best)} to {max(one.mean for one in ratios):.2f} of AEP(1)'s time"
    return words, _below_bound(best, 1 - RESOLUTION)


@CLAIMS.of("6", "on WK4 AEP(2) stays within 30 % of DYN-EQUI")
def _within(results: Results) -> Finding:
    ratios = [ratio(results, cell, "AEP(2)") for cell in sweep(workload=["WK4"], load=LOADS)]
    words = ", ".join(map(_shown, ratios))
    return f"{words} at loads of 10 to 90 %", _all_of(_below_bound(one, 1.3) for one in ratios)


@CLAIMS.of("6", "on WK4 at 50 % ASP(2) is more than 75 % above DYN-EQUI")
def _far_above(results: Results) -> Finding:
    half = ratio(results, Cell(workload="WK4", load=0.5), "ASP(2)")
    return _shown(half), verdict(half.mean > 1.75, abs(half.mean - 1.75) > (half.half or 0))


@CLAIMS.of("6", "at 90 % ASP(2), AP1(2) and AEP(2) do better than DYN-EQUI")
def _ahead(results: Results) -> Finding:
    ratios = {
        f"{name} {{}} on {cell.workload}": ratio(results, cell, name)
        for name in DIFFERENTIAL
        for cell in HIGHEST
    }
    words = ", ".join(text.format(_shown(one)) for text, one in ratios.items())
    return words, _all_of(_below_bound(one, 1) for one in ratios.values())


@CLAIMS.of("6", "at 90 % the mean partition sizes of the three are very close to DYN-EQUI's")
def _near_reference(results: Results) -> Finding:
    """The size under a saturated policy counts as 0."""
    far = {
        f"{name} on {cell.workload}": abs(
            sum(_sizes(results, name, [cell])) - sum(_sizes(results, REFERENCE, [cell]))
        )
        for cell in HIGHEST
        for name in DIFFERENTIAL
    }
    where = max(far, key=lambda where: far[where])
    return f"at most {far[where]:.2f} processors apart ({where})", far[where] < CLOSE


@CLAIMS.of("6", "differential allocation leaves AEP's partition sizes and waiting times as they are")
def _as_they_are(results: Results) -> Finding:
    size = max(abs(_size_apart(results, cell, "AEP(2)", "AEP(1)")) for cell in CELLS)
    wait = max(_waits_apart(results, cell) for cell in CELLS)
    words = f"sizes at most {size:.0%} apart, waits {wait:.0%} of the response time"
    return words, size < ALIKE and wait < ALIKE


def _waits_apart(results: Results, cell: Cell) -> float:
    """Difference of the mean waits of AEP(1) and AEP(2) over the response time of AEP(1)."""
    if any(results[cell.but(policy=name)].saturated for name in ("AEP(1)", "AEP(2)")):
        return 0.0
    first, second = (_mean(results, cell, name, "wait_s") for name in ("AEP(1)", "AEP(2)"))
    return abs(first - second) / _mean(results, cell, "AEP(1)", "response_s")
