"""Reproductions of papers: their form, and the results that take little time."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness import papers
from harness.papers import dusseau96_claims, hori96, toronto
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential
from workloads.validation import InputError

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("paper", ["anastasiadis97", "hori96", "ousterhout82", "zhou97"])
def test_bad_figures_are_named(paper):
    with pytest.raises(InputError, match="figure"):
        papers.reproduce(paper, ["99"])


@pytest.mark.parametrize("figure", ["3", "8", "11", "12"])
def test_a_claim_that_does_not_hold_points_at_its_explanation(figure):
    claim = papers.Claim(figure, "text", "found", papers.FAILS)
    file, _, anchor = dusseau96_claims.explained(claim).why.partition("#")
    headings = [line[3:].lower().replace(" ", "-") for line in (ROOT / file).read_text().splitlines()]
    assert anchor in headings
    assert dusseau96_claims.explained(replace(claim, verdict=papers.HOLDS)).why == ""


def test_an_unknown_paper_lists_the_known_ones():
    with pytest.raises(InputError, match="zhou97"):
        papers.reproduce("zhou98")


@pytest.mark.slow
def test_zhou97_matches_formula_3_and_counts_preemptions(tmp_path):
    done = []
    found = papers.reproduce("zhou97", quick=True, progress=lambda *step: done.append(step))
    assert all(claim.verdict == papers.HOLDS for claim in found.claims)
    assert done[-1][0] == done[-1][1]
    document = found.document()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    paths = found.draw(tmp_path)
    assert [path.name for path in paths] == ["zhou97-3.png", "zhou97-5.png"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_the_same_seed_gives_the_same_reproduction():
    first, second = (papers.reproduce("zhou97", ["3"]).document() for _ in range(2))
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
    assert set(jobs.most.tolist()) <= {1, 2, 4, 8, 16, 32, 64}, "no task needs the whole machine"
    assert jobs.work_s.sum() / (128 * 400_000) == pytest.approx(0.8, rel=0.1)


@pytest.mark.parametrize(
    ("process", "cv"), [("exponential", 1.0), ("hyperexponential", 3.0), ("geometric", np.sqrt(0.9))]
)
def test_times_between_arrivals_have_their_mean_and_variation(process, cv):
    gaps = gaps_s(process, 200_000, 10.0, np.random.default_rng(2), cv=3.0)
    assert gaps.mean() == pytest.approx(10.0, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)


@pytest.mark.parametrize(
    ("process", "options", "words"),
    [
        ("normal", {}, "must be one of"),
        ("hyperexponential", {"cv": 0.5}, "cv"),
        ("geometric", {"unit_s": 99}, "unit_s"),
    ],
)
def test_bad_arrivals_are_named(process, options, words):
    with pytest.raises(InputError, match=words):
        gaps_s(process, 10, 10.0, np.random.default_rng(1), **options)
