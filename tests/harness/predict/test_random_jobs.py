"""The kinds of ``[model]``: what an experiment file may say of each, and how their jobs are simulated."""

import json
import tomllib

import numpy as np
import pytest

import lockstep
from harness.cli import main
from harness.predict.drawn_jobs import draw
from harness.predict.job_level import SimulatedByJob
from harness.spec import experiment
from harness.spec.job_models import KINDS, LublinModel, SevcikModel
from workloads.validation import InputError

LUBLIN = """
level = "jobs"
processors = 64
replications = 3
terminating = true
[model]
kind = "lublin"
count = 200
load = 1.2
[[schedulers]]
policy = "fcfs"
[[schedulers]]
policy = "easy"
"""


def source_of(text, *settings):
    (cell,) = experiment.load(tomllib.loads(text), settings=settings).cells
    return cell.source


def test_a_model_without_a_kind_is_the_usual_one_and_its_records_do_not_name_it():
    usual = source_of(LUBLIN.replace('kind = "lublin"\n', "")).model
    assert usual == SevcikModel(count=200, load=1.2) and "kind" not in usual.table
    named = source_of(LUBLIN, "model.kind=sevcik").model
    assert named == usual
    assert source_of(LUBLIN).model.table["kind"] == "lublin"


def test_two_kinds_of_models_have_different_digests():
    digests = {
        experiment.load(tomllib.loads(LUBLIN), settings=[f"model.kind={kind}"]).digest for kind in KINDS
    }
    assert len(digests) == len(KINDS)


@pytest.mark.parametrize(
    "settings, words",
    [
        (["model.kind=lubin"], r"model.kind = 'lubin': must be .*did you mean 'lublin'"),
        (["model.mu=[1]"], r"model.mu"),
        (["model.clases=[]"], "did you mean 'classes'"),
        (["model.classes=[]"], r"model.classes = \[\]: must be a list of at least one value"),
        (["model.classes=['batches']"], "did you mean 'batch'"),
        (["model.classes=['all', 'all']"], r"model.classes = .*cannot have a class twice"),
        (["model.load=0"], "model.load = 0"),
        (["model=3"], "model = 3: must be a table"),
        (["terminating=1"], "terminating = 1"),
    ],
)
def test_a_wrong_kind_or_key_is_named(settings, words):
    with pytest.raises(InputError, match=words):
        source_of(LUBLIN, *settings)


def test_a_model_draws_rigid_jobs_for_what_is_left_of_the_machine():
    model = LublinModel(count=500, load=0.5)
    jobs = draw(model, 64, np.random.default_rng(1), lost=32)
    assert jobs.max_processes.max() == 32 and (jobs.min_processes == jobs.max_processes).all()
    work_s = float(jobs.times_s(jobs.max_processes) @ jobs.max_processes)
    assert work_s / 64 / (jobs.submit_ns[-1] / 1e9) == pytest.approx(0.5), "the load refers to all processors"
    again = draw(model, 64, np.random.default_rng(1), lost=32)
    assert all((one == other).all() for one, other in zip(jobs.columns, again.columns, strict=True))


def test_a_load_that_no_clock_holds_is_refused():
    with pytest.raises(InputError, match="a greater load"):
        draw(LublinModel(count=100_000, load=1e-6), 4, np.random.default_rng(1))


@pytest.mark.slow
def test_a_terminating_simulation_counts_all_jobs_however_late_they_end(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(LUBLIN)
    assert main(["simulate", "e.toml", "--json", "-o", "out"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["replications"] for row in rows] == [3, 3] and not any(row["saturated"] for row in rows)
    assert rows[1]["metrics"]["wait_s"] < rows[0]["metrics"]["wait_s"]
    steady = ["--set", "terminating=false", "--set", "model.load=3"]
    assert main(["simulate", "e.toml", "--json", *steady]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["saturated"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "model lublin (batch, interactive), load 1.2" in page


@pytest.mark.slow
def test_the_only_replication_is_a_schedule_and_its_jobs_are_a_log(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(LUBLIN.replace("replications = 3", "replications = 1"))
    assert main(["simulate", "e.toml", "--json", "-o", "out"]) == 0
    of_model = json.loads(capsys.readouterr().out)["rows"]
    schedules = sorted(path.name for path in (tmp_path / "out").glob("0*"))
    assert schedules == [
        f"0{n}-{policy}.{kind}"
        for n, policy in enumerate(("fcfs", "easy"))
        for kind in ("csv", "placement", "swf.gz")
    ]
    again = ["--log", "out/00-fcfs.swf.gz", "--policy", "fcfs", "--policy", "easy", "--json"]
    assert main(["simulate", "log", *again]) == 0
    of_log = json.loads(capsys.readouterr().out)["rows"]
    for one, other in zip(of_model, of_log, strict=True):
        assert one["metrics"]["wait_s"] == pytest.approx(other["metrics"]["wait_s"])
    assert main(["simulate", "e.toml", "--set", "replications=2", "-o", "more"]) == 0
    assert not [*(tmp_path / "more").glob("*.swf.gz")], "several replications have no single schedule"


@pytest.mark.slow
def test_loads_and_kinds_are_swept_and_policies_compared_on_the_same_jobs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(LUBLIN)
    axes = ["--set", "sweep.model.load=[0.4,1.2]", "--set", 'sweep.model.kind=["lublin","sevcik"]']
    assert main(["simulate", "e.toml", "--json", *axes]) == 0
    settings = [row["settings"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert settings[::2] == [
        {"model.load": load, "model.kind": kind} for load in (0.4, 1.2) for kind in ("lublin", "sevcik")
    ]
    assert main(["simulate", "e.toml", "-o", "out"]) == 0
    capsys.readouterr()
    assert main(["compare", "out", "--between", "fcfs", "easy", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["experiments"][0]["rows"]
    assert row["n_before"] == 3 and row["ratio"] < 1 and row["workload"] == "200 random jobs"


@pytest.mark.slow
def test_python_takes_the_built_in_experiment(tmp_path):
    settings = ["model.count=64", "replications=2"]
    rows = lockstep.simulate("lublin-orders", results=tmp_path, settings=settings).rows()
    assert len(rows) == 5 and (rows["slowdown"] >= 1).all()


def test_the_back_end_expects_all_replications():
    back_end = SimulatedByJob.of(experiment.load(tomllib.loads(LUBLIN)))
    assert {back_end.guess_s(task) for task in back_end.tasks} == {600}
