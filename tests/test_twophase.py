"""mpi4py programs under ``python -m workloads.twophase``, from outside."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coordinator.host.cleanup import remove_files
from coordinator.host.launchers import find_launcher

pytestmark = pytest.mark.slow

PROGRAM = """
import sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = sum(comm.allreduce(step * (comm.rank + 1)) for step in range(200))
around = comm.sendrecv(comm.rank, dest=(comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
if comm.rank == 0: print(sys.argv[1:], total, around)
if "fail" in sys.argv and comm.rank == 1: raise SystemExit(3)
comm.Barrier()
"""


def run(folder: Path, module: list[str], ranks: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = folder / "app.py"
    program.write_text(PROGRAM)
    launcher = find_launcher()
    argv = launcher.argv(ranks, [sys.executable, "-m", *module, str(program), *arguments])
    return subprocess.run(
        argv, env=launcher.environment({}), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_program_says_the_same_and_its_waits_are_recorded(tmp_path: Path, ranks: int) -> None:
    plain = run(tmp_path, ["mpi4py"], ranks, "-x", "1")
    options = ["--blocking", "immediate", "--record", str(tmp_path / "record")]
    ours = run(tmp_path, ["workloads.twophase", *options], ranks, "-x", "1")
    assert (plain.returncode, ours.returncode) == (0, 0), ours.stderr
    assert ours.stdout == plain.stdout != ""
    for rank in range(ranks):
        record = json.loads((tmp_path / "record" / f"rank-{rank}.json").read_text())
        barriers = record["waits"]["barrier"]
        assert (record["rank"], record["processes"], record["rechecks"]) == (rank, ranks, 0)
        assert barriers["spun"] + barriers["blocked"] == 201
        assert record["finish_ns"] > record["start_ns"]


def test_a_rank_that_fails_ends_all(tmp_path: Path) -> None:
    began_s = time.time()
    assert run(tmp_path, ["workloads.twophase"], 2, "fail").returncode != 0
    remove_files(began_s)  # of the ranks that were aborted


def test_bad_usage_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, ["workloads.twophase", "--blocking", "oracle"], 1)
    assert done.returncode != 0
    assert "oracle" in done.stderr
