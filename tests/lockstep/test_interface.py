"""The package ``lockstep``: experiments from Python, results as frames, policies of other packages."""

import copy
import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fake_runs import TOOLS, ImitatedSimulator
from places import ROOT
from runs import AMONG_OTHERS, needs_two

import lockstep
from harness import application
from harness.predict import missing

EXPERIMENT = {
    "name": "mine",
    "processors": 2,
    "repeats": 2,
    "jobs": [
        {"count": 2, "program": {"pattern": "news", "processes": 2, "dedicated_s": 0.5}},
        {"arrival_s": 0.1, "program": {"pattern": "BARRIER", "processes": 1, "dedicated_s": 0.25}},
    ],
    "schedulers": [{"policy": "none"}, {"policy": "gang", "quantum_ms": 20}],
    "sweep": {"program.granularity_us": [100, 1000]},
}


@pytest.fixture
def made(monkeypatch, tmp_path):
    """The results of made-up runs in ``tmp_path``, simulated as well."""
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: TOOLS)
    monkeypatch.setattr(missing, "back_end", ImitatedSimulator)
    return lockstep.run(EXPERIMENT, results=tmp_path, settings=["schedulers.1.packing=buddy"])


@needs_two
@pytest.mark.slow
def test_an_experiment_is_a_dictionary_and_its_rows_are_a_frame_of_plain_columns(made, tmp_path):
    rows = made.rows()
    assert len(rows) == 2 * 2 * 2
    assert list(rows["kind"][:2]) == ["measured", "simulated"]
    assert set(rows["scheduler"]) == {"none", "gang 20 ms, buddy"}
    assert set(rows["granularity_us"]) == {100, 1000}
    assert set(rows["workload"]) == {"2 x NEWS + BARRIER"}
    assert rows["slowdown"].dtype == float and (rows["low"] <= rows["high"]).all()
    assert not any(isinstance(value, dict | list) for value in rows.to_numpy().ravel())
    jobs = made.jobs()
    assert len(jobs) == 3 * len(rows)
    assert jobs.groupby("job")["arrival_s"].first().tolist() == [0, 0, 0.1]
    again = lockstep.load(tmp_path)
    assert str(again) == f"<Results of mine: rows(), jobs(), 0 failures, {len(again.warnings)} warnings>"
    assert again.rows().drop(columns="granularity_us").equals(rows.drop(columns="granularity_us"))
    assert made.to_dict()["experiment"] == again.experiment == "mine"
    assert "gang 20 ms, buddy" in made._repr_html_()
    assert lockstep.plot.slowdowns(made).axes and lockstep.plot.breakdowns(made).axes
    with pytest.raises(lockstep.InputError, match="no data for this picture"):
        lockstep.plot.maps(made)


@pytest.mark.parametrize(
    "experiment, message",
    [
        ({**EXPERIMENT, "jobs": []}, "experiment: jobs = []: an experiment needs at least one"),
        ({**EXPERIMENT, "schedulers": [{"policy": "gong"}]}, "did you mean 'gang'?"),
        ("three-job", "did you mean 'three-jobs'?"),
        ({**EXPERIMENT, 1: 2}, "EXPERIMENT = 1: is the key of a table, and must be text"),
        ({**EXPERIMENT, "jobs": [{"count": 1, 2: 3}]}, "EXPERIMENT = 2: is the key of a table"),
    ],
)
def test_bad_input_raises_as_the_command_says_it(experiment, message, tmp_path):
    with pytest.raises(lockstep.InputError, match=re.escape(message)):
        lockstep.simulate(experiment, results=tmp_path)


def test_options_that_do_not_fit_raise_bad_input(tmp_path):
    with pytest.raises(lockstep.InputError, match="jobs"):
        lockstep.advise(jobs="many", results=tmp_path)
    with pytest.raises(lockstep.InputError, match="repeats = 0"):
        lockstep.simulate(EXPERIMENT, settings="repeats=0", results=tmp_path)
    with pytest.raises(lockstep.InputError, match="is not a directory that exists"):
        lockstep.load(tmp_path / "none")


