"""Simulations on the ranks of an MPI job give what they give without."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.host.launch import find_launcher

FILE = """
processors = 2
repeats = 2
[machine]
context_switch_us = 50
latency_us = 10
local = "round-robin"
[[jobs]]
count = 2
program = { pattern = "NEWS", processes = 2, granularity_us = 500, phases = 20 }
[[schedulers]]
policy = "gang"
[sweep]
"program.imbalance" = [0.25, 1.0]
"""


def simulate(folder: Path, *before: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Simulate FILE; ``before`` comes before the command."""
    (folder / "x.toml").write_text(FILE)
    command = [sys.executable, *before, "-m", "harness.cli", "simulate", "x.toml", "--json", *options]
    launcher = find_launcher()
    if options:
        command = launcher.argv(3 if before else 1, command)
    return subprocess.run(
        command, cwd=folder, env=launcher.environment({}), capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_the_ranks_change_nothing_but_the_time(tmp_path: Path) -> None:
    alone = simulate(tmp_path)
    shared = simulate(tmp_path, "-m", "mpi4py.futures", options=("--mpi",))
    assert alone.returncode == shared.returncode == 0, shared.stderr
    assert json.loads(shared.stdout)["rows"] == json.loads(alone.stdout)["rows"]
    assert "simulated by 2 workers" in shared.stderr and "speed-up" in shared.stderr


@pytest.mark.slow
def test_without_workers_the_message_says_how_to_start_them(tmp_path: Path) -> None:
    done = simulate(tmp_path, options=("--mpi",))
    assert done.returncode == 2 and "mpiexec -n N python -P -m mpi4py.futures" in done.stderr
