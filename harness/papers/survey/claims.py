"""What the survey says of rules that allocate processors, and of moves of processes, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.papers import Cell, Claims, Finding, Results, arithmetic, verdict
from harness.papers.survey import model
from harness.papers.survey.model import EQUAL, LOADS, VARIANCES, over
from harness.papers.survey.moving import CHARLOTTE, TECHNIQUES, V_EAGER, V_LITTLE, V_MUCH, accent, here
from harness.predict.replicate import Mean

TOGETHER = 8
"""Jobs that share the machine in the claim about the square root of work."""

AVERAGE, RANGE = "average parallelism", "range of parallelism"
ROOT = "square root of work"

CLAIMS = Claims()


def _ratios(
    results: Results, ours: str, theirs: str, loads: Sequence[float]
) -> dict[tuple[str, float], Mean]:
    """Our response time over theirs by variance and load; infinite if we cannot keep up, 0 if they cannot."""
    cells = [Cell(variance=variance, load=load, rule=ours) for variance in VARIANCES for load in loads]
    return {(cell.variance, cell.load): over(results, cell, theirs) for cell in cells}


def _above(mean: Mean) -> bool:
    """Whether a ratio is above 1 beyond its interval."""
    return mean.mean - (mean.half or 0) > 1


def _below(mean: Mean) -> bool:
    return mean.mean + (mean.half or 0) < 1


def _words(ratios: dict[tuple[str, float], Mean]) -> str:
    return ", ".join(
        f"{'the other saturates' if mean.mean == 0 else f'{mean.mean:.2f}'} ({variance} variance, {load:.0%})"
        for (variance, load), mean in ratios.items()
    )


@CLAIMS.of(
    "1",
    "on its average parallelism a job has at least half of its best speedup and of the best efficiency",
)
def _half_of_the_best(results: Results) -> Finding:
    types = model.at_average_parallelism()
    speedup, efficiency = map(min, zip(*types, strict=True))
    words = f"at least {speedup:.2f} and {efficiency:.2f} of the best, over {len(types)} types of jobs"
    return words, min(speedup, efficiency) >= 0.5


def _shorter(results: Results, ours: str, theirs: str, loads: Sequence[float] = LOADS) -> Finding:
    """It fails if a ratio is above 1 beyond its interval, and holds if all are below 1 beyond theirs."""
    ratios = _ratios(results, ours, theirs, loads)
    worse, better = any(map(_above, ratios.values())), all(map(_below, ratios.values()))
    return f"ratio of response times {_words(ratios)}", verdict(not worse, worse or better)


def _optimal(results: Results) -> Finding:
    found = {name: model.summed_times(name, TOGETHER, seed=1) for name in VARIANCES}
    words = "; ".join(
        f"{name} variance {sums[ROOT]:.2f} (equal time {sums['equal time']:.2f})"
        for name, sums in found.items()
    )
    words = (
        f"sum of the response times of {TOGETHER} jobs under the policy over that of equal shares: {words}"
    )
    return words, all(min(sums, key=lambda rule: sums[rule]) == ROOT for sums in found.values())


def _not_robust(results: Results) -> Finding:
    """It holds if guesses make a rule worse than equal shares where it is better with exact knowledge."""
    rules = {ROOT: "square root of guessed work", "equal time": "equal time by guessed work"}
    ratios = {rule: _ratios(results, rule, EQUAL, LOADS) for rule in (*rules, *rules.values())}
    spoilt = [
        cell
        for known, unknown in rules.items()
        for cell, mean in ratios[unknown].items()
        if _above(mean) and _below(ratios[known][cell])
    ]
    words = f"only then in {len(spoilt)} of {sum(len(ratios[rule]) for rule in rules)} cells; "
    words += "over equal shares: " + "; ".join(f"{rule} {_words(some)}" for rule, some in ratios.items())
    return words, bool(spoilt)


def _pair(text: str, *compared: object) -> None:
    CLAIMS.of("1", text, compared)(_shorter)


_pair(
    "when the load is low, jobs should receive their maximum parallelism, not the average",
    RANGE,
    AVERAGE,
    LOADS[:1],
)
_pair(
    "when the load is high, jobs should receive less than their average parallelism",
    RANGE,
    AVERAGE,
    LOADS[-1:],
)
_pair("with the range of parallelism, the allocation is better than by the average alone", RANGE, AVERAGE)
_pair(
    "with the variance of parallelism, the allocation is better than by its range",
    "variance of parallelism",
    RANGE,
)
CLAIMS.of(
    "1", "allocation in proportion to the square root of work is optimal (jobs of perfect speedup, all there)"
)(_optimal)
_pair("shares by the square root of work give shorter response times than equal shares", ROOT, EQUAL)
CLAIMS.of("1", "rules may do worse than those without knowledge if the jobs are known only approximately")(
    _not_robust
)


@CLAIMS.of("2", "copying several tens of MB takes several seconds even over a Fast Ethernet")
def _several_seconds(results: Results) -> Finding:
    times_s = [here("eager", size_mb).cost().stopped_s for size_mb in (30.0, 90.0)]
    words = " to ".join(f"{time_s:.1f}" for time_s in times_s) + " s for 30 to 90 MB"
    return words, all(2 <= time_s <= 10 for time_s in times_s)


# These follow from the settings in ``moving``, which are those of the papers.


@CLAIMS.of("2", "Charlotte moves a process of 32 KB in 242 ms")
def _charlotte(results: Results) -> Finding:
    stopped_s = CHARLOTTE.cost().stopped_s
    return f"{stopped_s * 1e3:.0f} ms", arithmetic(abs(stopped_s / 0.242 - 1) <= 0.05)


@CLAIMS.of("2", "V stops programs for 5 to 210 ms, while a copy of their memory takes 3 s for each MB")
def _v_stops(results: Results) -> Finding:
    eager_s, least_s, most_s = (move.cost().stopped_s for move in (V_EAGER, V_LITTLE, V_MUCH))
    words = f"{least_s * 1e3:.1f} to {most_s * 1e3:.0f} ms, and {eager_s:.0f} s for 1 MB"
    return words, arithmetic(eager_s == 3.0 and least_s <= 0.01 and 0.1 <= most_s <= 0.4)


@CLAIMS.of(
    "2", "copy on reference takes one time for all sizes, a thousand times less than eager copy (Accent)"
)
def _accent(results: Results) -> Finding:
    moves = [accent(size_mb) for size_mb in (0.01, 0.1, 1.0, 10.0, 100.0)]
    stopped_s = [move.cost().stopped_s for move in moves]
    eager_s = [replace(move, technique="eager").cost().stopped_s for move in moves]
    faster = max(eager / ours for eager, ours in zip(eager_s, stopped_s, strict=True))
    words = f"{max(stopped_s):.2f} s (assumed) over four orders of magnitude, up to {faster:.0f} times less"
    return words, arithmetic(min(stopped_s) == max(stopped_s) and faster >= 1000)


@CLAIMS.of(
    "2",
    "eager copy moves memory that is never used; copy on reference does not, and pre-copy moves more",
)
def _bytes(results: Results) -> Finding:
    moved = {name: here(name).cost().moved_mb for name in TECHNIQUES[:3]}
    words = ", ".join(f"{name} {mb:.1f} MB" for name, mb in moved.items())
    holds = moved["on-reference"] < moved["eager"] < moved["pre-copy"]
    return f"{words} of a process of 50 MB that uses 40 %", arithmetic(holds)


@CLAIMS.of(
    "2", "only copy on reference leaves memory on the old machine; a flush leaves it on the file server"
)
def _behind(results: Results) -> Finding:
    residual = {name: here(name).cost().residual_mb for name in TECHNIQUES}
    words = ", ".join(f"{name} {mb:.0f} MB" for name, mb in residual.items())
    return words, arithmetic([name for name, mb in residual.items() if mb] == ["on-reference"])
