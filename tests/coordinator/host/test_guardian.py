"""The guardian: whatever becomes of those that it watches, it releases the run."""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from places import ROOT
from runs import HIDE, Run, eventually, everything_in, spawned, state

from coordinator.host import cleanup, guarded_program, guardian, processes
from coordinator.host.directories import DirectoryGuardian
from coordinator.host.environment import forwarded
from coordinator.host.launcher_choice import find_launcher
from coordinator.host.mechanisms import Freezer, cgroups_of_runs
from coordinator.host.processes import find
from workloads.validation import LockstepError

HIDING = HIDE + "import signal; print(flush=True); signal.pause()"


@pytest.mark.slow
def test_a_guardian_whose_agent_has_gone_before_it_is_up_releases_the_run(directory):
    ours, its = socket.socketpair()
    ours.close()
    with spawned("sleep", "60", marks=directory.marks) as rank, its:
        rank.send_signal(signal.SIGSTOP)
        subprocess.run(
            [*guardian.COMMAND, str(directory.path), str(its.fileno()), json.dumps(None)],
            env=forwarded({}),
            pass_fds=[its.fileno()],
            check=True,
            timeout=20,
        )
        assert rank.wait(5) == -signal.SIGTERM
    assert not directory.path.exists()


def test_without_its_guardian_nothing_begins(runtime, monkeypatch):
    monkeypatch.setattr(guardian, "COMMAND", ("/bin/sh", "-c", "echo no luck >&2"))
    with pytest.raises(LockstepError, match="ended at its start\nno luck"), guardian.guarded():
        pytest.fail("it has begun")
    assert list(runtime.iterdir()) == []


def test_a_guardian_that_does_not_come_up_is_given_up(directory, monkeypatch):
    monkeypatch.setattr(guardian, "COMMAND", ("/bin/sh", "-c", "sleep 60"))
    monkeypatch.setattr(guardian, "START_S", 0.1)
    with pytest.raises(TimeoutError):
        guardian.start(directory)
    assert cleanup.release(directory)[-1] == f"run {directory.run}: removed directory {directory}"
    assert find(directory.run) == []


@pytest.mark.slow
def test_a_guardian_releases_a_run_whose_directory_has_vanished(directory):
    """What was started and what was made it knows from the journal, which it has open."""
    process, hold = guardian.start(directory)
    segment = Path(f"/dev/shm/mpich_shm_lockstep_test_{directory.run}")
    with spawned(sys.executable, "-S", "-c", HIDING, stdout=subprocess.PIPE) as rank, ExitStack() as stack:
        segment.touch()
        stack.callback(segment.unlink, missing_ok=True)
        directory.note_process(rank.pid)
        assert rank.stdout.readline()
        rank.send_signal(signal.SIGSTOP)
        group = None
        if not Freezer.unavailable():
            Freezer(directory)
            (group,) = [one for one in cgroups_of_runs() if one.name == f"lockstep-{directory.run}"]
        shutil.rmtree(directory.path)
        hold.close()
        assert process.wait(20) == 0
        assert rank.wait(5) == -signal.SIGTERM
        assert not segment.exists()
        assert group is None or not group.exists()


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount")
def test_a_run_on_a_full_file_system_is_released(runtime, monkeypatch):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=64", "tmpfs", runtime], check=True)
    try:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
        with guardian.guarded() as directory:
            fill(directory.temporary)
            with pytest.raises(OSError, match="No space left"):
                directory.note(text="x" * 10_000)
            rank = subprocess.Popen(["sleep", "60"], env={**os.environ, **directory.marks})
            directory.note_process(rank.pid)
            rank.send_signal(signal.SIGSTOP)
        assert rank.wait(5) == -signal.SIGTERM
        assert list(runtime.iterdir()) == []
    finally:
        subprocess.run(["umount", runtime], check=True)


def fill(place):
    """Leave no room for a byte more, nor for another file."""
    with suppress(OSError), (place / "bytes").open("wb", 0) as file:
        while True:
            file.write(bytes(4096))
    with suppress(OSError):
        for number in range(1000):
            (place / str(number)).touch()


RANK = 'exec 3> "$1" && echo $PPID $$ && exec sleep 60'
"""Has a segment of shared memory, as ranks do."""


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["launcher", "guarded program", "program"])
def test_whatever_is_killed_of_a_guarded_program_nothing_remains(victim, runtime):
    segment = Path(f"/dev/shm/mpich_shm_guarded_{os.getpid()}")
    argv = ["sh", "-c", '"$@"; exit', "sh", *guarded_program.COMMAND, "sh", "-c", RANK, "sh", str(segment)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    ) as launcher:
        guarded, program = map(int, launcher.stdout.readline().split())
        pids = {"launcher": launcher.pid, "guarded program": guarded, "program": program}
        os.kill(pids[victim], signal.SIGKILL)
        assert eventually(lambda: not (everything_in(runtime) or segment.exists()))
        assert eventually(lambda: all(state(pid) in ("", "Z") for pid in (guarded, program)))


