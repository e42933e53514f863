"""Claims of papers on made-up results: each verdict follows what it is about, and nothing else."""

import numpy as np
import pytest

from harness import papers
from harness.papers.anastasiadis97 import claims as toronto_claims
from harness.papers.anastasiadis97 import model as toronto
from harness.papers.anastasiadis97 import workload
from harness.papers.hori96 import claims as hori_claims
from harness.papers.hori96 import model as hori
from harness.papers.ousterhout82 import claims as ousterhout_claims
from harness.papers.ousterhout82 import model as ousterhout
from harness.predict.replicate import Mean, Replications
from harness.simulator.jobs.metrics import Metrics


def verdicts(claims):
    return {claim.text: claim.verdict for claim in claims}


def packings(spreads=None, lowest=0.6):
    """All systems use 80 % of the machine; the spread of each is 2 if it is not given."""
    packed = {
        ousterhout.PackingCell(system, distribution, population): ousterhout.Packed(
            Mean(0.8, 0.01, 3), lowest, Mean((spreads or {}).get(system, 2.0), 0.1, 3)
        )
        for system in ousterhout.SYSTEMS
        for distribution in ousterhout.DISTRIBUTIONS
        for population in ousterhout.POPULATIONS
    }
    return verdicts(ousterhout_claims.CLAIMS["1"](packed))


BALANCE = "where sizes are powers of two, hierarchical control balances the load across processors"
WORST = "in the worst case the matrix algorithm leaves about half of"


def test_the_claim_about_balance_goes_by_the_spread_of_processes():
    assert packings({"hierarchical control": 1.5})[BALANCE] == papers.HOLDS
    assert packings({"hierarchical control": 2.5})[BALANCE] == papers.FAILS
    assert packings()[BALANCE] == papers.OPEN


def test_the_worst_case_is_the_worst_case():
    text = f"{WORST} them idle, as jobs come and leave"
    assert packings(lowest=0.5)[text] == papers.HOLDS
    assert packings(lowest=0.2)[text] == papers.FAILS


def test_the_surveys_example_and_no_worse_one_without_departures():
    assert ousterhout.idle((4, 5), 8) == 7 / 16
    assert ousterhout.most_idle(8, 3) == (7 / 16, (1, 8))
    assert ousterhout.idle((4, 4, 8), 8) == 0
    assert packings()[f"{WORST} the processors idle, as jobs come"] == papers.HOLDS


def trees(**changes):
    """Every curve of the figures, with utilisation at the load, RETR 10 and a correlation of 0.1."""
    systems = {system for figure in hori.SYSTEMS.values() for system in figure}
    points = {}
    for processors, policy in systems:
        for distribution in hori.DISTRIBUTIONS:
            for target in hori.LOADS:
                cell = hori.TreeCell(distribution, processors, policy, target)
                values = {"utilisation": target, "retr": 10.0, "most_retr": 50.0, "fairness": 0.1}
                values |= changes.get(policy.replace("-", "_"), lambda cell: {})(cell)
                points[cell] = hori.TreeOutcome(load=target, backlog=0.0, **values)
    return {text: v for figure in "5678" for text, v in verdicts(hori_claims.CLAIMS[figure](points)).items()}


@pytest.mark.parametrize(
    ("text", "holds", "fails"),
    [
        (
            "DQT always has a shorter maximum RETR than Fair-DQT",
            {"fair_dqt": lambda cell: {"most_retr": 60.0}},
            {"fair_dqt": lambda cell: {"most_retr": 40.0 if cell.target == 0.6 else 60.0}},
        ),
        (
            "DQT's utilisation is somewhat poorer with uniform sizes than with the others",
            {"dqt": lambda cell: {"utilisation": cell.target - 0.01 * (cell.distribution == "uniform")}},
            {"dqt": lambda cell: {"utilisation": cell.target - 0.01 * (cell.distribution == "inverse")}},
        ),
        (
            "DQT's correlation of size with RETR tends to be higher at lower load, uniform sizes",
            {"dqt": lambda cell: {"fairness": 1 - cell.target}},
            {"dqt": lambda cell: {"fairness": cell.target}},
        ),
        (
            "FCFS-BB's utilisation depends strongly on the distribution of sizes",
            {"fcfs_bb": lambda cell: {"utilisation": 0.5 + 0.2 * hori.DISTRIBUTIONS[cell.distribution]}},
            {"fcfs_bb": lambda cell: {"utilisation": 0.5}},
        ),
        (
            "ScanUp always does better than ScanDown",
            {"scan_down": lambda cell: {"retr": 12.0}},
            {"scan_down": lambda cell: {"utilisation": cell.target + 0.01}},
        ),
    ],
)
def test_claims_about_queue_trees_follow_their_values(text, holds, fails):
    assert trees(**holds)[text] == papers.HOLDS
    assert trees(**fails)[text] == papers.FAILS


