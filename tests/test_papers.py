"""Reproductions of papers: their form, and the results that take little time."""

import importlib
import json
from pathlib import Path

import numpy as np
import pytest

from harness import papers
from harness.papers.anastasiadis97 import claims as toronto_claims
from harness.papers.anastasiadis97 import model as anastasiadis97
from harness.papers.anastasiadis97 import workload as toronto
from harness.papers.hori96 import claims as hori_claims
from harness.papers.hori96 import model as hori96
from harness.papers.zhou97 import claims as zhou_claims
from harness.papers.zhou97 import mixes as zhou_mixes
from harness.papers.zhou97 import model as zhou97
from harness.predict.replicate import Replications
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential
from harness.simulator.jobs.metrics import Metrics
from workloads.validation import InputError

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("paper", ["anastasiadis97", "hori96", "ousterhout82", "survey", "zhou97"])
def test_bad_figures_are_named(paper):
    with pytest.raises(InputError, match="figure"):
        papers.reproduce(paper, ["99"])


EXPLAINED = {
    "dusseau96": ["3", "5", "8", "11", "12"],
    "anastasiadis97": list(anastasiadis97.FIGURES),
    "hori96": list(hori96.FIGURES),
    "ousterhout82": ["1"],
    "survey": ["1"],
    "zhou97": ["5"],
}


@pytest.mark.parametrize("paper", EXPLAINED)
def test_a_claim_that_does_not_hold_points_at_its_explanation(paper):
    for figure in EXPLAINED[paper]:
        claims = [
            (figure, papers.Claim("text", "found", verdict)) for verdict in (papers.FAILS, papers.HOLDS)
        ]
        made = papers.Reproduction(paper, [figure], [], claims, {}).document()["claims"]
        file, _, anchor = made[0]["why"].partition("#")
        headings = [line[3:].lower().replace(" ", "-") for line in (ROOT / file).read_text().splitlines()]
        assert anchor in headings
        assert made[1]["why"] == ""


def replications(responses_s):
    return Replications(tuple(Metrics(1, one, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0) for one in responses_s))


def found_of(ours, theirs):
    """What Figure 3's SDF made of one cell against DYN-EQUI."""
    columns = (anastasiadis97.SHORTEST[-1], ours), (anastasiadis97.REFERENCE, theirs)
    cells = {
        anastasiadis97.AdaptiveCell("WK1", 0.9, column): replications(times) for column, times in columns
    }
    return anastasiadis97.AdaptiveResults(cells).ratio("WK1", 0.9, "SDF", "DYN-EQUI")


def test_policies_that_saw_the_same_jobs_are_compared_in_pairs():
    ratio = found_of([1.1, 2.2, 4.4], [1.0, 2.0, 4.0])
    assert ratio.mean == pytest.approx(1.1)
    assert ratio.half == pytest.approx(0.0, abs=1e-12)


def test_a_policy_with_more_replications_is_known_by_all_of_them():
    """The first two of eleven are not like the others: pairs of two would say 1, and know nothing."""
    ratio = found_of([2.0, 2.1], [1.0, 3.0, *[2.0] * 9])
    assert ratio.mean == pytest.approx(2.05 / (22 / 11))
    assert 0 < ratio.half < 0.8


def toronto_verdicts(factors):
    """Verdicts of Figures 4 to 6 if every policy takes DYN-EQUI's time by its factor, 1 by default."""
    columns = {column for figure in "456" for column in anastasiadis97.COLUMNS[figure]}
    cells = {
        anastasiadis97.AdaptiveCell(workload, load, column): replications(
            [
                chance * factors.get((column[0], workload, load), factors.get(column[0], 1.0))
                for chance in (9, 10)
            ]
        )
        for workload in toronto.MU
        for load in anastasiadis97.LOADS
        for column in (anastasiadis97.REFERENCE, *columns)
    }
    results = anastasiadis97.AdaptiveResults(cells)
    claims = (toronto_claims.CLAIMS[figure](results) for figure in ("4", "5", "6"))
    return {claim.text: claim.verdict for some in claims for claim in some}