@pytest.mark.slow
def test_a_guarded_program_has_our_descriptors_and_we_its_status(runtime):
    with tempfile.TemporaryFile(buffering=0) as file:
        os.set_inheritable(file.fileno(), True)
        script = 'echo "$LOCKSTEP_DIRECTORY" > /proc/self/fd/$0; exit 3'
        assert guarded_program.run(["sh", "-c", script, str(file.fileno())]) == 3
        file.seek(0)
        assert file.read().startswith(os.fsencode(runtime))
    ending = subprocess.run([*guarded_program.COMMAND, "sh", "-c", "kill -9 $$"], check=False)
    assert ending.returncode == -signal.SIGKILL
    assert list(runtime.iterdir()) == []


RANKS = """
import contextlib, os, sys
from coordinator.host import guarded_program, guardian

@contextlib.contextmanager
def guarded():
    raise ChildProcessError("the guardian ended at its start")
    yield

if "1" in (os.environ.get("PMI_RANK"), os.environ.get("OMPI_COMM_WORLD_RANK")):
    guardian.guarded = guarded
sys.exit(guarded_program.main())
"""


@pytest.mark.slow
def test_a_rank_whose_guardian_is_killed_at_its_start_ends_the_other_ranks():
    """They are in MPI_Init, where they would wait for it for ever."""
    program = [sys.executable, "-P", "-m", "mpi4py", "-c", "from mpi4py import MPI"]
    launcher = find_launcher()
    argv = launcher.argv(2, [sys.executable, "-P", "-c", RANKS, *program])
    environment = launcher.environment({})
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode != 0
    assert "the guardian ended at its start" in result.stderr and "Traceback" not in result.stderr


@pytest.fixture
def made(tmp_path):
    """The directory of a run whose maker a directory guardian watches."""
    path = tmp_path / "home" / "run"
    path.mkdir(parents=True)
    (path / "journal").write_text("{}\n")
    return path


MAKER = """
import pathlib, sys
from coordinator.host.directories import DirectoryGuardian
guardian = DirectoryGuardian(pathlib.Path(sys.argv[1]))
print(flush=True)
input()
"""


@contextmanager
def maker_of(path):
    """A process that has a guardian for a directory; it is killed, and the guardian ends."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "cwd": ROOT}
    with spawned(sys.executable, "-c", MAKER, path, **pipes) as maker:
        maker.stdout.readline()
        (shell,) = processes.children(maker.pid)
        yield
    assert eventually(lambda: state(shell) in ("", "Z"))


def test_directory_of_a_killed_maker_goes_and_its_parent_with_it(made):
    with maker_of(made):
        assert made.exists()
    assert not made.parent.exists()


def test_a_dismissed_guardian_removes_nothing(made):
    DirectoryGuardian(made).dismiss()
    assert (made / "journal").exists()


def test_nothing_appears_where_the_parent_has_been_removed_meanwhile(made):
    with maker_of(made):
        (made / "journal").unlink()
        made.rmdir()
        made.parent.rmdir()
    assert not made.parent.exists()


def test_a_parent_that_another_run_has_locked_stays(made):
    lock = os.open(made.parent, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with maker_of(made):
        pass
    os.close(lock)
    assert made.parent.exists() and not made.exists()


GUARDED = """
import os, subprocess, time
from coordinator.host import guardian
with guardian.guarded() as directory:
    program = subprocess.Popen(["sleep", "300"], env={**os.environ, **directory.marks})
    directory.note_process(program.pid)
    print(program.pid, flush=True)
    time.sleep(300)
"""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_nothing_stays_of_a_killed_maker_whose_guardian_was_killed_or_stopped(tmp_path, signum):
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-c", GUARDED]
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as maker:
        program = int(maker.stdout.readline())
        (guardian,) = (
            pid
            for pid in processes.children(maker.pid)
            if b"coordinator.host.guardian" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        )
        os.kill(guardian, signum)
        maker.kill()
    assert eventually(lambda: not any(tmp_path.iterdir()), 20)
    assert eventually(lambda: {state(pid) for pid in (program, guardian)} <= {"", "Z"}, 20)


@pytest.mark.slow
@pytest.mark.parametrize("role", ["coordinator.node.agent", "coordinator.host.guardian"])
def test_nothing_stays_of_a_run_whose_driver_and_another_part_are_killed_at_once(tmp_path, role):
    """The agent as soon as it is there: it may not have started its guardian yet."""
    run = Run(str(tmp_path), phases=100_000)

    def parts():
        for pid, variables in processes.marked().items():
            if variables.get(processes.DIRECTORY, "").startswith(str(tmp_path)):
                with suppress(OSError):
                    yield pid, Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")

    part = eventually(lambda: next((pid for pid, words in parts() if role.encode() in words), 0), 30)
    for pid in (part, run.driver.pid):
        os.kill(pid, signal.SIGKILL)
    run.driver.communicate()
    assert eventually(lambda: not any(tmp_path.iterdir()) and not list(parts()), 20)
