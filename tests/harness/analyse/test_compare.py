"""Verdicts on measured against simulated slowdowns."""

import dataclasses
import math
from collections import defaultdict

import pytest
from fake_runs import TOOLS, ImitatedSimulator, Quiet, measure
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.analyse import precision, stored, summary, verdicts
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import estimate
from harness.analyse.timelines import planned_slots
from harness.measure.calibrate import Constants
from harness.measure.session import MeasurementSession
from harness.predict import missing
from harness.spec.experiment import load
from harness.spec.naming import scheduler_name
from harness.store import conditions
from harness.store.database import Store
from harness.store.rebuild import experiment_of
from harness.store.records import DEDICATED, FURTHER


def row(measured, simulated):
    """A row with the slowdowns of so many repeats on each side."""
    return Row((JobRow(0.0, {}),), {}, {}, Summary(estimate(measured)), Summary(estimate(simulated)))


@pytest.fixture
def measured(tmp_path):
    """A store with two repeats of the built-in experiment, measured only."""
    experiment = load("three-jobs", settings=["repeats=2"])
    with Store(tmp_path) as opened:
        site = MeasurementSession.here((0, 1), TOOLS, opened)
        records = measure(
            experiment, site, Constants(remote_wakeup_us=4.0, local_switch_us=3.0, latency_us=2.0)
        )
    return experiment, records


@pytest.mark.parametrize(
    ("simulated", "verdict"),
    [(1.05, "within"), (1.5, "outside"), (0.5, "outside"), (1.15, "not significant")],
)
def test_the_interval_of_the_error_decides(simulated, verdict):
    found = verdicts.verdict(row([0.99, 1.0, 1.01], [simulated]), [], 0.15)
    assert found.verdict == verdict
    low, high = found.interval
    assert low < simulated - 1 < high


def test_it_says_how_many_repeats_are_missing():
    found = verdicts.verdict(row([0.9, 1.0, 1.1], [1.08]), [], 0.15)
    assert found.verdict == "not significant"
    assert found.more_repeats > 1
    assert f"{found.more_repeats} more repeats" in found.reason
    assert verdicts.verdict(row([1.0], [1.0]), [], 0.15).more_repeats == 2
    two = verdicts.verdict(row([0.4, 2.0], [1.0]), [], 0.15)
    assert (two.verdict, two.interval, two.more_repeats) == ("not significant", None, 1)
    assert two.reason == "an interval takes 3 repeats, not 2: at least 1 more"


class Scattering(ImitatedSimulator):
    """Its runs without a policy scatter from repeat to repeat, all others do not."""

    def run(self, task):
        record = super().run(task)
        longer = 1 + task.repeat % 3 / 5 if task.scheduler.name == "none" and len(task.jobs) > 1 else 1
        jobs = [dataclasses.replace(job, finish_ns=round(longer * job.finish_ns)) for job in record.jobs]
        return dataclasses.replace(record, jobs=tuple(jobs))


def test_rows_that_scatter_are_simulated_more_often(tmp_path, monkeypatch):
    """The three measured repeats stand; an interrupted comparison goes on where it was."""
    monkeypatch.setattr(missing, "back_end", Scattering)
    experiment = load("three-jobs", settings=["repeats=3"])
    with Store(tmp_path) as opened:
        measured = measure(
            experiment,
            MeasurementSession.here((0, 1), TOOLS, opened),
            Constants(remote_wakeup_us=4.0, local_switch_us=3.0, latency_us=2.0),
        )
        heard = []
        tools = {"heard": heard.append, "further": precision.scattered}
        made = missing.complete(experiment, measured, "s", opened, Quiet(), **tools)
        assert missing.complete(experiment, [*measured, *made], "s", opened, Quiet(), **tools) == []
        again = missing.complete(experiment, [*measured, *made[:-5]], "s", opened, Quiet(), **tools)
        rebuilt = experiment_of(opened.runs(experiment.digest))
    assert (rebuilt.repeats, len(heard), len(again)) == (3, len(measured), 5)
    for row in summary.rows(experiment, [*measured, *made]):
        assert row.measured.workload_slowdown.n == 3
        scatters = scheduler_name(row.scheduler) == "none"
        assert row.simulated.workload_slowdown.n == 3 + (precision.FURTHER_REPEATS if scatters else 0)
    others = [dataclasses.replace(one, constants={"remote_wakeup_us": 99.0}) for one in measured]
    # The further ones are of another calibration.
    assert precision.scattered(experiment, [*others, *made]) != []
    renewed = [dataclasses.replace(one, constants={"remote_wakeup_us": 99.0}) for one in heard]
    for row in summary.rows(experiment, [*others, *made, *renewed]):
        assert row.simulated.workload_slowdown.n == 3


