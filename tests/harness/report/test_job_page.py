"""The report of simulated schedules of jobs, the tables of jobs, and policies against each other."""

import base64
import csv
import io
import os
import re
import tomllib
from dataclasses import replace

import numpy as np
import pytest
from fake_records import MEANS, page_of_jobs, runs_of_jobs, write_trace
from golden import without_pictures

from coordinator.topology import written
from harness.analyse import job_classes, job_tables, results_document
from harness.cli import main
from harness.predict import schedule_files
from harness.predict.job_level import SimulatedByJob
from harness.simulator.jobs import swf
from harness.simulator.jobs.kept_outcome import kept, known
from harness.simulator.jobs.metrics import batch_slowdowns, measure
from harness.simulator.jobs.model import WHOLE_NS
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
    for key, times_ns in (("starting_time", outcome.start_ns), ("finish_time", outcome.finish_ns)):
        assert [float(line[key]) for line in found] == pytest.approx(times_ns / WHOLE_NS)
    assert [float(line["requested_number_of_resources"]) for line in found] == outcome.size.tolist()
    place_of = {job: written(place).replace(",", " ") for job, place in swf.placements(outcome)}
    assert [line["allocated_resources"] for line in found] == [place_of[job] for job in range(JOBS)]


@pytest.mark.parametrize("row", range(3))
def test_an_outcome_is_kept_whole(back_end, rows, row):
    outcome, numbers = rows[row].outcome, back_end.logs[0].numbers
    again, its_numbers = known(kept(outcome, numbers), PROCESSORS)
    assert its_numbers.tolist() == numbers.tolist()
    for name in ("start_ns", "finish_ns", "size"):
        assert (getattr(again, name) == getattr(outcome, name)).all(), name
    assert list(swf.placements(again)) == list(swf.placements(outcome))
    assert vars(measure(again)) == pytest.approx(vars(measure(outcome)), nan_ok=True)


def test_a_policy_against_another_one(rows):
    easy, gang = job_tables.against_first(rows)
    assert (easy.slowdowns.before.name, easy.name, gang.name) == ("fcfs", "easy", "gang 60 s")
    waits = [row.outcome.wait_s for row in rows[:2]]
    assert easy.wait_s == pytest.approx((waits[1] - waits[0]).mean())
    assert easy.sooner == pytest.approx((waits[1] < waits[0]).mean())
    found = easy.slowdowns
    assert found.verdict == "better" and found.interval[0] <= found.ratio <= found.interval[1] < 1
    (same,) = job_tables.against_first([rows[0], rows[0]])
    assert (same.slowdowns.ratio, same.slowdowns.verdict) == (1, "no difference that can be told")
    warm_up = JOBS - 20
    late = [
        row._replace(
            row=replace(row.row, simulated=replace(row.row.simulated, by_repeat=dict(enumerate(means)))),
            schedule=replace(row.schedule, source={**row.schedule.source, "warm_up": warm_up}),
        )
        for row in rows[:2]
        for means in [batch_slowdowns(row.outcome, warm_up, tau_s=10)]
    ]
    (few,) = job_tables.against_first(late)
    assert few.slowdowns.interval is None and few.slowdowns.verdict == "no verdict"
    waits = [row.outcome.wait_s[warm_up:] for row in late]
    assert few.wait_s == pytest.approx((waits[1] - waits[0]).mean())


def test_classes_add_up(rows):
    for timed in rows:
        classes = job_classes.classes(timed)
        means = measure(timed.outcome, tau_s=10)
        assert [one.name for one in classes["sizes"]] == ["1", "2", "3-4", "5-8", "9-16"]
        for kind in ("sizes", "lengths", "interactive"):
            assert sum(one.jobs for one in classes[kind]) == JOBS
            assert sum(one.work_share for one in classes[kind]) == pytest.approx(1)
            for name in ("response_s", "wait_s", "bounded_slowdown"):
                total = sum(one.jobs * getattr(one, name) for one in classes[kind])
                assert total / JOBS == pytest.approx(getattr(means, name))
        assert classes["users"] == []


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
    assert "'nosuch': is not in this store, which holds log" in capsys.readouterr().err
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
def test_without_the_times_of_jobs_the_page_says_what_it_cannot_show(records, tmp_path):
    keep([replace(one, schedule=replace(one.schedule, outcome="")) for one in records], tmp_path)
    page = reported(tmp_path)
    assert page.count("the records do not tell when which job ran") == 4
    assert page.count("all policies are saturated") == 1, "only of the means, which nobody draws here"
    assert "Each policy against" not in page and "Schedules of 240 jobs" in page


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


