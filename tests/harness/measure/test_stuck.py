"""``lockstep exec --stuck`` and ``--timeout``: hangs of real ranks, what is said of them, how they end."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import psutil
import pytest
from hangs import ENDED_BY_LAUNCHERS, LINES, RANKS, VERDICTS, hang
from native_programs import LOCKSTEP, PROGRAMS, hasty_wrapper, launcher, two_phase, wrapper
from places import SUPPORT
from runs import eventually, text

from workloads import native

pytestmark = pytest.mark.slow

TOGETHER = 6  # hangs at a time: their ranks sleep


KINDS = {
    "here": [*VERDICTS, "small-sends"],
    "openmpi": ["large-sends", "tag", "read", "half", "fence", "spawn"],  # hangs.py of the benchmarks: all
}
LASTING = set(VERDICTS) - set(ENDED_BY_LAUNCHERS)
CASES = [(mpi, kind) for mpi, kinds in KINDS.items() for kind in kinds if kind in LASTING]


@pytest.fixture(scope="module")
def hangs(compiled, tmp_path_factory):
    """A function that gives the reports on hangs with the ranks of an MPI, by their kinds."""

    @cache
    def of(mpi):
        program = compiled(mpi, "hangs.c", "-pthread")
        folder = tmp_path_factory.mktemp("hangs")
        native.library(wrapper(mpi))  # once, before several commands need it
        with ThreadPoolExecutor(TOGETHER) as pool:
            command = [*launcher(mpi), "-n", str(RANKS), program]
            started = {kind: pool.submit(hang, kind, command, folder) for kind in KINDS[mpi]}
            return {kind: future.result() for kind, future in started.items()}

    return of


@pytest.mark.parametrize(("mpi", "kind"), CASES)
def test_a_hang_is_reported_with_the_right_verdict_and_ended(hangs, mpi, kind):
    one = hangs(mpi)[kind]
    assert one.status == 124
    assert one.judgement == "right", one.stderr
    assert re.search(LINES.get(kind, r"no progress for \d+ s; the command is ended"), one.stderr)
    assert one.verdict in one.stderr


@pytest.mark.parametrize("kind", ["small-sends", *ENDED_BY_LAUNCHERS])
def test_what_ends_by_itself_is_not_reported(hangs, kind):
    assert hangs("here")[kind].judgement == "right"


@pytest.fixture
def hanging(compiled):
    """A function that starts a command with ranks that hang, and waits until they do."""
    started = []
    native.library(wrapper("here"))

    def start(*words, kind="skipped"):
        program = compiled("here", "hangs.c", "-pthread", "-g")
        command = [*LOCKSTEP, "exec", *words, "--", *launcher("here"), "-n", str(RANKS), program, kind]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "begun\n"
        assert eventually(lambda: len(ranks(process)) == RANKS)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
        process.communicate()


def ranks(process):
    """Those that still are what they were started as; launchers begin with other programs."""
    members = []
    for one in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            members += [one] if one.name().startswith("hangs") else []
    return members


def tool(name):
    """The place of a tool that may be used here."""
    place = shutil.which(name, path=f"{os.environ['PATH']}:{Path(sys.executable).parent}")
    if place is None:
        pytest.skip(f"no {name}")
    probe = "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0) and 1)"
    with subprocess.Popen(["sleep", "100"]) as other:
        status = subprocess.run([sys.executable, "-S", "-c", probe, str(other.pid)], check=False).returncode
        other.kill()
    if status:
        pytest.skip("ptrace is forbidden")
    return place


@pytest.fixture
def false_tools(tmp_path, monkeypatch):
    """A function that puts tools on the PATH, which are a script of shell."""

    def make(script):
        for name in ("eu-stack", "gdb", "py-spy"):
            (tmp_path / "bin").mkdir(exist_ok=True)
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / "bin" / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    return make


def line_of(text):
    """The number of a line of ``hangs.c``."""
    lines = (PROGRAMS / "hangs.c").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def said(process, text):
    """Read what a command says up to a line with this text."""
    lines = []
    while not lines or (lines[-1] and text not in lines[-1]):
        lines.append(process.stderr.readline())
    return "".join(lines)


def test_only_a_report_lets_the_ranks_wait_on(hanging):
    process = hanging("--stuck", "1:report")
    assert "no progress for 1 s:" in said(process, "wait for each other")
    assert len(ranks(process)) == RANKS
    process.terminate()
    _, rest = process.communicate(timeout=60)
    assert "no progress" not in rest  # once for a state


def test_a_signal_asks_where_the_ranks_are(hanging):
    process = hanging()
    members = ranks(process)
    assert eventually(lambda: all(one.status() == psutil.STATUS_SLEEPING for one in members))
    time.sleep(1)  # looks that saw them move have passed
    process.send_signal(signal.SIGUSR1)
    report = said(process, "wait for each other")
    assert "where the ranks are:" in report
    assert "ranks 0-2: in MPI_Allreduce" in report
    assert all(one.is_running() for one in members)


def test_a_report_says_where_in_their_program_ranks_are(hanging):
    tool("eu-stack")
    process = hanging("--stuck", "1:report", kind="grid")
    report = said(process, "wait for each other")
    assert f"\n    rank 0: at hangs.c:{line_of('MPI_SUM, grid)')} in main\n" in report
    assert f"\n    rank 3: at hangs.c:{line_of('7, grid')} in main\n" in report
    assert report.count("at hangs.c") == 2


def test_each_thread_that_waits_in_mpi_is_shown(hanging):
    tool("eu-stack")
    report = said(hanging("--stuck", "1:report", kind="threads"), "    rank 3: ")
    main, other = line_of("MPI_Recv(large, 8, MPI_BYTE, 1, 9"), line_of("MPI_Recv(&byte, 1, MPI_BYTE, 0, 8")
    places = {f"at hangs.c:{main} in main", f"at hangs.c:{other} in receive"}
    (line,) = (line for line in report.splitlines() if line.startswith("    rank 3: "))
    assert {*line.removeprefix("    rank 3: ").split("; ")} == places


def test_a_stopped_rank_is_shown_and_stays_stopped(hanging):
    tool("eu-stack")
    process = hanging("--stuck", "1:report", kind="stopped")
    report = said(process, "rank 3 is missing")
    assert re.search(f"rank 3: at hangs.c:{line_of('raise(SIGSTOP)')} in main", report)
    assert [one.status() for one in ranks(process)].count(psutil.STATUS_STOPPED) == 1


PYTHON = """
import numpy
from mpi4py import MPI

