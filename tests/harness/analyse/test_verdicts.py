"""Verdicts on measured against simulated slowdowns, on two directories, and on two schedulers of one."""

import csv
import dataclasses
import json
import math
from collections import defaultdict

import numpy
import pytest
import scipy.stats
from fake_runs import ImitatedSimulator, Quiet, command_on_made_up_runs, measured
from hypothesis import given
from hypothesis import strategies as st
from runs import needs_two

import lockstep
from harness.analyse import comparison, precision, stored_runs, summary, verdicts
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import estimate
from harness.analyse.timelines import planned_slots
from harness.predict import missing
from harness.spec.experiment import load
from harness.spec.naming import scheduler_name
from harness.store import conditions
from harness.store.database import Store
from harness.store.rebuild import experiment_of
from harness.store.records import DEDICATED, FURTHER
from workloads.constants import MachineConstants


def judged(measured, simulated, tolerance=0.15):
    """The verdict on a row with the slowdowns of so many repeats on each side."""
    row = Row((JobRow(0.0, {}),), {}, {}, Summary(estimate(measured)), Summary(estimate(simulated)))
    return verdicts.verdict(row, [], tolerance)


@pytest.mark.parametrize(
    ("simulated", "verdict"),
    [(1.05, "within"), (1.5, "outside"), (0.5, "outside"), (1.15, "not significant")],
)
def test_the_interval_of_the_error_decides(simulated, verdict):
    found = judged([0.99, 1.0, 1.01], [simulated])
    assert found.verdict == verdict
    assert found.interval[0] < simulated - 1 < found.interval[1]


@given(st.lists(st.floats(0.5, 5.0), min_size=3, max_size=6), st.floats(0.5, 5.0), st.floats(0.01, 0.5))
def test_the_verdict_agrees_with_its_interval(measured, simulated, tolerance):
    found = judged(measured, [simulated], tolerance)
    low, high = found.interval
    inside = -tolerance - 1e-9 <= low and high <= tolerance + 1e-9
    outside = high < -tolerance + 1e-9 or low > tolerance - 1e-9
    assert found.verdict != "within" or inside
    assert found.verdict != "outside" or outside
    assert math.isfinite(high)


def test_it_says_how_many_repeats_are_missing():
    found = judged([0.9, 1.0, 1.1], [1.08])
    assert found.verdict == "not significant" and found.more_repeats > 1
    assert f"{found.more_repeats} more repeats" in found.reason
    assert judged([1.0], [1.0]).more_repeats == 2
    two = judged([0.4, 2.0], [1.0])
    assert (two.verdict, two.interval, two.more_repeats) == ("not significant", None, 1)
    at_the_tolerance = judged([0.9, 1.0, 1 / 0.9], [1.15])
    assert at_the_tolerance.more_repeats is None and "more than 1000" in at_the_tolerance.reason


def test_more_repeats_narrow_only_the_measured_side_of_a_row_with_further_simulations():
    few, many, sure = [1.0, 1.1, 1.2], [1.0, 1.1, 1.2] * 8, [1.1] * 24
    found = [judged([0.9, 1.0, 1.1], them) for them in (few, many, sure)]
    assert {one.verdict for one in found} == {"not significant"}
    widths = [high - low for low, high in (one.interval for one in found)]
    assert widths == sorted(widths, reverse=True)
    assert found[2].more_repeats < found[1].more_repeats
    assert judged([0.9, 1.0, 1.1], [0.2, 1.1, 6.0] * 8).more_repeats is None


@pytest.fixture
def two_repeats(tmp_path):
    """The built-in experiment and its records, measured only."""
    experiment = load("three-jobs", settings=["repeats=2"])
    return experiment, measured(experiment, tmp_path)


def test_runs_of_another_kernel_are_not_compared_and_the_field_is_named(two_repeats):
    experiment, records = two_repeats
    lacking = missing.missing(experiment, records)
    imitated = ImitatedSimulator({task.key: record for task, record in lacking}, "s", timeline=False)
    simulated = [imitated.run(task) for task, _ in lacking]
    one = summary.rows(experiment, [*records, *simulated])[0]
    assert verdicts.verdict(one, [*records, *simulated], 0.15).verdict != "not comparable"
    other = dataclasses.replace(records[0].conditions, kernel="another")
    changed = [dataclasses.replace(one, conditions=other) if not one.repeat else one for one in records]
    found = verdicts.verdict(one, [*changed, *simulated], 0.15)
    assert found.verdict == "not comparable" and found.reason.startswith("kernel: 'another'")


def test_slots_of_a_run_without_a_timeline_come_from_its_policy(two_repeats):
    names = {scheduler_name(record.scheduler): record for record in two_repeats[1] if record.kind == "policy"}
    gang = planned_slots(names["gang 100 ms"])
    assert set(gang) == {0, 1} and gang[0] != gang[1]
    for lane in gang.values():
        turns = [(span.job, span.end_ns - span.begin_ns) for span in lane[:6]]
        assert turns == [(job, 100_000_000) for job in (0, 1, 2, 0, 1, 2)]
        assert lane[-1].end_ns == names["gang 100 ms"].makespan_ns
    assert planned_slots(names["none"]) == {}, "the local scheduler shares the processors"


