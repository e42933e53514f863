"""The report of simulated schedules of jobs, the tables of jobs, and policies against each other."""

import csv
import os
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from fake_records import MEANS, page_of_jobs, runs_of_jobs, write_trace
from golden import without_pictures

from harness.analyse import job_tables, results_document
from harness.cli import main
from harness.predict import schedule_files
from harness.predict.job_level import SimulatedByJob
from harness.simulator.jobs import swf
from harness.simulator.jobs.metrics import measure
from harness.spec import experiment
from harness.store.database import Store
from harness.store.rebuild import experiment_of
from harness.store.records import Schedule

pytestmark = pytest.mark.slow
JOBS, PROCESSORS = 240, 16
EXPERIMENT = """
level = "jobs"
name = "log"
schedulers = [
    { policy = "fcfs" }, { policy = "easy" }, { policy = "gang", quantum_ms = 60000 }, { policy = "batch" }
]
"""


@pytest.fixture(scope="module")
def back_end(tmp_path_factory):
    """A trace of jobs of 1 to 16 processors, under policies that are asked at every event."""
    path = tmp_path_factory.mktemp("trace") / "log.swf"
    write_trace(path, JOBS, PROCESSORS)
    wanted = experiment.load(tomllib.loads(EXPERIMENT), log=str(path))
    return replace(SimulatedByJob.of(wanted), session="20260101T000000-fa4ed0")


@pytest.fixture(scope="module")
def records(back_end):
    return runs_of_jobs(back_end)


@pytest.fixture(scope="module")
def rows(records):
    """The schedules of those policies that can keep up, by fcfs, easy and gangs."""
    return job_tables.timed(results_document.results(experiment_of(records), records).rows)


def test_the_page_shows_waits_sizes_utilisation_processors_and_policies_against_each_other(records, golden):
    page = page_of_jobs(records)
    golden("jobs.html", re.sub(r"<dt>(Job log|Simulated)</dt>.*", "", without_pictures(page)))
    assert page.count("<svg") == 2 * 5
    picture = page[page.index('id="processors"') : page.index('id="table"')]
    assert ">easy</text>" in picture and ">gang 60 s</text>" not in picture, "gangs share processors in turns"
    assert "&lt;made up&gt;" in page and "batch is saturated" in page.replace("Batch", "batch")


def test_random_jobs_have_no_single_schedule_and_the_page_says_so():
    text = f"processors = 16\n{EXPERIMENT}\n[model]\ncount = 10"
    wanted = experiment.load(tomllib.loads(text))
    usual = Schedule({}, 0, MEANS, {"wait_s": 3.0})
    page = page_of_jobs(runs_of_jobs(SimulatedByJob.of(wanted), usual))
    assert page.count("<svg") == 2
    assert page.count("random jobs have many replications") == 4
    assert "\u00b13" in page


def test_the_table_of_jobs_has_the_columns_of_batsim_and_the_times_of_the_schedule(back_end, rows, tmp_path):
    outcome = rows[1].outcome
    swf.write_jobs(tmp_path / "jobs.csv", outcome, back_end.logs[0].numbers)
    found = list(csv.DictReader((tmp_path / "jobs.csv").open()))
    assert len(found) == JOBS and set(found[0]) >= {"job_id", "starting_time", "allocated_resources"}
    free_at = np.zeros(PROCESSORS)
    for line in sorted(found, key=lambda line: float(line["starting_time"])):
        names = ("submission", "waiting", "starting", "execution", "finish")
        times = {key: float(line[f"{key}_time"]) for key in names}
        assert times["starting"] == pytest.approx(times["submission"] + times["waiting"])
        assert times["finish"] == pytest.approx(times["starting"] + times["execution"])
        ranges = [tuple(map(int, part.split("-"))) for part in line["allocated_resources"].split()]
        place = [p for ends in ranges for p in range(ends[0], ends[-1] + 1)]
        assert len(place) == int(line["requested_number_of_resources"])
        assert (free_at[place] <= times["starting"]).all(), "a processor has one job at a time"
        free_at[place] = times["finish"]
    numbers, waits_s = ([float(line[key]) for line in found] for key in ("job_id", "waiting_time"))
    assert numbers == back_end.logs[0].numbers.tolist()
    assert waits_s == pytest.approx(outcome.wait_s)


def test_a_policy_against_another_one(rows):
    easy, gang = job_tables.against_first(rows, warm_up=0)
    assert (easy.slowdowns.before.scheduler, easy.name, gang.name) == ("fcfs", "easy", "gang 60 s")
    waits = [row.outcome.wait_s for row in rows[:2]]
    assert easy.wait_s == pytest.approx((waits[1] - waits[0]).mean())
    assert easy.sooner == pytest.approx((waits[1] < waits[0]).mean())
    found = easy.slowdowns
    assert found.verdict == "better" and found.interval[0] <= found.ratio <= found.interval[1] < 1
    (same,) = job_tables.against_first([rows[0], rows[0]], warm_up=0)
    assert (same.slowdowns.ratio, same.slowdowns.verdict) == (1, "no difference that can be told")


