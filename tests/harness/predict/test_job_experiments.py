"""Experiments of the job level, from outside."""

import json
import tomllib

import numpy as np
import pytest

from coordinator import policies
from harness.analyse import results_document
from harness.cli import main
from harness.predict import pool as threads
from harness.predict.job_level import SimulatedByJob
from harness.predict.replicate import mean_of
from harness.simulator.jobs.metrics import fairness, measure, utilisation_over_time
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import simulate
from harness.spec import experiment
from harness.store import database
from workloads.validation import InputError

S = 1_000_000_000
MODEL = """
level = "jobs"
processors = 8
replications = 4
[model]
count = 600
maxima = [2, 8]
[[schedulers]]
policy = "aep"
order = 2
[[schedulers]]
policy = "sdf"
"""
MEANS = {"response_s": 2.0, "wait_s": 1.0, "bounded_slowdown": 1.5}


def load(text):
    return SimulatedByJob.of(experiment.load(tomllib.loads(text)))


@pytest.mark.slow  # where the kernel is not compiled yet
def test_the_metrics_of_two_jobs_by_hand():
    jobs = rigid(np.array([0, 0]), np.array([2, 1]), np.array([4 * S, 20 * S]))
    outcome = simulate(jobs, 2, policies.create("fcfs", {}))
    found = measure(outcome, tau_s=8.0)
    assert found.response_s == (4 + 24) / 2
    assert found.wait_s == 2
    assert found.slowdown == pytest.approx((1 + 24 / 20) / 2)
    assert found.bounded_slowdown == pytest.approx((1 + 24 / 20) / 2), "4 s counts as 8 s, so as 1"
    assert found.utilisation == pytest.approx((8 + 20) / (2 * 24))
    assert found.processors == 1.5
    middles, share = utilisation_over_time(outcome, 6)
    assert middles.tolist() == [2, 6, 10, 14, 18, 22]
    assert share.tolist() == pytest.approx([1, 0.5, 0.5, 0.5, 0.5, 0.5])
    assert measure(outcome, warm_up=1).response_s == 24


def test_fairness_is_the_correlation_with_the_logarithm_of_the_size():
    size = np.array([1.0, 2, 4, 8])
    assert fairness(size, np.array([1.0, 2, 3, 4])) == pytest.approx(1)
    assert fairness(size, np.array([4.0, 3, 2, 1])) == pytest.approx(-1)
    assert np.isnan(fairness(np.ones(4), size))


@pytest.mark.slow
def test_a_model_is_replicated_and_the_command_prints_one_document(tmp_path, capsys):
    file = tmp_path / "e.toml"
    file.write_text(MODEL)
    assert main(["simulate", str(file), "--json", "-o", str(tmp_path / "out")]) == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["level"], made["processors"], made["jobs"]) == ("jobs", 8, 600)
    assert [row["scheduler"]["policy"] for row in made["rows"]] == ["aep", "sdf"]
    assert made["rows"][0]["replications"] in (3, 4)
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["lockstep.sqlite", "metrics.csv", "metrics.png", "report.html"]
    recorded = database.load(tmp_path / "out").runs
    known = {table["policy"]: one["metrics"] for table, one in recorded[["scheduler", "schedule"]].values}
    assert known == {row["scheduler"]["policy"]: row["metrics"] for row in made["rows"]}
    assert recorded["session"].nunique() == 1
    assert recorded["schedule"][0]["source"]["model"]["maxima"] == [2, 8]
    back_end = load(MODEL)
    again = results_document.results(back_end.experiment, [*map(back_end.run, back_end.tasks)])
    assert again.document()["rows"] == made["rows"], "the same seed gives the same result"


