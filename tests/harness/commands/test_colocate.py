"""``lockstep colocate``: commands from words and files, the advice, and real programs of two kinds."""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_programs import launcher
from runs import needs_two

from coordinator.host import launcher_choice
from harness import cli
from harness.analyse.rows import JobRow, Percentiles, Row, Summary, Switches
from harness.analyse.sharing import APART, ONE_BY_ONE, TIE, TOGETHER, TURNS, advice
from harness.analyse.statistics import estimate
from harness.spec import colocate, experiment, overrides
from harness.store.database import Store
from harness.store.records import DEDICATED, POLICY
from workloads.validation import InputError

ENTRY = [sys.executable, "-c", "pass"]


def test_commands_are_words_or_quoted_lines():
    words = ["mpiexec", "-n", "2", "./a", "1", ":::", "./b --in 'my file'", ":::", "./c"]
    assert colocate.split(words) == [words[:5], ["./b", "--in", "my file"], ["./c"]]
    assert colocate.lines("# two\n./a 1\n\n  ./b 'x y'  \n", "two") == [["./a", "1"], ["./b", "x y"]]


@pytest.mark.parametrize("line, reason", [("./b 'x", "must have quotes in pairs"), ("./b | c", "no shell")])
def test_a_line_that_is_no_command_is_named(line, reason):
    with pytest.raises(InputError, match=f"^commands.txt, line 3 = .*{reason}"):
        colocate.lines(f"# two\n./a\n{line}\n", "commands.txt")


@pytest.mark.parametrize(
    "words", [[], [":::"], ["./a", ":::"], ["./a", ":::", ":::", "./b"], ["./a 'b"], [" "]]
)
def test_a_missing_or_unfinished_command_is_refused(words):
    with pytest.raises(InputError, match="COMMAND"):
        colocate.split(words)


def test_a_policy_has_its_keys():
    assert overrides.scheduler("gang quantum_ms=20 packing=matrix") == {
        "policy": "gang",
        "quantum_ms": 20,
        "packing": "matrix",
    }
    table = colocate.table([ENTRY, ENTRY], ["implicit"], rounds=2, precision=0.1)
    assert {job["waits"] for job in table["jobs"]} == {"two-phase"}
    assert "waits" not in colocate.table([ENTRY, ENTRY], ["gang"], rounds=2, precision=0.1)["jobs"][0]
    with pytest.raises(InputError, match="gangs"):
        experiment.load(colocate.table([ENTRY, ENTRY], ["gangs"], rounds=1, precision=0.1))


@pytest.mark.parametrize(
    "words",
    [
        ["--", "true"],
        ["--rounds", "0", "--", "true", ":::", "true"],
        ["--precision", "nan", "--", "true", ":::", "true"],
        ["--policy", "gang 'quantum_ms=20", "--", "true", ":::", "true"],
        ["--policy", "gang quantum_ms", "--", "true", ":::", "true"],
        ["--policy", "gang quantum_ms.x=1", "--", "true", ":::", "true"],
        ["--policy", "", "--", "true", ":::", "true"],
        ["--file", os.devnull],
        ["--pairs", "--", "true", ":::", "true"],
        ["--settings", "--", "true"],
        ["--settings", "--rounds", "0", "--", "true", ":::", "true"],
        ["--settings", "--policy", "gang", "--", "true", ":::", "true"],
        ["--settings", "--env", "A=1", "--", "true", ":::", "true"],
        ["--settings", "--precision", "0.1", "--", "true", ":::", "true"],
        ["--settings", "--fail-if", "gang > 1", "--", "true", ":::", "true"],
        ["--settings", "--", "true", ":::", "./not there"],
        ["--env", "NAME", "--", "true", ":::", "true"],
        ["--env", "1=2", "--", "true", ":::", "true"],
        ["--", "./not there", ":::", "true"],
        ["--", "true; true", ":::", "true"],
        ["--", "true && true", ":::", "true"],
    ],
)
def test_absurd_words_are_refused_before_anything_runs(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["colocate", *words]) == 2
    assert "lockstep: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


