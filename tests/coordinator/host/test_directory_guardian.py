"""The directory guardian removes the directory of a maker that was killed, and makes nothing itself."""

import fcntl
import os

import pytest

from coordinator.host.directories import DirectoryGuardian


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "home" / "run"
    path.mkdir(parents=True)
    (path / "journal").write_text("{}\n")
    return path


def killed(guardian):
    """What the shell notices of the death of its maker: the pipe ends."""
    os.close(guardian._word)
    guardian._shell.wait(10)


def test_directory_of_a_killed_maker_goes_and_its_parent_with_it(run):
    killed(DirectoryGuardian(run))
    assert not run.parent.exists()


def test_a_dismissed_guardian_removes_nothing(run):
    DirectoryGuardian(run).dismiss()
    assert (run / "journal").exists()


def test_nothing_appears_where_the_parent_has_been_removed_meanwhile(run):
    guardian = DirectoryGuardian(run)
    (run / "journal").unlink()
    run.rmdir()
    run.parent.rmdir()
    killed(guardian)
    assert not run.parent.exists()


def test_a_parent_that_another_run_has_locked_stays(run):
    lock = os.open(run.parent, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    killed(DirectoryGuardian(run))
    os.close(lock)
    assert run.parent.exists() and not run.exists()