@pytest.mark.slow
def test_a_policy_that_needs_processes_is_blamed_where_it_stands(tmp_path, capsys):
    file = tmp_path / "e.toml"
    file.write_text(MODEL.replace('"sdf"', '"none"'))
    assert main(["simulate", str(file), "-o", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    place = MODEL.splitlines().index('policy = "sdf"') + 1
    assert f"e.toml, line {place}: schedulers[1].policy = 'none': leaves processors to" in line


def write_log(folder, jobs=30, name="log.swf"):
    """A log of jobs of 1 to 4 processors, of which there are 4."""
    lines = [f"{n} {n * 3} -1 {5 + n % 7} {1 + n % 4} " + "-1 " * 13 for n in range(jobs)]
    path = folder / name
    path.write_text("; MaxProcs: 4\n" + "\n".join(lines))
    return path


@pytest.mark.slow
def test_a_log_runs_under_all_policies_and_is_written_again(tmp_path, capsys):
    log = write_log(tmp_path)
    wanted = SimulatedByJob.of(experiment.load("log", log=str(log))).experiment
    assert wanted.processors == 4
    words = ["simulate", "log", "--log", str(log), "-o", str(tmp_path / "out"), "--json"]
    assert main(words) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == len(wanted.schedulers)
    saturated = {row["scheduler"]["policy"] for row in rows if row["saturated"]}
    one_at_a_time = {"batch", "two-queue", "multilevel-two-queue"}
    assert saturated == one_at_a_time & {row["scheduler"]["policy"] for row in rows}, (
        "a load of 2.7 for one job at a time"
    )
    made = {path.name for path in (tmp_path / "out").iterdir()}
    recorded = database.load(tmp_path / "out").runs
    assert len(recorded) == len(rows)
    assert recorded["schedule"][0]["source"]["log"] == {"MaxProcs": "4"}
    assert {"metrics.csv", "metrics.png", "00-fcfs.swf.gz", "00-fcfs.placement"} <= made


def test_the_mean_of_two_replications_has_no_half_width_to_show():
    assert mean_of([1.0, 2.0]).shown_half is None and mean_of([1.0, 2.0]).half > 6
    assert mean_of([1.0, 2.0, 3.0]).shown_half == mean_of([1.0, 2.0, 3.0]).half


def interrupted_after(count):
    """A pool that is interrupted when ``count`` parts are done; takes the place of ``threads.compute``."""

    def compute(parts, work, progress, keep, guess=None):
        for number, part in enumerate(parts[:count]):
            keep(work(part))
            progress(number + 1, len(parts), None)
        raise KeyboardInterrupt

    return compute


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-o", "out"], "1 of 2 simulations are recorded in out/lockstep.sqlite; continue with --resume"),
        ([], "1 of 2 simulations are lost; with -o DIR"),
    ],
)
def test_an_interrupted_simulation_keeps_the_schedulers_that_are_done(
    tmp_path, monkeypatch, capsys, words, said
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(MODEL)
    monkeypatch.setattr(threads, "compute", interrupted_after(1))
    monkeypatch.setattr(SimulatedByJob, "_results", lambda *_: {"metrics": MEANS, "replications": 3})
    monkeypatch.setattr(SimulatedByJob, "refusal", lambda *_: None)
    assert main(["simulate", "e.toml", *words]) == 130
    assert said in capsys.readouterr().err
    if words:
        (row,) = database.load(tmp_path / "out").runs.to_dict("records")
        assert row["scheduler"]["policy"] == "aep" and row["schedule"]["metrics"] == MEANS
        assert main(["report", "out"]) == 0
        assert "Only 1 of 2 schedules are there" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("count = 600", "count = 1"), "model.count"),
        (("maxima", "maxmia"), "did you mean 'maxima'"),
        (("replications = 4", "replication = 4"), "did you mean 'replications'"),
        (('level = "jobs"', 'level = "job"'), "must be one of jobs"),
        (("[model]\ncount = 600\nmaxima = [2, 8]", ""), "either a job log or a"),
        (('policy = "sdf"', 'policy = "sfd"'), r"schedulers\[1\].policy"),
        (("processors = 8", ""), "write processors"),
    ],
)
def test_bad_input_is_named(change, words):
    assert change[0] in MODEL
    with pytest.raises(InputError, match=words):
        load(MODEL.replace(*change))