SLOTS = Switches(40, "signals", Percentiles(1, 2), Percentiles(1, 2))


def row(policy, slowdown, switches=SLOTS):
    job = JobRow(0.0, {"argv": ENTRY, "processes": 1})
    measured = Summary(estimate([slowdown * 0.99, slowdown, slowdown * 1.01]), switches=switches)
    return Row((job, job), {}, {"policy": policy, "waiting": "spin"}, measured, None)


slowdowns = st.floats(0.3, 30)


@given(slowdowns, slowdowns, st.none() | slowdowns)
def test_the_advised_way_is_the_best_one_or_easier_and_hardly_slower(together, turns, batch):
    measured = {"none": together, "gang": turns} | ({} if batch is None else {"batch": batch})
    found = advice([row(policy, slowdown) for policy, slowdown in measured.items()])
    known = {TOGETHER: together, TURNS: turns, ONE_BY_ONE: 1.0 if batch is None else batch}
    least = min(known.values())
    assert known[found.best.kind] <= least * (1 + TIE)
    assert found.best.kind == next(kind for kind in known if known[kind] <= least * (1 + TIE))


def test_programs_that_had_one_slot_in_common_took_no_turns():
    found = advice([row("none", 0.9), row("gang", 0.5, switches=None)])
    assert found.best.kind == APART and "turns" not in found.sentence


def alone(*rounds):
    return replace(row("none", 1), measured=Summary(estimate(rounds)))


def test_a_way_whose_rounds_scatter_is_told_by_its_least_and_most_and_not_advised_if_another_is_as_fast():
    assert "none takes 1.46 to 32.90" in advice([alone(1.46, 28.57, 32.9), row("gang", 0.9)]).sentence
    assert "none takes 1.10" in advice([row("none", 1.1), row("gang", 0.9)]).sentence
    found = advice([alone(0.7, 0.9, 1.8), row("gang", 0.9)])
    assert found.best.kind == TURNS and [way.scheduler for way in found.rivals] == ["none"]
    assert advice([alone(0.8, 0.9, 1.0), row("gang", 0.9)]).best.kind == TOGETHER


def test_one_round_gives_no_interval_and_nothing_is_said_to_be_alike():
    few = "so few rounds give no interval."
    assert advice([alone(0.6)]).sentence.endswith(f"0.60 of the time one after the other; {few}")
    assert advice([alone(2.5)]).sentence == f"Run them one after the other; none takes 2.50; {few}"


