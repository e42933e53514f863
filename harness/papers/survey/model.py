"""The survey's rules that allocate processors to moldable jobs, over jobs of low and high variance; moves.

The survey gives the rules but no workload. We take that of Anastasiadis and Sevcik 1997 with speedups of
all kinds (WK4), and its work beside work of little variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator import policies
from coordinator.policies import demands
from coordinator.view import ExecutionTime, Job
from harness.papers import Cell, Paper, PaperFigure, Results, grouped_bars, panels, sweep
from harness.papers.anastasiadis97.model import MAXIMA, MEANS_S, MU, PROCESSORS, SHARES, mean_demand_s
from harness.papers.survey.moving import MOVES
from harness.predict.replicate import Mean, Precision, Replications, ratio, replicate
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, moldable
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import Floats, Jobs
from harness.simulator.jobs.simulate import Watched
from harness.simulator.jobs.simulate import simulate as simulate_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WORKLOAD = "WK4"
VARIANCES = {"low": 0.5, "high": 3.5}
"""Coefficients of variation of the work."""

LOADS = (0.2, 0.5, 0.8)
WARM_UP, LAST, GENERATED = 500, 10_000, 15_000
"""Jobs left out, the last job that counts, and jobs generated before a rule is called saturated."""

GUESS = np.log(3.0)
"""Standard deviation of the logarithm of a guess: two of three guesses are wrong by at most a factor of 3."""

TOP = 3.0
"""Where the axis ends; bars of rules that cannot keep up reach it."""

EQUAL = "equal shares"
RULES: Mapping[str, tuple[str, dict[str, Any], bool]] = {
    EQUAL: ("aep", {}, False),
    "four fixed parts": ("equipartition", {"parts": 4}, False),
    "average parallelism": ("average-parallelism", {}, False),
    "knee": ("knee", {}, False),
    "range of parallelism": ("parallelism-range", {}, False),
    "variance of parallelism": ("parallelism-variance", {}, False),
    "square root of work": ("square-root", {}, False),
    "equal time": ("equal-time", {}, False),
    "square root of guessed work": ("square-root", {}, True),
    "equal time by guessed work": ("equal-time", {}, True),
}
"""The rules: their policies with parameters, and whether users guess the work."""


def over(results: Results, cell: Cell, other: str = EQUAL) -> Mean:
    """The response time of a cell over that of the rule ``other`` for the same jobs."""
    return ratio(results[cell], results[cell.but(rule=other)])


def draw_jobs(cell: Cell, count: int, random: np.random.Generator) -> Jobs:
    """``count`` jobs; the same for all rules, but for the users' guesses."""
    work_s = _work_s(VARIANCES[cell.variance], count, random)
    most = random.choice(MAXIMA, count)
    mu = random.choice(MU[WORKLOAD], count)
    between = gaps_s("exponential", count, mean_demand_s(WORKLOAD) / (PROCESSORS * cell.load), random)
    jobs = moldable(np.cumsum(between), most, work_s, mu)
    if not RULES[cell.rule][2]:
        return jobs
    return replace(jobs, factor=np.exp(random.normal(0.0, GUESS, count)))


def _work_s(variation: float, count: int, random: np.random.Generator) -> Floats:
    """Work with the paper's mean; Erlang below a coefficient of variation of 1, the paper's above."""
    if variation > 1:
        return hyperexponential(count, SHARES, MEANS_S, random)
    stages = round(1 / variation**2)
    return random.gamma(stages, float(np.dot(SHARES, MEANS_S)) / stages, count)


def simulate(cell: Cell, quick: bool, seed: int) -> Replications:
    """The replications of a rule."""
    name, options, _ = RULES[cell.rule]
    policy = policies.create(name, options)

    def one(random: np.random.Generator) -> Metrics | None:
        outcome = simulate_jobs(draw_jobs(cell, GENERATED, random), PROCESSORS, policy, Watched(LAST))
        return None if outcome.saturated else measure(outcome, warm_up=WARM_UP, last=LAST)

    return replicate(one, seed, Precision(0.1, 3, 8) if quick else Precision(0.03, 10, 100))


