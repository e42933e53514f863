"""The command line from outside: output, exit status, messages, interruption."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tomllib
from xml.etree import ElementTree

import pytest
from fake_runs import TOOLS, command_on_made_up_runs, imitate
from places import ROOT, SUPPORT
from runs import needs_two

from harness import application
from harness.commands import COMMANDS
from harness.spec.experiment import load
from harness.store import database

ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}"}


@pytest.fixture
def lockstep(monkeypatch, tmp_path, capsys):
    return command_on_made_up_runs(monkeypatch, tmp_path, capsys)


def shape(value):
    """A document with its numbers and texts replaced by their types."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return None if value is None else type(value).__name__


GOLDEN = {
    "schema": "int",
    "experiment": "str",
    "digest": "str",
    "session": "str",
    "machine": {
        "host": "str",
        "kernel": "str",
        "cpu_model": "str",
        "cores": "int",
        "processors": ["int"],
        "launcher": "str",
        "remote_wakeup_us": "float",
        "local_switch_us": "float",
        "latency_us": "float",
        "detour_gap_us": "float",
        "detour_length_us": "float",
    },
    "agreement": {
        "rows": "int",
        "median_error": "float",
        "p90_error": "float",
        "bias": "float",
        "kendall_tau": "float",
        "pairs": "int",
        "schedulers": [
            {
                "scheduler": "str",
                "rows": "int",
                "median_error": "float",
                "p90_error": "float",
                "bias": "float",
            }
        ],
    },
    "failures": [],
}
GOLDEN_SCHEDULER = {
    "policy": "str",
    "quantum_ms": "int",
    "packing": "str",
    "blocking": "str",
    "spin_switches": "int",
    "local": "str",
    "mechanism": "str",
}
GOLDEN_ROW = {
    "program": {
        "pattern": "str",
        "processes": "int",
        "granularity_us": "int",
        "imbalance": "float",
        "imbalance_kind": "str",
        "read_gap_us": "float",
        "read_imbalance": "float",
        "opening_barrier": "bool",
        "read": "str",
        "dedicated_s": "float",
        "phases": None,
        "working_set_bytes": "int",
        "malleable": "bool",
    },
    "settings": {},
    "count": "int",
    "measured": {
        "workload_slowdown": {"median": "float", "ci95": ["float"], "n": "int", "extremes": ["float"]},
        "slowdown": {
            "mean": "float",
            "max": "float",
            "bounded_mean": "float",
            "bounded_max": "float",
            "tau_s": "float",
            "per_job": ["float"],
        },
        "breakdown": dict.fromkeys(
            ("computing", "communicating", "synchronizing", "switching", "idle"), "float"
        ),
        "makespan_s": "float",
        "dedicated_s": "float",
        "switches": {
            "n": "int",
            "mechanism": "str",
            "lateness_us": {"p50": "float", "p99": "float"},
            "skew_us": {"p50": "float", "p99": "float"},
        },
        "waits": {
            kind: {"spun": "int", "blocked": "int", "spun_mean_us": "float", "blocked_mean_us": "float"}
            for kind in ("barrier", "read")
        },
        "responses": None,
        "start_up": {"median_ms": "float", "max_ms": "float"},
        "failures": "int",
    },
    "error": "float",
}
GOLDEN_ROW["simulated"] = GOLDEN_ROW["measured"] | {"switches": None, "start_up": None}


@needs_two
@pytest.mark.slow
def test_json_is_one_document_and_nothing_else(lockstep):
    status, out, err = lockstep("run", "three-jobs", "--quick", "--set", "repeats=3", "--json")
    assert status == 0
    document = json.loads(out)
    assert document["schema"] == 1
    assert document["experiment"] == "three-jobs"
    rows, doubts = document.pop("rows"), document.pop("doubts")
    assert shape(document) == GOLDEN
    assert len(rows) == 8
    gang = shape(rows[5])
    assert gang.pop("scheduler").items() >= GOLDEN_SCHEDULER.items()
    assert gang == GOLDEN_ROW
    assert isinstance(doubts, list)
    assert "27 runs recorded in lockstep-results/lockstep.sqlite" in err
    assert "27/27 runs done" in err and "27/27 simulations done" in err


@needs_two
@pytest.mark.slow
def test_the_table_has_a_line_for_each_scheduler(lockstep):
    status, out, _ = lockstep("run", "three-jobs", "--set", "repeats=2")
    assert status == 0
    assert "three-jobs: 3 jobs of BARRIER, 2 processes, g = 100 us, v = 0.25 g" in out
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert ["none", "spin", "2.80"] in [line[:3] for line in lines]
    assert ["gang", "100", "ms", "spin"] in [line[:4] for line in lines]


@needs_two
@pytest.mark.slow
def test_a_sweep_has_a_table_for_each_point(lockstep):
    _, out, _ = lockstep("run", "reads", "--quick")
    assert [name in out for name in ("jobs of NEWS", "jobs of TRANSPOSE")] == [True, True]


