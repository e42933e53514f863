"""``lockstep exec --stuck`` and ``--timeout``: hangs of real ranks, what is said of them, how they end."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest
from hangs import ENDED_BY_LAUNCHERS, LINES, RANKS, VERDICTS, hang
from native_programs import LOCKSTEP, launcher, two_phase, wrapper
from runs import eventually

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
    assert re.search(LINES.get(kind, "no progress for 5 s; the command is ended"), one.stderr)
    assert one.verdict in one.stderr


@pytest.mark.parametrize("kind", ["small-sends", *ENDED_BY_LAUNCHERS])
def test_what_ends_by_itself_is_not_reported(hangs, kind):
    assert hangs("here")[kind].judgement == "right"


def test_a_rank_that_works_is_not_stuck(compiled):
    """Each call that ends with something done is progress, for longer than the patience lasts."""
    program = compiled("here", "hangs.c", "-pthread")
    result = two_phase([*launcher("here"), "-n", "2", program, "works"], "--stuck", "4")
    assert (result.returncode, "no progress" in result.stderr) == (0, False)


@pytest.fixture
def hanging(compiled):
    """A function that starts a command with ranks that hang, and waits until they do."""
    started = []
    native.library(wrapper("here"))

    def start(*words, kind="skipped"):
        program = compiled("here", "hangs.c", "-pthread")
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


def said(process, text):
    """Read what a command says up to a line with this text."""
    lines = []
    while not lines or (lines[-1] and text not in lines[-1]):
        lines.append(process.stderr.readline())
    return "".join(lines)


def test_only_a_report_lets_the_ranks_wait_on(hanging):
    process = hanging("--stuck", "2:report")
    assert "no progress for 2 s:" in said(process, "wait for each other")
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


def test_a_time_limit_holds_without_ranks():
    result = two_phase(["sh", "-c", "setsid sleep 60 & sleep 60"], "--timeout", "1")
    assert result.returncode == 124
    assert "no rank of an MPI program has come" in result.stderr


def test_a_time_limit_within_another_exec_ends_its_own_command_only():
    inner = f"{shlex.join(LOCKSTEP)} exec --timeout 1 -- sh -c 'setsid sleep 64 & sleep 64'"
    result = two_phase(["sh", "-c", f"{inner}; echo $?; pgrep -fx 'sleep 64'"])
    assert result.stdout == "124\n"  # and no process


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