@pytest.mark.parametrize(
    ("key", "value"),
    [("place", "x"), ("warm_up", "many"), ("tau_s", []), ("warm_up", None), ("tau_s", None), ("count", None)],
)
def test_a_record_that_nobody_wrote_is_damage(records, tmp_path, capsys, key, value):
    schedule = records[0].schedule
    rest = {name: one for name, one in schedule.source.items() if name != key}
    source = rest if value is None else {**rest, key: value}
    with Store(tmp_path) as store:
        store.add_run(replace(records[0], schedule=replace(schedule, source=source)))
    assert main(["report", str(tmp_path)]) == 1
    assert f"is damaged: runs.schedule holds {key} = {value!r}" in capsys.readouterr().err


def test_an_outcome_under_another_scheduler_is_damage(records, tmp_path, capsys):
    first, other = (one.schedule for one in records[:2])
    with Store(tmp_path) as store:
        store.add_run(replace(records[0], schedule=replace(first, outcome=other.outcome)))
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "made.html")]) == 1
    assert "is damaged: outcome is of another schedule" in capsys.readouterr().err


def packed(**columns):
    file = io.BytesIO()
    np.savez(file, **columns)
    return base64.b64encode(file.getvalue()).decode()


def changed(outcome, **columns):
    """The text of an outcome with other columns; None takes a column out."""
    with np.load(io.BytesIO(base64.b64decode(outcome))) as file:
        every = dict(file) | columns
    return packed(**{name: column for name, column in every.items() if column is not None})


def no_npz(outcome):
    file = io.BytesIO()
    np.save(file, np.arange(3))
    return base64.b64encode(file.getvalue()).decode()


def cut(outcome):
    data = base64.b64decode(outcome)
    return base64.b64encode(data[: len(data) // 2]).decode()


def overwritten(outcome):
    data = bytearray(base64.b64decode(outcome))
    data[200:260] = bytes(60)
    return base64.b64encode(data).decode()


def fewer(outcome):
    with np.load(io.BytesIO(base64.b64decode(outcome))) as file:
        return packed(**{name: column[:9] for name, column in file.items()})


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (lambda _: "x", "cannot be read"),
        (lambda _: "eA==", "no .npz file"),
        (no_npz, "no .npz file"),
        (cut, "no .npz file"),
        (overwritten, "cannot be read"),
        (lambda it: changed(it, start_ns=None), "lacks start_ns"),
        (lambda it: changed(it, size=np.ones(3)), "3 entries of size"),
        (lambda it: changed(it, factor=np.ones(3)), "3 entries of factor"),
        (lambda it: changed(it, finish_ns=np.full(JOBS, "x")), "no column of numbers as finish_ns"),
        (lambda it: changed(it, first=np.full(JOBS, None)), "allow_pickle=False"),
        (lambda it: changed(it, size=np.full(JOBS, np.nan)), "size that no job can have"),
        (lambda it: changed(it, places=np.array([[0, 0, 99_999_999_999]])), "outside of 16 processors"),
        (lambda it: changed(it, places=np.array([[0, 5, 3]])), "outside of 16 processors"),
        (lambda it: changed(it, places=np.array([[0, 3, 5]])), "a job without its processors"),
        (fewer, "has 9 of 240 jobs"),
    ],
)
def test_an_outcome_that_nobody_wrote_is_damage(records, tmp_path, capsys, outcome, why):
    schedule = records[0].schedule
    damaged = replace(schedule, outcome=outcome(schedule.outcome))
    with Store(tmp_path) as store:
        store.add_run(replace(records[0], schedule=damaged))
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "made.html")]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path / 'lockstep.sqlite'} is damaged: " in said and why in said
    assert len(said.splitlines()) == 1
