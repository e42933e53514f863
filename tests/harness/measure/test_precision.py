"""Repeats end as soon as the rows are precise: which runs are made, and what a watcher hears."""

import dataclasses
import io
from collections import Counter

import pytest
from fake_runs import CONSTANTS, TOOLS, Quiet, imitate, probe
from rich.console import Console

from harness.analyse.precision import RowPrecision
from harness.measure import runner
from harness.measure.measured import Measured
from harness.measure.plan import key_of, plan
from harness.measure.session import MeasurementSession, Progress, RowStatus, Tools
from harness.report.plain import PlainWatcher
from harness.report.progress import BarWatcher
from harness.spec.experiment import load
from harness.store.database import Store

SETTINGS = ("repeats={min=3,max=6}", "jobs.0.count=1", "schedulers=[{policy='none'},{policy='gang'}]")


def unsteady(workload, progress=None, history=None):
    """An imitation in which ``none`` takes twice as long in every second run."""
    result = imitate(workload)
    if (
        workload.policy.allows_oversubscription
        and workload.repeat % 2
        and type(workload.policy).__name__ != "Implicit"
    ):
        jobs = [dataclasses.replace(job, finish_ns=2 * job.finish_ns) for job in result.jobs]
        return dataclasses.replace(result, jobs=tuple(jobs))
    return result


@pytest.fixture
def series(tmp_path):
    """A function that makes the runs of the experiment; gives the records and the watcher."""

    def make(run_workload, *settings, before=()):
        experiment = load("three-jobs", settings=[*SETTINGS, *settings])
        watcher = Quiet()
        precision = RowPrecision(experiment, before)
        done = {record.recorded_at for record in before}
        with Store(tmp_path) as store:
            session = MeasurementSession.begin((0, 1), Tools(TOOLS.launcher, probe, run_workload), store)
            back_end = Measured(session, lambda task: CONSTANTS, watcher.note)
            known = {(r.repeat, r.kind, r.scheduler["policy"]) for r in before}
            tasks = [t for t in plan(experiment) if (t.repeat, t.kind, t.scheduler.name) not in known]
            runs_so_far = []
            for record in runner.run(tasks, back_end, store, watcher, precision):
                runs_so_far.append(record)
                precision.add(record)
                watcher.statuses += precision.news(record)
        assert not done & {record.recorded_at for record in runs_so_far}
        return runs_so_far, watcher, precision

    return make


def runs(records):
    return Counter(record.scheduler["policy"] for record in records)


def test_steady_rows_end_after_the_least_number_of_repeats(series):
    """The time left goes by the repeats that rows probably need, at first the geometric mean of 3 and 6."""
    run_keys, watcher, precision = series(imitate)
    assert runs(run_keys) == {"none": 3, "gang": 3, "batch": 3}
    assert [one.final for one in watcher.statuses if one.n == 3] == [True, True]
    assert not list(precision.wide())
    assert watcher.steps[0].total == 12 and watcher.steps[-1].done == watcher.steps[-1].total == 9


def test_an_unsteady_row_is_repeated_alone_and_named(series):
    run_keys, watcher, precision = series(unsteady)
    assert runs(run_keys) == {"none": 6, "gang": 3, "batch": 6}
    ((name, width),) = precision.wide()
    assert name == "none" and width > 0.05
    assert watcher.statuses[-1].n == 6 and watcher.statuses[-1].final
    assert "of at most 6" in watcher.steps[0].label and watcher.steps[9].total == 9 + 3 + 3


@pytest.mark.parametrize(
    "run, setting, none, gang",
    [
        (unsteady, "precision=9", range(3, 6), [3]),
        (unsteady, "repeats=3", [3], [3]),
        # Two repeats have no interval, so that a third is made if it may be.
        (imitate, "repeats={min=1,max=4}", [3], [3]),
        (imitate, "repeats={min=1,max=2}", [2], [2]),
    ],
)
def test_the_file_says_how_precise_and_how_often(series, run, setting, none, gang):
    run_list = runs(series(run, setting)[0])
    assert run_list["none"] in none and run_list["gang"] in gang


def test_records_of_before_count(series):
    first, _, _ = series(unsteady, "repeats=2")
    assert runs(series(unsteady, before=first)[0]) == {"none": 4, "gang": 1, "batch": 4}


@pytest.mark.parametrize("exceeded, again", [(2.0, True), (5.0, False), (6.0, False)])
def test_what_was_stopped_earlier_than_it_would_be_now_is_tried_again(series, exceeded, again):
    record = next(one for one in series(imitate, "repeats=1")[0] if one.kind == "policy")
    stopped = dataclasses.replace(
        record, conditions=dataclasses.replace(record.conditions, exceeded=exceeded)
    )
    experiment = load("three-jobs", settings=[*SETTINGS, "repeats=1"])
    experiment = dataclasses.replace(experiment, timeout_factor=5.0)
    (task,) = (task for task in plan(experiment) if task.key == key_of(stopped))
    assert RowPrecision(experiment, [stopped]).needs(task) is again


def test_simulated_values_reach_the_table_as_they_come(tmp_path, series):
    run_keys, _, precision = series(imitate, "repeats=2")
    messages = []
    for record in run_keys:
        kind = {"policy": "simulated", "dedicated": "simulated dedicated"}[record.kind]
        simulated = dataclasses.replace(record, kind=kind)
        precision.add(simulated)
        messages += [(one.row, one.simulated, one.n, one.final) for one in precision.news(simulated)]
    gang = [one for one in messages if one[0].startswith("gang")]
    assert [(n, final) for _, _, n, final in gang] == [(2, False), (2, True)]
    assert gang[0][1] == pytest.approx(1.02)


def test_a_log_gets_a_line_for_each_row_that_is_final():
    out = io.StringIO()
    watcher = PlainWatcher(out)
    watcher.row_status(RowStatus("gang 10 ms", 1.04, None, 1))
    watcher.row_status(RowStatus("gang 10 ms", 1.03, (1.01, 1.05), 3, final=True))
    watcher.row_status(RowStatus("gang 10 ms", 1.03, (1.01, 1.05), 2, final=True, simulated=1.0249))
    assert out.getvalue() == (
        "gang 10 ms: 1.03 1.01-1.05 n = 3\ngang 10 ms: 1.03 1.01 to 1.05 n = 2, simulated 1.02\n"
    )


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_a_terminal_shows_a_table_whole_and_marks_the_running_row(size):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=size[0], height=size[1], color_system=None)
    with BarWatcher(console) as watcher:
        watcher.row_status(RowStatus("modified-two-queue 20 ms, long 60 ms", None, None, 0))
        watcher.row_status(RowStatus("gang 10 ms", 1.0312, (1.01, 1.05), 3, final=True))
        watcher.progress(Progress("gang 10 ms, repeat 4 of at most 8", 3, 24, 10.0, 70.0))
        watcher._live.refresh()
        watcher.row_status(RowStatus("gang 10 ms", 1.0312, (1.01, 1.05), 3, simulated=1.0412))
        watcher.progress(Progress("simulated gang 10 ms, repeat 2 of 3", 3, 24, 10.0, None))
        watcher._live.refresh()
    lines = [line.rstrip() for line in out.getvalue().split("\n")]
    assert any(">  gang 10 ms" in line and "1.03" in line and "1.01-1.05" in line for line in lines)
    assert any(">  gang 10 ms" in line and "1.03" in line and "1.04" in line for line in lines)
    assert any("modified-two-queue 20 ms, long 60 ms" in line for line in lines)
