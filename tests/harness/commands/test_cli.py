"""The command line from outside: output, exit status, messages, interruption."""

import json
import os
import re
import subprocess
import sys
import tomllib
from xml.etree import ElementTree

import pytest
from fake_runs import failing
from places import ROOT, SUPPORT
from runs import needs_two

from harness import application
from harness.cli import parser
from harness.commands import COMMAND_GROUPS, run, shared
from harness.spec.experiment import load
from harness.store import database

pytestmark = needs_two
PATHS = {"PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}"}


def slowdowns(out):
    """The number of repeats of each row of a document."""
    return {row["measured"]["workload_slowdown"]["n"] for row in json.loads(out)["rows"]}


@pytest.mark.slow
def test_a_series_is_shown_resumed_and_begun_anew(lockstep, monkeypatch):
    words = ("run", "three-jobs", "--set")
    status, out, err = lockstep(*words, "repeats=2")
    assert status == 0
    assert "18 runs recorded in lockstep-results/lockstep.sqlite" in err
    assert "18/18 runs done" in err and "18/18 simulations done" in err
    assert "three-jobs: 3 jobs of BARRIER, 2 processes, g = 100 us, v = 0.25 g" in out
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert ["none", "spin", "2.80"] in [line[:3] for line in lines]
    assert ["gang", "100", "ms", "spin"] in [line[:4] for line in lines]

    status, out, err = lockstep(*words, "repeats=3", "--resume", "--json")
    assert status == 0 and "9 runs recorded in lockstep-results/lockstep.sqlite, 18 found there" in err
    assert slowdowns(out) == {3}
    _, again, err = lockstep(*words, "repeats=3", "--resume", "--json")
    assert "0 runs recorded" in err
    assert json.loads(again)["rows"] == json.loads(out)["rows"]
    assert slowdowns(lockstep(*words, "repeats=1", "--json")[1]) == {1}, "only this session counts"

    monkeypatch.setattr("harness.store.conditions.platform.release", lambda: "another-kernel")
    status, out, err = lockstep(*words, "repeats=1", "--resume")
    assert (status, out) == (2, "") and "kernel = " in err and "'another-kernel'" in err


@pytest.mark.slow
def test_a_sweep_has_a_table_for_each_point(lockstep):
    _, out, _ = lockstep("run", "reads", "--quick")
    assert "jobs of NEWS" in out and "jobs of TRANSPOSE" in out


def test_calibration_is_shown_and_recorded(lockstep, tmp_path):
    status, out, err = lockstep("calibrate", "--json")
    assert status == 0
    constants = {row["quantity"]: row for row in json.loads(out)["constants"]}
    assert constants["remote_wakeup"]["median_us"] == 5.0
    assert constants["switch_delay signals"]["n"] == 20
    assert "lockstep-results" in err
    recorded = database.load(tmp_path / "lockstep-results").calibrations
    assert set(recorded["quantity"].str.replace("_ns", "")) == set(constants) | {"memory_step", "cache_kb"}
    assert "5.00" in lockstep("calibrate")[1]


def test_policies_are_listed_and_one_is_shown_in_full(lockstep):
    status, out, _ = lockstep("policies", "--json")
    document = json.loads(out)
    assert status == 0
    policies = {row["policy"]: row for row in document["policies"]}
    assert policies.keys() >= {"none", "implicit", "gang", "partitioned", "batch"}
    assert policies["gang"]["parameters"]["quantum_ms"] == 100 and policies["gang"]["source"]
    assert {row["mechanism"] for row in document["mechanisms"]} == {"signals", "freezer", "realtime"}
    assert all(row["worst_harm"] for row in document["mechanisms"])
    assert document["remedies"] == ["none", "defer", "warning", "activations", "conscious", "inheritance"]
    assert "LOCK" in document["patterns"] and "stealing" in document["queues"]
    lines = lockstep("policies")[1].splitlines()
    assert "gang                  Rotating slots over an array of time slots by processors" in lines
    assert [line.split()[0] for line in lines[:-2]] == sorted(policies) and max(map(len, lines)) <= 80
    text = lockstep("policies", "--details")[1]
    assert all(name in text for name in ("equipartition", "global-adaptive", "warning, activations"))
    status, out, _ = lockstep("policies", "gang")
    assert status == 0 and "slot unification" in out and "quantum_ms = 100.0" in out and "Source: " in out
    assert json.loads(lockstep("policies", "gang", "--json")[1])["parameters"]["packing"] == "matrix"


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
    assert status == 2 and "must be a new file" in err


