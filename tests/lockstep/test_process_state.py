"""An import of ``lockstep`` and its calls leave the process around them as it was."""

import json
import os
import subprocess
import sys

import pytest
from places import ROOT, SUPPORT
from runs import needs_two

import lockstep

DURING = {
    "simulate": {"threads", "kernel's threads", "descriptors"},
    "run": {
        *("kernel's threads", "descriptors", "children"),
        # The driver is prompt, has many connections, and ends a run before a signal ends us.
        *("scheduling", "RLIMIT_NOFILE", "RLIMIT_OFILE", "RLIMIT_RTPRIO"),
        *("signal 1", "signal 2", "signal 3", "signal 15", "signal 20", "wakeup descriptor"),
    },
}
"""What may differ while a call lasts."""

DURING["colocate"] = DURING["run"]

LEFT = {"simulate": {"descriptors"}}
"""What stays: the directory of compiled code is open, so that no other one can take its place."""

PLACES = ("main", "thread", "loop", "cell", "fork", "spawned")


@needs_two
@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_left_changed(place, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, ROOT / "tests" / "support" / "process_state.py", place]
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    document = json.loads(result.stdout)
    assert document.pop("import") == {}
    assert document.keys() == DURING.keys()
    for call, changed in document.items():
        assert changed["after"].keys() <= LEFT.get(call, set()), (call, changed["after"])
        assert changed["during"].keys() <= DURING[call], call


OF_A_USER = """
import among_others
import lockstep
import pytest
from process_state import EXPERIMENT

@pytest.mark.parametrize("number", range(2))
def test_mine(number):
    among_others.settle()
    found = lockstep.run(EXPERIMENT, results="together", simulate=False, no_wait=True)
    assert not found.failures
"""


@needs_two
@pytest.mark.slow
def test_tests_of_users_measure_at_once(tmp_path):
    """In two processes of pytest-xdist, and into one store."""
    (tmp_path / "test_mine.py").write_text(OF_A_USER)
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{SUPPORT}"}
    words = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"]
    result = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert result.returncode == 0, result.stdout[-3000:]
    runs = lockstep.load(tmp_path / "together").to_dict()["rows"]
    assert [row["measured"]["failures"] for row in runs] == [0, 0]
