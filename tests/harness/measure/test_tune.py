"""``lockstep tune``: its settings, its runs and rows, its verdict, and what it leaves when it is ended."""

import json
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from native_programs import LOCKSTEP, launcher, run
from places import ROOT
from runs import command as command_line
from runs import eventually, running
from tuned_host import FILES, Host, library_of, settings_of, tuning

from coordinator.host.launch import LaunchError
from coordinator.host.processes import children
from harness.analyse import result_warnings
from harness.analyse.rows import Row, Summary
from harness.analyse.statistics import estimate
from harness.analyse.tuning import tuned
from harness.commands import tune
from harness.measure import disturbance, runner
from harness.measure.guarded_copies import CpuUsage, libraries_loaded, run_copies
from harness.spec.settings import AS_IT_IS, TWO_PHASE, UNCHANGED
from workloads import native
from workloads.native.settings import LIBRARY_SETTINGS, offered


@pytest.fixture(autouse=True)
def _own_directory(monkeypatch, tmp_path):
    """The command keeps its runs in the directory in which it is started."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "mpi, there, missing",
    [
        ("MPICH 4.0", 1, 4),
        ("MPICH 5.0", 5, 0),
        ("Open MPI 4.1", 1, 1),
        ("Open MPI 5.0", 2, 0),
        ("Intel MPI 2021", 3, 0),
        ("another", 0, 0),
        ("OpenMP GNU", 2, 0),
        ("OpenBLAS 0.2", 0, 1),
    ],
)
def test_only_what_a_library_knows_is_offered(tmp_path, mpi, there, missing):
    found, lacking = offered({library_of(mpi, tmp_path): 2})
    assert (len(found), len(lacking)) == (there, missing)
    assert {setting.library for setting in (*found, *lacking)} <= {mpi.rpartition(" ")[0]}


@pytest.mark.parametrize(
    "processes, room, threads, fit", [(2, 8, 4, None), (2, 8, 5, "4"), (3, 8, 8, "2"), (4, 0, 2, "1")]
)
def test_fewer_threads_are_offered_where_they_exceed_the_processors(tmp_path, processes, room, threads, fit):
    both = [library_of(library, tmp_path) for library in FILES]
    found, _ = offered(dict.fromkeys(both, processes), room, threads)
    told = {key: value for setting in found for key, value in setting.variables.items()}
    assert told.get("OMP_NUM_THREADS") == told.get("OPENBLAS_NUM_THREADS") == fit
    assert ("OMP_DYNAMIC" in told) == (fit is not None)


def test_settings_are_told_as_environment_as_words_of_the_launcher_and_on_the_page():
    settings = {setting.name: setting for setting in LIBRARY_SETTINGS}
    assert len(settings) == len(LIBRARY_SETTINGS)
    assert settings["yield when idle"].line() == "export OMPI_MCA_mpi_yield_when_idle=1"
    assert settings["yield when idle"].words() == "--mca mpi_yield_when_idle 1"
    assert settings["heavy yield"].words() == "-genv MPIR_CVAR_ENABLE_HEAVY_YIELD 1"
    page = (ROOT / "docs" / "native.md").read_text()
    for setting in LIBRARY_SETTINGS:
        variables = " ".join(f"`{name}={value}`" for name, value in setting.variables.items())
        assert f"| {setting.name} | {setting.library} {setting.versions} | {variables} |\n" in page


@pytest.fixture
def command(lockstep, monkeypatch, tmp_path):
    return tuning(lockstep, monkeypatch, tmp_path)


def test_programs_alone_come_first_and_what_is_stopped_is_not_tried_again(command):
    host = Host(as_it_is=(1, 30), two_phase=(1.02, 1.1), setting=(1.3, 2))
    status, out, _ = command(host, "--json", "--rounds", "3")
    document = json.loads(out)
    assert status == 0 and host.asked[0] == (AS_IT_IS, 1, None)
    together = [setting for setting, copies, _ in host.asked if copies == 3]
    assert together.count(AS_IT_IS) == 1 and together.count(TWO_PHASE) == together.count("setting") == 3
    alone = [setting for setting, copies, _ in host.asked if copies == 1]
    assert [alone.count(one) for one in (AS_IT_IS, TWO_PHASE, "setting")] == [3, 3, 3]
    assert all(
        limit_s == pytest.approx(10 * copies, rel=0.02) for _, copies, limit_s in host.asked if limit_s
    )
    assert [limit_s for setting, copies, limit_s in host.asked if copies == 1].count(None) == 3
    as_it_is, two_phase, setting = (row["measured"] for row in document["rows"])
    assert as_it_is["exceeded"] == 10 and as_it_is["workload_slowdown"]["median"] is None
    assert as_it_is["dedicated"]["median"] == 1 and as_it_is["failures"] == 0
    assert two_phase["workload_slowdown"]["median"] == pytest.approx(1.02 * 1.1, rel=0.02)
    assert two_phase["dedicated"]["median"] == pytest.approx(1.02, rel=0.02)
    assert sum(setting["cpu_s"]) == pytest.approx(2 * 3 * 2 * 1.3, rel=0.02)
    assert document["best"] == document["fastest"] == TWO_PHASE


def test_one_job_alone_is_measured_once_a_round_with_each_setting(command, lockstep):
    host = Host(as_it_is=(5, 1), two_phase=(0.5, 1), setting=(2, 1))
    status, out, _ = command(host, "--rounds", "3", "--jobs", "1")
    asked = [setting for setting, _, _ in host.asked]
    assert status == 0 and [asked.count(one) for one in (AS_IT_IS, TWO_PHASE, "setting")] == [3, 3, 3]
    assert "Best: two-phase." in out and "over as it is" in out and "at a time" not in out
    rows = re.findall(r"^ (as it is|two-phase) +([0-9.]+) +(\S+) ", out, re.MULTILINE)
    assert rows[0] == ("as it is", "1.00", "1.00-1.00")
    shown = lockstep("report", "lockstep-results", "--format", "text")[1]
    assert [row[0] for row in rows] == re.findall(r"^ (as it is|two-phase) ", shown, re.MULTILINE)[:2]


def test_different_programs_are_measured_alone_and_all_at_a_time(command):
    host = Host(as_it_is=(1, 2), two_phase=(1, 0.8), setting=(1, 1.5))
    words = ["--settings", "--rounds", "3", "--json"]
    one, two = (["mpiexec", "-n", "1", program] for program in ("./one", "./two"))
    behind = ["--", *one, ":::", *two]
    status, out, _ = command(host, *words, behind=behind, name="colocate")
    document = json.loads(out)
    assert status == 0 and document["programs"] == [one, two]
    assert document["dedicated_s"]["median"] == pytest.approx(2, rel=0.02)
    assert document["rows"][0]["measured"]["workload_slowdown"]["median"] == pytest.approx(2, rel=0.02)
    assert document["best"] == TWO_PHASE


@pytest.mark.parametrize("other", [1.30, 1.05, None])
def test_a_setting_is_best_only_if_its_interval_is_apart(other):
    known = estimate([1.00, 1.01, 1.08])
    rival = {1.30: estimate([1.30, 1.31, 1.32]), 1.05: estimate([1.05, 1.09, 1.20]), None: estimate([1.30])}
    found = tuned([row("b", rival[other]), row("a", known)])
    assert (found.fastest.name, found.best) == ("a", "a" if other == 1.30 else None)
    assert found.as_good == (() if other == 1.30 else ("b",))
    assert tuned([row("a", estimate([]))]) is None


def row(name, slowdown):
    table = replace(UNCHANGED, setting=name).table
    return Row((), {}, table, Summary(slowdown), None)


def test_the_table_names_the_best_setting_and_the_line_to_set(command):
    host = Host(as_it_is=(1, 30), two_phase=(1.02, 1.4), setting=(1.1, 1.2))
    status, out, err = command(host, "--rounds", "3")
    assert status == 0, err
    assert "Best: yield when idle.\n" in out
    assert "export OMPI_MCA_mpi_yield_when_idle=1\n" in out and "--mca mpi_yield_when_idle 1" in out
    assert re.search(r"^ as it is +1\.00 .* > 10 ", out, re.MULTILINE)
    assert "no nanosleep when idle (Open MPI 5.0)" in out
    assert "failed" not in err and "runs recorded in" in err


def test_the_document_says_what_was_measured(command):
    host = Host(as_it_is=(1, 2), two_phase=(1.02, 1.01), setting=(1.1, 1.2))
    status, out, _ = command(host, "--json", "--rounds", "3", "--jobs", "2", "--only", "two-phase")
    document = json.loads(out)
    assert status == 0
    assert settings_of(document) == [AS_IT_IS, TWO_PHASE]
    assert document["best"] == document["fastest"] == TWO_PHASE
    assert document["rows"][1]["scheduler"]["lines"] == ["lockstep exec -- mpiexec ./app"]
    assert document["rows"][1]["scheduler"]["waiting"] == "global-adaptive"
    assert document["rows"][1]["measured"]["workload_slowdown"]["n"] == document["dedicated_s"]["n"] == 3


def test_runs_are_recorded_and_a_longer_series_continues_a_shorter_one(command):
    seconds = {"as_it_is": (1, 30), "two_phase": (1.02, 1.1), "setting": (1.3, 2)}
    first = Host(**seconds)
    before = json.loads(command(first, "--json", "--rounds", "2")[1])
    again = Host(**seconds)
    after = json.loads(command(again, "--json", "--rounds", "2", "--resume")[1])
    assert not again.asked and after["rows"] == before["rows"]
    further = Host(**seconds)
    longer = json.loads(command(further, "--json", "--rounds", "3", "--resume")[1])
    assert [row["measured"]["workload_slowdown"]["n"] for row in longer["rows"]] == [0, 3, 3]
    assert (AS_IT_IS, 3) not in {(setting, copies) for setting, copies, _ in further.asked}
    patient = Host(**seconds)
    status, out, _ = command(patient, "--json", "--rounds", "3", "--resume", "--timeout-factor", "50")
    assert status == 0 and {setting for setting, *_ in patient.asked} == {AS_IT_IS}
    found = json.loads(out)["rows"][0]["measured"]
    assert "exceeded" not in found and found["workload_slowdown"]["median"] == pytest.approx(30, rel=0.03)


def test_other_settings_continue_the_same_series(command):
    host = Host(as_it_is=(1, 3), two_phase=(1, 1.1), setting=(1, 2))
    command(host, "--rounds", "2", "--only", "two-phase")
    further = Host(**host.seconds)
    command(further, "--rounds", "2", "--resume")
    assert {setting for setting, *_ in further.asked} == {"setting"}


def test_an_interrupted_series_goes_on(command):
    class Interrupted(Host):
        def __call__(self, *asked):
            if len(self.asked) == 7:
                raise KeyboardInterrupt
            return super().__call__(*asked)

    seconds = {"as_it_is": (1, 3), "two_phase": (1, 1.1), "setting": (1, 2)}
    status, _, err = command(Interrupted(**seconds), "--rounds", "2")
    assert status == 130 and "7 of 12 runs are recorded" in err and "--resume" in err
    host = Host(**seconds)
    status, out, _ = command(host, "--rounds", "2", "--resume")
    assert status == 0 and len(host.asked) == 5 and "two-phase" in out


def test_a_bound_of_a_setting_fails_the_command(command, tmp_path):
    host = Host(as_it_is=(1, 30), two_phase=(1.02, 1.1), setting=(1.3, 2))
    words = ["--rounds", "2", "--junit", "x.xml", "--fail-if"]
    assert command(host, *words, "two-phase > 1.5")[0] == 0
    status, _, err = command(Host(**host.seconds), *words, "yield when idle > 2")
    assert status == 1 and "the measured slowdown of yield when idle is 2." in err
    status, _, err = command(Host(**host.seconds), *words, "as it is > 2")
    assert status == 1 and "the measured slowdown of as it is is above 10: as it is > 2" in err
    suite = ElementTree.parse(tmp_path / "x.xml").getroot()
    assert [case.get("name") for case in suite] == [AS_IT_IS, TWO_PHASE, "yield when idle"]
    assert command(Host(), *words, "gang > 2")[0] == 2


def test_settings_are_compared_and_reported_as_other_schedulers(command, lockstep):
    slow = Host(as_it_is=(1, 4), two_phase=(1, 2), setting=(1, 3))
    fast = Host(as_it_is=(1, 4), two_phase=(1, 1), setting=(1, 3))
    for folder, host in (("before", slow), ("after", fast)):
        assert command(host, "--rounds", "4", "--results", folder)[0] == 0
    status, out, _ = lockstep("compare", "before", "after", "--json")
    (found,) = json.loads(out)["experiments"]
    verdicts = {row["scheduler_after"]: row["verdict"] for row in found["rows"]}
    assert status == 0 and verdicts[TWO_PHASE] == "better" and verdicts[AS_IT_IS].startswith("no difference")
    status, out, _ = lockstep("compare", "after", "--between", AS_IT_IS, TWO_PHASE)
    assert status == 0 and "1 better" in out
    status, out, _ = lockstep("compare", "after", "--json")
    (found,) = json.loads(out)["experiments"]
    assert status == 0 and all("is not simulated" in row["reason"] for row in found["rows"])
    status, out, _ = lockstep("report", "after", "--format", "text")
    assert status == 0 and "yield when idle" in out and "tune: 3 jobs of mpiexec ./app" in out
    status, _, err = lockstep("report", "after", "-o", "rows.csv")
    assert status == 0, err
    lines = Path("rows.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == settings_of(
        json.loads(lockstep("report", "after", "--format", "text", "--json")[1])
    )
    (listed,) = json.loads(lockstep("list", "after", "--json")[1])["experiments"]
    assert (listed["experiment"], listed["schedulers"], listed["measured"]) == ("tune", 3, 4 * 6)


def test_nothing_is_best_if_others_took_the_processors(command, monkeypatch):
    host = Host(as_it_is=(1, 30), two_phase=(1.02, 1.4), setting=(1.1, 1.2))
    for module in (disturbance, result_warnings):
        monkeypatch.setattr(module, "lost", lambda record: 0.45)
    monkeypatch.setattr(runner, "AGAIN", 0)
    _, out, _ = command(host, "--rounds", "3")
    first, *rest = out.splitlines()
    assert first == "Not measurable now: other programs took up to 45% of the processors."
    assert rest[-1] == "No advice: repeat it when the other programs have ended."
    rows = [line.split() for line in rest if line.startswith((" two-phase", " yield when idle"))]
    assert len(rows) == 2 and all(row[-5:] == ["-"] * 5 for row in rows)
    document = json.loads(command(Host(**host.seconds), "--rounds", "3", "--json")[1])
    assert document["notice"] == first and document["best"] is None
    assert document["rows"][1]["measured"]["workload_slowdown"]["n"] == 3  # the document keeps the numbers


SECONDS = {"as_it_is": (1, 2), "two_phase": (1, 1), "setting": (1, 1.5)}


def test_without_intervals_there_is_no_best(command):
    status, out, _ = command(Host(**SECONDS), "--rounds", "1")
    assert status == 0
    assert "Fastest by median: two-phase. Noise is unknown: that takes --rounds 3." in out
    assert "beyond noise" not in out


def test_settings_that_are_alike_may_all_be_faster_than_as_it_is(command):
    _, out, _ = command(Host(as_it_is=(1, 2), two_phase=(1, 1.2), setting=(1, 1.2)), "--rounds", "3")
    assert re.search(r"With (two-phase|yield when idle) it is faster than as it is, beyond noise.", out)
    assert re.search("overlap with its own: (two-phase|yield when idle). ", out)


def test_programs_as_they_are_are_not_faster_than_themselves(command):
    _, out, _ = command(Host(as_it_is=(1, 2), two_phase=(1, 2.001), setting=(1, 2.002)), "--rounds", "3")
    assert "No setting is best beyond noise. Fastest by median: as it is." in out


def test_where_nothing_ends_in_time_nothing_is_best(command):
    slow = dict.fromkeys(("as_it_is", "two_phase", "setting"), (1, 30))
    status, out, _ = command(Host(**slow), "--rounds", "2")
    assert status == 0 and "none ended in time" in out and out.count("> 10") == 3


@pytest.mark.parametrize(
    "only, status", [((), 0), (("--only", "yield when idle"), 0), (("--only=two-phase",), 2)]
)
def test_without_a_compiler_the_settings_of_the_mpi_are_measured(command, monkeypatch, only, status):
    def no_compiler(*ignored):
        raise native.NativeError("no C compiler: install one")

    monkeypatch.setattr(tune, "preload", no_compiler)
    status, out, err = command(Host(**SECONDS), "--json", "--rounds", "1", *only)
    assert status == (2 if "two-phase" in str(only) else 0)
    assert ("install one" in err) == ("yield" not in str(only))
    if not only:
        assert settings_of(json.loads(out)) == [AS_IT_IS, "yield when idle"]
        assert "two-phase is left out: no C compiler: install one" in err


def test_a_command_of_another_mpi_or_of_none_is_refused(command, monkeypatch):
    status, _, err = command(Host(**SECONDS), ranks=False)
    assert status == 2 and "--mpicc" in err
    monkeypatch.setattr(tune, "libraries_loaded", lambda argv: {Path("/lib/libc.so.6"): 1})
    status, _, err = command(Host(**SECONDS))
    assert status == 2 and "loads no libmpi, OpenMP or OpenBLAS" in err


def test_a_program_that_fails_alone_is_not_run_with_others(command):
    def fails(setting, copies, limit_s):
        raise LaunchError("mpiexec ./app exited with status 7")

    status, out, err = command(fails, "--rounds", "2")
    assert status == 1 and not out and "exited with status 7" in err and "fails alone" in err


def test_the_best_settings_of_mpi_and_of_threads_are_measured_together(command, monkeypatch, tmp_path):
    mpi, openmp = (library_of(name, tmp_path) for name in ("Open MPI 4.1", "OpenMP GNU"))
    monkeypatch.setattr(tune, "libraries_loaded", lambda argv: {mpi: 2, openmp: 2})
    host = Host(as_it_is=(1, 3), two_phase=(1, 1.5), threads=(1, 2), both=(1, 1), setting=(1, 2.5))
    words = ["--json", "--rounds", "3", "--jobs", "2", "--only=two-phase", "--only=passive threads"]
    status, out, _ = command(host, *words)
    document = json.loads(out)
    assert status == 0 and document["best"] == "two-phase with passive threads"
    told = document["rows"][-1]["scheduler"]
    assert told["lines"] == ["export OMP_WAIT_POLICY=passive", "lockstep exec -- mpiexec ./app"]
    assert told["environment"] == {"OMP_WAIT_POLICY": "passive"}
    assert document["rows"][-1]["measured"]["workload_slowdown"]["n"] == 3
    assert document["dedicated_s"]["n"] == 6, "the further runs have programs alone of their own"
    again = Host(**host.seconds)
    assert json.loads(command(again, *words, "--resume")[1])["rows"] == document["rows"] and not again.asked

    host = Host(as_it_is=(1, 3), two_phase=(1, 3.5), threads=(1, 2), setting=(1, 2.5))
    assert json.loads(command(host, *words)[1])["best"] == "passive threads"


@pytest.mark.parametrize(
    "words, complaint",
    [
        (["--rounds=0"], "--rounds"),
        (["--timeout-factor=0.5"], "--timeout-factor"),
        (["--only=speed"], "two-phase"),
        (["--skip-call=scann"], "Scan"),
        (["--only=heavy yield"], "yield when idle"),
    ],
)
def test_options_are_checked(command, words, complaint):
    status, _, err = command(Host(), *words)
    assert status == 2 and complaint in err


@pytest.fixture
def program(compiled):
    """The command line of a loop of two ranks, compiled for an MPI, that goes round so often."""
    return lambda mpi, rounds: [*launcher(mpi), "-n", "2", compiled(mpi, "bsp.c"), "100", ".25", rounds]


@pytest.mark.slow
def test_copies_run_at_once_each_with_its_number_and_without_leftovers(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("CP2K_DATA_DIR", "/data")
    monkeypatch.setenv("PMI_RANK", "7")
    monkeypatch.chdir(tmp_path)
    before = set(children(os.getpid()))
    os.mkfifo("meet")
    meet = "case {copy} in 0) echo > meet;; 1) read x < meet;; esac; env > {copy}"
    spent = run_copies([(["sh", "-c", meet], {"KNOB": "1"})] * 2, None)
    assert min(spent.wall_s) > 0 and min(spent.cpu_s) > 0 and len(spent.wall_s) == len(spent.cpu_s) == 2
    for copy in ("0", "1"):
        told = (tmp_path / copy).read_text().splitlines()
        assert {"KNOB=1", "CP2K_DATA_DIR=/data"} <= set(told) and "PMI_RANK=7" not in told
    with pytest.raises(LaunchError, match=r"(?s)status 7.*for a reason"):
        fails = "echo for a reason >&2; test {copy} = 0 || exit 7; sleep 1000"
        run_copies([(["sh", "-c", fails], {})] * 2, None)
    assert run_copies([(["sleep", "1000"], {})] * 2, 0.01) == CpuUsage()
    assert set(children(os.getpid())) <= before, "not all have been waited for"
    assert not list(tmp_path.glob("lockstep-*"))


@pytest.mark.slow
def test_libraries_that_programs_load_late_are_seen_with_the_number_of_processes():
    loads = "import ctypes; ctypes.CDLL('libresolv.so.2')"
    one = f'"{sys.executable}" -S -c "{loads}"'
    found = {
        path.name: count for path, count in libraries_loaded(["sh", "-c", f"{one}& {one}; wait"]).items()
    }
    assert found["libc.so.6"] == 3 and found["libresolv.so.2"] == 2


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_when_it_is_ended(program, signum):
    argv = program("here", "10000000")
    with running(argv=[*LOCKSTEP, "tune", "--jobs", "2", "--", *argv]) as started:
        assert eventually(
            lambda: len([pid for pid in started.processes() if argv[-4] in command_line(pid)[:1]]) == 2
        )
        assert eventually(started.segments)
        segments = started.segments()
        started.driver.send_signal(signum)
        assert started.driver.wait(60) == (130 if signum == signal.SIGINT else -signum)
        assert eventually(lambda: not started.remains()), started.remains()
        assert eventually(lambda: not any(segment.exists() for segment in segments))


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_a_real_program_is_measured_with_what_its_mpi_offers(program, mpi):
    argv = program(mpi, "20")
    words = ["tune", "--json", "--rounds", "1", "--jobs", "1", "--", *argv]
    done = run([*LOCKSTEP, *words])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert settings_of(document)[:2] == [AS_IT_IS, TWO_PHASE]
    assert len(document["rows"]) > 2
    found = [row["measured"] for row in document["rows"]]
    assert all("exceeded" in one or one["workload_slowdown"]["median"] > 0 for one in found)
    assert document["notice"] or document["fastest"] in settings_of(document)


def test_threads_that_wait_in_vain_get_the_setting_of_their_library(compiled, monkeypatch):
    """Two ranks of two threads each, two at a time on two processors."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    program = ["mpiexec", "-n", "2", compiled("here", "hybrid.c", "-fopenmp"), "5", "20", "200"]
    words = [
        *("tune", "--no-wait", "--json", "--rounds", "1", "--jobs", "2", "--only", "passive threads", "--"),
        *program,
    ]
    done = run(["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2])), *LOCKSTEP, *words])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    as_it_is, passive = document["rows"]
    assert passive["scheduler"]["lines"] == ["export OMP_WAIT_POLICY=passive"]
    assert document["notice"] or document["fastest"] == "passive threads", document
    medians = [row["measured"]["workload_slowdown"]["median"] for row in (as_it_is, passive)]
    assert "exceeded" in as_it_is["measured"] or medians[1] < medians[0]