def test_init_prints_a_schema_and_a_new_file_names_it_if_it_is_there(lockstep, tmp_path):
    status, out, _ = lockstep("init", "--schema")
    assert status == 0 and json.loads(out) == json.loads(lockstep("init", "--schema", "--json")[1])
    (tmp_path / "lockstep.schema.json").write_text(out)
    (tmp_path / "elsewhere").mkdir()
    for name in ("my.toml", "elsewhere/my.toml"):
        assert lockstep("init", name)[0] == 0
    assert (tmp_path / "my.toml").read_text().startswith("#:schema ./lockstep.schema.json\n# An experiment")
    assert load("my.toml").repeats == 8
    assert "#:schema" not in (tmp_path / "elsewhere" / "my.toml").read_text()
    status, _, err = lockstep("init", "--schema", "my.toml")
    assert status == 2 and "--schema" in err


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


@pytest.mark.slow
def test_a_pipeline_gives_slowdowns_to_dashboards_also_of_what_a_change_has_done(lockstep, tmp_path):
    forms = ("--export-bmf", "bmf.json", "--export-github-benchmark", "list.json")
    words = ("run", "three-jobs", "--no-simulate", "--set", "repeats=3", *forms)

    def measures():
        return json.loads((tmp_path / "bmf.json").read_text())["three-jobs: none"]

    for folder in ("before", "after"):
        assert lockstep(*words, "--results", folder)[0] == 0
    slowdown = measures()["workload slowdown"]
    assert slowdown["lower_value"] <= slowdown["value"] <= slowdown["upper_value"]
    assert len(json.loads((tmp_path / "list.json").read_text())) == 2 * 8
    assert lockstep("compare", "before", "after", *forms)[0] == 0
    assert measures()["workload slowdown after / before"]["value"] == pytest.approx(1, abs=0.01)
    assert lockstep("compare", "after", *forms)[0] in (0, 1)
    assert "simulated workload slowdown" in measures()
    for command in (("run", "three-jobs"), ("compare", "after")):
        status, out, err = lockstep(*command, "--export-bmf", "nowhere/bmf.json")
        assert (status, out) == (2, "") and err.startswith("lockstep: --export-bmf = 'nowhere/bmf.json'")


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
NINES = "9" * 5000
BAD_USAGE = [
    (("hlep",), "lockstep: 'hlep' is not a command; did you mean 'help'?"),
    (("fly",), "lockstep: 'fly' is not a command; lockstep --help lists them"),
    (("--fly",), "lockstep: '--fly' is not an option of lockstep; lockstep --help lists them"),
    (("-x",), "lockstep: '-x' is not an option of lockstep"),
    (("--hlep",), "lockstep: '--hlep' is not an option of lockstep; did you mean '--help'?"),
    (("simulte", "three-jobs"), "lockstep: 'simulte' is not a command; did you mean 'simulate'?"),
    (("help", "simulte"), "lockstep: 'simulte' is not a command; did you mean 'simulate'?"),
    (("waits", "--", "true"), "lockstep: waits is called tune now"),
    (("help", "waits"), "lockstep: waits is called tune now"),
    (("beside", "--", "true"), "lockstep: beside is called colocate now"),
    (("observe", "--", "true"), "lockstep: observe is called record now"),
    (("tune", "--give-up", "3", "--", "true"), "lockstep: --give-up is called --timeout-factor now"),
    (("tune", "--give-up=3", "--", "true"), "lockstep: --give-up is called --timeout-factor now"),
    (("simulate", "log", "--trace", "a.swf"), "lockstep: --trace is called --log now"),
    (("run", "three-jobs", "--anyway"), "lockstep: --anyway is called --no-wait now"),
    (("exec", "--leave", "Scan", "--", "true"), "lockstep: --leave is called --skip-call now"),
    (("colocate", "--choices", "--", "true"), "lockstep: --choices is called --settings now"),
    (("doctor", "--share"), "lockstep: --share is called --report now"),
    (("run", "three-jobs", "--jsn"), "'--jsn' is not an option of lockstep run; did you mean '--json'?"),
    (("simulate", "three-jobs", "--qick=1"), "lockstep simulate; did you mean '--quick'?"),
    (("run",), "lockstep: EXPERIMENT is missing: lockstep run needs it; lockstep run --help"),
    (("run", "three-jobs", "--seed", "x"), "lockstep: --seed = 'x': must be a whole number; write --seed 1"),
    (("run", "three-jobs", "--slowdown-bound", "x"), "--slowdown-bound = 'x': must be a number; write"),
    (("run", "three-jobs", "--hosts"), "lockstep: --hosts: needs a value; write --hosts A:N,B:N"),
    (("run", "three-jobs", "--quick=3"), "lockstep: --quick: cannot have a value; leave '3' out"),
    (("run", "three-jobs", "--hosts", "a:b"), "three-jobs.toml with --hosts a:b: hosts[0] = 'a:b': must end"),
    (
        ("run", "three-jobs", "--hosts", "a:2", "--allocation"),
        "--allocation: cannot be combined with",
    ),
    (
        ("run", "three-jobs", "--allocation"),
        "--allocation: needs a Slurm allocation: SLURM_JOB_ID",
    ),
    (("run", "three-jobs", "--hostfile", "none"), "--hostfile = 'none': cannot be read: no such file"),
    (("trace", "x", "--window", "1"), "lockstep: --window: needs 2 values; write --window BEGIN END"),
    (
        ("trace", "x", "--format", "otf"),
        "lockstep: --format = 'otf': must be one of perfetto, otf2, goal; did",
    ),
    (("trace", "x", "--window", "3", "1"), "lockstep: --window = 3 1: must be two times"),
    (("report", "x", "-o"), "lockstep: --output: needs a value; write --output FILE"),
    (("exec", "--waiting", "x", "--", "true"), "--waiting = 'x': must be one of spin, immediate, fixed"),
    (("exec", "--latency-us", "-1", "--", "true"), "--latency-us = -1: must be a number of at least 0"),
    (("exec",), "COMMAND is missing: a command must follow --; write lockstep exec -- mpiexec"),
    (("doctor", "--"), "COMMAND is missing: a command must follow --; write lockstep doctor -- mpiexec"),
    (("doctor", "--pairs", "10"), "--pairs = 10: needs --self-test"),
    (("doctor", "--pairs", "10", "--", "true"), "--pairs = 10: needs --self-test"),
    (("tune", "--", "true", ":::", "true"), "measures copies of one command, and ::: stands between several"),
    (
        ("colocate", "--export-hyperfine", "/nowhere/a", "--", "true", ":::", "true"),
        "--export-hyperfine = '/nowhere/a': cannot be written",
    ),
    (("tune", "--only", "x", "--", "true"), "must be one of 'as it is', two-phase"),
    (("advise", "--granularity-us", "0"), "--granularity-us = 0: must be a number from 0.001 to 1e12"),
    (("advise", "--recording", "none"), "none: cannot be read: no such file or directory; name a file that"),
    (("reproduce", "dusseau97"), "PAPER = 'dusseau97': must be one of"),
    (("turns", "--quantum-ms", "0", "--", "true", ":::", "true"), "--quantum-ms = 0: must be a number from"),
    (("turns", "--", "true"), "COMMAND = 'true': must be at least 2 programs"),
    (("colocate", "--", "true"), "COMMAND = 'true': must be 2 or more commands"),
    (("colocate", "--pairs", "--", "true", ":::", "true"), "--pairs: needs 3 or more programs, and has 2"),
    (("submit", "log", "--dry-run"), "log.toml, line 4: level = 'jobs': has no processes"),
    (("submit", "three-jobs", "--array", "3", "--dry-run"), "--array = 3: must be from 1 to the number of"),
    (
        ("submit", "three-jobs", "--nodes", "0", "--dry-run"),
        "with --nodes 0: slurm.nodes = 0: must be",
    ),
    (("run", "three-jobs", "--sed", "1"), "--sed"),
    (("run", "three-jobs", "--seed", "-1"), "with --seed -1: seed = -1: must be a whole number"),
    (
        ("run", "three-jobs", "--slowdown-bound", "0"),
        "--slowdown-bound = 0: must be a number from 1e-9 to 1e9; write 1e-9 or more",
    ),
    (("run", "three-job"), "did you mean 'three-jobs'?"),
    (("run", "missing.toml"), "no such file"),
    (("run", "three-jobs", "--set", "repeats"), "--set = 'repeats': must be KEY=VALUE"),
    (("run", "three-jobs", "--set", "repeats=none"), "repeats=none: repeats = 'none': must be a whole"),
    (("run", "three-jobs", "--results", "/proc/there"), "--results = '/proc/there'"),
    (("run", "three-jobs", "--results", "/dev/null"), "--results = '/dev/null'"),
    (("run", "three-jobs", "--fail-if", "gang 10"), "--fail-if = 'gang 10': is no condition"),
    (("run", "three-jobs", "--fail-if", "none > 1e999"), "is no condition"),
    (("run", "three-jobs", "--fail-if", "gang 11 ms > 1"), "did you mean 'gang 10 ms'?"),
    (("simulate", "three-jobs", "--policy", "gang quantum_ms 20"), 'write "gang quantum_ms=20", say'),
    (("simulate", "three-jobs", "--policy", "gang,quantum_ms=20"), 'write "gang quantum_ms=20", say'),
    (("simulate", "three-jobs", "--policy", "gang", "20"), 'keys of a policy: --policy "gang quantum_ms=20"'),
    (("simulate", "three-jobs", "quantum_ms=20"), "write --set quantum_ms=20"),
    (
        ("simulate", "three-jobs", "--policy", "gang", "quantum=2"),
        "with --policy 'gang quantum=2': schedulers[0].",
    ),
    (
        ("simulate", "three-jobs", "--policy", "mine"),
        "in your own file write python FILE.py in place of lockstep",
    ),
    (("policies", "gong"), "did you mean 'gang'?"),
    (("policies", "gang", "dqt"), "'dqt' is one argument too many for lockstep policies"),
    (("compare", "nosuch"), "RESULTS = 'nosuch': is not a directory that exists"),
    (("list", "/usr"), "RESULTS = '/usr': holds no records of Lockstep"),
    (("run", "three-jobs", "--set", BOUND), "jobs[0].command = '--bind-to': cannot place or bind processes"),
    (("run", "three-jobs", "--set", MISSING), "needs a program './nosuch'"),
    *(
        (tuple(words.split(" ")), message)
        for words, message in [
            ("run three-jobs --hosts a:" + NINES, "from 1 to 4096"),
            ("run three-jobs --set jobs.\u00b2=1", "name an entry"),
            ("run three-jobs --seed 99999999999999999999", "from 0 to 9223372036854775807"),
            ("run three-jobs --seed " + NINES, "must be a whole number"),
            ("run three-jobs --part 1/" + NINES, "must be K/N"),
            ("run three-jobs --slowdown-bound nan", "--slowdown-bound = nan"),
            ("run /dev/zero", "at most 4 MiB"),
            ("run " + "a" * 5000, "neither a file"),
            ("run " + "a" * 5000 + ".toml", "file name too long"),
            ("simulate three-jobs --set repeats=" + NINES, "TOML value"),
            ("simulate three-jobs --set x=" + "[" * 3000 + "]" * 3000, "TOML value"),
            ("trace . --run 99999999999999999999", "--run = "),
            ("compare . --tolerance 1e-400", "--tolerance = 0: must"),
            ("advise --jobs 1001", "--jobs = 1001"),
            ("advise --recording ", "--recording = '': must name a file or directory, and is empty"),
            ("run three-jobs --results ", "--results = '': must name a file or directory"),
            ("report ", "RESULTS = '': must name a file or directory"),
            ("calibrate --working-set-bytes " + NINES[:20], "--working-set-bytes"),
            ("reproduce dusseau96 --figure 2 --seed -1", "seed = -1"),
        ]
    ),
]


