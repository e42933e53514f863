"""`lockstep clean`: finds what is left when every part was killed at once, and only that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from runs import eventually, running, state, usable

from coordinator import cleanup
from coordinator.rundir import RunDirectory


@pytest.fixture
def runtime(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime directory of our own."""
    path = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path


def sleeper(directory: RunDirectory) -> subprocess.Popen[bytes]:
    """A process that carries the mark of a run."""
    return subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"], env={**os.environ, **directory.marks}
    )


def test_nothing_to_do_is_nothing_to_tell(runtime: Path) -> None:
    assert [line for line in cleanup.clean() if str(runtime) in line] == []
    assert list(runtime.iterdir()) == []


def test_a_run_whose_driver_is_alive_is_left_alone_unless_everything_is_to_go(runtime: Path) -> None:
    directory = RunDirectory.create()
    process = sleeper(directory)
    said = cleanup.clean()
    assert not any(directory.run in line for line in said)
    assert process.poll() is None
    # Everything of this run: other runs on this machine may be somebody's.
    said = cleanup.release(directory)
    assert process.wait(5) == -signal.SIGTERM
    assert not directory.path.exists()
    assert f"run {directory.run}: ended 1 process" in said


def test_a_stopped_process_without_a_driver_is_ended_and_told(runtime: Path) -> None:
    directory = RunDirectory.create()
    process = sleeper(directory)
    process.send_signal(signal.SIGSTOP)
    eventually(lambda: state(process.pid) == "T")
    directory.unlock()
    said = cleanup.clean()
    assert process.wait(5) == -signal.SIGTERM
    assert f"run {directory.run}: ended 1 process" in said
    assert f"run {directory.run}: removed directory {directory.path}" in said
    assert list(runtime.iterdir()) == []


def test_segments_in_use_and_those_of_others_stay() -> None:
    ours = Path("/dev/shm/mpich_shm_lockstep_test_0")
    other = Path("/dev/shm/lockstep_test_other")
    try:
        ours.touch()
        other.touch()
        since_s = ours.stat().st_ctime
        with ours.open():
            assert ours not in cleanup.remove_segments(since_s)
        assert ours not in cleanup.remove_segments(since_s + 10)
        assert ours in cleanup.remove_segments(since_s)
        assert other.exists()
    finally:
        ours.unlink(missing_ok=True)
        other.unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["signals", "freezer"])
def test_clean_ends_a_run_whose_every_guard_was_killed(
    mechanism: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usable(mechanism)
    with running(policy="gang", mechanism=mechanism, phases=20000) as run:
        guards = [eventually(lambda name=name: run.part(name)) for name in ("guardian", "agent", "driver")]
        assert eventually(run.holds)
        monkeypatch.setenv("XDG_RUNTIME_DIR", run.runtime)
        run.note()
        # Stopped first, so that none of them sees another one die.
        for signum in (signal.SIGSTOP, signal.SIGKILL):
            for pid in guards:
                os.kill(pid, signum)
        run.driver.communicate()
        assert cleanup.clean()
        assert run.remains() == []