@needs_two
@pytest.mark.slow
def test_resume_makes_only_what_is_missing(lockstep):
    lockstep("run", "three-jobs", "--set", "repeats=2")
    status, out, err = lockstep("run", "three-jobs", "--set", "repeats=3", "--resume", "--json")
    assert status == 0
    assert "9 runs recorded in lockstep-results/lockstep.sqlite, 18 found there" in err
    assert {row["measured"]["workload_slowdown"]["n"] for row in json.loads(out)["rows"]} == {3}
    _, again, err = lockstep("run", "three-jobs", "--set", "repeats=3", "--resume", "--json")
    assert "0 runs recorded" in err
    assert json.loads(again)["rows"] == json.loads(out)["rows"]


@needs_two
@pytest.mark.slow
def test_without_resume_only_this_session_counts(lockstep):
    lockstep("run", "three-jobs", "--set", "repeats=2")
    _, out, _ = lockstep("run", "three-jobs", "--set", "repeats=1", "--json")
    assert {row["measured"]["workload_slowdown"]["n"] for row in json.loads(out)["rows"]} == {1}


@needs_two
@pytest.mark.slow
def test_a_series_of_another_machine_is_not_continued(lockstep, monkeypatch):
    lockstep("run", "three-jobs", "--set", "repeats=1")
    monkeypatch.setattr("harness.store.conditions.platform.release", lambda: "another-kernel")
    status, out, err = lockstep("run", "three-jobs", "--set", "repeats=1", "--resume")
    assert (status, out) == (2, "")
    assert "kernel = " in err and "'another-kernel'" in err


@needs_two
def test_calibration_is_shown_and_recorded(lockstep, tmp_path):
    status, out, err = lockstep("calibrate", "--json")
    assert status == 0
    constants = {row["quantity"]: row for row in json.loads(out)["constants"]}
    assert constants["remote_wakeup"]["median_us"] == 5.0
    assert constants["lateness signals"]["n"] == 20
    assert "lockstep-results" in err
    recorded = database.load(tmp_path / "lockstep-results").calibrations
    assert set(recorded["quantity"].str.replace("_ns", "")) == set(constants) | {"walk_step", "cache_kb"}
    assert "5.00" in lockstep("calibrate")[1]


def test_policies_lists_parameters_sources_and_harm(lockstep):
    status, out, _ = lockstep("policies", "--json")
    document = json.loads(out)
    assert status == 0
    assert {row["policy"] for row in document["policies"]} >= {
        "none",
        "implicit",
        "gang",
        "partitioned",
        "batch",
    }
    (gang,) = [row for row in document["policies"] if row["policy"] == "gang"]
    assert gang["parameters"]["quantum_ms"] == 100
    assert gang["source"]
    assert {row["mechanism"] for row in document["mechanisms"]} == {"signals", "freezer", "realtime"}
    assert all(row["worst_harm"] for row in document["mechanisms"])
    text = lockstep("policies")[1]
    assert "equipartition" in text and "global-adaptive" in text
    assert document["remedies"] == ["none", "defer", "warning", "activations", "conscious", "inheritance"]
    assert "LOCK" in document["patterns"] and "stealing" in document["queues"]
    assert "warning, activations" in text


def test_init_writes_an_experiment_that_can_be_run_with_all_that_its_comments_offer(lockstep, tmp_path):
    assert "lockstep run my.toml" in lockstep("init", "my.toml")[1]
    assert load("my.toml", here=True).repeats == 8
    text = (tmp_path / "my.toml").read_text()
    offered = re.sub(r"^# (?=\[|[a-z]+ = |\")", "", text, flags=re.MULTILINE)
    assert tomllib.loads(offered)["sweep"] and len(tomllib.loads(offered)["jobs"]) == 2
    (tmp_path / "all.toml").write_text(offered)
    loaded = load("all.toml")
    assert len(loaded.cells) == 3 and len(loaded.schedulers) == 4
    status, _, err = lockstep("init", "my.toml")
    assert status == 2 and "is there already" in err


@needs_two
@pytest.mark.slow
def test_a_pipeline_fails_by_thresholds_and_reads_the_rows_as_tests(lockstep, tmp_path):
    words = ("run", "three-jobs", "--no-simulate", "--set", "repeats=1", "--junit", "x.xml")
    assert lockstep(*words, "--fail-if", "none > 3", "--fail-if", "gang 100 ms>1.5")[0] == 0
    status, _, err = lockstep(*words, "--fail-if", "none > 2.5", "--fail-if", "any < 0.5")
    assert status == 1
    assert "the measured slowdown of none is 2.800: none > 2.5" in err and err.count("any < 0.5") == 0
    suite = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("8", "1")
    assert [case.get("name") for case in suite if len(case)] == ["none"]


def test_one_policy_is_shown_in_full(lockstep):
    status, out, _ = lockstep("policies", "gang")
    assert status == 0
    assert "slot unification" in out and "quantum_ms = 100.0" in out and "Source: " in out
    assert json.loads(lockstep("policies", "gang", "--json")[1])["parameters"]["packing"] == "matrix"


