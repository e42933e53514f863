"""A long run of many short commands: what its parts hold stays the same, however many jobs have ended.

``LOCKSTEP_RUNS`` says how many jobs there are.
"""

import json
import os
import subprocess
import time
from collections import defaultdict
from contextlib import suppress

import psutil
import pytest
from runs import everything_in, needs_two, running

from coordinator.decide.conductor import AHEAD

JOBS = int(os.environ.get("LOCKSTEP_RUNS", "1000"))
EVERY_S = float(os.environ.get("LOCKSTEP_EVERY_S", "0.1"))
"""From one arrival to the next; the queue grows if jobs end more slowly."""

LAUNCHED = AHEAD + 8
"""Jobs that are launched at most: those that wait, those that run, and those that leave."""

OF_JOB = 4
"""Processes of a launched job at most: launcher, proxy, rank, and what the launcher starts for a moment."""

KB_OF_JOB = 8
"""What the driver may keep of a job that has ended: its result and its part of the workload."""


def held(run):
    """What there is at this moment: processes, files, and memory and descriptors of driver and agent.

    It is empty before the agent's begin and after its end.
    """
    found = {"processes": len(run.processes()), "files": len(everything_in(run.runtime))}
    with suppress(psutil.NoSuchProcess):
        for name in ("driver", "agent"):
            pid = run.part(name)
            if pid is None:
                return {}
            process = psutil.Process(pid)
            found[f"{name} KiB"] = process.memory_info().rss // 1024
            found[f"{name} descriptors"] = process.num_fds()
        return found
    return {}


@pytest.mark.soak
@needs_two
def test_of_many_jobs_few_are_there_at_a_time(tmp_path):
    """The driver's memory grows by the results of the jobs, and nothing else grows at all."""
    looks = defaultdict(list)
    out = tmp_path / "result.json"
    with out.open("w") as stdout:
        pipes = {"stdout": stdout, "stderr": subprocess.DEVNULL}
        arrivals = {"arrival_s": EVERY_S, "timeout_s": 60 + 10 * JOBS * EVERY_S}
        with running(popen=pipes, jobs=JOBS, command=["true"], processes=1, policy="fcfs", **arrivals) as run:
            while run.driver.poll() is None:
                for what, much in held(run).items():
                    looks[what].append(much)
                time.sleep(0.5)
            assert run.driver.returncode == 0
            assert not run.remains()
    result = json.loads(out.read_text())
    figures = {what: (seen[len(seen) // 4], max(seen), seen[-2]) for what, seen in looks.items()}
    print(f"{JOBS} jobs; after a quarter of the run, at most, at its end: {figures}")
    assert result["failure"] == ""
    assert result["jobs"] == [""] * JOBS
    assert max(looks["processes"]) <= OF_JOB * LAUNCHED + 4
    early = {what: max(seen[: len(seen) // 2]) for what, seen in looks.items()}
    for what in ("processes", "files", "driver descriptors", "agent descriptors"):
        assert max(looks[what]) <= 1.25 * early[what] + 16
    quarter_kb, _, last_kb = figures["driver KiB"]
    assert last_kb - quarter_kb <= KB_OF_JOB * JOBS + 4096
    quarter_kb, _, last_kb = figures["agent KiB"]
    assert last_kb - quarter_kb <= 4096
