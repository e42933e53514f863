"""The sentences of Anastasiadis and Sevcik 1997, checked against the simulations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from harness.papers import FAILS, HOLDS, OPEN, Claim, verdict
from harness.papers.anastasiadis97 import partition_claims
from harness.papers.anastasiadis97.model import LOADS, AdaptiveResults
from harness.papers.anastasiadis97.workload import MU, WaitingRatio
from harness.predict.replicate import Mean

RESOLUTION = 0.05
"""Relative half-width of the paper's intervals: the paper cannot see that a policy is worse by less."""

HIGH_LOAD = 0.7

ALIKE = 2 * RESOLUTION
"""The paper knows each mean within RESOLUTION, and cannot tell two apart that differ by less."""


def _below_bound(ratio: Mean, bound: float) -> str:
    """Whether a ratio is below ``bound``; its interval says whether that is significant."""
    return verdict(ratio.mean < bound, abs(ratio.mean - bound) > (ratio.half or 0))


def _all_of(verdicts: Iterable[str]) -> str:
    """The verdict of a claim about several cells: it fails if it fails in one."""
    every = set(verdicts)
    return next(one for one in (FAILS, OPEN, HOLDS) if one in every)


def _ratios(results: AdaptiveResults) -> list[Claim]:
    ratios = sorted(results.ratios, key=lambda ratio: ratio.actual_load)
    aep, ap1 = ([ratio for ratio in ratios if ratio.policy == policy] for policy in ("AEP", "AP1"))

    def text(some: Iterable[WaitingRatio]) -> str:
        return ", ".join(f"{r.found:.2f} (theory {r.predicted:.2f}) at {r.actual_load:.2f}" for r in some)

    below = all(a.found <= b.found + 1e-9 for a, b in zip(aep, ap1, strict=True))
    last_aep, last_ap1 = aep[-1], ap1[-1]
    return [
        Claim("the waiting time is shorter under AEP than under AP1", text(aep), verdict(below)),
        Claim(
            "at the highest load AP1 keeps W near T, while W becomes small against T under AEP",
            f"W/T {last_ap1.found:.2f} and {last_aep.found:.2f}",
            verdict(last_ap1.found > 0.5 and last_aep.found < last_ap1.found / 2),
        ),
        Claim(
            "W/T of AEP and AP1 follow (1 - load)/load and 1/load (within a factor of 2 from 0.5 on)",
            f"AEP {text(aep)}; AP1 {text(ap1)}",
            verdict(all(0.5 <= r.found / r.predicted <= 2 for r in (*aep, *ap1) if r.actual_load >= 0.5)),
        ),
    ]


def _saturation(results: AdaptiveResults) -> list[Claim]:
    expected = [("WK1", 0.9, "SDF"), ("WK1", 0.9, "SDF-Max 2"), ("WK1", 0.9, "SDF-Max 6")]
    expected += [("WK3", 0.5, "SDF"), ("WK3", 0.5, "SDF-Max 6")]
    made = []
    for workload, load, policy in expected:
        runs = results.runs(workload, load, policy)
        what = f"in {runs.stuck} of {runs.stuck + len(runs.metrics)} replications"
        text = f"{policy} saturates at {load:.0%} on {workload}"
        made.append(Claim(text, what, verdict(runs.saturated)))
    hit = [f"{w} {load:.0%}" for w in MU for load in LOADS if results.runs(w, load, "SDF-Max 1").saturated]
    made.append(Claim("SDF-Max 1 never saturates", ", ".join(hit) or "in none of 20 cells", verdict(not hit)))
    return made


def _cells(results: AdaptiveResults, policy: str, other: str) -> list[tuple[str, float, Mean]]:
    return [(w, load, results.ratio(w, load, policy, other)) for w in MU for load in LOADS]


def _alike(results: AdaptiveResults) -> Claim:
    cells = _cells(results, "AP1", "ASP")
    w, load, worst = max(cells, key=lambda cell: abs(cell[2].mean - 1))
    text = "ASP and AP1 have almost the same response time everywhere"
    words = f"at most {abs(worst.mean - 1):.0%} apart ({w}, {load:.0%})"
    apart = [Mean(abs(ratio.mean - 1), ratio.half, ratio.n) for *_, ratio in cells]
    return Claim(text, words, _all_of(_below_bound(one, ALIKE) for one in apart))


def _below(results: AdaptiveResults, suffix: str) -> list[Claim]:
    made = []
    for other in ("ASP", "AP1"):
        cells = _cells(results, f"AEP{suffix}", f"{other}{suffix}")
        above = [(w, load, ratio) for w, load, ratio in cells if ratio.mean - (ratio.half or 0) > 1]
        seen = any(ratio.mean > 1 + RESOLUTION for _, _, ratio in above)
        below = sum(ratio.mean + (ratio.half or 0) < 1 for _, _, ratio in cells)
        best = min(ratio.mean for _, _, ratio in cells)
        words = f"lower in {below} of {len(cells)} cells, down to {best:.2f}"
        higher = ", ".join(f"{w} {load:.0%}: {ratio.mean:.2f}" for w, load, ratio in above)
        words += f"; higher in {higher or 'none'}"
        text = f"AEP{suffix} has a shorter response time than {other}{suffix}, or one as long within 5 %"
        made.append(Claim(text, words, FAILS if seen else HOLDS if below else OPEN))
    return made


