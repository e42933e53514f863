"""Before and after: verdicts on two results directories, and on two schedulers of one."""

import csv
import json
import random

import numpy
import pytest
import scipy.stats
from fake_runs import command_on_made_up_runs
from runs import needs_two

import lockstep
from harness.analyse import comparison
from harness.analyse.comparison import SlowdownSeries
from harness.store import conditions


def series(values, scheduler="none", settings=None):
    return SlowdownSeries((), settings or {}, scheduler, dict(enumerate(values)))


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([1.50, 1.51, 1.52], [1.20, 1.21, 1.22], "better"),
        ([1.20, 1.21, 1.22], [1.50, 1.51, 1.52], "worse"),
        ([1.20, 1.40, 1.60], [1.25, 1.45, 1.50], "no difference that can be told"),
        ([1.2, 1.2, 1.2], [1.2, 1.2, 1.2], "no difference that can be told"),
        ([1.2, 1.2], [3.0, 3.0, 3.0, 3.0], "no verdict"),
        ([], [3.0, 3.0, 3.0, 3.0], "no verdict"),
    ],
)
def test_the_interval_of_the_ratio_decides(before, after, verdict):
    (found,) = comparison.of_two_stores([series(before)], [series(after)])
    assert found.verdict == verdict
    if verdict == "no verdict":
        assert found.interval is None and found.reason in ("2 repeats: 3 at least", "no run succeeded before")
    else:
        assert found.interval[0] <= found.ratio <= found.interval[1]


def test_the_interval_is_welchs_with_degrees_of_freedom_rounded_down():
    before, after = [1.0, 1.1, 1.3, 1.2], [2.0, 2.1, 2.6]
    (found,) = comparison.of_two_stores([series(before)], [series(after)])
    welch = scipy.stats.ttest_ind(numpy.log(after), numpy.log(before), equal_var=False)
    centre = numpy.log(after).mean() - numpy.log(before).mean()
    half = scipy.stats.t.ppf(0.975, int(welch.df)) * centre / welch.statistic
    assert int(welch.df) == 3
    assert found.interval == pytest.approx(numpy.exp([centre - half, centre + half]))
    exact = numpy.exp(welch.confidence_interval())
    assert found.interval[0] < exact[0] < found.ratio < exact[1] < found.interval[1]


def test_schedulers_are_compared_within_each_repeat():
    noise = [1.0, 1.8, 0.6, 1.3]
    rows = [series(noise, "none"), series([0.9 * value for value in noise], "gang")]
    (found,) = comparison.of_two_schedulers(rows, "none", "gang")
    assert found.verdict == "better"
    assert found.interval == pytest.approx((0.9, 0.9))
    (apart,) = comparison.of_two_stores([rows[0]], [series(rows[1].values)])
    assert apart.verdict == "no difference that can be told", (
        "repeats of two directories have nothing in common"
    )


def test_of_a_thousand_rows_that_are_alike_about_a_twentieth_is_called_different():
    draw = random.Random(1)
    rows = [[series([draw.lognormvariate(0, 0.1) for _ in range(5)]) for _ in range(2)] for _ in range(1000)]
    found = [comparison.of_two_stores([one], [other])[0].verdict for one, other in rows]
    assert 0.02 < 1 - found.count("no difference that can be told") / 1000 < 0.07


def test_rows_that_only_one_side_has_are_named():
    rows = [series([1, 1, 1], "none"), series([1, 1, 1], "gang")]
    found = comparison.of_two_stores(rows, [series([1, 1, 1], "gang"), series([1, 1, 1], "batch")])
    assert [(row.known.scheduler, row.reason) for row in found] == [
        ("none", "only before"),
        ("gang", ""),
        ("batch", "only after"),
    ]


@pytest.fixture
def stores(monkeypatch, tmp_path, capsys):
    """The command, with two directories of made-up runs: the second has another kernel and two gangs less."""
    lockstep_ = command_on_made_up_runs(monkeypatch, tmp_path, capsys)
    known = conditions.of_session
    sweep = ["--set", "sweep.program.imbalance=[0.25,1]", "--set", "repeats=3", "--no-simulate"]
    assert lockstep_("run", "three-jobs", "--results", "a", *sweep)[0] == 0
    monkeypatch.setattr(conditions, "of_session", lambda *on: known(*on) | {"kernel": "another"})
    few = ["--set", "schedulers=[{policy='none'},{policy='gang',quantum_ms=100}]"]
    assert lockstep_("run", "three-jobs", "--results", "b", *sweep, *few)[0] == 0
    return lockstep_


@needs_two
@pytest.mark.slow
def test_two_directories_are_compared_row_by_row(stores, tmp_path):
    status, out, err = stores("compare", "a", "b", "--json", "--csv", "rows.csv")
    assert status == 0, err
    (found,) = json.loads(out)["experiments"]
    assert [one["field"] for one in found["differences"]] == ["kernel"]
    both = [row for row in found["rows"] if row["scheduler_before"] and row["scheduler_after"]]
    assert {row["scheduler_before"] for row in both} == {"none", "gang 100 ms"} and len(both) == 4
    assert {row["verdict"] for row in both} == {"no difference that can be told"}
    assert {row["reason"] for row in found["rows"]} == {"", "only before"}
    lines = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert [line["imbalance"] for line in lines] == [
        str(row["settings"]["program.imbalance"]) for row in found["rows"]
    ]
    shown = stores("compare", "a", "b")[1]
    assert "Differs: kernel" in shown and "4 no difference that can be told" in shown
    frame = lockstep.compare("a", "b")
    assert list(frame["verdict"]) == [line["verdict"] for line in lines]


@needs_two
@pytest.mark.slow
def test_two_schedulers_of_a_directory_are_compared(stores):
    status, out, err = stores("compare", "a", "--between", "none", "gang 100 ms", "--json")
    assert status == 0, err
    rows = json.loads(out)["experiments"][0]["rows"]
    assert len(rows) == 2
    assert all(row["verdict"] == "better" and row["high"] < 0.4 for row in rows)
    status, shown, _ = stores("compare", "a", "--between", "gang 100 ms", "none")
    assert status == 0 and "worse" in shown
    frame = lockstep.compare("a", between=("none", "gang 100 ms"))
    assert list(frame["imbalance"]) == [0.25, 1]
    status, _, err = stores("compare", "a", "--between", "none", "gong 100 ms")
    assert status == 2 and "did you mean 'gang 100 ms'?" in err
    status, _, err = stores("compare", "a", "b", "--between", "none", "gang 100 ms")
    assert status == 2 and "leave --between out" in err
    with pytest.raises(lockstep.InputError, match="either a second directory or two schedulers"):
        lockstep.compare("a")