def test_an_experiment_is_rebuilt_from_its_records(two_repeats):
    experiment, records = two_repeats
    again = experiment_of(records)
    assert {scheduler.name for scheduler in again.schedulers} == {s.name for s in experiment.schedulers}
    assert again.cells[0].jobs() == experiment.cells[0].jobs()
    assert (again.repeats, again.seed, again.processors) == (2, experiment.seed, 2)
    rows, rebuilt = (
        sorted(summary.rows(one, records), key=lambda row: row.name) for one in (experiment, again)
    )
    assert rebuilt == rows
    assert again.schedulers[0].table["policy"] == "none"


def test_what_is_missing_is_simulated_once_and_recorded(two_repeats, tmp_path, monkeypatch):
    monkeypatch.setattr(missing, "back_end", ImitatedSimulator)
    (found,) = stored_runs.read(tmp_path, None, Quiet(), simulate=True)
    assert sum(record.kind == "simulated" for record in found.records) == 16
    monkeypatch.setattr(missing, "back_end", None)
    (again,) = stored_runs.read(tmp_path, None, Quiet(), simulate=True)
    assert len(again.records) == len(found.records)
    rows = summary.rows(again.experiment, again.records)
    assert all(one.error == pytest.approx(-0.03, abs=0.001) for one in rows)


class Scattering(ImitatedSimulator):
    """Its runs without a policy scatter from repeat to repeat, all others do not."""

    def run(self, task):
        record = super().run(task)
        longer = 1 + task.repeat % 3 / 5 if task.scheduler.name == "none" and len(task.jobs) > 1 else 1
        jobs = [dataclasses.replace(job, finish_ns=round(longer * job.finish_ns)) for job in record.jobs]
        return dataclasses.replace(record, jobs=tuple(jobs))


def calibrated(records, us):
    """The records as if each had been made with the constant that ``us`` gives for it."""
    return [dataclasses.replace(one, constants=MachineConstants(remote_wakeup_us=us(one))) for one in records]


@pytest.fixture
def scattered(monkeypatch, tmp_path):
    """Gives an experiment, its records, and a function that simulates what it and its rows still need."""
    monkeypatch.setattr(missing, "back_end", Scattering)

    def make(repeats):
        experiment = load("three-jobs", settings=[f"repeats={repeats}"])
        records = measured(experiment, tmp_path)

        def complete(records, **options):
            with Store(tmp_path) as opened:
                return missing.complete(experiment, records, "s", opened, Quiet(), **options)

        return experiment, records, complete

    return make


def test_rows_that_scatter_are_simulated_more_often(scattered, tmp_path):
    """The three measured repeats stand; an interrupted comparison goes on where it was."""
    experiment, records, complete = scattered(3)
    heard = []
    tools = {"heard": heard.append, "further": precision.scattered}
    made = complete(records, **tools)
    assert complete([*records, *made], **tools) == []
    assert len(complete([*records, *made[:-5]], **tools)) == 5
    with Store(tmp_path) as opened:
        assert (experiment_of(opened.runs(experiment.digest)).repeats, len(heard)) == (3, len(records))
    for row in summary.rows(experiment, [*records, *made]):
        assert row.measured.workload_slowdown.n == 3
        scatters = scheduler_name(row.scheduler) == "none"
        assert row.simulated.workload_slowdown.n == 3 + (precision.FURTHER_REPEATS if scatters else 0)
    # The further ones are of another calibration.
    others = calibrated(records, lambda one: 99.0)
    assert precision.scattered(experiment, [*others, *made]) != []
    for row in summary.rows(experiment, [*others, *made, *calibrated(heard, lambda one: 99.0)]):
        assert row.simulated.workload_slowdown.n == 3


def test_further_simulations_imitate_dedicated_runs_of_the_same_calibration(scattered):
    """Each repeat has a calibration of its own, and a row more repeats than the other."""
    experiment, made, complete = scattered(4)
    records = calibrated(
        [one for one in made if one.repeat < 3 or one.kind == DEDICATED], lambda one: float(one.repeat)
    )
    made = complete(records, further=precision.scattered)
    assert precision.scattered(experiment, [*records, *made]) == []
    used = defaultdict(set)
    for record in made:
        if record.repeat >= FURTHER:
            used[record.repeat - FURTHER].add(record.constants.remote_wakeup_us)
    assert used == {number: {float(number % 3)} for number in range(precision.FURTHER_REPEATS)}
    moved = calibrated(records, lambda one: 9.0 if one.repeat == 1 else float(one.repeat))
    again = {task.repeat - FURTHER for task, _ in precision.scattered(experiment, [*moved, *made])}
    assert again == set(range(1, precision.FURTHER_REPEATS, 3))


