"""What somebody else stops in a run is noticed and told."""

from __future__ import annotations

import os
import signal
import time

import pytest
from runs import Run, eventually, running, state

from coordinator.host.stopped import Stopped, children, parent

pytestmark = pytest.mark.slow


def victim(run: Run, what: str) -> int | None:
    """The pid of a part of a run, or of the launcher's process that is a rank's parent."""
    if what != "proxy":
        return run.part(what)
    rank = run.part("rank")
    return parent(rank) if rank else None


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("rank", "of job 0 (process"),
        ("proxy", "the parent of rank"),
        ("mpiexec", "the launcher of job 0 (process"),
        ("guardian", "the guardian of"),
    ],
)
def test_a_part_that_is_stopped_from_outside_is_told(what: str, told: str) -> None:
    with running(policy="none", jobs=1, phases=10_000) as run:
        assert run.driver.stderr is not None
        line = ""
        while "job 0 starts" not in line:
            line = run.driver.stderr.readline()
        pid = eventually(lambda: victim(run, what))
        os.kill(pid, signal.SIGSTOP)
        while "has been stopped" not in line:
            line = run.driver.stderr.readline()
            assert line, run.result()
        assert told in line and f"kill -CONT {pid}" in line
        os.kill(pid, signal.SIGCONT)
        assert run.result()["failure"] == ""


def test_it_is_told_once_for_each_time() -> None:
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    looking = Stopped()
    try:
        assert child in children(os.getpid()) and parent(child) == os.getpid()
        for _ in range(2):
            assert looking.look("it", child) == ""
            os.kill(child, signal.SIGSTOP)
            assert eventually(lambda: state(child) == "T")
            assert "it (process" in looking.look("it", child) and looking.look("it", child) == ""
            os.kill(child, signal.SIGCONT)
            assert eventually(lambda: state(child) != "T")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert looking.look("it", child) == "" and parent(child) == 0 and not children(child)
