"""Jobs of a real Slurm on two emulated hosts take turns, and nothing that was stopped stays stopped."""

import json
import os
import re
import shlex
import signal
import sys
import time
from pathlib import Path

import pytest
from places import ROOT
from runs import eventually, text
from slurm_cluster import slurm_cluster, unavailable

from coordinator.host.processes import environment_of

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

PROGRAM = """
import sys
from mpi4py import MPI
everyone, total = MPI.COMM_WORLD, 0
for step in range(int(sys.argv[1])):
    number = everyone.rank + step
    for _ in range(20_000):
        number = (number * 1103515245 + 12345) % 2147483648
    total = (total + everyone.allreduce(number)) % 2147483648
if everyone.rank == 0:
    print("total", total, flush=True)
sys.exit(int(sys.argv[2]))
"""
SCRIPT = """#!/bin/bash
#SBATCH --partition=gang --nodes={nodes} --ntasks={nodes} --ntasks-per-node=1 {options}
#SBATCH --output={log}
export PYTHONPATH={root}
{run}
status=$?
date +%s.%N >> {log}.ended
exit $status
"""
DAEMONS = {"slurmctld", "slurmscriptd", "slurmd", "munged"}
SHORT, LONG = 500, 2500
"""Steps of programs, of about 2 ms each."""


@pytest.fixture(scope="module")
def cluster():
    if reason := unavailable():
        pytest.skip(reason)
    with slurm_cluster(2, more="PreemptMode=OFF\nKillWait=5") as nodes:
        yield nodes


class Job:
    """A submitted job of ``steps`` steps that ends with ``status``."""

    def __init__(self, cluster, folder, steps, status=0, nodes=2, options="", times=1):
        self.cluster, self.status = cluster, status
        count = len(list(folder.glob("*.sbatch")))
        program = folder / "program.py"
        program.write_text(PROGRAM)
        self.log = folder / f"{count}.log"
        words = ["srun", "--mpi=pmi2", "--cpu-bind=none", sys.executable, "-P", program, steps, status]
        run = "\n".join([shlex.join(map(str, words))] * times)
        script = folder / f"{count}.sbatch"
        script.write_text(SCRIPT.format(nodes=nodes, log=self.log, root=ROOT, run=run, options=options))
        self.begin_s = time.time()
        self.id = cluster.call("sbatch", "--parsable", str(script)).strip()

    @property
    def state(self):
        return self.cluster.call("squeue", "-h", "-t", "all", "-j", self.id, "-o", "%T").strip()

    @property
    def seconds(self):
        return float(text(f"{self.log}.ended").split()[-1]) - self.begin_s

    def ranks(self):
        """Pid and state of each rank."""
        return [
            (pid, text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0])
            for pid in self.cluster.hosts.processes()
            if "program.py" in text(f"/proc/{pid}/cmdline")
            and "srun" not in text(f"/proc/{pid}/comm")
            and environment_of(pid).get("SLURM_JOB_ID") == self.id
        ]

    def runs(self, ranks=2):
        return bool(eventually(lambda: len(self.ranks()) == ranks, 60))

    def stopped(self):
        return any(state == "T" for _, state in self.ranks())


@pytest.fixture
def jobs(cluster, tmp_path):
    """Submits jobs; afterwards none of them is left."""
    submitted = []

    def submit(*sizes, **options):
        new = [Job(cluster, tmp_path, steps, **options) for steps in sizes]
        submitted.extend(new)
        assert all(job.runs(options.get("nodes", 2)) for job in new), cluster.logs()
        return new

    yield submit
    for job in submitted:
        cluster.hosts.start(["scancel", job.id]).communicate(timeout=60)
    assert eventually(lambda: not cluster.call("squeue", "-h").strip(), 60)


def turns(cluster, jobs, *options):
    """``lockstep turns`` on the head, once it has stopped each of the jobs."""
    named = () if "--watch" in options else [word for job in jobs for word in ("--slurm", job.id)]
    process = cluster.hosts.start([sys.executable, "-m", "harness.cli", "turns", *named, *options])
    if not eventually(lambda: all_stopped_once(jobs), 60):
        process.kill()
        raise AssertionError(f"{process.communicate()}\n{cluster.logs()}")
    return process


def all_stopped_once(jobs):
    """Whether each job that lives was stopped at a look within two seconds."""
    seen = set()
    end_s = time.monotonic() + 2
    while time.monotonic() < end_s:
        seen |= {job.id for job in jobs if job.stopped() or not job.ranks()}
        if len(seen) == len(jobs):
            return True
        time.sleep(0.01)
    return False


def never_stopped(jobs, for_s=1.0):
    """Whether no rank of these is stopped in all looks of some time."""
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        if any(job.stopped() for job in jobs):
            return False
        time.sleep(0.01)
    return True


