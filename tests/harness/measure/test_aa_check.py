"""The A/A check: what a quiet, a drifting and a noisy host can tell; the command on made-up runs."""

import json
import random
import re
from pathlib import Path

import pytest
from fake_runs import failing

from harness.analyse import comparison
from harness.analyse.comparison import aa_check
from harness.measure import host_check
from harness.store.database import Store


def noisy(sigma, count=10, seed=1, drift=0.0):
    """Pairs of slowdowns that scatter by ``sigma``; the host gets slower by ``drift`` with each pair."""
    draw = random.Random(seed)
    return [tuple((1 + drift * n) * draw.lognormvariate(0.0, sigma) for _ in range(2)) for n in range(count)]


def test_equal_runs_differ_nowhere_and_any_difference_is_told():
    found = aa_check([(1.5, 1.5)] * 10)
    assert (found.pairs, found.repeats, found.comparisons) == (10, 5, 6 * 32)
    assert (found.different, found.false_positives, found.smallest) == (0, 0.0, pytest.approx(0.0))
    three = aa_check([(1.0, 1.0)] * 3)
    assert aa_check([(1.0, 1.0)] * 2) is None and (three.repeats, three.comparisons) == (3, 8)


def test_the_smallest_difference_grows_with_noise_and_drift():
    """Intervals of five values reach 1.24 standard deviations on each side of the mean."""
    one = aa_check(noisy(0.01, 100))
    ten = aa_check(noisy(0.1, 100))
    assert 0.02 < one.smallest < 0.05 and 0.2 < ten.smallest < 0.6
    assert aa_check(noisy(0.01, 40, drift=0.05)).smallest > 2 * aa_check(noisy(0.01, 40)).smallest
    assert aa_check(noisy(0.05, 200)).false_positives < 0.05, "intervals of independent runs overlap"


def test_a_difference_of_the_smallest_size_is_told_by_four_of_five_comparisons():
    pairs = noisy(0.03, 30)
    factor = 1 + aa_check(pairs).smallest
    compared = list(comparison.comparisons(pairs, 5))
    told = sum(one.ci95[1] < factor * other.ci95[0] for one, other in compared)
    assert told / len(compared) == pytest.approx(0.8, abs=0.01)


@pytest.fixture
def lockstep(lockstep, monkeypatch):
    monkeypatch.setattr(host_check, "check", lambda processors: [host_check.Finding("MPI", "mpich")])
    return lockstep


def test_the_command_measures_pairs_and_says_how_long_that_takes(lockstep):
    status, out, err = lockstep("doctor", "--self-test", "--json", "--results", "kept")
    assert status == 0
    found = json.loads(out)["self_test"]
    assert (found["pairs"], found["repeats"], found["comparisons"]) == (10, 5, 192)
    assert "0/30 dedicated, repeat 1 of 20; 1 min " in err
    with Store(Path("kept"), existing=True) as store:
        ((digest, name),) = store.experiments()
        kinds = [record.kind for record in store.runs(digest)]
    assert (name, kinds.count("policy"), kinds.count("dedicated")) == ("aa", 20, 10)


def test_without_a_directory_nothing_is_kept(lockstep, tmp_path):
    status, out, _ = lockstep("doctor", "--self-test", "--pairs", "3")
    assert status == 0 and not list(tmp_path.iterdir())
    assert re.search("A/A check, 3 pairs of equal runs: [0-9] of 8 comparisons of 3 repeats", out)
    assert "The smallest difference that 80% of comparisons of 3 repeats tell here: " in out


def test_failures_and_too_few_pairs_are_told(lockstep, monkeypatch):
    monkeypatch.setattr("harness.application.real_tools", lambda: failing(lambda workload: True))
    status, out, _ = lockstep("doctor", "--self-test")
    assert status == 1
    assert "3 runs failed; the first: job 0: rank 1 has gone" in out and "too few pairs" in out
    status, _, err = lockstep("doctor", "--self-test", "--pairs", "2")
    assert status == 2 and "--pairs = 2: must be at least 3" in err
