"""Jobs of a log that a real Slurm runs one by one: waits of its accounts, and what an interrupt leaves.

``pytest -m slurm -s tests/slurm/test_jobs_by_themselves.py`` prints the waits beside those of ``easy``.
"""

import json
import os
import random
import signal
import statistics
import sys

import pytest
import slurm_accounting
from runs import eventually, text
from slurm_cluster import slurm_cluster, unavailable

from harness.store.database import Store

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

JOBS, PROCESSORS = 30, 2
CONFIGURATION = f"""
{slurm_accounting.OF_SLURM}
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_resolution=1,bf_continue
"""
EXPERIMENT = """name = "queue"
processors = {processors}
[log]
file = "{folder}/queue.swf"
jobs = {jobs}
minutes = {minutes}
[[schedulers]]
policy = "easy"
"""


@pytest.fixture(scope="module")
def cluster():
    if reason := unavailable() or slurm_accounting.unavailable():
        pytest.skip(reason)
    before = slurm_accounting.started("add cluster emulated")
    with slurm_cluster(PROCESSORS, more=CONFIGURATION, before=before) as nodes:
        yield nodes


def written(folder, minutes):
    """A log of jobs of one or two processors with a load of 0.8, and an experiment with it; its file."""
    chance = random.Random(7)
    lines, now_s = [f"; MaxProcs: {PROCESSORS}"], 0.0
    for number in range(1, JOBS + 1):
        size, run_s = chance.choice((1, 1, 2)), chance.randint(60, 600)
        asked_s = run_s * chance.uniform(1, 3)
        ran = f"{number} {now_s:.0f} -1 {run_s} {size} -1 -1"
        lines.append(f"{ran} {size} {asked_s:.0f} -1 1 {number % 3} 1 -1 1 -1 -1 -1")
        now_s += chance.expovariate(0.8 * PROCESSORS / (4 / 3 * 330))
    (folder / "queue.swf").write_text("\n".join(lines))
    file = folder / "queue.toml"
    file.write_text(EXPERIMENT.format(processors=PROCESSORS, folder=folder, jobs=JOBS, minutes=minutes))
    return file


def start(cluster, file, *options):
    command = [sys.executable, "-m", "harness.cli", "run", str(file), "--through", "slurm", "--no-wait"]
    return cluster.hosts.start([*command, *options, "--json", "--results", str(file.parent / "results")])


def queue(cluster):
    return cluster.call("squeue", "-h", "-o", "%i").split()


def test_thirty_jobs_have_the_waits_of_the_accounts_beside_our_own(cluster, tmp_path):
    running = start(cluster, written(tmp_path, 0.5))
    out, err = running.communicate(timeout=1500)
    assert running.returncode in (0, 1), err + cluster.logs()  # on a busy host jobs reach their limits
    rows = {row["scheduler"]["policy"]: row for row in json.loads(out)["rows"]}
    with Store(tmp_path / "results", existing=True) as store:
        runs = [one for one in store.runs(store.experiments()[-1][0]) if one.scheduler["policy"] == "slurm"]
    (run,) = runs
    assert len(run.jobs) == JOBS and not run.failure
    columns = ("sacct", "-a", "-X", "-n", "-P", "-o", "State,Submit,Start,End,AllocCPUS")
    lines = cluster.call("env", "SLURM_TIME_FORMAT=%s", *columns).split()
    accounts = [(state, *map(int, times)) for state, *times in (line.split("|") for line in lines)]
    assert {state for state, *_ in accounts} <= {"COMPLETED", "TIMEOUT"} and len(accounts) == JOBS
    assert [size for *_, size in accounts] == [job.processes for job in run.jobs]
    waits_s = [start_s - submit_s for _, submit_s, start_s, *_ in accounts]
    assert [(job.start_ns - job.arrival_ns) / 1e9 for job in run.jobs] == waits_s
    metrics = rows["slurm"]["measured"]["schedule"]["metrics"]
    ended = [state == "COMPLETED" for state, *_ in accounts]
    completed = [wait_s for wait_s, well in zip(waits_s, ended, strict=True) if well]
    assert metrics["wait_s"] == pytest.approx(statistics.fmean(completed))
    assert max(waits_s) > 0 and metrics["utilisation"] <= 1
    assert rows["slurm"]["simulated"] is None and rows["easy"]["by_job"]
    print(f"\n{err}\n| | wait, s | response, s | bounded slowdown | utilisation |\n|---|---|---|---|---|")
    for policy, row in rows.items():
        for side in (one for one in ("measured", "simulated", "by_job") if row.get(one)):
            values = row[side]["schedule"]["metrics"]
            names = ("wait_s", "response_s", "bounded_slowdown", "utilisation")
            print(f"| {policy}, {side} |" + "|".join(f" {values[name]:.2f} " for name in names) + "|")
    print("waits of Slurm, s:", sorted(waits_s))


def ended(cluster, running, signum):
    """Send a signal to the driver."""
    for pid in cluster.hosts.head.processes():
        words = text(f"/proc/{pid}/cmdline").split("\0")
        if "harness.cli" in words and "run" in words:
            os.kill(pid, signum)
    return running.communicate(timeout=120)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_jobs_end_with_the_run_that_has_submitted_them(cluster, tmp_path, signum):
    running = start(cluster, written(tmp_path, 1), "--no-simulate")
    assert eventually(lambda: len(queue(cluster)) > 2, 300), cluster.logs()
    _, err = ended(cluster, running, signum)
    assert "Traceback" not in err
    if signum != signal.SIGKILL:
        assert running.returncode == 130 and queue(cluster) == [], err
    assert eventually(lambda: queue(cluster) == [], 30)
    cluster.call("sleep", "3")
    assert queue(cluster) == []
