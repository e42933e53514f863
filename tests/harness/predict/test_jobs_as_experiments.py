"""A job log and a model are experiments like others: keys, resume, sweeps, bounds, comparisons."""

import json
import tomllib
from xml.etree import ElementTree

import pytest

import lockstep
from harness.cli import main
from harness.measure.plan import key_of, recorded
from harness.predict.job_level import SimulatedByJob
from harness.spec import experiment
from harness.store.database import Store
from workloads.validation import InputError

EXPERIMENT = """
level = "jobs"
[[schedulers]]
policy = "gang"
quantum_ms = 1000
[[schedulers]]
policy = "partitioned"
"""
MODEL = EXPERIMENT + "[model]\ncount = 90\nshares = [1.0]\nmeans_s = [30.0]\nmaxima = [1, 4]\nload = 0.2\n"


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


def test_tasks_have_keys_and_an_experiment_the_digest_of_its_jobs(tmp_path):
    log = write_log(tmp_path)
    found = back_end(EXPERIMENT, log)
    tasks = found.tasks
    assert len({task.key for task in tasks}) == 2 and all(found.refusal(task) is None for task in tasks)
    assert all(found.guess_s(task) == 60 for task in tasks)
    records = [found.run(task) for task in tasks]
    assert [key_of(record) for record in records] == [task.key for task in tasks]
    assert {record.digest for record in records} == {found.experiment.digest}
    elsewhere, other = write_log(tmp_path, "copy.swf"), write_log(tmp_path, "other.swf", last_s=99)
    assert back_end(EXPERIMENT, elsewhere).experiment.digest == found.experiment.digest
    changes = [{"log": other}, {"settings": ["log.load=0.5"]}, {"settings": ["warm_up=3"]}, {"seed": 2}]
    digests = {back_end(EXPERIMENT, **({"log": log} | change)).experiment.digest for change in changes}
    assert len(digests | {found.experiment.digest}) == 1 + len(changes)
    assert recorded(records).keys() == {task.key for task in tasks}


def test_a_policy_that_only_processes_can_follow_is_refused_before_anything_runs(simulate, tmp_path):
    status, _, err = simulate("--policy", "gang", "--policy", "implicit", "-o", "out")
    assert status == 2 and "schedulers[1].policy = 'implicit': needs a simulation of processes" in err
    with Store(tmp_path / "out", existing=True) as store:
        assert not store.numbers()


def test_what_is_recorded_is_not_simulated_again(simulate, monkeypatch):
    assert simulate("--policy", "partitioned", "-o", "out")[0] == 0
    _, whole, _ = simulate("-o", "out")
    monkeypatch.setattr(SimulatedByJob, "_results", None)  # nothing is simulated
    status, again, err = simulate("-o", "out", "--resume")
    assert (status, again) == (0, whole) and "0 simulated runs recorded in out" in err
    assert "2 found there" in err


def test_a_sweep_of_loads_and_of_a_policys_option_has_a_row_for_each_point(simulate, capsys, tmp_path):
    axes = ("--set", "sweep.log.load=[0.2,3.0]", "--set", "sweep.quantum_ms=[100,1000]")
    status, made, _ = simulate(*axes, "-o", "out")
    assert status == 0
    told = [(row["settings"], row["scheduler"].get("quantum_ms")) for row in made["rows"]]
    expected = [({"log.load": load}, quantum) for load in (0.2, 3.0) for quantum in (100, 1000, None)]
    assert told == expected
    low, high = (made["rows"][place]["metrics"]["bounded_slowdown"] for place in (0, 3))
    assert low < high
    assert main(["report", "out", "-o", "r.csv"]) == 0
    lines = (tmp_path / "r.csv").read_text().splitlines()
    capsys.readouterr()
    assert lines[0].startswith("load,scheduler,") and len(lines) == 1 + 6
    assert main(["report", "out", "--format", "text", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == made["rows"]


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
    (found,) = json.loads(capsys.readouterr().out)["experiments"]
    return status, found["rows"]


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
    rows = lockstep.simulate(
        tomllib.loads(MODEL), results=tmp_path, settings=["processors=4", "replications=4"]
    ).rows()
    assert rows["scheduler"].tolist() == ["gang 1000 ms", "partitioned"] and (rows["slowdown"] >= 1).all()
    assert rows["workload"].tolist() == ["90 random jobs"] * 2 and (rows["low"] < rows["slowdown"]).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (['trace="log.swf"'], r"trace = 'log.swf': belongs to the job log.*\[log\]"),
        (["load=0.5"], r"load = 0.5: belongs to the job log.*below \[log\]"),
        (["log.lod=0.5"], "did you mean 'load'"),
        (["log.load=0"], "log.load = 0"),
        (["sweep.model.load=[0.1,0.2]"], "either a job log or a"),
        (["sweep.log.load=[0.1,-1]"], 'sweep."log.load" = -1'),
        (["sweep.program.imbalance=[0,1]"], "the source of jobs, schedulers or the machine"),
        (["schedulers=[{policy='gang'},{policy='gang'}]"], r"is the same as schedulers\[0\]"),
    ],
)
def test_bad_input_names_the_key_of_today(tmp_path, settings, words):
    with pytest.raises(InputError, match=words):
        back_end(EXPERIMENT, write_log(tmp_path), settings=settings)


def test_the_former_name_of_the_experiment_names_the_present_one():
    with pytest.raises(InputError, match="did you mean 'log'"):
        experiment.load("trace")


def test_a_quick_model_has_few_replications_and_wide_intervals():
    (cell,) = experiment.load(tomllib.loads(MODEL), settings=["processors=4"], quick=True).cells
    assert cell.source and (cell.source.replications, cell.source.half_width) == (5, 0.1)
    (cell,) = experiment.load(tomllib.loads("replications = 2\nprocessors = 4" + MODEL), quick=True).cells
    assert cell.source and cell.source.replications == 2
