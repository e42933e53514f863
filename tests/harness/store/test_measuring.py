"""Two drivers never measure the same cells of an experiment into one store."""

import errno
import os
import signal
import subprocess
import sys

import fake_runs
import pytest

from harness import application
from harness.spec.experiment import load
from harness.store import measuring
from harness.store.database import FILE_NAME
from workloads.validation import InputError

OTHER = """import sys
from pathlib import Path
from harness.store import measuring
with measuring.claimed(Path(sys.argv[1]), sys.argv[2], [int(cell) for cell in sys.argv[3:]]) as other:
    print(other, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def claiming(tmp_path):
    """Starts another process that claims cells; gives it and what it was told."""
    begun = []

    def start(digest, *cells):
        argv = [sys.executable, "-c", OTHER, str(tmp_path / FILE_NAME), digest, *map(str, cells)]
        other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        begun.append(other)
        return other, other.stdout.readline().strip()

    yield start
    for other in begun:
        other.kill()
        other.communicate()


def told(folder, digest, cells):
    with measuring.claimed(folder / FILE_NAME, digest, cells) as other:
        return other


def left(folder):
    return [path.name for path in folder.glob("*.measuring")]


@pytest.mark.slow
def test_another_process_has_the_cells_until_it_ends_however_it_ends(claiming, tmp_path):
    first, message = claiming("d", 0, 2)
    assert message == ""
    for cells in ([0], [1, 2], [0, 1, 2]):
        assert told(tmp_path, "d", cells) == f"process {first.pid} on {os.uname().nodename}"
    assert told(tmp_path, "d", [1, 3]) == told(tmp_path, "another", [0, 2]) == "", "what it does not measure"
    assert left(tmp_path) == ["lockstep.sqlite.d.measuring"]
    second, message = claiming("d", 1)
    assert message == ""
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert told(tmp_path, "d", [0, 2]) == ""
    second.communicate()
    assert told(tmp_path, "d", [1]) == "" and left(tmp_path) == []


@pytest.mark.slow
def test_resume_is_refused_while_another_driver_measures_the_same_runs(claiming, tmp_path, monkeypatch):
    wanted = load("three-jobs")
    other, _ = claiming(wanted.digest, 0)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: fake_runs.TOOLS)
    with pytest.raises(InputError, match=f"process {other.pid} on .* measures these runs into"):
        options = application.RunOptions(simulate=False, resume=True, no_wait=True)
        application.run(wanted, tmp_path, fake_runs.Quiet(), options)


def test_a_file_system_without_locks_keeps_nobody_from_measuring(tmp_path, monkeypatch):
    def no_locks(*given):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(measuring.fcntl, "lockf", no_locks)
    assert told(tmp_path, "d", [0]) == ""