@needs_two
@pytest.mark.slow
def test_a_second_series_says_what_becomes_of_the_first_and_both_are_listed(lockstep, monkeypatch):
    small = ("run", "three-jobs", "--no-simulate", "--set", "repeats=1")
    assert "earlier" not in lockstep(*small)[2]
    assert "not its 9 earlier runs of this experiment" in lockstep(*small)[2]
    (listed,) = json.loads(lockstep("list", "--json")[1])["experiments"]
    counts = ("sessions", "measured", "simulated", "failed", "schedulers", "repeats")
    assert [listed[key] for key in counts] == [2, 18, 0, 0, 8, 1]
    monkeypatch.setenv("COLUMNS", "80")
    assert f"8 x 1 x 1     18      0       0  {listed['last'][:10]}" in lockstep("list")[1]


BOUND = 'jobs=[{command=["mpiexec", "-n", "2", "--bind-to", "core", "./app"]}]'
MISSING = 'jobs=[{command=["mpiexec", "-n", "2", "./nosuch", "x"]}]'
BAD_USAGE = [
    ((), "COMMAND"),
    (("fly",), "invalid choice: 'fly'"),
    (("run",), "EXPERIMENT"),
    (("run", "three-jobs", "--sed", "1"), "--sed"),
    (("run", "three-jobs", "--seed", "one"), "invalid int value"),
    (
        ("run", "three-jobs", "--seed", "-1"),
        "with --seed -1: seed = -1: must be a whole number",
    ),
    (("run", "three-jobs", "--tau", "0"), "--tau = 0.0: must be a number of at least 1e-09"),
    (("run", "three-job"), "did you mean 'three-jobs'?"),
    (("run", "missing.toml"), "no such file"),
    (("run", "three-jobs", "--set", "repeats"), "--set = 'repeats': must be key=value"),
    (
        ("run", "three-jobs", "--set", "repeats=none"),
        "--set repeats=none: repeats = 'none': must be a whole",
    ),
    (("run", "three-jobs", "--results", "/proc/there"), "--results = '/proc/there'"),
    (("run", "three-jobs", "--results", "/dev/null"), "--results = '/dev/null'"),
    (("calibrate", "--working-set-bytes", "-1"), "--working-set-bytes = -1"),
    (("run", "three-jobs", "--fail-if", "gang 10"), "--fail-if = 'gang 10': is no condition"),
    (("run", "three-jobs", "--fail-if", "none > 1e999"), "is no condition"),
    (("run", "three-jobs", "--fail-if", "gang 11 ms > 1"), "did you mean 'gang 10 ms'?"),
    (("policies", "gong"), "did you mean 'gang'?"),
    (("policies", "gang", "dqt"), "unrecognized arguments: dqt"),
    (("compare", "nosuch"), "RESULTS = 'nosuch': there is no such directory"),
    (("list", "/usr"), "RESULTS = '/usr': holds no records of Lockstep"),
    (("run", "three-jobs", "--set", BOUND), "must continue with -n, a number and the program"),
    (("run", "three-jobs", "--set", MISSING), "there is no program './nosuch'"),
]


@needs_two
@pytest.mark.parametrize(("arguments", "message"), BAD_USAGE, ids=[" ".join(case[0]) for case in BAD_USAGE])
def test_bad_usage_is_a_message_and_exit_status_2(lockstep, arguments, message):
    status, out, err = lockstep(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err


def test_help_knows_every_command(lockstep):
    status, out, _ = lockstep("--help")
    assert status == 0
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(lockstep, command):
    status, out, _ = lockstep(command, "--help")
    assert status == 0
    assert "--json" in out


def test_help_imports_nothing_slow():
    code = (
        "import sys; from harness import cli; cli.main(['--help']);"
        "assert not {'numpy', 'pandas', 'rich', 'mpi4py', 'numba'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL)


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m harness.cli policies | head -1"
    done = subprocess.run(command, shell=True, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@needs_two
@pytest.mark.slow
def test_a_failed_run_is_told_and_gives_exit_status_1(lockstep, monkeypatch):
    def fail_in_gangs(workload, progress):
        result = imitate(workload)
        if not workload.policy.needs_mechanism:
            return result
        jobs = [dataclasses.replace(job, finish_ns=None, failure="rank 1 has gone") for job in result.jobs]
        return dataclasses.replace(result, jobs=tuple(jobs), failure="job 0: rank 1 has gone")

    tools = dataclasses.replace(TOOLS, run_workload=fail_in_gangs)
    monkeypatch.setattr(application, "real_tools", lambda *nodes: tools)
    status, out, err = lockstep("run", "three-jobs", "--set", "repeats=1", "--json")
    assert status == 1
    document = json.loads(out)
    assert sorted(document["failures"]) == [
        "gang 10 ms, repeat 1: job 0: rank 1 has gone",
        "gang 100 ms, repeat 1: job 0: rank 1 has gone",
    ]
    assert "2 of 9 runs failed\n" in err
    assert err.count("rank 1 has gone") == 2
    assert lockstep("run", "three-jobs", "--set", "repeats=1")[1].count(" - ") >= 2