@needs_two
@pytest.mark.usefixtures("uncalibrated")
def test_programs_with_and_without_mpi_are_measured_and_advised_about(
    compiled, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    burn = "import time; b = time.process_time()\nwhile time.process_time() < b + 0.3: pass"
    exported = tmp_path / "times.json"
    words = ["--no-wait", "--rounds", "1", "--policy", "gang quantum_ms=20", "--json"]
    words += ["--export-hyperfine", str(exported)]
    mpi = shlex.join([*launcher("here"), "-n", "2", compiled("here", "bsp.c"), "100", ".25", "500"])
    commands = [sys.executable, "-c", burn, ":::", mpi]
    assert cli.main(["colocate", *words, "--", *commands]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["scheduler"]["policy"] for one in document["rows"]] == ["none", "gang"]
    assert document["notice"] or document["advice"]["way"] in (TOGETHER, TURNS, ONE_BY_ONE)
    assert len(document["rows"][0]["jobs"]) == 2
    times = {one["command"]: one["times"] for one in json.loads(exported.read_text())["results"]}
    assert len(times) == 4
    assert all(len(found) == 1 and min(found) > 0 for found in times.values())


@pytest.mark.slow
@needs_two
@pytest.mark.usefixtures("uncalibrated")
def test_programs_without_mpi_need_no_launcher(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(launcher_choice, "candidates", lambda: ())
    words = ["colocate", "--rounds", "1", "--no-wait", "--json", "--results", str(tmp_path)]
    programs = ["--", "sleep", ".2", ":::", "sh", "-c", "exit $(test -t 0)"]
    assert cli.main([*words, *programs]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0]["measured"]["workload_slowdown"]["n"] == 1
    assert cli.main([*words, "--record", *programs]) == 2
    assert "Lockstep needs an mpiexec" in capsys.readouterr().err


@pytest.mark.slow
@needs_two
@pytest.mark.usefixtures("uncalibrated")
def test_a_program_that_fails_alone_is_named_and_not_repeated(tmp_path, capsys):
    failing = ["sh", "-c", "echo lost >&2; exit 3"]
    words = ["colocate", "--no-wait", "--results", str(tmp_path), "--", "sleep", ".1", ":::", *failing]
    assert cli.main(words) == 1
    said = capsys.readouterr().err
    assert "sh -c echo lost >&2; exit 3 fails alone: skipped " in said
    assert "job 1: it exited with status 3\nlost" in said
    assert said.count("failed: job 1") <= 3, said


@pytest.mark.slow
@needs_two
@pytest.mark.usefixtures("uncalibrated")
def test_pairs_measure_each_program_alone_once_and_resuming_measures_nothing(tmp_path, capsys):
    words = ["colocate", "--pairs", "--rounds", "1", "--no-wait", "--json", "--results", str(tmp_path)]
    programs = ["sleep", ".1", ":::", "sleep", ".2", ":::", "sleep", ".15"]
    for resumed in ([], ["--resume"]):
        assert cli.main([*words, *resumed, "--", *programs]) == 0
        document = json.loads(capsys.readouterr().out)
        assert [pair["programs"] for pair in document["pairs"]] == [[0, 1], [0, 2], [1, 2]]
        assert all(pair["rows"][0]["measured"]["workload_slowdown"]["n"] == 1 for pair in document["pairs"])
        assert {line["program"] for line in document["slowdowns"]} == {"0 sleep", "1 sleep", "2 sleep"}
        with Store(tmp_path, existing=True) as store:
            runs = [run for digest, _ in store.experiments() for run in store.runs(digest)]
        times = [(run.kind, run.recorded_at) for run in runs]
        assert [sum(kind == one for kind, _ in times) for one in (DEDICATED, POLICY)] == [6, 3]
        assert len({at for kind, at in times if kind == DEDICATED}) == 3, "the others are the same runs"


@needs_two
def test_the_settings_of_the_libraries_of_all_programs_are_measured_beside_each_other(
    compiled, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    threads = [compiled("gcc", "hybrid.c", "-fopenmp", "-DALONE"), "1", "2", "20"]
    words = ["--settings", "--rounds", "1", "--no-wait", "--json", "--", *threads, ":::", "sleep", ".05"]
    assert cli.main(["colocate", *words]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["programs"] == [threads, ["sleep", ".05"]] and document["jobs"] == 2
    found = {row["scheduler"]["setting"]: row["measured"] for row in document["rows"]}
    assert {"as it is", "passive threads", "short spin of threads"} <= found.keys()
    assert found["as it is"]["dedicated"]["median"] == 1 and document["fastest"] in found
    assert all(one["workload_slowdown"]["n"] == 1 for one in found.values() if "exceeded" not in one)
    assert cli.main(["colocate", "--resume", *words]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == document["rows"], "its runs are recorded"


@pytest.mark.slow
@needs_two
@pytest.mark.usefixtures("uncalibrated")
def test_programs_find_the_variables_of_the_shell_and_of_the_option_and_all_processors(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("ESPRESSO_PSEUDO", "/pseudo")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "7")
    told = "*map(os.environ.get, {!r}), os.sched_getaffinity(0)"
    look = f"import os; print({told}, file=open({{!r}}, 'a'))"
    names = ["ESPRESSO_PSEUDO", "OMPI_COMM_WORLD_RANK", "WM_PROJECT", "EMPTY"]
    commands = [[sys.executable, "-c", look.format(names, str(tmp_path / name))] for name in "ab"]
    words = ["--rounds", "1", "--no-wait", "--results", str(tmp_path / "r"), "--env", "WM_PROJECT=a=b"]
    assert cli.main(["colocate", *words, "--env", "EMPTY=", "--", *commands[0], ":::", *commands[1]]) == 0
    lines = [line for name in "ab" for line in (tmp_path / name).read_text().splitlines()]
    assert len(lines) == 4 and set(lines) == {f"/pseudo None a=b  {os.sched_getaffinity(0)}"}, "also alone"
    assert "WM_PROJECT=a=b" in capsys.readouterr().out


@pytest.mark.slow
@needs_two
@pytest.mark.usefixtures("uncalibrated")
def test_programs_that_bind_themselves_to_one_processor_are_a_warning_of_the_stored_row(tmp_path, capsys):
    core = str(min(os.sched_getaffinity(0)))
    program = ["taskset", "-c", core, *ENTRY[:2], "import time; time.sleep(1.3)"]
    results = ["--results", str(tmp_path / "kept")]
    assert (
        cli.main(["colocate", "--no-wait", "--rounds", "1", *results, "--", *program, ":::", *program]) == 0
    )
    assert f"job 0 and job 1 are both bound to processors {core}, and " in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert cli.main(["report", results[1], "-o", str(page)]) == 0
    assert "1 of 2 runs have warnings; the first: job 0 and job 1 are both bound to" in page.read_text()
    assert "idle: bind each to other processors (taskset), or to none" in page.read_text()


@pytest.mark.parametrize("option", ["-bind-to core", "--map-by socket", "-hosts a"])
def test_options_that_bind_are_refused_in_the_words_of_the_command_line(capsys, option):
    assert cli.main(["colocate", "--", f"mpiexec {option} -n 2 true", ":::", "true"]) == 2
    told = capsys.readouterr().err
    assert f"COMMAND = {option.split()[0]!r}: cannot place or bind processes" in told
    assert "write -bind-to none" in told and "experiment" not in told


@pytest.mark.parametrize(
    "words, rule",
    [
        (["--hosts", "a:0"], "must end with a number of processors"),
        (["--hostfile", "not there"], "cannot be read"),
        (["--hosts", "a:2", "--settings"], "cannot be combined with --hosts"),
        (["--hosts", "a:2,b", "--rounds", "1"], "must be at most 3"),
    ],
)
def test_hosts_that_cannot_be_used_are_refused_in_a_line(words, rule, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.application.run", lambda *ignored: pytest.fail("it has begun"))
    policy = [] if "--settings" in words else ["--policy", "gang"]
    commands = ["mpiexec -n 4 true", ":::", "true"]
    assert cli.main(["colocate", *words, *policy, "--", *commands]) == 2
    error = capsys.readouterr().err
    assert rule in error and error.count("\n") == 1, error


@pytest.mark.slow
def test_programs_on_two_hosts_are_measured_there(hosts):
    spin = [sys.executable, "-c", "import time\nwhile time.process_time() < .2: pass"]
    job = shlex.join(["mpiexec", "-n", "2", *spin])
    words = ["--json", "--no-wait", "--rounds", "1", "--hosts", ",".join(hosts.hosts)]
    words += ["--results", str(hosts.root / "results"), "--policy", "gang quantum_ms=50"]
    argv = [sys.executable, "-P", "-m", "harness", "colocate", *words, "--", job, ":::", job]
    measured = hosts.start(argv)
    out, err = measured.communicate(timeout=120)
    assert measured.returncode == 0, err
    document = json.loads(out)
    names = [row["scheduler"]["policy"] for row in document["rows"]]
    assert sorted(names) == ["gang", "none"] and not any(
        row["measured"]["failures"] for row in document["rows"]
    )
    with Store(hosts.root / "results", existing=True) as store:
        placed = {rank.host for number in store.numbers() for rank in store.run(number).ranks}
    assert placed == {"node1", "node2"}
    assert hosts.as_new