def _order(results: AdaptiveResults) -> list[Claim]:
    made = []
    least: list[Mean] = []
    for name in ("ASP", "AP1", "AEP"):
        cells = [(w, load, results.ratio(w, load, f"{name}(1)", name)) for w in MU for load in (0.7, 0.9)]
        better = sum(ratio.mean + (ratio.half or 0) < 1 for _, _, ratio in cells)
        worse = [f"{w} {load:.0%}" for w, load, ratio in cells if ratio.mean - (ratio.half or 0) > 1]
        least += [ratio for _, _, ratio in cells]
        span = f"{min(r.mean for *_, r in cells):.2f} to {max(r.mean for *_, r in cells):.2f}"
        text = f"{name}(1) improves on {name} at high load (70 and 90 %)"
        made.append(Claim(text, f"ratios {span}", FAILS if worse else verdict(True, better == len(cells))))
    text = "at high load the response time falls, in some cases, by more than half"
    lowest = min(least, key=lambda ratio: ratio.mean)
    return [*made, Claim(text, f"down to {_shown(lowest)}", _below_bound(lowest, 0.5))]


def _shown(ratio: Mean) -> str:
    return f"{ratio.mean:.2f} +- {ratio.half or 0:.2f}"


def _little(results: AdaptiveResults) -> Claim:
    changes = [
        (ratio.mean, w, load, name)
        for name in ("ASP", "AP1")
        for w, load, ratio in _cells(results, f"{name}(2)", f"{name}(1)")
    ]
    most = max(changes, key=lambda change: abs(change[0] - 1))
    text = "differential allocation hardly changes ASP(1) and AP1(1)"
    words = f"at most {abs(most[0] - 1):.0%} ({most[3]}, {most[1]}, {most[2]:.0%})"
    return Claim(text, words, verdict(abs(most[0] - 1) <= ALIKE))


def _effective(results: AdaptiveResults) -> Claim:
    """Sections 6.4 and 7; the gain counts as considerable if the paper could see it."""
    ratios = [results.ratio(w, load, "AEP(2)", "AEP(1)") for w in MU for load in LOADS if load >= HIGH_LOAD]
    best = min(ratios, key=lambda ratio: ratio.mean)
    text = "differential allocation is effective with AEP: the gain of AEP(2) is considerable at high loads"
    words = f"AEP(2) takes {_shown(best)} to {max(ratio.mean for ratio in ratios):.2f} of AEP(1)'s time"
    return Claim(text, words, _below_bound(best, 1 - RESOLUTION))


def _reference(results: AdaptiveResults) -> list[Claim]:
    within = [results.ratio("WK4", load, "AEP(2)", "DYN-EQUI") for load in LOADS]
    half = results.ratio("WK4", 0.5, "ASP(2)", "DYN-EQUI")
    high = {
        (name, workload): results.ratio(workload, 0.9, name, "DYN-EQUI")
        for name in ("ASP(2)", "AP1(2)", "AEP(2)")
        for workload in MU
    }
    values = ", ".join(_shown(ratio) for ratio in within)
    return [
        Claim(
            "on WK4 AEP(2) stays within 30 % of DYN-EQUI",
            f"{values} at loads of 10 to 90 %",
            _all_of(_below_bound(ratio, 1.3) for ratio in within),
        ),
        Claim(
            "on WK4 at 50 % ASP(2) is more than 75 % above DYN-EQUI",
            _shown(half),
            verdict(half.mean > 1.75, abs(half.mean - 1.75) > (half.half or 0)),
        ),
        Claim(
            "at 90 % ASP(2), AP1(2) and AEP(2) do better than DYN-EQUI",
            ", ".join(f"{name} {_shown(ratio)} on {workload}" for (name, workload), ratio in high.items()),
            _all_of(_below_bound(ratio, 1) for ratio in high.values()),
        ),
    ]


CLAIMS: Mapping[str, Callable[[AdaptiveResults], list[Claim]]] = {
    "1": _ratios,
    "2": partition_claims.speedups,
    "3": lambda results: [*_saturation(results), *partition_claims.limits(results)],
    "4": lambda results: [_alike(results), *_below(results, ""), *partition_claims.plain(results)],
    "5": lambda results: [*_order(results), *partition_claims.ordered(results)],
    "6": lambda results: [
        *_below(results, "(2)"),
        _little(results),
        _effective(results),
        *_reference(results),
        *partition_claims.differential(results),
    ],
}