def test_further_simulations_imitate_dedicated_runs_of_the_same_calibration(tmp_path, monkeypatch):
    """Each repeat has a calibration of its own, and a row more repeats than the other."""
    monkeypatch.setattr(missing, "back_end", Scattering)
    experiment = load("three-jobs", settings=["repeats=4"])
    with Store(tmp_path) as opened:
        measured = [
            dataclasses.replace(one, constants={"remote_wakeup_us": float(one.repeat)})
            for one in measure(
                experiment,
                MeasurementSession.here((0, 1), TOOLS, opened),
                Constants(remote_wakeup_us=4.0, local_switch_us=3.0, latency_us=2.0),
            )
            if one.repeat < 3 or one.kind == DEDICATED
        ]
        made = missing.complete(experiment, measured, "s", opened, Quiet(), further=precision.scattered)
        assert precision.scattered(experiment, [*measured, *made]) == []
    used = defaultdict(list)
    for record in made:
        if record.repeat >= FURTHER:
            used[record.repeat].append(record.constants["remote_wakeup_us"])
    assert len(used) == precision.FURTHER_REPEATS
    assert [sorted(set(values)) for _, values in sorted(used.items())] == [
        [float(number % 3)] for number in range(precision.FURTHER_REPEATS)
    ]
    moved = [
        dataclasses.replace(one, constants={"remote_wakeup_us": 9.0}) if one.repeat == 1 else one
        for one in measured
    ]
    again = {task.repeat - FURTHER for task, _ in precision.scattered(experiment, [*moved, *made])}
    assert again == set(range(1, precision.FURTHER_REPEATS, 3))


def test_further_simulations_end_when_they_take_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(missing, "back_end", Scattering)
    experiment = load("three-jobs", settings=["repeats=3"])
    with Store(tmp_path) as opened:
        measured = measure(
            experiment,
            MeasurementSession.here((0, 1), TOOLS, opened),
            Constants(remote_wakeup_us=4.0, local_switch_us=3.0, latency_us=2.0),
        )
        made = missing.complete(experiment, measured, "s", opened, Quiet())
    for wall_s, repeats in ((0.1, precision.FURTHER_REPEATS), (6.0, 10), (70.0, 0)):
        slow = [dataclasses.replace(one, wall_s=100.0 if one.repeat == 0 else wall_s) for one in made]
        tasks = [task for task, _ in precision.scattered(experiment, [*measured, *slow])]
        assert len({task.repeat for task in tasks}) == repeats


def test_an_error_at_the_tolerance_needs_more_repeats_than_there_can_be():
    found = verdicts.verdict(row([0.9, 1.0, 1 / 0.9], [1.15]), [], 0.15)
    assert found.more_repeats is None
    assert "more than 1000" in found.reason


def test_more_repeats_narrow_only_the_measured_side_of_a_row_with_further_simulations():
    few, many, sure = [1.0, 1.1, 1.2], [1.0, 1.1, 1.2] * 8, [1.1] * 24
    found = [verdicts.verdict(row([0.9, 1.0, 1.1], them), [], 0.15) for them in (few, many, sure)]
    assert {one.verdict for one in found} == {"not significant"}
    widths = [high - low for low, high in (one.interval for one in found)]
    assert widths == sorted(widths, reverse=True)
    assert found[2].more_repeats < found[1].more_repeats
    wide = [0.2, 1.1, 6.0] * 8
    assert verdicts.verdict(row([0.9, 1.0, 1.1], wide), [], 0.15).more_repeats is None