def at_average_parallelism() -> list[tuple[float, float]]:
    """Speedup and efficiency on the average parallelism over the best, of the nine types of jobs."""
    found = []
    for mu in MU[WORKLOAD]:
        for maximum in MAXIMA:
            jobs = moldable(np.zeros(1), np.array([maximum]), np.ones(1), np.array([mu]))
            time = ExecutionTime(1.0, 1.0, float(jobs.alpha_s[0]), float(jobs.beta_s[0]))
            job = Job(0, maximum, moldable=True, estimate=time)
            known = (time.work_s, time.alpha_s, time.beta_s)
            given = demands.bound(demands.AVERAGE, job.least, job.most, job.average, *known)
            speedup = time.on(1) / time.on(given)
            found.append((speedup / job.average, speedup / given))
    return found


def summed_times(variance: str, jobs: int, seed: int) -> dict[str, float]:
    """The sum of response times of ``jobs`` jobs that arrive together, over that of equal shares.

    All have perfect speedup; 200 sets, each alone under the policy of the rule.
    """
    random = np.random.default_rng(seed)
    sets_s = _work_s(VARIANCES[variance], 200 * jobs, random).reshape(200, jobs)
    once, none = np.zeros(jobs, dtype=np.int64), np.zeros(jobs)
    sums = {}
    for rule in (EQUAL, "square root of work", "equal time"):
        name, options, _ = RULES[rule]
        policy = policies.create(name, options)
        sums[rule] = 0.0
        for work_s in sets_s:
            together = Jobs(once, once + 1, once + PROCESSORS, work_s, none, none, none + 1)
            sums[rule] += float(simulate_jobs(together, PROCESSORS, policy).response_s.sum())
    return {rule: found / sums[EQUAL] for rule, found in sums.items()}


def _rows(results: Results, figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Times in seconds, memory in MB; times are None for a rule that cannot keep up."""
    for system, (move, published) in MOVES.items() if "2" in figures else ():
        settings = {key: getattr(move, key) for key in ("technique", "size_mb", "bandwidth_mb_s")}
        costs = move.cost()._asdict()
        yield {"figure": "2", "system": system, **settings, **costs, "published": published}
    for cell, runs in results.items():
        row: dict[str, Any] = {"figure": "1", **vars(cell), "saturated": runs.stuck}
        for name in ("response_s", "wait_s", "processors", "utilisation"):
            mean = runs.mean(name)
            row[name] = None if mean.saturated else mean.mean
        mean = over(results, cell)
        unknown = mean.saturated or runs.saturated
        yield row | {"over_equal": None if unknown else mean.mean, "half": None if unknown else mean.half}


def _draw_rules(results: Results) -> Figure:
    """Response times over those of equal shares by variance, rule and load."""
    rules = [rule for rule in RULES if rule != EQUAL]
    picture, rows = panels(len(VARIANCES), 1, 12, 7.5, sharex=True)
    for axes, variance in zip(rows[:, 0], VARIANCES, strict=True):
        heights = {}
        for load in LOADS:
            cells = [Cell(variance=variance, load=load, rule=rule) for rule in rules]
            heights[f"load {load:.0%}"] = [min(TOP, over(results, cell).mean) for cell in cells]
        grouped_bars(axes, [rule.replace(" of ", "\nof ") for rule in rules], heights)
        axes.axhline(1, color="black", linewidth=0.6)
        axes.set(title=f"{variance} variance of work", ylim=(0, TOP), ylabel="response time / equal shares'")
    rows[0, 0].legend(fontsize=8)
    return picture


def _draw_moves(results: Results) -> Figure:
    """Times of moves by system."""
    picture, ((axes,),) = panels(1, 1, 9, 5)
    places = np.arange(len(MOVES))
    for shift, name, label in (
        (-0.2, "stopped_s", "stopped"),
        (0.2, "total_s", "until nothing more must come"),
    ):
        costs = [move.cost() for move, _ in MOVES.values()]
        axes.barh(places + shift, [getattr(cost, name) for cost in costs], 0.4, label=label)
    labels = [f"{system}, {move.size_mb:.3g} MB" for system, (move, _) in MOVES.items()]
    axes.set_yticks(places, labels, fontsize=8)
    axes.set(xscale="log", xlabel="seconds")
    axes.invert_yaxis()
    axes.legend(fontsize=8)
    return picture


PAPER = Paper(
    figures={
        "1": PaperFigure(
            "rules that allocate processors, by what they know of the jobs",
            _draw_rules,
            sweep(variance=VARIANCES, load=LOADS, rule=RULES),
        ),
        "2": PaperFigure("what it costs to move a process, by technique", _draw_moves),
    },
    quick="figure 1: intervals of 10 % instead of 3 %, at most 8 replications",
    simulate=simulate,
    rows=_rows,
)
