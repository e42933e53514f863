"""Limits and places under which no run can work are refused in one line, before anything starts."""

import os
import resource
import subprocess
import sys
import threading

import pytest
from places import ROOT

from coordinator.host import directories, processes
from workloads.validation import InputError

COMMAND = [sys.executable, "-P", "-m", "harness", "turns", "--", "true", ":::", "true"]


def limited(monkeypatch, kind, soft, hard):
    real = resource.getrlimit
    asked = {kind: (soft, hard)}
    monkeypatch.setattr(processes.resource, "getrlimit", lambda limit: asked.get(limit) or real(limit))


@pytest.mark.parametrize(
    "kind, soft, hard, words",
    [
        (resource.RLIMIT_NOFILE, 24, 24, "ulimit -n = 24: a run needs at least 32 descriptors"),
        (resource.RLIMIT_AS, 200 << 20, -1, "ulimit -v = 204800: a run needs at least 524288 KiB"),
    ],
)
def test_limits_that_are_too_tight_are_named(monkeypatch, kind, soft, hard, words):
    limited(monkeypatch, kind, soft, hard)
    with pytest.raises(InputError, match=words):
        processes.check_limits()


@pytest.mark.parametrize("kind, soft, hard", [(resource.RLIMIT_NOFILE, 24, 40), (resource.RLIMIT_AS, -1, -1)])
def test_limits_that_can_be_raised_or_do_not_exist_are_none(monkeypatch, kind, soft, hard):
    limited(monkeypatch, kind, soft, hard)
    processes.check_limits()


def test_too_few_processes_and_threads_are_named(monkeypatch):
    start, more = threading.Thread.start, iter(range(3))

    def limited_start(thread):
        if next(more, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited_start)
    with pytest.raises(InputError, match="threads that may start = 3: a run needs at least 17"):
        processes.check_limits(17)  # what was enough once is not counted again


@pytest.mark.parametrize("name", ["TMPDIR", "XDG_RUNTIME_DIR"])
def test_a_directory_for_runs_whose_name_is_not_utf_8_is_refused(monkeypatch, tmp_path, name):
    place = tmp_path / os.fsdecode(b"t\xff\xfe")
    place.mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv(name, str(place))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(InputError, match=f"{name} = .*must be UTF-8"):
        directories.check_name()


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["-n 24", "-v 160000", "-v 200000"])
def test_a_command_says_so_and_starts_nothing(tmp_path, limit):
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    shell = ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *COMMAND]
    result = subprocess.run(
        shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("lockstep: ulimit -") and result.stderr.count("\n") == 1
