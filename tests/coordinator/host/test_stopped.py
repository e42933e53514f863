"""What somebody else stops in a run is noticed and told."""

import os
import signal
import subprocess

import pytest
from runs import eventually, running, spawned, state

from coordinator.host.launch import ORPHANED_NS, Launchers, Stopped, parent
from coordinator.host.processes import children

pytestmark = pytest.mark.slow


def victim(run, what):
    """The pid of a part of a run, or of the launcher's process that is a rank's parent."""
    if what != "proxy":
        return run.part(what)
    rank = run.part("rank")
    return parent(rank) if rank else None


def test_a_part_that_is_stopped_from_outside_is_told():
    with running(policy="none", jobs=1, phases=20_000, timeout_s=200.0) as run:
        line = ""
        while "job 0 starts" not in line:
            line = run.driver.stderr.readline()
        for what, words in (
            ("rank", "of job 0 (process"),
            ("proxy", "the parent of rank"),
            ("mpiexec", "the launcher of job 0 (process"),
            ("guardian", "the guardian of"),
        ):
            pid = eventually(lambda what=what: victim(run, what))
            os.kill(pid, signal.SIGSTOP)
            while "has stopped" not in (line := run.driver.stderr.readline()):
                assert line, run.result()
            assert words in line and f"kill -CONT {pid}" in line
            os.kill(pid, signal.SIGCONT)
        assert run.result(200)["failure"] == ""


def test_a_launcher_whose_only_process_is_killed_at_once_fails_its_job():
    """MPICH's waits for ever for one that has not yet said hello."""
    with running(policy="none", jobs=1, timeout_s=100.0) as run:
        mpiexec = eventually(lambda: run.part("mpiexec"))
        os.kill(eventually(lambda: next(children(mpiexec), None)), signal.SIGKILL)
        failure = run.result()["failure"]
        assert failure and "timed out" not in failure
        assert run.remains() == []


def test_a_launcher_is_orphaned_once_it_has_had_no_living_child_for_a_while():
    script = "sleep 60 & read word; kill $!; read word"
    with subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE) as launcher:
        looking = Launchers(pytest.fail)
        assert eventually(lambda: list(children(launcher.pid)))
        assert looking.look(0, {0: launcher}) == looking.look(2 * ORPHANED_NS, {0: launcher}) == []
        launcher.stdin.write(b"go\n")
        launcher.stdin.flush()
        assert eventually(lambda: all(state(pid) == "Z" for pid in children(launcher.pid)))
        assert looking.look(4 * ORPHANED_NS, {0: launcher}) == []
        assert looking.look(5 * ORPHANED_NS, {0: launcher}) == [0]
        launcher.stdin.close()
        launcher.wait()
        assert looking.look(6 * ORPHANED_NS, {0: launcher}) == []


def test_it_is_told_once_for_each_time():
    looking = Stopped()
    with spawned("sleep", "60") as process:
        child = process.pid
        assert child in children(os.getpid()) and parent(child) == os.getpid()
        for _ in range(2):
            assert looking.look("it", child) == ""
            os.kill(child, signal.SIGSTOP)
            assert eventually(lambda: state(child) == "T")
            assert "it (process" in looking.look("it", child) and looking.look("it", child) == ""
            os.kill(child, signal.SIGCONT)
            assert eventually(lambda: state(child) != "T")
    assert looking.look("it", child) == "" and parent(child) == 0 and not list(children(child))