world, total = MPI.COMM_WORLD, numpy.zeros(1)

def exchange():
    if world.rank == 1:
        world.Recv(total, source=0, tag=7)
    world.Allreduce(numpy.ones(1), total)

exchange()
"""


def test_ranks_of_python_are_shown_with_their_lines(tmp_path):
    tool("py-spy")
    (tmp_path / "exchange.py").write_text(PYTHON)
    command = [*launcher("here"), "-n", "2", sys.executable, tmp_path / "exchange.py"]
    result = two_phase(command, "--stuck", "3", "--stuck-report", str(tmp_path / "stuck.json"))
    assert result.returncode == 124
    assert "    rank 0: at exchange.py:10 in exchange, called at exchange.py:12\n" in result.stderr
    (report,) = json.loads((tmp_path / "stuck.json").read_text())["reports"]
    ((inner, outer),) = report["ranks"][1]["stacks"]
    assert inner == {"function": "exchange", "file": str(tmp_path / "exchange.py"), "line": 9}
    assert (outer["function"], outer["line"], report["stack_failure"]) == (None, 12, None)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("sleep 1000", "eu-stack: did not end within 5 s"),
        (f"exec {sys.executable} -S {SUPPORT / 'attach.py'} $2", "eu-stack: did not end within 5 s"),
        ("echo nothing >&2; exit 1", "eu-stack: nothing"),
    ],
)
def test_a_tool_that_hangs_or_fails_costs_its_time_and_no_report(hanging, false_tools, script, reason):
    false_tools(script)
    process = hanging("--stuck", "1:report")
    report = said(process, "wait for each other")
    assert "ranks 0-2: in MPI_Allreduce" in report
    assert report.count(f"where in their program ranks are is not shown: {reason}") == 1
    members = ranks(process)
    assert len(members) == RANKS
    time.sleep(0.5)
    assert psutil.STATUS_STOPPED not in [one.status() for one in members]


def test_a_rank_that_works_is_not_stuck_and_no_tool_is_started(false_tools, compiled, tmp_path):
    """Each call that ends with something done is progress, for longer than the patience lasts."""
    false_tools(f"touch {tmp_path}/started")
    program = compiled("here", "hangs.c", "-pthread")
    result = two_phase([*launcher("here"), "-n", "2", program, "works"], "--stuck", "4")
    assert (result.returncode, "no progress" in result.stderr) == (0, False)
    assert not (tmp_path / "started").exists()


def test_a_tool_ends_with_exec(hanging, false_tools):
    false_tools("exec sleep 4711")
    process = hanging("--stuck", "1:report", kind="read")
    assert eventually(lambda: sleepers("4711"))
    process.kill()
    assert eventually(lambda: not sleepers("4711"))


def sleepers(seconds):
    """The processes that sleep for so long."""
    return [pid for pid in psutil.pids() if text(f"/proc/{pid}/cmdline") == f"sleep\0{seconds}\0"]


def case_of(file):
    """The only test of a JUnit file: its failure or error, and what the suite counts."""
    suite = ElementTree.parse(file).getroot()
    (case,) = suite
    assert (suite.get("tests"), suite.get("name")) == ("1", case.get("classname"))
    return case, (suite.get("failures"), suite.get("errors"))


def test_a_stuck_job_is_a_failed_test(compiled, tmp_path):
    file = tmp_path / "stuck.xml"
    program = compiled("here", "hangs.c", "-pthread")
    command = [*launcher("here"), "-n", str(RANKS), program, "skipped"]
    assert two_phase(command, "--stuck", "2", "--junit", str(file)).returncode == 124
    case, counts = case_of(file)
    assert counts == ("1", "0")
    assert case.get("name") == shlex.join(command)
    assert float(case.get("time")) > 2
    (failure,) = case
    assert failure.get("message").startswith("ranks 0, 3 wait for each other")
    assert "ranks 0-2: in MPI_Allreduce" in failure.text
    assert "the command has ended with status 124" in failure.text


def test_a_report_that_ends_nothing_is_output_of_a_test_that_has_passed(compiled, tmp_path):
    """The test fails if, and only if, the command does."""
    file = tmp_path / "stuck.xml"
    program = compiled("here", "hangs.c", "-pthread")
    hangs = shlex.join(map(str, [*launcher("here"), "-n", str(RANKS), program, "skipped"]))
    script = f"{hangs} & sleep 6; kill $!; wait; exit 0"
    said = two_phase(["sh", "-c", script], "--stuck", "1:report", "--junit", str(file))
    assert said.returncode == 0 and "no progress for 1 s:" in said.stderr
    case, counts = case_of(file)
    assert counts == ("0", "0")
    assert [one.tag for one in case] == ["system-err"]
    assert "ranks 0, 3 wait for each other" in case[0].text


@pytest.mark.parametrize(
    ("script", "options", "kind", "message"),
    [
        ("exit 0", [], None, None),
        ("exit 3", [], "error", "the command has ended with status 3"),
        ("kill -KILL $$", [], "error", "the command has ended with status 137"),
        (
            "sleep 60",
            ["--timeout", "1"],
            "failure",
            "the command has not ended within 1 s, and is ended",
        ),
    ],
)
def test_a_command_is_a_test_by_its_end(tmp_path, script, options, kind, message):
    file = tmp_path / "a.xml"
    two_phase(["sh", "-c", f"cat {file}; {script}"], *options, "--junit", str(file))
    case, counts = case_of(file)
    assert counts == (str(int(kind == "failure")), str(int(kind == "error")))
    assert [one.tag for one in case] == [kind] * bool(kind)
    assert not message or case[0].get("message").startswith(message)
    assert os.listdir(tmp_path) == ["a.xml"]  # noqa: PTH208


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_a_signal_ends_is_a_test_too(tmp_path, signum):
    file = tmp_path / "a.xml"
    command = [*LOCKSTEP, "exec", "--junit", file, "--", "sh", "-c", f"cat {file}; exec sleep 4712"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        begun = eventually(lambda: sleepers("4712"))
        process.send_signal(signum)
        printed = process.communicate()[0]
    assert begun
    assert 'error message="the command has not ended"' in printed  # as long as it has not
    case, counts = case_of(file)
    assert counts == ("0", "1")
    assert case[0].get("message") == f"the command has ended with status {128 + signum}"


def test_a_time_limit_ends_everything_in_whatever_session(hanging):
    process = hanging("--timeout", "8", kind="read")
    members = ranks(process)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 124
    assert "the command has not ended within 8 s, and is ended:" in text
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in members)


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_ranks_of_another_user_are_watched_and_ended(compiled):
    with TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        program = shutil.copy(compiled("openmpi", "hangs.c", "-pthread"), name)
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        ranks_of_user = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-n", "3", program, "tag"]
        mpicc = str(wrapper("openmpi"))
        places = ["env", "-C", name, f"HOME={name}", f"TMPDIR={name}"]
        result = two_phase([*user, *places, *ranks_of_user], "--stuck", "4", "--mpicc", mpicc)
    assert result.returncode == 124
    assert "ranks 0-1 wait for each other" in result.stderr


def test_ranks_in_namespaces_of_processes_and_networks_are_watched(compiled):
    own = ["unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("makes no namespaces here")
    words = [*launcher("here"), "-n", "3", compiled("here", "hangs.c", "-pthread"), "read"]
    result = two_phase([*own, "sh", "-c", 'ip link set lo up; exec "$@"', "sh", *words], "--stuck", "3")
    assert result.returncode == 124
    assert re.search(r"rank 2: not in MPI .* asleep in read", result.stderr)
    assert "rank 2 is missing: ranks 0-1 wait for it" in result.stderr


def test_many_ranks_on_few_processors_are_watched_and_ended(compiled):
    words = [*launcher("here"), "-n", "64", compiled("here", "hangs.c", "-pthread"), "skipped"]
    for seconds in ("8", "16", "32", "64"):  # on a busy host some ranks do not come to their calls for long
        result = two_phase(words, "--stuck", seconds)
        if "ranks 0-62:" in result.stderr:
            break
    assert result.returncode == 124
    assert "ranks 0-62: in MPI_Allreduce on a communicator of 64" in result.stderr
    assert "ranks 0, 63 wait for each other" in result.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_ranks_that_a_script_starts_as_another_user_are_watched(compiled, monkeypatch):
    """Their library is where they can read it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        monkeypatch.setenv("XDG_CACHE_HOME", name)
        monkeypatch.setenv("HOME", name)
        mpicc = hasty_wrapper(folder, mpi="openmpi")
        made = native.library(mpicc)
        cache = (folder, made.preload.parent.parent, made.preload.parent)
        program = shutil.copy(compiled("openmpi", "hangs.c", "-pthread"), name)
        ranks_of_user = f"mpirun.openmpi --oversubscribe --bind-to none -n 3 {program} tag"
        user = "setpriv --reuid 65534 --regid 65534 --clear-groups"
        places = f"env -C {name} HOME={name} TMPDIR={name}"
        opened = shlex.join(["chmod", "755", *map(str, cache)])  # a command of ours closes its cache again
        script = f"{opened}; chmod 1777 {name}; {user} {places} {ranks_of_user}"
        result = two_phase(["sh", "-c", script], "--stuck", "4", "--mpicc", str(mpicc))
    assert result.returncode == 124
    assert "ranks 0-1 wait for each other" in result.stderr