def zhou_verdicts(multilevel_s):
    """Verdicts of Figure 5 if all replications took 100 s under every system but the multilevel one."""
    mixes = {
        cell: zhou_mixes.Mix(
            *[multilevel_s[cell.repeat] if cell.system == "multilevel, N = 4" else 100.0] * 4
        )
        for cell in zhou_mixes.cells()
    }
    return [
        claim.verdict
        for claim in zhou_claims.CLAIMS["5"](zhou97.QueueingResults({}, mixes))
        if "beats round robin" in claim.text
    ]


@pytest.mark.parametrize(
    ("multilevel_s", "verdict"),
    [
        ([90, 91, 92, 93, 94], papers.HOLDS),
        ([110, 111, 112, 113, 114], papers.FAILS),
        ([90, 110, 95, 105, 99], papers.OPEN),
    ],
)
def test_replications_decide_whether_a_system_beats_another(multilevel_s, verdict):
    assert zhou_verdicts(multilevel_s)[0] == verdict


BETTER = "AEP(2) has a shorter response time than AP1(2), or one as long within 5 %"
NEAR = "on WK4 AEP(2) stays within 30 % of DYN-EQUI"
AHEAD = "at 90 % ASP(2), AP1(2) and AEP(2) do better than DYN-EQUI"
ALIKE = "ASP and AP1 have almost the same response time everywhere"
AT_90 = {(f"{name}(2)", w, 0.9): 0.8 for name in ("ASP", "AP1", "AEP") for w in toronto.MU}


@pytest.mark.parametrize(
    ("text", "factors", "verdict"),
    [
        (BETTER, {"AEP(2)": 0.9}, papers.HOLDS),
        (BETTER, {"AEP(2)": 0.9, ("AEP(2)", "WK1", 0.1): 1.04}, papers.HOLDS),
        (BETTER, {"AEP(2)": 0.9, ("AEP(2)", "WK1", 0.1): 1.06}, papers.FAILS),
        (NEAR, {"AEP(2)": 1.29}, papers.HOLDS),
        (NEAR, {("AEP(2)", "WK4", 0.5): 1.31}, papers.FAILS),
        (NEAR, {("AEP(2)", "WK1", 0.5): 1.31}, papers.HOLDS),
        (AHEAD, AT_90, papers.HOLDS),
        (AHEAD, AT_90 | {("AEP(2)", "WK1", 0.9): 1.01}, papers.FAILS),
        (ALIKE, {("AP1", "WK3", 0.7): 0.91}, papers.HOLDS),
        (ALIKE, {("AP1", "WK3", 0.7): 1.11}, papers.FAILS),
    ],
)
def test_one_cell_decides_about_a_claim_that_is_made_of_all(text, factors, verdict):
    assert toronto_verdicts(factors)[text] == verdict


def test_systems_of_different_sizes_are_compared_at_the_same_actual_load():
    """RETR is 1 / (1 - load) here at whatever loads chance has given."""
    points = {
        hori96.TreeCell(distribution, size, "dqt", target): hori96.TreeOutcome(
            load, load, 1 / (1 - load), most_retr=10.0, fairness=0.1, backlog=0.0
        )
        for distribution in hori96.DISTRIBUTIONS
        for number, size in enumerate(hori96.SIZES)
        for target, load in ((0.8, 0.7 + 0.02 * number), (0.9, 0.95 - 0.005 * number))
    }
    claim = hori_claims.CLAIMS["5"](points)[-1]
    assert claim.verdict == papers.HOLDS
    assert claim.found.count(" 1.00 of 6") == 3


def test_an_unknown_paper_lists_the_known_ones():
    with pytest.raises(InputError, match="zhou97"):
        papers.reproduce("zhou98")


@pytest.mark.slow
def test_zhou97_matches_formula_3_and_counts_preemptions(tmp_path):
    done = []
    found = papers.reproduce("zhou97", quick=True, progress=lambda *step: done.append(step))
    sure = [claim for figure, claim in found.claims if figure == "3" or "is preempted" in claim.text]
    assert [claim.verdict for claim in sure] == [papers.HOLDS] * 13
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


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_every_paper_says_what_quick_mode_shortens(paper):
    assert importlib.import_module(f"harness.papers.{paper}.model").QUICK
