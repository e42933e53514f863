"""A job log and a model are experiments like others: files, keys, resume, sweeps, bounds, comparisons."""

import errno
import json
import os
import tomllib
from xml.etree import ElementTree

import numpy as np
import pytest

import lockstep
from coordinator import policies
from harness.analyse import results_document
from harness.cli import main
from harness.measure.plan import key_of, recorded
from harness.predict import pool as threads
from harness.predict.job_level import SimulatedByJob
from harness.predict.replicate import mean_of
from harness.simulator.jobs import swf
from harness.simulator.jobs.metrics import fairness, measure, utilisation_over_time
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.simulate import simulate as simulated
from harness.spec import experiment
from harness.store import database
from harness.store.database import Store
from workloads.validation import InputError

S = 1_000_000_000
EXPERIMENT = """
level = "jobs"
[[schedulers]]
policy = "gang"
quantum_ms = 1000
[[schedulers]]
policy = "partitioned"
"""
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


def write_log(folder, name="log.swf", last_s=90, jobs=60):
    """A log of jobs of 1 to 4 processors, of which there are 4; the last one takes ``last_s``."""
    lines = [f"{n} {n * 80} -1 {50 + 10 * (n % 7)} {1 + n % 4} " + "-1 " * 13 for n in range(jobs - 1)]
    lines += [f"{jobs} {jobs * 80} -1 {last_s} 2 " + "-1 " * 13]
    path = folder / name
    path.write_text("; MaxProcs: 4\n" + "\n".join(lines))
    return path