@settings(deadline=None)
@given(
    st.lists(st.floats(0.5, 5.0), min_size=3, max_size=6),
    st.floats(0.5, 5.0),
    st.floats(0.01, 0.5),
)
def test_the_verdict_agrees_with_its_interval(measured, simulated, tolerance):
    found = verdicts.verdict(row(measured, [simulated]), [], tolerance)
    low, high = found.interval
    inside = -tolerance - 1e-9 <= low and high <= tolerance + 1e-9
    outside = high < -tolerance + 1e-9 or low > tolerance - 1e-9
    assert found.verdict != "within" or inside
    assert found.verdict != "outside" or outside
    assert math.isfinite(high)


def test_runs_of_another_kernel_are_not_compared_and_the_field_is_named(measured):
    experiment, records = measured
    lacking = missing.missing(experiment, records)
    imitated = ImitatedSimulator({task.key: record for task, record in lacking}, "s", timeline=False)
    simulated = [imitated.run(task) for task, _ in lacking]
    one = summary.rows(experiment, [*records, *simulated])[0]
    assert verdicts.verdict(one, [*records, *simulated], 0.15).verdict != "not comparable"
    other = dict(records[-1].conditions) | {"kernel": "another"}
    assert conditions.difference(records[0].conditions, other)
    changed = [
        record if record.repeat else record.__class__(**{**vars(record), "conditions": other})
        for record in records
    ]
    found = verdicts.verdict(one, [*changed, *simulated], 0.15)
    assert found.verdict == "not comparable"
    assert found.reason.startswith("kernel: ")
    assert "'another'" in found.reason


def test_slots_of_a_run_without_a_timeline_come_from_its_policy(measured):
    _, records = measured
    names = {scheduler_name(record.scheduler): record for record in records if record.kind == "policy"}
    gang = planned_slots(names["gang 100 ms"])
    assert set(gang) == {0, 1} and gang[0] != gang[1]
    for lane in gang.values():
        turns = [(span.job, span.end_ns - span.begin_ns) for span in lane[:6]]
        assert turns == [(job, 100_000_000) for job in (0, 1, 2, 0, 1, 2)]
        assert lane[-1].end_ns == names["gang 100 ms"].makespan_ns
    assert planned_slots(names["none"]) == {}, "the local scheduler shares the processors"


def test_an_experiment_is_rebuilt_from_its_records(measured):
    experiment, records = measured
    again = experiment_of(records)
    assert {scheduler.name for scheduler in again.schedulers} == {s.name for s in experiment.schedulers}
    assert again.cells[0].jobs() == experiment.cells[0].jobs()
    assert (again.repeats, again.seed, again.processors) == (2, experiment.seed, 2)
    tables = [scheduler.table for scheduler in again.schedulers]
    rows = {str(sorted(one.scheduler.items())): one for one in summary.rows(experiment, records)}
    for one in summary.rows(again, records):
        assert one == rows[str(sorted(one.scheduler.items()))]
    assert tables[0]["policy"] == "none"


def test_what_is_missing_is_simulated_once_and_recorded(measured, tmp_path, monkeypatch):
    monkeypatch.setattr(missing, "back_end", ImitatedSimulator)
    (found,) = stored.read(tmp_path, None, Quiet(), simulate=True)
    assert sum(record.kind == "simulated" for record in found.records) == 16
    monkeypatch.setattr(missing, "back_end", None)
    (again,) = stored.read(tmp_path, None, Quiet(), simulate=True)
    assert len(again.records) == len(found.records)
    rows = summary.rows(again.experiment, again.records)
    assert all(one.error == pytest.approx(-0.03, abs=0.001) for one in rows)
