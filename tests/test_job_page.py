"""The report of simulated schedules of jobs, the tables of jobs, and policies against each other."""

import csv
import re

import numpy as np
import pytest
from fake_records import schedules_of_a_trace, write_trace

from coordinator import policies
from harness.analyse import schedules
from harness.cli import main
from harness.commands import job_level
from harness.predict.job_level import Schedule, Study
from harness.report import job_page
from harness.simulator.jobs import swf
from harness.simulator.jobs.metrics import measure
from harness.spec.job_level import JobExperiment, Model
from harness.store.database import Store

pytestmark = pytest.mark.slow
JOBS, PROCESSORS = 240, 16
POLICIES = {"fcfs": {}, "easy": {}, "gang": {"quantum_ms": 60_000}, "batch": {}}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A trace of jobs of 1 to 16 processors, under policies that are asked at every event."""
    path = tmp_path_factory.mktemp("trace") / "log.swf"
    write_trace(path, JOBS, PROCESSORS)
    tables = tuple(
        ({"policy": name, **options}, policies.create(name, options)) for name, options in POLICIES.items()
    )
    return Study.of(JobExperiment("log", 0, 1, tables, trace=path))


@pytest.fixture(scope="module")
def rows(study):
    return schedules_of_a_trace(study)


def test_the_page_shows_waits_sizes_utilisation_processors_and_policies_against_each_other(study, rows):
    page = job_page.html(study, rows)
    headings = re.findall(r"<h2[^>]*>([^<]*)</h2>", page)
    assert headings == [
        "Experiment",
        "What weakens the results",
        *(
            "Means of each policy",
            "How long jobs waited",
            "Who pays: slowdown by size",
            "Utilisation over time",
        ),
        *(
            "Which job had which processors",
            "All figures",
            "Each policy against fcfs",
            "By the size of the jobs",
        ),
    ]
    assert page.count("<svg") == 2 * 5
    picture = page[page.index('id="processors"') : page.index('id="table"')]
    assert ">easy</text>" in picture and ">gang 60 s</text>" not in picture, "gangs share processors in turns"
    assert "&lt;made up&gt;" in page and "batch is saturated" in page.replace("Batch", "batch")


def test_random_jobs_have_no_single_schedule_and_the_page_says_so(rows):
    study = Study(JobExperiment("model", 16, 1, (), model=Model()), 16)
    means = [Schedule(row.scheduler, row.metrics, {"wait_s": 3.0}, 5, label=row.label) for row in rows[:2]]
    page = job_page.html(study, means)
    assert page.count("<svg") == 2
    assert page.count("random jobs have many replications") == 4
    assert "&plusmn;3" in page


def test_the_table_of_jobs_has_the_columns_of_batsim_and_the_times_of_the_schedule(study, rows, tmp_path):
    outcome = rows[1].outcome
    swf.write_jobs(tmp_path / "jobs.csv", outcome, study.trace.numbers)
    found = list(csv.DictReader((tmp_path / "jobs.csv").open()))
    assert len(found) == JOBS and set(found[0]) >= {"job_id", "starting_time", "allocated_resources"}
    free_at = np.zeros(PROCESSORS)
    for line in sorted(found, key=lambda line: float(line["starting_time"])):
        times = {
            key: float(line[f"{key}_time"])
            for key in ("submission", "waiting", "starting", "execution", "finish")
        }
        assert times["starting"] == pytest.approx(times["submission"] + times["waiting"])
        assert times["finish"] == pytest.approx(times["starting"] + times["execution"])
        ranges = [tuple(map(int, part.split("-"))) for part in line["allocated_resources"].split()]
        place = [p for ends in ranges for p in range(ends[0], ends[-1] + 1)]
        assert len(place) == int(line["requested_number_of_resources"])
        assert (free_at[place] <= times["starting"]).all(), "a processor has one job at a time"
        free_at[place] = times["finish"]


def test_a_policy_against_another_one(rows):
    easy, gang = schedules.against_first(rows, warm_up=0, tau_s=10)
    assert (easy.before, easy.after, gang.after) == ("fcfs", "easy", "gang 60 s")
    waits = [row.outcome.wait_s for row in rows[:2]]
    assert easy.wait_s == pytest.approx((waits[1] - waits[0]).mean())
    assert easy.sooner == pytest.approx((waits[1] < waits[0]).mean()) and easy.verdict == "better"
    assert easy.interval[0] <= easy.ratio <= easy.interval[1] < 1
    (same,) = schedules.against_first([rows[0], rows[0]], warm_up=0, tau_s=10)
    assert (same.ratio, same.verdict) == (1, "no difference that can be told")
    (few,) = schedules.against_first(rows[:2], warm_up=JOBS - 20, tau_s=10)
    assert (few.interval, few.verdict) == (None, "no verdict")


def test_slowdowns_by_size_add_up(rows):
    classes = schedules.by_size(rows[0].outcome, warm_up=0, tau_s=10)
    assert [one.name for one in classes] == ["1", "2", "3-4", "5-8", "9-16"]
    assert sum(one.jobs for one in classes) == JOBS
    mean = sum(one.jobs * one.bounded_slowdown for one in classes) / JOBS
    assert mean == pytest.approx(measure(rows[0].outcome, tau_s=10).bounded_slowdown)


def test_the_page_lies_beside_the_store_and_the_report_command_says_so(study, rows, tmp_path, capsys):
    made = {path.name for path in job_level.write(study, rows, tmp_path)}
    assert {
        "report.html",
        "metrics.csv",
        "metrics.png",
        "00-fcfs.csv",
        "01-easy.swf.gz",
        "01-easy.placement",
    } <= made
    with Store(tmp_path) as store:
        store.add_schedules([job_level._schedule(study, rows[0], "a session")])
    assert main(["report", str(tmp_path)]) == 2
    assert "open report.html there" in capsys.readouterr().err
