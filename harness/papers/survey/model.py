"""The survey's rules that allocate processors to moldable jobs, over jobs of low and high variance.

The survey gives the rules but no workload. We take that of Anastasiadis and Sevcik 1997 with speedups of
all kinds (WK4), and its work beside work of little variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.policies import demands
from coordinator.view import ExecutionTime, Job
from harness.papers.anastasiadis97.workload import MAXIMA, MEANS_S, MU, PROCESSORS, SHARES, mean_demand_s
from harness.papers.survey import moving
from harness.predict.pool import Progress, compute
from harness.predict.replicate import Mean, Precision, Replications, ratio, replicate
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, moldable
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.model import Floats, Jobs
from harness.simulator.jobs.simulate import Watched, simulate

WORKLOAD = "WK4"
VARIANCES = {"low": 0.5, "high": 3.5}
"""Coefficients of variation of the work."""

LOADS = (0.2, 0.5, 0.8)
WARM_UP, LAST, GENERATED = 500, 10_000, 15_000
"""Jobs left out, the last job that counts, and jobs generated before a rule is called saturated."""

GUESS = np.log(3.0)
"""Standard deviation of the logarithm of a guess: two of three guesses are wrong by at most a factor of 3."""

FIGURES = {
    "1": "rules that allocate processors, by what they know of the jobs",
    "2": "what it costs to move a process, by technique",
}
QUICK = "figure 1: intervals of 10 % instead of 3 %, at most 8 replications"

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


@dataclass(frozen=True)
class RuleCell:
    """One rule under one workload."""

    variance: str
    load: float
    rule: str


class RuleResults:
    """The replications of every cell."""

    def __init__(self, cells: Mapping[RuleCell, Replications]) -> None:
        self.cells = cells

    def over(self, other: str, cell: RuleCell) -> Mean:
        """The response time of a cell over that of the rule ``other`` for the same jobs."""
        return ratio(self.cells[cell], self.cells[replace(cell, rule=other)])


def simulate_figures(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> RuleResults:
    """Simulate all rules, if their figure is wanted; moves of processes need no simulation."""
    if "1" not in figures:
        return RuleResults({})
    cells = [RuleCell(variance, load, rule) for variance in VARIANCES for load in LOADS for rule in RULES]
    plan = Precision(0.1, 3, 8) if quick else Precision(0.03, 10, 100)
    made = compute(cells, partial(_simulate, plan=plan, seed=seed), progress)
    return RuleResults(dict(zip(cells, made, strict=True)))


def rows(results: RuleResults, figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each cell and each move; times are None for a rule that cannot keep up."""
    if "2" in figures:
        yield from moving.rows()
    for cell, runs in results.cells.items():
        row: dict[str, Any] = {"figure": "1", **vars(cell), "saturated": runs.stuck}
        for name in ("response_s", "wait_s", "processors", "utilisation"):
            mean = runs.mean(name)
            row[name] = None if mean.saturated else mean.mean
        over = results.over(EQUAL, cell)
        unknown = over.saturated or runs.saturated
        row |= {"over_equal": None if unknown else over.mean, "half": None if unknown else over.half}
        yield row


def draw_jobs(cell: RuleCell, count: int, random: np.random.Generator) -> Jobs:
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


def _simulate(cell: RuleCell, plan: Precision, seed: int) -> Replications:
    name, options, _ = RULES[cell.rule]
    policy = policies.create(name, options)

    def one(random: np.random.Generator) -> Metrics | None:
        outcome = simulate(draw_jobs(cell, GENERATED, random), PROCESSORS, policy, Watched(LAST))
        return None if outcome.saturated else measure(outcome, warm_up=WARM_UP, last=LAST)

    return replicate(one, seed, plan)


@dataclass(frozen=True)
class HalfBest:
    """Speedup and efficiency of a type of job on its average parallelism, over the best it can have."""

    mu: float
    maximum: int
    processors: int
    speedup: float
    efficiency: float


def at_average_parallelism() -> list[HalfBest]:
    """The nine types of jobs of the workload, on as many processors as the rule gives them."""
    found = []
    for mu in MU[WORKLOAD]:
        for maximum in MAXIMA:
            jobs = moldable(np.zeros(1), np.array([maximum]), np.ones(1), np.array([mu]))
            time = ExecutionTime(1.0, 1.0, float(jobs.alpha_s[0]), float(jobs.beta_s[0]))
            job = Job(0, maximum, moldable=True, estimate=time)
            known = (time.work_s, time.alpha_s, time.beta_s)
            given = demands.bound(demands.AVERAGE, job.least, job.most, job.average, *known)
            speedup = time.on(1) / time.on(given)
            found.append(HalfBest(mu, maximum, given, speedup / job.average, speedup / given))
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
            sums[rule] += float(simulate(together, PROCESSORS, policy).response_s.sum())
    return {rule: found / sums[EQUAL] for rule, found in sums.items()}