def toronto_verdicts(figure, sizes=None, responses=None):
    """Verdicts if every policy has partitions of 2 processors and responds in 10 s, or as given by cell."""
    columns = {toronto.REFERENCE, *toronto.COLUMNS[figure]}
    cells = {}
    for name in workload.MU:
        for load in toronto.LOADS:
            for column in columns:
                size = (sizes or (lambda *cell: 2.0))(column[0], name, load)
                response_s = (responses or (lambda *cell: 10.0))(column[0], name, load)
                metrics = Metrics(1, response_s, response_s / 2, 1.0, 1.0, 1.0, size, 1.0, 0.0)
                cells[toronto.AdaptiveCell(name, load, column)] = Replications((metrics, metrics))
    return verdicts(toronto_claims.CLAIMS[figure](toronto.AdaptiveResults(cells)))


def test_partition_sizes_of_the_adaptive_policies():
    small = "in almost all cases AEP has smaller partitions than ASP and AP1"
    same = "the partition sizes of ASP and AP1 are the same"
    found = toronto_verdicts("4", lambda policy, name, load: 1.5 if policy == "AEP" else 2.0)
    assert (found[small], found[same]) == (papers.HOLDS, papers.HOLDS)
    found = toronto_verdicts("4", lambda policy, name, load: 2.5 if policy in ("AEP", "AP1") else 2.0)
    assert (found[small], found[same]) == (papers.FAILS, papers.FAILS)


def test_the_best_limit_falls_with_the_load():
    text = "the higher the load, the smaller the limit on allocations that is best"
    best = {0.1: "SDF", 0.3: "SDF-Max 6", 0.5: "SDF-Max 6", 0.7: "SDF-Max 2", 0.9: "SDF-Max 1"}
    assert (
        toronto_verdicts("3", responses=lambda policy, _, load: 5.0 if policy == best[load] else 9.0)[text]
        == papers.HOLDS
    )
    best[0.9] = "SDF"
    assert (
        toronto_verdicts("3", responses=lambda policy, _, load: 5.0 if policy == best[load] else 9.0)[text]
        == papers.FAILS
    )


def test_the_advantage_of_aep_is_halved_or_not():
    text = "the advantage of AEP is considerably smaller with the shortest demand first (at least halved)"
    for ordered_s, verdict in ((9.5, papers.HOLDS), (7.0, papers.FAILS)):
        times_s = {"AEP": 7.0, "AEP(1)": ordered_s}
        found = toronto_verdicts("5", responses=lambda policy, *_, times_s=times_s: times_s.get(policy, 10.0))
        assert found[text] == verdict


def test_partition_sizes_near_dyn_equi():
    text = "at 90 % the mean partition sizes of the three are very close to DYN-EQUI's"
    for size, verdict in ((1.7, papers.HOLDS), (1.4, papers.FAILS)):
        assert toronto_verdicts("6", lambda p, *_, size=size: size if p == "AEP(2)" else 2.0)[text] == verdict


def test_the_speedups_of_figure_2():
    results = toronto.AdaptiveResults({}, curves=workload.speedup_curves())
    assert set(verdicts(toronto_claims.CLAIMS["2"](results)).values()) == {papers.HOLDS}
    (best,) = (c for c in results.curves if np.isinf(c.mu) and c.maximum == 16)
    assert best.speedups[15] == pytest.approx((1 + 16**2) / (2 * 16)), "equation (9) at p_max"
    rows = toronto.rows(results, ["2"])
    assert len(rows) == 9 * 32 and rows[0]["speedup"] == 1.0