@pytest.mark.parametrize(
    ("arguments", "message"), BAD_USAGE, ids=[" ".join(case[0])[:50] for case in BAD_USAGE]
)
def test_bad_usage_is_a_message_and_exit_status_2(lockstep, arguments, message):
    status, out, err = lockstep(*arguments)
    assert (status, out) == (2, "")
    assert message in err
    assert "Traceback" not in err and len(err) < 10_000


@pytest.mark.parametrize("words", [["gang quantum_ms=20"], ["gang", "quantum_ms=20"]])
def test_policies_of_the_command_line_replace_the_files_schedulers(words):
    options = parser("run").parse_args(["run", "--policy", *words, "three-jobs", "--policy", "none"])
    (gang, none) = shared.load(options).schedulers
    assert (gang.name, gang.policy.quantum_ms, none.name) == ("gang", 20, "none")
    repeated = parser("run").parse_args(["run", "three-jobs", *run.forwarded(options)])
    assert shared.load(repeated).digest == shared.load(options).digest != load("three-jobs").digest


def test_without_a_command_it_shows_where_to_begin(lockstep):
    status, out, err = lockstep()
    assert (status, err) == (0, "") and max(map(len, out.splitlines())) <= 80
    for group in COMMAND_GROUPS:
        begin = [line for line in out.splitlines() if line.startswith(f"{group} ")]
        assert group == "this host" or begin[0].split("lockstep ")[1].split()[0] in COMMAND_GROUPS[group]


