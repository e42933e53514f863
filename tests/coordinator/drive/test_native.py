"""A native MPI program of the distribution, which has never heard of Lockstep, under gang scheduling.

HPC Challenge is linked with the distribution's Open MPI, whatever MPI runs the synthetic jobs.
"""

import re
import shutil

import pytest
from places import SUPPORT
from runs import workload

from coordinator import policies
from coordinator.drive.driver import run_workload
from coordinator.workload import ParallelJob, Workload
from workloads.work import Command

LAUNCHER = "mpiexec.openmpi"
MISSING = [name for name in ("hpcc", LAUNCHER) if shutil.which(name) is None]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"needs the distribution's package hpcc: no {MISSING}"),
]

INPUT = SUPPORT / "native" / "hpccinf.txt"

SPEED = re.compile(r"(_time\d*|Time|flops|GUPs|GBs|usec|GBytes|STREAM_(Copy|Scale|Add|Triad)|Wtick)=")
"""What of its summary tells how fast it was rather than what it found."""


def hpcc(place):
    """HPC Challenge on two processes; it reads its input where it runs and writes its output there."""
    place.mkdir()
    shutil.copy(INPUT, place)
    return ParallelJob(0, Command(("sh", "-c", f"cd {place} && exec hpcc"), 2, LAUNCHER))


def run(jobs, policy, **options):
    processors = workload().processors
    return run_workload(Workload(tuple(jobs), policies.create(policy, options), processors, timeout_s=120))


def found(place):
    """All that the program has found out, but not how fast."""
    text = (place / "hpccoutf.txt").read_text()
    summary = text[text.index("Begin of Summary") : text.index("End of Summary")].splitlines()
    residual = re.findall(r"^\|\|Ax-b\|\|.*", text, re.MULTILINE)
    return [line for line in summary if not SPEED.search(line)] + residual


def test_hpc_challenge_finds_the_same_beside_two_synthetic_jobs_under_gang(tmp_path):
    alone = run([hpcc(tmp_path / "alone")], "batch")
    assert alone.failure == ""
    synthetic = workload(jobs=3, phases=3000).jobs[1:]
    shared = run([hpcc(tmp_path / "shared"), *synthetic], "gang", quantum_ms=50)
    assert shared.failure == ""
    assert len(shared.switches) > 10
    expected = found(tmp_path / "alone")
    assert "Success=1" in expected and "PASSED" in expected[-1]
    assert found(tmp_path / "shared") == expected
