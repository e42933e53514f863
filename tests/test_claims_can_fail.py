"""The check of every claim fails where results or rules are others: it tests what the paper says."""

from dataclasses import replace

import numpy as np
import pytest

from coordinator import policies
from harness import papers
from harness.papers.anastasiadis97 import claims as toronto_claims
from harness.papers.anastasiadis97 import model as toronto
from harness.papers.anastasiadis97 import workload
from harness.papers.dusseau96 import claims as dusseau_claims
from harness.papers.dusseau96 import model as dusseau
from harness.papers.hori96 import claims as hori_claims
from harness.papers.hori96 import model as hori
from harness.papers.ousterhout82 import claims as ousterhout_claims
from harness.papers.ousterhout82 import model as ousterhout
from harness.papers.survey import claims as survey_claims
from harness.papers.survey import model as survey
from harness.papers.zhou97 import claims as zhou_claims
from harness.papers.zhou97 import mixes
from harness.papers.zhou97 import model as zhou
from harness.predict.replicate import Mean, Replications
from harness.simulator.jobs.metrics import Metrics

SEEDS = 24


class Chance:
    """Makes up results: a factor for each name, which stays, and some noise for each value."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.noise = self.random.choice([0.02, 0.2, 0.5])
        self.factors = {}

    def value(self, mean, *name):
        factor = self.factors.setdefault(name, float(np.exp(self.random.normal(0, 0.5))))
        return mean * factor * float(np.exp(self.random.normal(0, self.noise)))

    def share(self, *name):
        return min(1.0, self.value(0.8, *name))


def replications(response_s, wait_s=1.0, processors=2.0, spread=(1.0, 1.001)):
    metrics = (Metrics(1, response_s * k, wait_s * k, 1, 1, 1, processors, 1, 0.0) for k in spread)
    return Replications(tuple(metrics))


def of_hori(chance):
    points = {}
    for processors, policy in {system for systems in hori.SYSTEMS.values() for system in systems}:
        for distribution in hori.DISTRIBUTIONS:
            for load in hori.LOADS:
                points[hori.TreeCell(distribution, processors, policy, load)] = hori.TreeOutcome(
                    load=load,
                    backlog=0.0,
                    utilisation=load * chance.share(policy),
                    retr=chance.value(10, policy),
                    most_retr=chance.value(50, policy),
                    fairness=chance.value(1, policy, distribution) - 1 + load * chance.random.choice([-1, 1]),
                )
    for figure in hori.FIGURES:
        yield from hori_claims.CLAIMS[figure](points)


def of_toronto(chance):
    for figure, columns in toronto.COLUMNS.items():
        cells = {}
        for name in workload.MU:
            for load in toronto.LOADS:
                for column in {toronto.REFERENCE, *columns}:
                    values = (chance.value(mean, column[0], kind) for kind, mean in enumerate((10, 5, 2)))
                    made = replace(replications(*values), stuck=int(chance.random.random() < 0.02))
                    cells[toronto.AdaptiveCell(name, load, column)] = made
        yield from toronto_claims.CLAIMS[figure](toronto.AdaptiveResults(cells))


def of_ousterhout(chance):
    packed = {
        ousterhout.PackingCell(system, distribution, population): ousterhout.Packed(
            Mean(chance.share(system), 0.01, 3),
            chance.share("lowest") ** 4,
            Mean(chance.value(2, system, "spread"), 0.1, 3),
        )
        for system in ousterhout.SYSTEMS
        for distribution in ousterhout.DISTRIBUTIONS
        for population in ousterhout.POPULATIONS
    }
    return ousterhout_claims.CLAIMS["1"](packed)


def of_dusseau(chance):
    for figure, check in dusseau_claims.CLAIMS.items():
        shown = [p for name in (figure, *dusseau.COMPARED.get(figure, ())) for p in dusseau.points(name)]
        made = {}
        for point in (*shown, *dusseau.BESIDES.get(figure, ())):
            slowdown = chance.value(2, point.blocking, point.timers, point.local, point.pattern)
            shares = dict(zip(SHARES, chance.random.dirichlet(np.ones(5)), strict=True))
            for one, value in ((point, slowdown), (point.coscheduled(), 1.0)):
                succeeded = chance.random.random(3)
                made[one] = dusseau.PointOutcome((value,), (1.0, 1.0, 1.0), shares, *succeeded)
        yield from check(dusseau.PointResults(made, 1))


SHARES = ("computing", "communicating", "synchronizing", "switching", "idle")


def of_survey(chance):
    cells = {}
    for variance in survey.VARIANCES:
        for load in survey.LOADS:
            for rule in survey.RULES:
                time_s = chance.value(10, rule)
                cells[survey.RuleCell(variance, load, rule)] = replications(time_s)
    return survey_claims.CLAIMS["1"](survey.RuleResults(cells))


def of_zhou(chance):
    made = {
        cell: mixes.Mix(*(chance.value(10, cell.system, cell.lengths, kind) for kind in range(4)))
        for cell in mixes.cells()
    }
    return zhou_claims.CLAIMS["5"](zhou.QueueingResults({}, made))


PAPERS = {
    "anastasiadis97": of_toronto,
    "dusseau96": of_dusseau,
    "hori96": of_hori,
    "ousterhout82": of_ousterhout,
    "survey": of_survey,
    "zhou97": of_zhou,
}


def failing(claims):
    return {claim.text for claim in claims if claim.verdict in (papers.FAILS, papers.CONTRADICTED)}


def mutate(monkeypatch):
    """Other rules: batch in the place of all queues, one processor for each job, and no empty slot."""
    monkeypatch.setattr(mixes.policies, "create", lambda name, options: policies.known()["batch"]())
    monkeypatch.setattr(ousterhout_claims, "idle", lambda sizes, processors: 0.0)
    monkeypatch.setattr(survey.demands, "bound", lambda *known: 1)
    equal = {"square root of work": 1.1, "equal time": 1.0}
    monkeypatch.setattr(survey_claims, "summed_times", lambda *_, **__: equal)


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_every_check_fails_on_some_results(paper, monkeypatch):
    mutate(monkeypatch)
    seen, failed = set(), set()
    for seed in range(SEEDS):
        claims = list(PAPERS[paper](Chance(seed)))
        seen |= {claim.text for claim in claims}
        failed |= failing(claims)
    assert seen - failed == set()


def test_the_examples_of_the_queueing_paper_fail_under_another_rule(monkeypatch):
    mutate(monkeypatch)
    ordered = {service: zhou._ordered(service) for service in zhou.SERVICE}
    claims = zhou_claims.CLAIMS["3"](zhou.QueueingResults(ordered, {}))
    long_wait = "with N = 6 and all places at level 3 or below, a new job may wait for over two minutes"
    by_formula = "formula (3) gives the turnaround of ordered jobs, N = 1, M = 6"
    assert {claim.text for claim in claims} - failing(claims) == {long_wait, by_formula}, "batch does so, too"