def test_help_is_a_command_and_an_option(lockstep):
    assert lockstep("help") == lockstep("--help") and lockstep("help")[0] == 0
    assert (
        lockstep("help", "run") == lockstep("run", "--help") and "lockstep run" in lockstep("help", "run")[1]
    )


def test_help_imports_nothing_slow():
    code = (
        "import sys; from harness import cli; cli.main(['--help']);"
        "assert not {'numpy', 'pandas', 'rich', 'mpi4py', 'numba'} & sys.modules.keys()"
    )
    environment = os.environ | PATHS
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, stdout=subprocess.DEVNULL)


def test_a_reader_that_has_seen_enough_is_no_error():
    command = f"{sys.executable} -m harness.cli policies | head -1"
    how = {"capture_output": True, "text": True}
    done = subprocess.run(command, shell=True, env=os.environ | PATHS, check=True, **how)
    assert done.stderr == ""


@pytest.mark.slow
def test_a_failed_run_is_told_and_gives_exit_status_1(lockstep, monkeypatch):
    tools = failing(lambda workload: workload.policy.stops_processes)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)
    status, out, err = lockstep("run", "three-jobs", "--set", "repeats=1", "--json")
    assert status == 1
    assert sorted(json.loads(out)["failures"]) == [
        f"gang {quantum} ms, repeat 1: job 0: rank 1 has gone" for quantum in (10, 100)
    ]
    assert "2 of 9 runs failed\n" in err and err.count("rank 1 has gone") == 2
    assert lockstep("run", "three-jobs", "--set", "repeats=1")[1].count(" - ") >= 2
