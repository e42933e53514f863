"""Claims of papers on stored results: they have the verdicts that were printed, and each of them can fail."""

from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import paper_results
import pytest
from places import ROOT

from coordinator import policies
from coordinator.migration import Migration, MoveCost
from harness import papers
from harness.papers import ousterhout82, survey
from harness.papers import zhou97 as zhou
from harness.predict.replicate import Mean, Replications
from workloads.validation import InputError

SEEDS = 36


def checked(paper, results):
    made = papers.of_name(paper)
    return list(made.claims(made.figures, results))


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_the_claims_on_stored_results_have_the_verdicts_that_were_printed(paper):
    results, verdicts = paper_results.read(paper)
    found = [[figure, claim.text, claim.verdict] for figure, claim in checked(paper, results)]
    assert found == verdicts


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_a_claim_that_does_not_hold_points_at_its_explanation(paper):
    results, _ = paper_results.read(paper)
    claims = checked(paper, results)
    for claim in papers.Reproduction(paper, [], results, claims).document()["claims"]:
        file, _, anchor = claim["why"].partition("#")
        assert bool(file) == (claim["verdict"] in (papers.FAILS, papers.CONTRADICTED))
        if file:
            headings = (ROOT / file).read_text().splitlines()
            assert anchor in [line[3:].lower().replace(" ", "-") for line in headings], claim["text"]


@pytest.mark.parametrize(
    ("verdict", "places"), [(papers.CONTRADICTED, ()), (papers.HOLDS, ("here", "there"))]
)
def test_a_contradiction_has_two_places(verdict, places):
    with pytest.raises(InputError):
        papers.Claim("text", "found", verdict, places)


class Others:
    """Other results: each value of a parameter changes each quantity by a factor, and all have some noise.

    With odd seeds the values of a parameter change places, too.
    """

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.exchange = seed % 2
        self.noise = self.random.choice([0.02, 0.2, 0.5])
        self.factors = {}

    def results(self, results):
        values = defaultdict(dict)
        for cell in results:
            for name, value in vars(cell).items():
                values[name][value] = value
        if self.exchange:
            values = {name: self.mixed(some) for name, some in values.items()}
        return papers.Results((cell, self.outcome(cell, source(results, cell, values))) for cell in results)

    def outcome(self, cell, found):
        if isinstance(found, Replications):
            rows = [[getattr(one, name) for name in paper_results.METRICS] for one in found.metrics]
            factors = [self.factor(cell, name) for name in paper_results.METRICS]
            stuck = found.stuck or int(self.random.random() < 0.02)
            return paper_results.replications(np.array(rows).reshape(-1, len(factors)) * factors, stuck)
        values = {name: self.changed(value, self.factor(cell, name)) for name, value in vars(found).items()}
        loads = {name: value for name, value in vars(found).items() if "load" in name}
        return SimpleNamespace(**values | loads)

    def mixed(self, values):
        """A dictionary whose values have changed places."""
        return dict(
            zip(values, self.random.permutation(np.array(list(values.values()), object)), strict=True)
        )

    def factor(self, cell, name):
        values = ((name, *item) for item in vars(cell).items())
        logs = sum(self.factors.setdefault(value, self.random.normal(0, 0.4)) for value in values)
        sign = self.random.choice([1, -1]) if name == "fairness" else 1
        return sign * float(np.exp(logs))

    def changed(self, value, factor):
        if isinstance(value, list):
            return [self.changed(one, factor) for one in value]
        if isinstance(value, dict):
            return (
                self.mixed({part: share + 0.001 for part, share in value.items()}) if self.exchange else value
            )
        if isinstance(value, Mean):
            return Mean(self.changed(value.mean, factor), 0.01, value.n)
        return value * factor * float(np.exp(self.random.normal(0, self.noise)))


def source(results, cell, values):
    """The outcome of the cell with ``values`` in the place of its own, if there is one like it."""
    found = results[cell]
    other = results.get(cell.but(**{name: values[name][value] for name, value in vars(cell).items()}), found)
    return other if sizes(other) == sizes(found) else found


def sizes(found):
    """The numbers of values in an outcome."""
    if isinstance(found, Replications):
        return []
    return [(name, len(value) if isinstance(value, list) else 1) for name, value in vars(found).items()]


def failing(claims):
    return {claim.text for _, claim in claims if claim.verdict in (papers.FAILS, papers.CONTRADICTED)}


def mutate(monkeypatch):
    """Other rules: batch in the place of all queues, one processor a job, no empty slot, equal moves."""
    monkeypatch.setattr(zhou.policies, "create", lambda name, options: policies.known()["batch"]())
    monkeypatch.setattr(ousterhout82, "most_idle", lambda processors, jobs: (0.0, (1,)))
    monkeypatch.setattr(survey.allocation, "bound", lambda *known: 1)
    monkeypatch.setattr(Migration, "cost", lambda move: MoveCost(0.5, 0.0, 0.5, 1.0, 1.0))
    equal = {"square root of work": 1.1, "equal time": 1.0}
    monkeypatch.setattr(survey, "summed_times", lambda *_, **__: equal)


LONG_WAIT = "with N = 6 and all places at level 3 or below, a new job may wait for over two minutes"
"""Batch does so, too."""


@pytest.mark.slow
@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_claim_fails_on_some_other_results(paper, monkeypatch):
    stored, verdicts = paper_results.read(paper)
    mutate(monkeypatch)
    firm = {text for _, text, _ in verdicts}
    for seed in range(SEEDS):
        firm -= failing(checked(paper, Others(seed).results(stored)))
        if firm <= {LONG_WAIT}:
            return
    raise AssertionError(firm)


def test_the_examples_of_the_queueing_paper_fail_under_another_rule(monkeypatch):
    mutate(monkeypatch)
    results = papers.Results((cell, zhou.simulate(cell, True, 1)) for cell in zhou.PAPER.figures["3"].cells)
    claims = list(papers.of_name("zhou97").claims(["3"], results))
    by_formula = "formula (3) gives the turnaround of ordered jobs, N = 1, M = 6"
    assert {claim.text for _, claim in claims} - failing(claims) == {LONG_WAIT, by_formula}
