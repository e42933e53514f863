"""What the host does not give at the moment becomes a failure with a reason, never a traceback."""

import json
import os
import resource
import subprocess
import sys
import time

import pytest
from places import ROOT, SUPPORT
from runs import everything_in, two_processors, workload

from coordinator.drive import driver, preflight
from coordinator.drive.driver import run_workload
from coordinator.host import launch, processes
from coordinator.host.launchers import Hydra
from coordinator.host.processes import Process
from workloads.work import Command

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime")]


def test_a_launcher_that_has_gone_fails_the_jobs_and_is_named(tmp_path, monkeypatch, runtime):
    gone = Hydra(str(tmp_path / "mpiexec"), "1")
    monkeypatch.setattr(preflight, "find_launcher", lambda **options: gone)
    result = run_workload(workload(jobs=2))
    for job in result.jobs:
        assert "its launcher cannot start" in job.failure and str(tmp_path / "mpiexec") in job.failure
    assert everything_in(runtime) == []


def test_a_job_for_which_there_is_no_process_left_fails_and_the_others_run(monkeypatch, runtime):
    start = launch.start

    def short(argv, environment, *more, **options):
        if environment.get(processes.JOB) == "0":
            raise BlockingIOError(11, "Resource temporarily unavailable")
        return start(argv, environment, *more, **options)

    monkeypatch.setattr(launch, "start", short)
    result = run_workload(workload(jobs=2, processes=1, phases=200))
    assert "temporarily unavailable" in result.jobs[0].failure and result.jobs[1].failure == ""
    assert everything_in(runtime) == []


def limited(most):
    """A run of two jobs whose driver, and everything that it starts, has so few descriptors."""
    two_processors()
    options = {"jobs": 2, "processes": 1, "phases": 200}
    return subprocess.run(
        [sys.executable, str(SUPPORT / "runs.py"), json.dumps(options)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("most", [32, 40])
def test_with_few_descriptors_a_run_ends_well_or_says_why_not(most, runtime):
    result = limited(most)
    assert "Traceback" not in result.stderr, result.stderr
    assert "failure" in json.loads(result.stdout)
    assert everything_in(runtime) == []


def test_a_launcher_that_does_not_end_after_its_job_costs_nothing_that_was_measured(monkeypatch, runtime):
    """A process that the program leaves behind keeps the launcher waiting for its output."""
    monkeypatch.setattr(driver, "FINALIZE_S", 0.5)
    result = run_workload(workload(programs=[Command(("sh", "-c", "sleep 60 & exit 0"), 1)]))
    assert result.failure == "" and len(result.ranks) == 1
    assert "a launcher did not end within 0.5 s after its job; no record is missing" in result.warnings
    assert everything_in(runtime) == []


class Stubborn(Process):
    """A process that the kernel cannot end at the moment."""

    def send(self, signum):
        return True

    def wait(self, timeout_s):
        time.sleep(timeout_s or 0)
        return False


def test_a_process_that_does_not_end_costs_the_other_jobs_nothing(monkeypatch, runtime):
    """Whoever waited for it would be silent for longer than its agent's lease."""
    find = processes.find

    def found(run, job=None, *rest):
        return find(run, job, *rest) + ([Stubborn(os.getpid())] if job == 0 else [])

    monkeypatch.setattr(processes, "find", found)
    failing = Command(("sh", "-c", "sleep 0.1; exit 4"), 1)
    result = run_workload(workload(processes=1, phases=25_000, lease_s=1.0, programs=[failing, {}]))
    assert "status 4" in result.jobs[0].failure and result.jobs[1].failure == ""
    assert everything_in(runtime) == []
