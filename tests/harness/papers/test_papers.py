"""Reproductions of papers: their form, and the results that take little time."""

import json

import numpy as np
import pytest

from harness import papers
from harness.papers import Cell, hori96, zhou97
from harness.papers import anastasiadis97 as toronto
from harness.predict.replicate import Replications, ratio
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential
from harness.simulator.jobs.metrics import Metrics
from workloads.validation import InputError


def test_bad_papers_and_figures_are_named():
    with pytest.raises(InputError, match="figure"):
        papers.reproduce("zhou97", ["99"])
    with pytest.raises(InputError, match="zhou97"):
        papers.reproduce("zhou98")


@pytest.mark.parametrize("service", [1, 3])
def test_figure_3_of_zhou97_has_the_turnarounds_of_its_formula_and_the_first_jobs_times(service):
    found = zhou97.simulate(Cell(service=service), quick=True, seed=1)
    inner = slice(zhou97.POPULATION, -zhou97.POPULATION)
    assert found.response_s[inner] == found.formula_s[inner]
    lines_s = np.array(found.lines_s)
    assert lines_s.shape == (zhou97.SHOWN, 3)
    arrival_s, start_s, finish_s = lines_s.T
    assert (finish_s - arrival_s).tolist() == found.response_s[: zhou97.SHOWN]
    assert (arrival_s <= start_s).all() and (start_s < finish_s).all()
    assert start_s[:service].tolist() == [zhou97.SLOT_S * number for number in range(service)]


def replications(responses_s):
    return Replications(tuple(Metrics(1, one, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0) for one in responses_s))


def test_policies_that_saw_the_same_jobs_are_compared_in_pairs():
    comparison = ratio(replications([1.1, 2.2, 4.4]), replications([1.0, 2.0, 4.0]))
    assert comparison.mean == pytest.approx(1.1)
    assert comparison.half == pytest.approx(0.0, abs=1e-12)


def test_a_policy_with_more_replications_is_known_by_all_of_them():
    """The first two of eleven are not like the others: pairs of two would say 1, and know nothing."""
    comparison = ratio(replications([2.0, 2.1]), replications([1.0, 3.0, *[2.0] * 9]))
    assert comparison.mean == pytest.approx(2.05 / (22 / 11))
    assert 0 < comparison.half < 0.8


@pytest.mark.filterwarnings("error")  # a panel without curves has no legend
def test_a_figure_more_is_its_cells_its_drawing_and_its_sentences(monkeypatch, tmp_path):
    paper = toronto.PAPER
    some = papers.sweep(mu=toronto.MU["WK1"], maximum=[4, 16])
    figure = papers.PaperFigure("speedup of small jobs", paper.figures["2"].draw, some)
    monkeypatch.setitem(paper.figures, "7", figure)
    monkeypatch.setitem(paper.checks, "7", [])

    @paper.claim("7", "on {} processors the speedup is above {}", each=[(4, 2), (16, 9)])
    def check(results, processors, least):
        speedup = results.where(maximum=processors).column("speedups")[0][processors - 1]
        return f"{speedup:.1f}", speedup > least

    reproduction = papers.reproduce("anastasiadis97", ["7"])
    assert [(claim.text, claim.verdict) for _, claim in reproduction.claims] == [
        ("on 4 processors the speedup is above 2", papers.HOLDS),
        ("on 16 processors the speedup is above 9", papers.FAILS),
    ]
    assert reproduction.draw(tmp_path)[0].name == "anastasiadis97-7.png"


@pytest.mark.slow
def test_zhou97_matches_formula_3(tmp_path):
    done = []
    reproduction = papers.reproduce("zhou97", ["3"], progress=lambda *step: done.append(step))
    assert {claim.verdict for _, claim in reproduction.claims} == {papers.HOLDS}
    assert done[-1][0] == done[-1][1]
    document = reproduction.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    (path,) = reproduction.draw(tmp_path)
    assert path.name == "zhou97-3.png" and path.stat().st_size > 1000


def test_the_same_seed_gives_the_same_reproduction():
    first, second = (papers.reproduce("anastasiadis97", ["1"], quick=True).document() for _ in range(2))
    assert first == second


def test_the_toronto_workload_has_the_papers_means():
    """Table 3: E(W) = 13.76, CoV = 3.5, and E(T(1)) of the four workloads (there rounded)."""
    random = np.random.default_rng(1)
    work_s = hyperexponential(400_000, toronto.SHARES, toronto.MEANS_S, random)
    assert work_s.mean() == pytest.approx(13.76, rel=0.02)
    assert work_s.std() / work_s.mean() == pytest.approx(3.5, rel=0.02)
    for workload, mean_s in {"WK1": 14.06, "WK2": 16.06, "WK3": 19.06, "WK4": 16.40}.items():
        assert toronto.mean_demand_s(workload) == pytest.approx(mean_s, rel=0.02)
        jobs = toronto.jobs(workload, 0.5, 100_000, random)
        assert jobs.demand_s.mean() == pytest.approx(mean_s, rel=0.05)
        load = jobs.demand_s.sum() / (32 * jobs.submit_ns[-1] / 1e9)
        assert load == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("distribution", list(hori96.DISTRIBUTIONS))
def test_the_tasks_of_hori96_have_the_target_load(distribution):
    jobs = hori96.tasks(distribution, 128, 0.8, 400_000, np.random.default_rng(1))
    assert set(jobs.max_processes.tolist()) <= {1, 2, 4, 8, 16, 32, 64}, "no task needs the whole machine"
    assert jobs.work_s.sum() / (128 * 400_000) == pytest.approx(0.8, rel=0.1)


@pytest.mark.parametrize(
    "process, cv", [("exponential", 1.0), ("hyperexponential", 3.0), ("geometric", np.sqrt(0.9))]
)
def test_times_between_arrivals_have_their_mean_and_variation(process, cv):
    gaps = gaps_s(process, 200_000, 10.0, np.random.default_rng(2), cv=3.0)
    assert gaps.mean() == pytest.approx(10.0, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


@pytest.mark.parametrize(
    "process, options, words",
    [
        ("normal", {}, "must be one of"),
        ("hyperexponential", {"cv": 0.5}, "cv"),
        ("geometric", {"unit_s": 99}, "unit_s"),
    ],
)
def test_bad_arrivals_are_named(process, options, words):
    with pytest.raises(InputError, match=words):
        gaps_s(process, 10, 10.0, np.random.default_rng(1), **options)