def test_slowdowns_by_size_add_up(rows):
    classes = job_tables.by_size(rows[0].outcome, warm_up=0, tau_s=10)
    assert [one.name for one in classes] == ["1", "2", "3-4", "5-8", "9-16"]
    assert sum(one.jobs for one in classes) == JOBS
    mean = sum(one.jobs * one.bounded_slowdown for one in classes) / JOBS
    assert mean == pytest.approx(measure(rows[0].outcome, tau_s=10).bounded_slowdown)


@pytest.fixture
def folder(records, tmp_path):
    """What ``simulate -o`` leaves."""
    keep(records, tmp_path)
    return tmp_path


def keep(records, place):
    with Store(place) as store:
        for record in records:
            store.add_run(record)
            list(schedule_files.write(place, record))


def reported(folder, *words):
    """The page that ``lockstep report`` makes of a directory."""
    page = folder / "made.html"
    assert main(["report", str(folder), "-o", str(page), *words]) == 0
    return page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_the_report_of_a_directory_is_the_page_of_the_schedules_in_memory(records, folder):
    for table in folder.glob("*.csv"):
        table.unlink()  # the store alone has all
    assert reported(folder) == page_of_jobs(records)


def test_the_rows_and_pictures_of_a_directory_come_in_each_format(folder, capsys):
    for kind in ("csv", "md", "svg", "png"):
        assert main(["report", str(folder), "-o", str(folder / f"r.{kind}")]) == 0
    lines = list(csv.DictReader((folder / "r.csv").open()))
    assert [line["scheduler"] for line in lines] == ["fcfs", "easy", "gang 60 s", "batch"]
    assert float(lines[0]["wait_s"]) > float(lines[1]["wait_s"]) > 0 and lines[3]["wait_s"] == ""
    assert (folder / "r.md").read_text().count("\n| ") == 5
    assert main(["report", str(folder), "-o", str(folder / "r.svg"), "--picture", "waits"]) == 0
    assert "easy" in (folder / "r.svg").read_text()
    capsys.readouterr()
    assert main(["report", str(folder), "-o", str(folder / "r.svg"), "--picture", "gantt"]) == 2
    assert "must be one of means, waits, sizes, utilisation, processors" in capsys.readouterr().err
    assert main(["report", str(folder), "--experiment", "nosuch"]) == 2
    assert "'nosuch': is not in this store; it holds log" in capsys.readouterr().err
    assert main(["compare", str(folder)]) == 2
    assert "choose two schedulers with --between" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_an_interrupted_simulation_is_reported_as_far_as_it_came(records, tmp_path):
    keep(records[1:2], tmp_path)
    page = reported(tmp_path)
    assert "Only 1 of 4 schedules are there: the simulation was interrupted" in page
    assert "bounded slowdown: easy" in page and "least" not in page and "Each policy against" not in page


@pytest.mark.usefixtures("undrawn")
def test_where_no_policy_keeps_up_the_page_says_what_it_cannot_show(records, tmp_path):
    with Store(tmp_path) as store:
        store.add_run(records[3])
    assert reported(tmp_path).count("all policies are saturated") == 5


@pytest.mark.usefixtures("undrawn")
def test_names_are_text_whatever_they_are(back_end, tmp_path):
    name, file = "<b>$x^2$ \u00fc & \u6f22\u5b57</b>", os.fsdecode(b"a <i>\xff log.swf")
    known = back_end.experiment
    (cell,) = known.cells
    odd_log = replace(cell.source.log, file=file)
    cells = (replace(cell, source=replace(cell.source, log=odd_log)),)
    odd = replace(back_end, experiment=replace(known, name=name, cells=cells))
    place = tmp_path / "a b \u6f22"
    keep(runs_of_jobs(odd)[:2], place)
    page = reported(place, "--experiment", name)
    assert "<b>" not in page and "<i>" not in page
    assert "&lt;b&gt;$x^2$ \u00fc &amp; \u6f22\u5b57&lt;/b&gt;" in page
    assert "a &lt;i&gt;\\xff log.swf" in page
    assert main(["report", str(place), "-o", str(place / "r.md")]) == 0
    assert (place / "r.md").read_text(encoding="utf-8").startswith("# \\<b>")


def test_the_newest_of_runs_and_schedules_is_reported(folder, records):
    for recorded_at, newest in (("1999", "log"), (records[-1].recorded_at + "9", "ran")):
        ran = replace(records[0], recorded_at=recorded_at, experiment="ran", digest="abc", kind="policy")
        with Store(folder) as store:
            store.add_run(replace(ran, schedule=None))
            assert store.experiments()[-1][1] == newest


@pytest.mark.parametrize("change", [{"place": "x"}, {"warm_up": "many"}, {"tau_s": []}])
def test_a_record_that_nobody_wrote_is_damage(records, tmp_path, capsys, change):
    schedule = records[0].schedule
    with Store(tmp_path) as store:
        store.add_run(replace(records[0], schedule=replace(schedule, source={**schedule.source, **change})))
    assert main(["report", str(tmp_path)]) == 1
    assert "is damaged: " in capsys.readouterr().err
