"""Many runs in one process leave nothing in it: no descriptor, thread, child or memory."""

import os
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from runs import needs_two

import lockstep

pytestmark = [pytest.mark.slow, needs_two]

SETTLED = 2
"""After so many runs everything has been loaded and made once."""

RUNS = int(os.environ.get("LOCKSTEP_RUNS", "2"))
"""After each of these the process must hold what it held before."""

LEAST_KB = 40
"""What a run may leave: a driver's result takes more, so that one that is kept would be seen."""

PARALLEL = {
    "count": 2,
    "program": {"pattern": "BARRIER", "processes": 2, "granularity_us": 100, "phases": 20},
}
NONE = [{"policy": "none"}]
WAYS = {
    "ranks": {"jobs": [PARALLEL], "schedulers": [{"policy": "gang", "quantum_ms": 10}]},
    "alone": {"jobs": [{"kind": "sequential", "work_s": 0.001}], "schedulers": NONE},
    "commands": {"jobs": [{"command": ["{launcher}", "-n", "2", "true"]}], "schedulers": NONE},
    "failures": {"jobs": [{"command": ["{launcher}", "-n", "1", "false"]}], "schedulers": NONE},
}


def state():
    """What this process holds: descriptors by what they lead to, threads, children."""
    links = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one of this look
            links.append(str(entry.readlink()))
    kinds = [link.partition(":")[0] if link.startswith(("pipe", "socket")) else link for link in links]
    children = [child.name() for child in psutil.Process().children(recursive=True)]
    return sorted(kinds), sorted(thread.name for thread in threading.enumerate()), sorted(children)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("uncalibrated")
def test_many_runs_leave_nothing_in_their_process(way, tmp_path):
    experiment = {"processors": 2, "repeats": 1, **WAYS[way]}
    states = []
    memory_kb = []
    for _ in range(SETTLED + RUNS):
        results = lockstep.run(experiment, results=tmp_path, simulate=False, no_wait=True)
        assert bool(results.failures) == (way == "failures")
        states.append(state())
        memory_kb.append(psutil.Process().memory_info().rss / 1024)
    assert states[SETTLED:] == states[SETTLED - 1 : -1]
    # 300 runs are the series that docs/faults.md tells of.
    each_kb = (memory_kb[-1] - memory_kb[SETTLED]) / RUNS
    print(f"{way}: {len(states)} runs, {len(states[-1][0])} descriptors, {each_kb:.1f} KiB a run")
    assert each_kb < LEAST_KB or RUNS < 100