def test_further_simulations_end_when_they_take_too_long(scattered):
    experiment, records, complete = scattered(3)
    made = complete(records)
    for wall_s, repeats in ((0.1, precision.FURTHER_REPEATS), (6.0, 10), (70.0, 0)):
        slow = [dataclasses.replace(one, wall_s=100.0 if one.repeat == 0 else wall_s) for one in made]
        tasks = [task for task, _ in precision.scattered(experiment, [*records, *slow])]
        assert len({task.repeat for task in tasks}) == repeats


def series(values, scheduler="none"):
    measured = Summary(estimate(values), by_repeat=dict(enumerate(values)))
    return Row((), {}, {"policy": scheduler}, measured, None)


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


def test_schedulers_are_compared_within_each_repeat():
    noise = [1.0, 1.8, 0.6, 1.3]
    rows = [series(noise, "none"), series([0.9 * value for value in noise], "gang")]
    (found,) = comparison.of_two_schedulers(rows, "none", "gang")
    assert found.verdict == "better" and found.interval == pytest.approx((0.9, 0.9))
    (apart,) = comparison.of_two_stores(
        [rows[0]], [dataclasses.replace(rows[1], scheduler=rows[0].scheduler)]
    )
    assert apart.verdict == "no difference that can be told", "two directories have no repeats in common"


def test_rows_that_only_one_side_has_are_named():
    rows = [series([1, 1, 1], "none"), series([1, 1, 1], "gang")]
    found = comparison.of_two_stores(rows, [series([1, 1, 1], "gang"), series([1, 1, 1], "batch")])
    reasons = [(row.known.name, row.reason) for row in found]
    assert reasons == [("none", "only before"), ("gang", ""), ("batch", "only after")]


@needs_two
@pytest.mark.slow
def test_directories_and_schedulers_are_compared_row_by_row(monkeypatch, tmp_path, capsys):
    """The second directory has another kernel and a gang less."""
    command = command_on_made_up_runs(monkeypatch, tmp_path, capsys)
    known = conditions.of_session
    sweep = ["--set", "sweep.program.imbalance=[0.25,1]", "--set", "repeats=3", "--no-simulate"]
    gangs = "{policy='gang',quantum_ms=100},{policy='gang',quantum_ms=10}"
    three = ["--set", f"schedulers=[{{policy='none'}},{gangs}]"]
    assert command("run", "three-jobs", "--results", "a", *sweep, *three)[0] == 0
    monkeypatch.setattr(
        conditions, "of_session", lambda *on: dataclasses.replace(known(*on), kernel="another")
    )
    few = ["--set", "schedulers=[{policy='none'},{policy='gang',quantum_ms=100}]"]
    assert command("run", "three-jobs", "--results", "b", *sweep, *few)[0] == 0

    status, out, err = command("compare", "a", "b", "--json", "--csv", "rows.csv")
    assert status == 0, err
    (found,) = json.loads(out)["experiments"]
    assert [one["field"] for one in found["differences"]] == ["kernel"]
    both = [row for row in found["rows"] if row["scheduler_before"] and row["scheduler_after"]]
    assert {row["scheduler_before"] for row in both} == {"none", "gang 100 ms"} and len(both) == 4
    assert {row["verdict"] for row in both} == {"no difference that can be told"}
    assert {row["reason"] for row in found["rows"]} == {"", "only before"}
    lines = list(csv.DictReader((tmp_path / "rows.csv").open()))
    imbalances = [str(row["settings"]["program.imbalance"]) for row in found["rows"]]
    assert [line["imbalance"] for line in lines] == imbalances
    shown = command("compare", "a", "b")[1]
    assert "Differs: kernel" in shown and "4 no difference that can be told" in shown
    assert list(lockstep.compare("a", "b")["verdict"]) == [line["verdict"] for line in lines]

    status, out, err = command("compare", "a", "--between", "none", "gang 100 ms", "--json")
    assert status == 0, err
    rows = json.loads(out)["experiments"][0]["rows"]
    assert len(rows) == 2 and all(row["verdict"] == "better" and row["high"] < 0.4 for row in rows)
    status, shown, _ = command("compare", "a", "--between", "gang 100 ms", "none")
    assert status == 0 and "worse" in shown
    assert list(lockstep.compare("a", between=("none", "gang 100 ms"))["imbalance"]) == [0.25, 1]
    for words, complaint in (
        (["--between", "none", "gong 100 ms"], "did you mean 'gang 100 ms'?"),
        (["b", "--between", "none", "gang 100 ms"], "leave --between out"),
        (["--between", "none", "none"], "--between = 'none none': must be two schedulers, and is one"),
    ):
        status, _, err = command("compare", "a", *words)
        assert status == 2 and complaint in err
    with pytest.raises(lockstep.InputError, match="either a second directory or two schedulers"):
        lockstep.compare("a")
