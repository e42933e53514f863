"""The guardian: whatever becomes of those that it watches, it releases the run."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess

import pytest

from coordinator import cleanup, guardian
from coordinator.processes import find
from coordinator.rundir import RunDirectory


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """A run in a runtime directory of its own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))
    return RunDirectory.create()


@pytest.mark.slow
def test_a_guardian_whose_agent_has_gone_before_it_is_up_releases_the_run(directory: RunDirectory) -> None:
    rank = subprocess.Popen(["sleep", "60"], env={**os.environ, **directory.marks})
    rank.send_signal(signal.SIGSTOP)
    ours, its = socket.socketpair()
    ours.close()
    with its:
        subprocess.run(
            [*guardian.COMMAND, str(directory.path), str(its.fileno()), json.dumps([None, 0.0])],
            pass_fds=[its.fileno()],
            check=True,
            timeout=20,
        )
    assert rank.wait(5) == -signal.SIGTERM
    assert not directory.path.exists()


def test_without_its_guardian_nothing_begins(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    monkeypatch.setattr(guardian, "COMMAND", ("/bin/sh", "-c", "echo no luck >&2"))
    with pytest.raises(ChildProcessError, match="ended at once\nno luck"), guardian.guarded():
        pytest.fail("it has begun")
    assert list(runtime.iterdir()) == []


def test_a_guardian_that_does_not_come_up_is_given_up(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guardian, "COMMAND", ("/bin/sh", "-c", "sleep 60"))
    monkeypatch.setattr(guardian, "START_S", 0.1)
    with pytest.raises(TimeoutError):
        guardian.start(directory)
    assert cleanup.release(directory)[-1] == f"run {directory.run}: removed directory {directory}"
    assert find(directory.run) == []