def nothing_is_left(cluster):
    """Whether the nodes have only Slurm's daemons, and no files of runs."""

    def names():
        return {text(f"/proc/{pid}/comm").strip() for pid in cluster.hosts.processes()} - {""}

    return bool(eventually(lambda: names() <= DAEMONS and not cluster.hosts.files(), 40))


def driver(cluster):
    """The pid of ``lockstep turns``."""
    (pid,) = [
        pid
        for pid in cluster.hosts.head.processes()
        if {"harness.cli", "turns"} <= set(text(f"/proc/{pid}/cmdline").split("\0"))
        and "python" in text(f"/proc/{pid}/comm")
    ]
    return pid


def agents(cluster, job):
    """The pids of the agents of a job."""
    return [
        pid
        for node in cluster.hosts.nodes
        for pid in node.processes()
        if "coordinator.node.agent" in text(f"/proc/{pid}/cmdline")
        and environment_of(pid).get("SLURM_JOB_ID") == job.id
    ]


def total(job):
    return re.findall(r"total (\d+)", job.log.read_text())


def test_three_jobs_take_turns_and_end_as_they_do_alone(cluster, jobs):
    (alone,) = jobs(LONG)
    assert eventually(lambda: Path(f"{alone.log}.ended").exists(), 300)
    three = jobs(LONG, LONG, LONG)
    process = turns(cluster, three)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0 and "Traceback" not in err, err
    assert [job.state for job in three] == ["COMPLETED"] * 3
    assert [total(job) for job in three] == [total(alone)] * 3 and total(alone)
    assert err.count("(COMPLETED)") == 3
    makespan_s = max(job.begin_s + job.seconds for job in three) - three[0].begin_s
    print(f"alone {alone.seconds:.1f} s, makespan over the sum {makespan_s / 3 / alone.seconds:.3f}\n{err}")
    assert makespan_s < 3 * alone.seconds * 1.25  # 1.08 on an idle host
    assert nothing_is_left(cluster)


def test_status_later_steps_and_jobs_on_one_node(cluster, jobs):
    """Two steps after each other; a job that fails; two jobs on one node each beside one on both."""
    (both,) = jobs(SHORT, times=2)
    (failing,) = jobs(LONG, status=3)
    (single,) = jobs(SHORT, nodes=1, options="--nodelist=node1")
    process = turns(cluster, [both, failing, single])
    first = {pid for pid, _ in both.ranks()}
    assert eventually(lambda: both.ranks() and not first & {pid for pid, _ in both.ranks()}, 90)
    assert eventually(both.stopped, 5), "a later step takes no turns"
    _, err = process.communicate(timeout=200)
    assert "(FAILED)" in err and err.count("(COMPLETED)") == 2, err
    assert len(total(both)) == 2 and len(set(total(both))) == 1
    assert nothing_is_left(cluster)


