"""``lockstep tune``: its table of knobs, its rounds, its verdict, and what it leaves when it is ended."""

import json
import os
import re
import signal
import socket
import sys
from pathlib import Path

import pytest
from fake_runs import Quiet
from native_programs import LOCKSTEP, launcher, run
from places import ROOT
from rank_results import rank_result
from runs import command as command_line
from runs import eventually, running

from coordinator.host.launch import LaunchError
from coordinator.host.processes import children
from harness import cli
from harness.analyse.comparison import wait_row, wait_verdict
from harness.commands import tune
from harness.measure.guarded_copies import Spent, libraries_loaded, run_copies
from harness.measure.wait_rounds import AS_IT_IS, TWO_PHASE, WaitCell, WaitChoice, measure
from workloads import native
from workloads.native import Library
from workloads.native.knobs import KNOBS, offered

TEXTS = {
    "MPICH 4.0": "MPIR_CVAR_ASYNC_PROGRESS MPIR_CVAR_POLLS_BEFORE_YIELD",
    "MPICH 5.0": "MPIR_CVAR_POLLS_BEFORE_YIELD MPIR_CVAR_ENABLE_HEAVY_YIELD MPIR_CVAR_CH4_PROGRESS_THROTTLE"
    " MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT",
    "Open MPI 4.1": "ompi_mpi_init yield_when_idle",
    "Open MPI 5.0": "ompi_mpi_init yield_when_idle yield_strategy nanosleep_time",
    "Intel MPI 2021": "MPIR_CVAR_POLLS_BEFORE_YIELD I_MPI_WAIT_MODE I_MPI_THREAD_YIELD I_MPI_THREAD_SLEEP",
    "another": "MPI_Init",
    "OpenMP GNU": "OMP_NUM_THREADS OMP_WAIT_POLICY OMP_DYNAMIC GOMP_SPINCOUNT",
    "OpenBLAS 0.2": "OPENBLAS_NUM_THREADS",
}
"""What the libraries hold, of all the texts that are looked for."""


FILES = {"OpenMP GNU": "libgomp-a3.so.1", "OpenBLAS 0.2": "libscipy_openblas64_-32.so"}


def library_of(library, folder):
    made = folder / FILES.get(library, "libmpi.so")
    made.write_bytes(b"\x7fELF\0" + TEXTS[library].replace(" ", "\0").encode() + b"\0")
    return made


