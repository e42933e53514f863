"""The tests in tests/workloads/mpi, run from outside on 1, 2 and 4 real ranks."""

import subprocess
import sys

import pytest
from places import ROOT

from coordinator.host.launcher_choice import find_launcher


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_the_mpi_tests_pass(ranks):
    launcher = find_launcher()
    few = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # else each rank loads hypothesis
    suite = [sys.executable, "-m", "mpi4py", "-m", "pytest", "-p", "pytest_mpi", "--with-mpi"]
    suite += ["-p", "no:cacheprovider", "-q"]
    result = subprocess.run(
        launcher.argv(ranks, [*suite, "tests/workloads/mpi"]),
        env=launcher.environment({}) | few,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-2000:]
    assert result.stdout.count(" passed") == ranks
