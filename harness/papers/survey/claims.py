"""What the survey says of rules that allocate processors, checked."""

from __future__ import annotations

from collections.abc import Iterable

from harness.papers import Claim, verdict
from harness.papers.survey import moving
from harness.papers.survey.model import (
    EQUAL,
    LOADS,
    VARIANCES,
    RuleCell,
    RuleResults,
    at_average_parallelism,
    summed_times,
)
from harness.predict.replicate import Mean

TOGETHER = 8
"""Jobs that share the machine in the claim about the square root of work."""


def _rules(results: RuleResults) -> list[Claim]:
    low, high = LOADS[0], LOADS[-1]
    return [
        _half_of_the_best(),
        _shorter(
            "when the load is low, jobs should receive their maximum parallelism, not the average",
            results,
            ("range of parallelism", "average parallelism"),
            [low],
        ),
        _shorter(
            "when the load is high, jobs should receive less than their average parallelism",
            results,
            ("range of parallelism", "average parallelism"),
            [high],
        ),
        _shorter(
            "with the range of parallelism, the allocation is better than by the average alone",
            results,
            ("range of parallelism", "average parallelism"),
            LOADS,
        ),
        _shorter(
            "with the variance of parallelism, the allocation is better than by its range",
            results,
            ("variance of parallelism", "range of parallelism"),
            LOADS,
        ),
        _optimal(),
        _shorter(
            "shares by the square root of work give shorter response times than equal shares",
            results,
            ("square root of work", EQUAL),
            LOADS,
        ),
        _not_robust(results),
    ]


def _half_of_the_best() -> Claim:
    types = at_average_parallelism()
    speedup, efficiency = min(one.speedup for one in types), min(one.efficiency for one in types)
    return Claim(
        "on its average parallelism a job has at least half of its best speedup and of the best efficiency",
        f"at least {speedup:.2f} and {efficiency:.2f} of the best, over {len(types)} types of jobs",
        verdict(min(speedup, efficiency) >= 0.5),
    )


def _optimal() -> Claim:
    found = {name: summed_times(name, TOGETHER, seed=1) for name in VARIANCES}
    words = "; ".join(
        f"{name} variance {sums['square root of work']:.2f} (equal time {sums['equal time']:.2f})"
        for name, sums in found.items()
    )
    best = all(min(sums, key=lambda rule: sums[rule]) == "square root of work" for sums in found.values())
    return Claim(
        "allocation in proportion to the square root of work is optimal (jobs of perfect speedup, all there)",
        f"sum of the response times of {TOGETHER} jobs under the policy over that of equal shares: {words}",
        verdict(best),
    )


def _ratios(
    results: RuleResults, ours: str, theirs: str, loads: Iterable[float]
) -> dict[tuple[str, float], Mean]:
    """Our response time over theirs by variance and load; infinite if we cannot keep up, 0 if they cannot."""
    cells = [RuleCell(variance, load, ours) for variance in VARIANCES for load in loads]
    return {(cell.variance, cell.load): results.over(theirs, cell) for cell in cells}


def _words(ratios: dict[tuple[str, float], Mean]) -> str:
    return ", ".join(
        f"{'the other saturates' if mean.mean == 0 else f'{mean.mean:.2f}'} ({variance} variance, {load:.0%})"
        for (variance, load), mean in ratios.items()
    )


def _shorter(text: str, results: RuleResults, pair: tuple[str, str], loads: Iterable[float]) -> Claim:
    """It fails if a ratio is above 1 beyond its interval, and holds if all are below 1 beyond theirs."""
    ratios = _ratios(results, *pair, loads)
    worse = any(mean.mean - (mean.half or 0) > 1 for mean in ratios.values())
    better = all(mean.mean + (mean.half or 0) < 1 for mean in ratios.values())
    return Claim(text, f"ratio of response times {_words(ratios)}", verdict(not worse, worse or better))


def _not_robust(results: RuleResults) -> Claim:
    """It holds if guesses make a rule worse than equal shares where it is better with exact knowledge."""
    exact, guessed = (
        {rule: _ratios(results, rule, EQUAL, LOADS) for rule in rules}
        for rules in (
            ("square root of work", "equal time"),
            ("square root of guessed work", "equal time by guessed work"),
        )
    )
    spoilt = [
        cell
        for known, unknown in zip(exact.values(), guessed.values(), strict=True)
        for cell, mean in unknown.items()
        if mean.mean - (mean.half or 0) > 1 and known[cell].mean + (known[cell].half or 0) < 1
    ]
    both = (exact | guessed).items()
    return Claim(
        "rules may do worse than those without knowledge if the jobs are known only approximately",
        f"only then in {len(spoilt)} of {sum(map(len, exact.values()))} cells; over equal shares: "
        + "; ".join(f"{rule} {_words(ratios)}" for rule, ratios in both),
        verdict(bool(spoilt)),
    )


def _moves(results: RuleResults) -> list[Claim]:
    return moving.claims()


CLAIMS = {"1": _rules, "2": _moves}