def elsewhere(hosts, compiled, kind, *options):
    """A job of four ranks on two hosts that hangs: started on a third."""
    places = ["mpiexec", "-hosts", ",".join(hosts.hosts), "-ppn", "2", "-n", str(RANKS)]
    command = [*places, compiled("here", "hangs.c", "-pthread"), kind]
    return hosts.start([*LOCKSTEP, "exec", *options, "--", *command])


@pytest.mark.parametrize(
    ("kind", "line"),
    [("read", r"rank 3: not in MPI .* asleep in read\(\d+\)"), ("stopped", r"rank 3: stopped for \d+ s")],
)
def test_ranks_on_other_hosts_are_asked_and_their_job_is_ended(hosts, compiled, kind, line):
    _, said = elsewhere(hosts, compiled, kind, "--stuck", "5").communicate(timeout=120)
    assert "hosts: ranks 0-1 on node1; ranks 2-3 on node2\n" in said
    assert re.search(VERDICTS[kind], said) and re.search(line, said)
    assert "no progress for 5 s; the command is ended:" in said
    assert eventually(lambda: hosts.as_new)


def test_a_host_that_does_not_answer_is_named_and_ends_nothing(hosts, compiled):
    process = elsewhere(hosts, compiled, "read", "--stuck", "6", "--timeout", "24")
    assert process.stdout.readline() == "begun\n"
    time.sleep(2)  # all have answered once
    hosts.nodes[1].plug(on=False)
    _, said = process.communicate(timeout=120)
    hosts.nodes[1].plug(on=True)
    assert "no progress for 6 s:" in said
    assert "host node2 does not answer: ranks 0-1 wait for " in said
    assert "the command has not ended within 24 s" in said