@pytest.fixture
def simulate(tmp_path, capsys, monkeypatch):
    """Simulates the jobs of a log by the command; returns its status, its document and what it says."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.toml").write_text(EXPERIMENT)
    write_log(tmp_path)

    def run(*words):
        status = main(["simulate", "e.toml", "--log", "log.swf", "--json", *words])
        out, err = capsys.readouterr()
        return status, json.loads(out) if out else None, err

    return run


def back_end(text, log=None, **how):
    return SimulatedByJob.of(experiment.load(tomllib.loads(text), log=log and str(log), **how))


@pytest.mark.slow  # where the kernel is not compiled yet
def test_the_metrics_of_two_jobs_by_hand():
    jobs = rigid(np.array([0, 0]), np.array([2, 1]), np.array([4 * S, 20 * S]))
    outcome = simulated(jobs, 2, policies.create("fcfs", {}))
    metrics = measure(outcome, tau_s=8.0)
    assert metrics.response_s == (4 + 24) / 2
    assert metrics.wait_s == 2
    assert metrics.slowdown == pytest.approx((1 + 24 / 20) / 2)
    assert metrics.bounded_slowdown == pytest.approx((1 + 24 / 20) / 2), "4 s counts as 8 s, so as 1"
    assert metrics.utilisation == pytest.approx((8 + 20) / (2 * 24))
    assert metrics.processors == 1.5
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
    document = json.loads(capsys.readouterr().out)
    assert (document["level"], document["processors"], document["jobs"]) == ("jobs", 8, 600)
    assert [row["scheduler"]["policy"] for row in document["rows"]] == ["aep", "sdf"]
    assert document["rows"][0]["replications"] in (3, 4)
    files = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert files == ["lockstep.sqlite", "metrics.csv", "metrics.png", "report.html"]
    kept = database.load(tmp_path / "out").runs
    known = {table["policy"]: one["metrics"] for table, one in kept[["scheduler", "schedule"]].values}
    assert known == {row["scheduler"]["policy"]: row["metrics"] for row in document["rows"]}
    assert kept["session"].nunique() == 1
    assert kept["schedule"][0]["source"]["model"]["maxima"] == [2, 8]
    result = back_end(MODEL)
    again = results_document.results(result.experiment, [*map(result.run, result.tasks)])
    assert again.document()["rows"] == document["rows"], "the same seed gives the same result"


@pytest.mark.slow
def test_a_policy_that_needs_processes_is_blamed_where_it_stands(tmp_path, capsys):
    file = tmp_path / "e.toml"
    file.write_text(MODEL.replace('"sdf"', '"none"'))
    assert main(["simulate", str(file), "-o", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    place = MODEL.splitlines().index('policy = "sdf"') + 1
    assert f"e.toml, line {place}: schedulers[1].policy = 'none': needs a simulation of processes" in line
    with Store(tmp_path / "out", existing=True) as store:
        assert not store.numbers(), "it is blamed before anything runs"


def test_a_policy_that_only_processes_can_follow_is_refused_before_anything_runs(simulate, tmp_path):
    status, _, err = simulate("--policy", "gang", "--policy", "implicit", "-o", "out")
    assert status == 2 and "schedulers[1].policy = 'implicit': needs a simulation of processes" in err
    with Store(tmp_path / "out", existing=True) as store:
        assert not store.numbers()


@pytest.mark.slow
def test_a_log_runs_under_all_policies_and_is_written_again(tmp_path, capsys):
    log = tmp_path / "log.swf"
    lines = [f"{n} {n * 3} -1 {5 + n % 7} {1 + n % 4} " + "-1 " * 13 for n in range(30)]
    log.write_text("; MaxProcs: 4\n" + "\n".join(lines))
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
    files = {path.name for path in (tmp_path / "out").iterdir()}
    kept = database.load(tmp_path / "out").runs
    assert len(kept) == len(rows)
    assert kept["schedule"][0]["source"]["log"] == {"MaxProcs": "4"}
    assert {"metrics.csv", "metrics.png", "00-fcfs.swf.gz", "00-fcfs.placement"} <= files


def test_a_full_disk_leaves_no_half_schedule(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["simulate", "log", "--log", str(write_log(tmp_path)), "--policy", "easy", "-o", "out"]
    whole = swf.write_jobs

    def full(path, *given):
        path.write_text("half a line")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(swf, "write_jobs", full)
    assert main(command) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("lockstep: --output = 'out/00-easy.csv': cannot be written: no space left")
    assert not (tmp_path / "out" / "00-easy.csv").exists()
    monkeypatch.setattr(swf, "write_jobs", whole)
    assert main([*command, "--resume"]) == 0
    assert (tmp_path / "out" / "00-easy.csv").read_text().count("\n") == 61


def test_jobs_that_arrive_after_the_end_of_all_clocks_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.toml").write_text(MODEL.replace("[2, 8]", "[2]\nmeans_s = [4e8]\nshares = [1.0]"))
    assert main(["simulate", "model.toml"]) == 2
    assert "model.toml, line 5: model = " in capsys.readouterr().err.splitlines()[-1]


def test_jobs_of_one_size_have_an_unknown_fairness(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.toml").write_text(MODEL.replace("[2, 8]", "[2]\nrigid = true\nload = 0.1"))
    assert main(["simulate", "model.toml", "--json", "--set", "schedulers=[{policy='fcfs'}]"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["metrics"]["fairness"], row["half_width"]["fairness"]) == (None, None)


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
    "words, said",
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


def test_tasks_have_keys_and_an_experiment_the_digest_of_its_jobs(tmp_path):
    log = write_log(tmp_path)
    simulator = back_end(EXPERIMENT, log)
    tasks = simulator.tasks
    assert len({task.key for task in tasks}) == 2 and all(simulator.refusal(task) is None for task in tasks)
    assert all(simulator.guess_s(task) == 60 for task in tasks)
    records = [simulator.run(task) for task in tasks]
    assert [key_of(record) for record in records] == [task.key for task in tasks]
    assert {record.digest for record in records} == {simulator.experiment.digest}
    elsewhere = write_log(tmp_path, "copy.swf")
    other = write_log(tmp_path, "other.swf", last_s=99)
    assert back_end(EXPERIMENT, elsewhere).experiment.digest == simulator.experiment.digest
    changes = [{"log": other}, {"settings": ["log.load=0.5"]}, {"settings": ["warm_up=3"]}, {"seed": 2}]
    digests = {back_end(EXPERIMENT, **({"log": log} | change)).experiment.digest for change in changes}
    assert len(digests | {simulator.experiment.digest}) == 1 + len(changes)
    assert recorded(records).keys() == {task.key for task in tasks}


def test_what_is_recorded_is_not_simulated_again(simulate, monkeypatch):
    assert simulate("--policy", "partitioned", "-o", "out")[0] == 0
    _, whole, _ = simulate("-o", "out")
    monkeypatch.setattr(SimulatedByJob, "_results", None)  # nothing is simulated
    status, again, err = simulate("-o", "out", "--resume")
    assert (status, again) == (0, whole) and "0 simulated runs recorded in out" in err
    assert "2 found there" in err


def test_a_sweep_of_loads_and_of_a_policys_option_has_a_row_for_each_point(simulate, capsys, tmp_path):
    axes = ("--set", "sweep.log.load=[0.2,3.0]", "--set", "sweep.quantum_ms=[100,1000]")
    status, document, _ = simulate(*axes, "-o", "out")
    assert status == 0
    settings = [(row["settings"], row["scheduler"].get("quantum_ms")) for row in document["rows"]]
    expected = [({"log.load": load}, quantum) for load in (0.2, 3.0) for quantum in (100, 1000, None)]
    assert settings == expected
    low, high = (document["rows"][place]["metrics"]["bounded_slowdown"] for place in (0, 3))
    assert low < high
    assert main(["report", "out", "-o", "r.csv"]) == 0
    lines = (tmp_path / "r.csv").read_text().splitlines()
    capsys.readouterr()
    assert lines[0].startswith("load,scheduler,") and len(lines) == 1 + 6
    assert main(["report", "out", "--format", "text", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == document["rows"]


def test_a_bound_on_the_bounded_slowdown_is_broken_and_told_as_a_test(simulate, tmp_path):
    assert simulate("--fail-if", "any > 1000")[0] == 0
    status, _, err = simulate("--fail-if", "partitioned > 1", "--junit", "j.xml")
    assert status == 1 and "the simulated slowdown of partitioned is " in err
    suite = ElementTree.parse(tmp_path / "j.xml").getroot()
    assert [len(case) for case in suite] == [0, 1]


def test_a_saturated_policy_breaks_every_bound(simulate):
    status, _, err = simulate("--policy", "batch", "--set", "log.load=3", "--fail-if", "batch > 1000")
    assert status == 1 and "batch is unknown (one job at a time is a load of " in err


def compared(capsys, *words):
    status = main(["compare", *words, "--json"])
    (experiment_row,) = json.loads(capsys.readouterr().out)["experiments"]
    return status, experiment_row["rows"]


def test_two_policies_of_a_log_are_compared_on_the_same_jobs(simulate, capsys):
    simulate("-o", "out")
    _, (row,) = compared(capsys, "out", "--between", "gang 1000 ms", "partitioned")
    assert row["n_before"] == 6 and row["low"] < row["ratio"] < row["high"]
    assert row["verdict"] != "no verdict" and row["workload"] == "60 jobs of a log"
    assert main(["compare", "out"]) == 2
    assert "choose two schedulers with --between" in capsys.readouterr().err


def test_two_directories_are_compared_if_their_jobs_are_the_same(simulate, capsys, tmp_path):
    simulate("-o", "one")
    simulate("-o", "same")
    status, rows = compared(capsys, "one", "same")
    assert status == 0 and [(row["ratio"], row["low"], row["high"]) for row in rows] == [(1, 1, 1)] * 2
    write_log(tmp_path, last_s=99)
    simulate("-o", "other")
    _, rows = compared(capsys, "one", "other")
    assert [row["reason"] for row in rows] == ["only before"] * 2 + ["only after"] * 2


def test_python_gets_the_rows_of_a_model_with_intervals(tmp_path):
    wanted = tomllib.loads(MODEL)
    rows = lockstep.simulate(wanted, results=tmp_path, settings=["model.load=0.2"]).rows()
    assert rows["scheduler"].tolist() == ["aep, order 2", "sdf"] and (rows["slowdown"] >= 1).all()
    assert rows["workload"].tolist() == ["600 random jobs"] * 2 and (rows["low"] < rows["slowdown"]).all()


@pytest.mark.parametrize(
    "settings, words",
    [
        (['trace="log.swf"'], r"trace = 'log.swf': is not a key of the experiment, but of its.*\[log\]"),
        (["load=0.5"], r"load = 0.5: is not a key of the experiment, but of its.*below \[log\]"),
        (["log.lod=0.5"], "did you mean 'load'"),
        (["log.load=0"], "log.load = 0"),
        (["sweep.model.load=[0.1,0.2]"], "cannot be combined with"),
        (["sweep.log.load=[0.1,-1]"], 'sweep."log.load" = -1'),
        (["sweep.program.imbalance=[0,1]"], "the source of jobs, schedulers or the machine"),
        (["schedulers=[{policy='gang'},{policy='gang'}]"], r"cannot be the same as schedulers\[0\]"),
        (['schedulers.1.policy="sfd"'], r"schedulers\[1\].policy"),
        (["replication=4"], "did you mean 'replications'"),
        (['level="job"'], "must be jobs; did you mean 'jobs'"),
    ],
)
def test_bad_input_names_the_key_of_today(tmp_path, settings, words):
    with pytest.raises(InputError, match=words):
        back_end(EXPERIMENT, write_log(tmp_path), settings=settings)


def test_a_log_has_a_path():
    with pytest.raises(InputError, match=r"log.file = '': must be the path of a job log"):
        back_end(EXPERIMENT, settings=['log.file=""'])
    with pytest.raises(InputError, match=r"log.file is missing: "):
        back_end(EXPERIMENT, settings=["log={}"])


@pytest.mark.parametrize(
    "lines, words",
    [
        ("[model]\ncount = 600\nmaxima = [2, 8]", "either a job log or a"),
        ("processors = 8", "write processors"),
    ],
)
def test_a_model_without_what_it_needs_is_named(lines, words):
    assert lines in MODEL
    with pytest.raises(InputError, match=words):
        back_end(MODEL.replace(lines, ""))


@pytest.mark.parametrize(
    "settings, words",
    [
        (["model.count=1"], "model.count"),
        (["model.maxmia=[2]"], "did you mean 'maxima'"),
        (["processors=0"], "write processors"),
    ],
)
def test_a_wrong_model_is_named(settings, words):
    with pytest.raises(InputError, match=words):
        back_end(MODEL, settings=settings)


def test_the_former_name_of_the_experiment_names_the_present_one():
    with pytest.raises(InputError, match="did you mean 'log'"):
        experiment.load("trace")


def test_a_quick_model_has_few_replications_and_wide_intervals():
    few = MODEL
    usual = MODEL.replace("replications = 4\n", "")
    for text, replications in ((few, 4), (usual, 5)):
        (cell,) = experiment.load(tomllib.loads(text), quick=True).cells
        assert cell.source and (cell.source.replications, cell.source.half_width) == (replications, 0.1)