def test_a_job_that_is_cancelled_leaves_the_others_their_turns(cluster, jobs):
    three = jobs(50 * LONG, 50 * LONG, 50 * LONG)
    process = turns(cluster, three)
    cluster.call("scancel", three[1].id)
    assert eventually(lambda: not three[1].ranks(), 20)
    assert all_stopped_once([three[0], three[2]])
    os.kill(driver(cluster), signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the jobs continue" in err, err
    assert never_stopped(three)


@pytest.mark.parametrize("victim", ["driver", "agent", "step", "srun"])
def test_whatever_is_killed_nothing_stays_stopped(cluster, jobs, victim):
    three = jobs(50 * LONG, 50 * LONG)
    process = turns(cluster, three)
    if victim == "driver":
        os.kill(driver(cluster), signal.SIGKILL)
        process.communicate(timeout=60)
        assert eventually(lambda: never_stopped(three), 30)
        assert eventually(lambda: not agents(cluster, three[0]), 30)
        return
    if victim == "agent":
        for pid in agents(cluster, three[0]):
            os.kill(pid, signal.SIGKILL)
    elif victim == "step":
        steps = cluster.call("squeue", "-h", "-s", "-j", three[0].id, "-o", "%i %j").splitlines()
        own = [line.split()[0] for line in steps if line.endswith(" lockstep")]
        assert len(own) == 2, steps
        for step in own:
            cluster.call("scancel", "--signal=KILL", step)
    else:
        for pid in cluster.hosts.head.processes():
            words = text(f"/proc/{pid}/cmdline").split("\0")
            if f"--jobid={three[0].id}" in words:
                os.kill(pid, signal.SIGTERM)
    # New agents take over, and the turns go on.
    time.sleep(1)
    assert eventually(lambda: len(agents(cluster, three[0])) == 2 and all_stopped_once(three), 60)
    os.kill(driver(cluster), signal.SIGINT)
    process.communicate(timeout=60)
    assert never_stopped(three)


def test_what_slurm_has_suspended_stays_suspended(cluster, jobs):
    three = jobs(50 * LONG, 50 * LONG)
    process = turns(cluster, three)
    suspended, other = three
    cluster.call("scontrol", "suspend", suspended.id)
    time.sleep(4)

    def all_stopped():
        return all(state == "T" for _, state in suspended.ranks())

    end_s = time.monotonic() + 15  # longer than a lease
    while time.monotonic() < end_s:
        assert all_stopped()
        time.sleep(0.05)
    assert never_stopped([other])
    cluster.call("scontrol", "resume", suspended.id)
    assert eventually(lambda: not all_stopped(), 10)
    assert eventually(lambda: len(agents(cluster, suspended)) == 2 and all_stopped_once(three), 60)
    cluster.call("scontrol", "suspend", suspended.id)
    time.sleep(4)
    os.kill(driver(cluster), signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "Slurm has suspended" in err and all_stopped(), err
    cluster.call("scontrol", "resume", suspended.id)
    assert eventually(lambda: never_stopped(three), 10)


def test_a_requeued_job_takes_turns_again(cluster, jobs):
    three = jobs(50 * LONG, 50 * LONG, options="--requeue")
    process = turns(cluster, three)
    cluster.call("scontrol", "requeue", three[0].id)
    assert eventually(lambda: not three[0].ranks(), 20)
    assert eventually(lambda: never_stopped([three[1]]), 20)
    os.kill(driver(cluster), signal.SIGINT)
    process.communicate(timeout=60)
    assert never_stopped([three[1]])


def test_jobs_that_cannot_take_turns_are_refused(cluster, jobs, tmp_path):
    (running,) = jobs(50 * LONG)
    kinds = (["-a", "1-2"], ["-H"], ["-n1", ":", "-n1"])
    common = ["sbatch", "--parsable", "-p", "gang", "-o", "/dev/null"]
    array, held, het = (cluster.call(*common, *kind, "--wrap", "sleep 60").strip() for kind in kinds)
    for name, rule in (
        (array, "is a job array"),
        (f"{array}_1", "must be the number of a job"),
        (held, "does not run (PENDING)"),
        (het, "is a heterogeneous job"),
        ("999999", "is not a job that Slurm knows"),
    ):
        words = [sys.executable, "-m", "harness.cli", "turns", "--slurm", running.id, "--slurm", name]
        process = cluster.hosts.start(words)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 2 and rule in err, (name, err)
    for job in (array, held, het):
        cluster.call("scancel", job)


def test_jobs_of_a_watched_partition_take_turns_from_their_start(cluster, jobs):
    """A job alone; a second, which ends as it does alone; tasks of an array on one node of both."""
    process = turns(cluster, (), "--watch", "gang", "--json")
    assert json.loads(process.stdout.readline())["jobs"] == []
    (alone,) = jobs(50 * LONG)
    time.sleep(3)
    assert never_stopped([alone], 2) and not agents(cluster, alone)
    (second,) = jobs(SHORT, status=3)
    assert eventually(lambda: all_stopped_once([alone, second]), 20)
    assert eventually(lambda: second.state == "FAILED", 200), second.state
    assert len(total(second)) == 1
    assert eventually(lambda: never_stopped([alone]), 20)
    (array,) = jobs(50 * LONG, nodes=1, options="--array=1 --nodelist=node1")
    assert eventually(lambda: all_stopped_once([alone, array]), 20)
    cluster.call("scontrol", "suspend", alone.id)
    time.sleep(4)
    assert never_stopped([array])
    os.kill(driver(cluster), signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "the jobs continue" in err and "Traceback" not in err, err
    assert alone.stopped() and never_stopped([array])
    cluster.call("scontrol", "resume", alone.id)
    assert eventually(lambda: never_stopped([alone, array]), 10)
    assert eventually(lambda: not agents(cluster, alone) + agents(cluster, array), 30)


@pytest.mark.parametrize("after_s", [0.8, 1.6, 2.4])
def test_a_watch_that_is_killed_at_once_leaves_nothing_stopped(cluster, jobs, after_s):
    two = jobs(50 * LONG, 50 * LONG)
    process = cluster.hosts.start([sys.executable, "-m", "harness.cli", "turns", "--watch", "gang"])
    time.sleep(after_s)
    os.kill(driver(cluster), signal.SIGKILL)
    process.communicate(timeout=60)
    time.sleep(12)  # a lease
    assert never_stopped(two, 2)
    assert eventually(lambda: not agents(cluster, two[0]) + agents(cluster, two[1]), 30)