def test_a_time_limit_holds_without_ranks():
    result = two_phase(["sh", "-c", "setsid sleep 60 & sleep 60"], "--timeout", "1")
    assert result.returncode == 124
    assert "no rank of an MPI program has come" in result.stderr


def test_a_time_limit_within_another_exec_ends_its_own_command_only():
    inner = f"{shlex.join(LOCKSTEP)} exec --timeout 1 -- sh -c 'setsid sleep 64 & sleep 64'"
    result = two_phase(["sh", "-c", f"{inner}; echo $?; pgrep -fx 'sleep 64'"])
    assert result.stdout == "124\n"  # and no process


def test_a_file_of_tests_that_cannot_be_written_is_refused_before_the_command():
    result = two_phase(["echo", "begun"], "--junit", "/nowhere/a.xml")
    assert (result.returncode, result.stdout) == (2, "")
    rule = "cannot be written: no such file or directory; name another file"
    assert result.stderr == f"lockstep: --junit = '/nowhere/a.xml': {rule}\n"


def test_tests_may_be_written_to_a_pipe_and_to_standard_output(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        assert two_phase(["true"], "--junit", str(tmp_path / "pipe")).returncode == 0
        assert reader.communicate()[0].count("<testcase") == 1
    with (tmp_path / "out").open("w") as out:
        command = [*LOCKSTEP, "exec", "--junit", "/dev/stdout", "--", "echo", "begun"]
        subprocess.run(command, stdout=out, check=True)
    assert re.fullmatch("begun\n<.xml.*<testcase .*</testsuite>\n", (tmp_path / "out").read_text(), re.S)


@pytest.mark.parametrize("value", ["0", "-1", "x", "60:go", "inf", "nan"])
def test_a_time_that_cannot_be_is_refused(value):
    result = subprocess.run(
        [*LOCKSTEP, "exec", f"--stuck={value}", "--", "true"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert re.search(r"--stuck = .*must be a number of seconds above 0.*write 60", result.stderr)


def test_a_program_that_handles_the_signal_gets_it_too(compiled):
    """As programs do that write a checkpoint for it."""
    script = 'trap "echo got" USR1; kill -USR1 $PPID; for i in 1 2 3 4; do sleep 0.5; done'
    result = two_phase(["sh", "-c", script])
    assert (result.returncode, result.stdout) == (0, "got\n")
    assert "no rank of an MPI program has come" in result.stderr


def test_programs_of_one_rank_are_jobs_of_their_own(compiled):
    one = f"{compiled('here', 'hangs.c', '-pthread')} works &"
    result = two_phase(["sh", "-c", f"{one} {one} sleep 3; kill -USR1 $PPID; wait"])
    assert (result.returncode, result.stderr.count("where the ranks are:")) == (0, 2)


def test_doctor_says_where_the_ranks_of_a_running_job_are(hanging):
    process = hanging(kind="read")
    member = ranks(process)[0]
    command = [*LOCKSTEP, "doctor", "--json", "--pid", str(member.pid)]
    document = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    (job,) = document["ranks"]
    assert job["verdict"].startswith("rank 3 is missing: ranks 0-2 wait for it in MPI_Barrier")
    assert len(job["ranks"]) == RANKS
    assert [one["stacks"] and one["stacks"][0][-1]["function"] for one in job["ranks"]] in (
        ["main", None, None, "main"],
        [None] * RANKS,  # without tools
    )