def test_the_import_loads_nothing_slow():
    code = "import sys, lockstep; assert not {'numpy', 'pandas', 'matplotlib', 'numba'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


POLICY = re.findall(r"```python\n(.*?)```", (ROOT / "docs/architecture.md").read_text(), flags=re.DOTALL)[0]


@pytest.fixture
def package(tmp_path):
    """Installs a package with this module of policies; gives a function that runs ``lockstep`` beside it."""

    def install(source, lockstep=(sys.executable, "-P", "-m", "harness")):
        (tmp_path / "my_policies.py").write_text(source)
        info = tmp_path / "my_policies-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-policies\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[lockstep.policies]\nmine = my_policies\n")

        def command(*words):
            environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "NUMBA_DISABLE_JIT": "1"}
            told = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
            return subprocess.run([*lockstep, *words], check=False, **told)

        return command

    return install


SMALL = ["three-jobs", "--set", "program.dedicated_s=0.005", "--set", "repeats=1"]


@pytest.mark.slow
def test_a_policy_of_another_package_is_listed_and_simulated(package):
    command = package(POLICY)
    assert "The job that came last" in command("policies", "newest").stdout
    done = command("simulate", *SMALL, "--json", "--set", "schedulers=[{policy='newest'}]")
    (row,) = json.loads(done.stdout)["rows"]
    assert 0.95 < row["simulated"]["workload_slowdown"]["median"] < 1.1


MODEL = """
level = "jobs"
processors = 16
[model]
count = 100
[[schedulers]]
policy = "newest"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["simulate", *SMALL],
        ["run", *SMALL, "--no-simulate", "--no-wait"],
        ["simulate", "model.toml"],
    ],
    ids=["simulate", "run", "simulate jobs"],
)
def test_an_error_in_a_policy_of_another_package_is_a_line(package, tmp_path, words):
    (tmp_path / "model.toml").write_text(MODEL)
    command = package(POLICY.replace("newest = max(", "newest = no_such_name + max("), AMONG_OTHERS)
    done = command(*words, "--policy", "newest")
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("lockstep: "))
    assert line.startswith("lockstep: the policy 'newest' failed: ") and "my_policies.py, line " in line
    assert line.endswith("in decide: NameError: name 'no_such_name' is not defined")
    assert done.returncode == 1 and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_package_whose_policies_cannot_be_imported_is_named(package):
    done = package("import no_such_module")("policies")
    assert done.returncode == 2
    assert "POLICY = 'my-policies'" in done.stderr and "no_such_module" in done.stderr
    assert "my_policies.py, line 1: ModuleNotFoundError" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_former_name_is_an_error_with_the_present_one():
    results = lockstep.Results(None)
    former = SimpleNamespace(progress=print, standing=print, note=print, warn=print)
    with pytest.raises(AttributeError, match="'beside': it is called 'colocate' now"):
        _ = lockstep.beside
    with pytest.raises(AttributeError, match="'doubts': it is called 'warnings' now"):
        _ = results.doubts
    with pytest.raises(lockstep.InputError, match=r"anyway = true: .* it is called 'no_wait' now"):
        lockstep.run("three-jobs", anyway=True)
    with pytest.raises(
        lockstep.InputError, match="no row_status; rename standing: it is called 'row_status' now"
    ):
        lockstep.run("three-jobs", watcher=former)


def test_other_names_have_pythons_own_errors():
    results = lockstep.Results(None)
    for ask, said in (
        (lambda: results.doubt, "'doubt'"),
        (lambda: results.experiment, "NoneType"),
        (lambda: lockstep.besides, "'besides'"),
    ):
        with pytest.raises(AttributeError) as error:
            ask()
        assert said in str(error.value) and "is called" not in str(error.value)
    with pytest.raises(TypeError, match="unexpected keyword argument 'anyhow'"):
        lockstep.run("three-jobs", anyhow=True)
    assert copy.deepcopy(results) == results