@pytest.mark.parametrize(
    ("mpi", "there", "missing"),
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
    assert {knob.library for knob in (*found, *lacking)} <= {mpi.rpartition(" ")[0]}


@pytest.mark.parametrize(
    ("processes", "room", "threads", "fit"), [(2, 8, 4, None), (2, 8, 5, "4"), (3, 8, 8, "2"), (4, 0, 2, "1")]
)
def test_fewer_threads_are_offered_where_they_exceed_the_processors(tmp_path, processes, room, threads, fit):
    both = [library_of(library, tmp_path) for library in FILES]
    found, _ = offered(dict.fromkeys(both, processes), room, threads)
    told = {key: value for knob in found for key, value in knob.variables.items()}
    assert told.get("OMP_NUM_THREADS") == told.get("OPENBLAS_NUM_THREADS") == fit
    assert ("OMP_DYNAMIC" in told) == (fit is not None)


def test_knobs_are_told_as_environment_as_words_of_the_launcher_and_on_the_page():
    knobs = {knob.name: knob for knob in KNOBS}
    assert len(knobs) == len(KNOBS)
    assert knobs["yield when idle"].line() == "export OMPI_MCA_mpi_yield_when_idle=1"
    assert knobs["yield when idle"].words() == "--mca mpi_yield_when_idle 1"
    assert knobs["heavy yield"].words() == "-genv MPIR_CVAR_ENABLE_HEAVY_YIELD 1"
    page = (ROOT / "docs" / "native.md").read_text()
    for knob in KNOBS:
        variables = " ".join(f"`{name}={value}`" for name, value in knob.variables.items())
        assert f"| {knob.name} | {knob.library} {knob.versions} | {variables} |\n" in page


class Host:
    """Takes no time: seconds alone by choice, and how many times longer several at a time take."""

    def __init__(self, **seconds):
        self.seconds, self.asked = seconds, []

    def __call__(self, choice, programs, limit_s):
        self.asked.append((WaitCell(choice.name, programs), limit_s))
        copies = len(programs)
        alone_s, factor = self.seconds[choice.name.replace(" ", "_").replace("-", "_")]
        wall_s = alone_s * (copies * factor if copies > 1 else 1) * (1 + 0.001 * len(self.asked))
        return Spent(None, None) if limit_s is not None and wall_s > limit_s else Spent(wall_s, 2 * wall_s)


ALONE = WaitCell(AS_IT_IS, (0,))
CHOICES = [WaitChoice(AS_IT_IS), WaitChoice(TWO_PHASE), WaitChoice("knob")]


def test_rounds_alternate_and_what_is_stopped_is_not_tried_again():
    host, watcher = Host(as_it_is=(1, 30), two_phase=(1.02, 1.1), knob=(1.3, 2)), Quiet()
    rounds = measure(CHOICES, (0, 0, 0), 3, 10.0, host, watcher)
    first, second = rounds[:2]
    assert [len(cell.programs) for cell in first] == [1, 1, 1, 3, 3, 3]
    assert list(second) == [cell for cell in reversed(first) if cell != WaitCell(AS_IT_IS, (0, 0, 0))]
    assert host.asked[0] == (ALONE, None)
    assert dict(host.asked)[WaitCell("knob", (0, 0, 0))] == pytest.approx(30, rel=0.02)
    done = watcher.steps[-1]
    assert done.done == done.total == len(host.asked) == 16
    assert watcher.steps[3].left_s > watcher.steps[-2].left_s > done.left_s == 0

    found = [wait_row(choice.name, (0, 0, 0), rounds) for choice in CHOICES]
    as_it_is, two_phase, knob = found
    assert as_it_is.stopped and as_it_is.together.median is None and as_it_is.alone.median == 1
    assert two_phase.together.median == pytest.approx(1.02 * 1.1, rel=0.02)
    assert knob.cpu_s == pytest.approx(2 * 3 * 2 * 1.3, rel=0.02)
    assert wait_verdict(found) == (TWO_PHASE, [])


def test_one_job_alone_is_measured_once_a_round():
    host = Host(as_it_is=(5, 1), two_phase=(0.5, 1), knob=(2, 1))
    rounds = measure(CHOICES, (0,), 3, 10.0, host, Quiet())
    assert [len(one) for one in rounds] == [3, 3, 3]
    found = [wait_row(choice.name, (0,), rounds) for choice in CHOICES]
    assert found[1].together == found[1].alone
    assert wait_verdict(found) == (TWO_PHASE, [])


def test_different_programs_are_measured_alone_and_all_at_a_time():
    seconds = {(AS_IT_IS, (0,)): 1, (AS_IT_IS, (1,)): 3, (AS_IT_IS, (0, 0, 1)): 10}
    seconds |= {("knob", (0,)): 2, ("knob", (1,)): 3, ("knob", (0, 0, 1)): 4}

    def run(choice, programs, limit_s):
        assert limit_s == (None if choice.name == AS_IT_IS and len(programs) == 1 else 10 * alone_s[programs])
        return Spent(seconds[choice.name, programs], 1.0)

    alone_s = {(0,): 1, (1,): 3, (0, 0, 1): 5}
    rounds = measure([CHOICES[0], CHOICES[2]], (0, 0, 1), 3, 10.0, run, Quiet())
    assert all(len(one) == 6 for one in rounds)
    as_it_is, knob = (wait_row(choice, (0, 0, 1), rounds) for choice in (AS_IT_IS, "knob"))
    assert (as_it_is.alone.median, as_it_is.together.median) == (1, 2)
    assert (knob.alone.median, knob.together.median) == (7 / 5, 4 / 5)


@pytest.mark.parametrize(
    ("other", "best"), [((1.30, 1.31, 1.32), "a"), ((1.05, 1.09, 1.20), None), ((1.30,), None)]
)
def test_a_choice_is_best_only_if_its_interval_is_apart(other, best):
    rounds = [
        {
            ALONE: Spent(1.0, 1.0),
            WaitCell("a", (0, 0)): Spent(2 * ratio, 1.0),
            **({WaitCell("b", (0, 0)): Spent(2 * other[number], 1.0)} if number < len(other) else {}),
        }
        for number, ratio in enumerate((1.00, 1.01, 1.08))
    ]
    decided = wait_verdict(wait_row(choice, (0, 0), rounds) for choice in "ba")
    assert decided == ("a", [] if best else ["b"])


RECORD = json.dumps(rank_result().recorded())


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """Runs ``lockstep tune`` on a made-up host; gives status, stdout, stderr."""
    mpi = library_of("Open MPI 4.1", tmp_path)
    made = Library(tmp_path / "front", (mpi,))
    monkeypatch.setattr(tune, "preload", lambda *ignored: (made, {"LD_PRELOAD": "front"}))
    monkeypatch.setattr(tune, "libraries_loaded", lambda argv: {Path("/lib/libc.so.6"): 3, mpi: 2})
    monkeypatch.setattr(tune, "lost_between", lambda before, after: 0.0)

    def command(host, *words, ranks=True):
        names = {(): AS_IT_IS, ("LD_PRELOAD",): TWO_PHASE, ("OMP_WAIT_POLICY",): "threads"}
        names["LD_PRELOAD", "OMP_WAIT_POLICY"] = "both"

        def made_up(copies, limit_s, look=None):
            argv, variables = copies[0]
            assert argv == ["mpiexec", "./app"] and copies == [copies[0]] * len(copies)
            listener = variables.get("LOCKSTEP_LISTENER")
            kind = tuple(name for name in variables if not name.startswith("LOCKSTEP_"))
            if listener and ranks:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
                    name, key = listener.split(",")
                    own.sendto(f"{key} {RECORD}".encode(), f"\0{name}")
            return host(WaitChoice(names.get(kind, "knob")), (0,) * len(copies), limit_s)

        monkeypatch.setattr(tune, "run_copies", made_up)
        status = cli.main(["tune", *words, "--", "mpiexec", "./app"])
        said = capsys.readouterr()
        return status, said.out, said.err

    return command


def test_the_table_names_the_best_choice_and_the_line_to_set(command):
    host = Host(as_it_is=(1, 30), two_phase=(1.02, 1.4), knob=(1.1, 1.2))
    status, out, _ = command(host, "--rounds", "3")
    assert status == 0
    assert "Best: yield when idle.\n" in out
    assert "export OMPI_MCA_mpi_yield_when_idle=1\n" in out and "--mca mpi_yield_when_idle 1" in out
    assert re.search(r"^ as it is +1\.00 .* > 10 ", out, re.MULTILINE)
    assert "no nanosleep when idle (Open MPI 5.0)" in out


def test_the_document_says_what_was_measured(command):
    host = Host(as_it_is=(1, 2), two_phase=(1.02, 1.01), knob=(1.1, 1.2))
    status, out, _ = command(host, "--json", "--rounds", "3", "--jobs", "2", "--only", "two-phase")
    document = json.loads(out)
    assert status == 0
    assert [row["choice"] for row in document["choices"]] == [AS_IT_IS, TWO_PHASE]
    assert document["best"] == document["fastest"] == TWO_PHASE
    assert document["choices"][1]["lines"] == ["lockstep exec -- mpiexec ./app"]
    assert document["choices"][1]["together"]["n"] == document["alone_s"]["n"] == 3


def test_nothing_is_best_if_others_took_the_processors(command, monkeypatch):
    host = Host(as_it_is=(1, 30), two_phase=(1.02, 1.4), knob=(1.1, 1.2))
    monkeypatch.setattr(tune, "lost_between", lambda before, after: 0.45)
    _, out, _ = command(host, "--rounds", "3")
    first, *rest = out.splitlines()
    assert first == "Not measurable now: other programs took up to 45% of the processors."
    assert rest[-1] == "No advice: repeat it when the other programs have ended."
    rows = [line.split() for line in rest if line.startswith((" two-phase", " yield when idle"))]
    assert len(rows) == 2 and all(row[-5:] == ["-"] * 5 for row in rows)
    document = json.loads(command(host, "--rounds", "3", "--json")[1])
    assert document["notice"] == first and document["best"] is None
    assert document["choices"][1]["together"]["n"] == 3  # the document keeps the numbers


HOST = Host(as_it_is=(1, 2), two_phase=(1, 1), knob=(1, 1.5))


def test_without_intervals_there_is_no_best(command):
    status, out, _ = command(HOST, "--rounds", "1")
    assert status == 0
    assert "No choice is best beyond noise. Fastest in the median: two-phase." in out
    assert "None has an interval. More --rounds may tell" in out


def test_choices_that_are_alike_may_all_be_faster_than_as_it_is(command):
    _, out, _ = command(Host(as_it_is=(1, 2), two_phase=(1, 1.2), knob=(1, 1.2)), "--rounds", "3")
    assert "Faster than as it is beyond noise. Fastest in the median: two-phase." in out
    assert "overlap with its own: yield when idle. " in out


@pytest.mark.parametrize(
    ("only", "status"), [((), 0), (("--only", "yield when idle"), 0), (("--only=two-phase",), 2)]
)
def test_without_a_compiler_the_settings_of_the_mpi_are_measured(command, monkeypatch, only, status):
    def no_compiler(*ignored):
        raise native.NativeError("no C compiler: install one")

    monkeypatch.setattr(tune, "preload", no_compiler)
    status, out, err = command(HOST, "--json", "--rounds", "1", *only)
    assert status == (2 if "two-phase" in str(only) else 0)
    assert ("install one" in err) == ("yield" not in str(only))
    if not only:
        assert [row["choice"] for row in json.loads(out)["choices"]] == [AS_IT_IS, "yield when idle"]
        assert "two-phase is left out: no C compiler: install one" in err


def test_a_command_of_another_mpi_or_of_none_is_refused(command, monkeypatch):
    status, _, err = command(HOST, ranks=False)
    assert status == 2 and "--mpicc" in err
    monkeypatch.setattr(tune, "libraries_loaded", lambda argv: {Path("/lib/libc.so.6"): 1})
    status, _, err = command(HOST)
    assert status == 2 and "loads no libmpi, OpenMP or OpenBLAS" in err


def test_the_best_settings_of_mpi_and_of_threads_are_measured_together(command, monkeypatch, tmp_path):
    mpi, openmp = (library_of(name, tmp_path) for name in ("Open MPI 4.1", "OpenMP GNU"))
    monkeypatch.setattr(tune, "libraries_loaded", lambda argv: {mpi: 2, openmp: 2})
    host = Host(as_it_is=(1, 3), two_phase=(1, 1.5), threads=(1, 2), both=(1, 1), knob=(1, 2.5))
    only = ["--only=two-phase", "--only=passive threads"]
    status, out, _ = command(host, "--json", "--rounds", "3", "--jobs", "2", *only)
    document = json.loads(out)
    assert status == 0 and document["best"] == "two-phase with passive threads"
    assert document["choices"][-1]["lines"] == [
        "export OMP_WAIT_POLICY=passive",
        "lockstep exec -- mpiexec ./app",
    ]
    assert document["choices"][-1]["environment"] == {"OMP_WAIT_POLICY": "passive", "LD_PRELOAD": "front"}

    host = Host(as_it_is=(1, 3), two_phase=(1, 3.5), threads=(1, 2), knob=(1, 2.5))
    _, out, _ = command(host, "--json", "--rounds", "3", "--jobs", "2", *only)
    assert json.loads(out)["best"] == "passive threads"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--rounds=0"], "--rounds"),
        (["--timeout-factor=0.5"], "--timeout-factor"),
        (["--only=speed"], "two-phase"),
        (["--leave=scann"], "Scan"),
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
    assert spent.wall_s > 0 and spent.cpu_s > 0
    for copy in ("0", "1"):
        told = (tmp_path / copy).read_text().splitlines()
        assert {"KNOB=1", "CP2K_DATA_DIR=/data"} <= set(told) and "PMI_RANK=7" not in told
    with pytest.raises(LaunchError, match=r"(?s)status 7.*for a reason"):
        fails = "echo for a reason >&2; test {copy} = 0 || exit 7; sleep 1000"
        run_copies([(["sh", "-c", fails], {})] * 2, None)
    assert run_copies([(["sleep", "1000"], {})] * 2, 0.01) == Spent(None, None)
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
    assert [row["choice"] for row in document["choices"][:2]] == [AS_IT_IS, TWO_PHASE]
    assert len(document["choices"]) > 2
    assert all(row["together"]["median"] > 0 or row["stopped"] for row in document["choices"])
    assert document["fastest"] in {row["choice"] for row in document["choices"]}


def test_threads_that_wait_in_vain_get_the_setting_of_their_library(compiled, monkeypatch):
    """Two ranks of two threads each, two at a time on two processors."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    program = ["mpiexec", "-n", "2", compiled("here", "hybrid.c", "-fopenmp"), "5", "20", "200"]
    words = [
        *("waits", "--anyway", "--json", "--rounds", "1", "--jobs", "2", "--only", "passive threads", "--"),
        *program,
    ]
    done = run(["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:2])), *LOCKSTEP, *words])
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    as_it_is, passive = document["choices"]
    assert passive["lines"] == ["export OMP_WAIT_POLICY=passive"]
    assert document["fastest"] == "passive threads", document
    assert as_it_is["stopped"] or passive["together"]["median"] < as_it_is["together"]["median"]
