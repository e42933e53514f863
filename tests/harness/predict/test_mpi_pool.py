"""Simulations on the ranks of an MPI job give what they give without."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from coordinator.host.launcher_choice import find_launcher
from harness.cli import main
from harness.predict import pool

SETTINGS = ("schedulers=[{policy='gang'}]", "repeats=2", "program.dedicated_s=0.02")
SIMULATE = ["simulate", "three-jobs", "--json", "--set", "sweep.program.imbalance=[0.25,1.0]"]
SIMULATE += [word for setting in SETTINGS for word in ("--set", setting)]


def simulated_by(ranks, folder):
    command = [sys.executable, "-m", "harness", *SIMULATE, "--mpi"]
    launcher = find_launcher()
    return subprocess.run(
        launcher.argv(ranks, command),
        cwd=folder,
        env=launcher.environment({}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_ranks_change_nothing_but_the_time(tmp_path, capsys):
    shared = simulated_by(3, tmp_path)
    assert shared.returncode == 0, shared.stderr
    assert "simulated by 2 workers" in shared.stderr and "speed-up" in shared.stderr
    assert main(SIMULATE) == 0
    assert json.loads(shared.stdout)["rows"] == json.loads(capsys.readouterr().out)["rows"]


@pytest.mark.slow
def test_without_workers_the_message_says_how_to_start_them(tmp_path):
    done = simulated_by(1, tmp_path)
    assert done.returncode == 2 and "write mpiexec -n N lockstep simulate" in done.stderr


@pytest.mark.parametrize(
    "line, arguments, found",
    [
        ("python -P -m harness simulate x --mpi", 3, "-m harness simulate x --mpi"),
        ("python /bin/lockstep simulate x --mpi", 3, "/bin/lockstep simulate x --mpi"),
        ("python -W error mine.py", 0, "mine.py"),
    ],
)
def test_a_rank_starts_the_same_program_again(line, arguments, found):
    assert pool.own_program(line.split(), arguments) == found.split()
