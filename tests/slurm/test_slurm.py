"""Submission to a real Slurm, on two emulated hosts: run, cancel, time out, requeue, share out a sweep."""

import json
import os
import random
import shlex
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from places import ROOT
from runs import eventually, text
from slurm_cluster import slurm_cluster, unavailable

from harness.store import database
from slurm.allocation import expand
from slurm.script import status_file

pytestmark = [pytest.mark.slurm, pytest.mark.slow]

QUICK = (
    *("repeats=1", "program.granularity_us=1000", "program.dedicated_s=0.1"),
    "schedulers=[{policy='gang'}]",
)
LONG = ("repeats=100", *QUICK[1:])
STATE = "from slurm.client import states; from slurm.job import SlurmJob"


@pytest.fixture(scope="module")
def cluster():
    if reason := unavailable():
        pytest.skip(reason)
    with slurm_cluster(2) as nodes:
        yield nodes


def submit(cluster, results, *options, settings=QUICK):
    """Submit three-jobs from the head; returns what it prints, and its status under "exit"."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [sys.executable, "-m", "harness.cli", "submit", "three-jobs", *words, *options]
    process = cluster.hosts.start([*command, "--no-simulate", "--results", str(results), "--json"])
    out, err = process.communicate(timeout=250)
    assert process.returncode in (0, 1) and out, err + cluster.logs()
    return json.loads(out) | {"exit": process.returncode, "notes": err}


def log(submitted):
    """All that the jobs of a submission have said."""
    return "\n".join(path.read_text() for path in Path(submitted["folder"]).glob("*.log"))


def state(cluster, job):
    return cluster.call("squeue", "-h", "-t", "all", "-j", job, "-o", "%T").strip()


def nothing_is_left(cluster):
    """Whether the nodes have only Slurm's daemons, and no files of runs."""
    daemons = {"slurmctld", "slurmscriptd", "slurmd", "munged"}

    def names():
        return {text(f"/proc/{pid}/comm").strip() for pid in cluster.hosts.processes()} - {""}

    return bool(eventually(lambda: names() <= daemons and not cluster.hosts.files(), 30))


@pytest.mark.parametrize("nodes", [1, 2])
def test_three_jobs_are_submitted_awaited_and_shown(cluster, tmp_path, nodes):
    settings = (*QUICK, f"program.processes={nodes}", f"processors={nodes}")
    options = (f"--nodes={nodes}", "--time=5", "--wait")
    result = submit(cluster, tmp_path / "results", *options, settings=settings)
    assert result["exit"] == 0, result["notes"] + log(result)
    (ended,) = result["states"].values()
    assert ended == {"state": "COMPLETED", "status": 0}
    (row,) = result["result"]["rows"]
    assert row["measured"]["workload_slowdown"]["n"] == 1 and row["measured"]["failures"] == 0
    (launcher,) = set(database.load(tmp_path / "results").runs.launcher)
    assert launcher.startswith("srun --mpi=pmi2" if nodes == 2 else "mpich")
    hosts = set(database.load(tmp_path / "results").ranks.host)
    assert hosts == {f"node{number}" for number in range(1, nodes + 1)}
    assert nothing_is_left(cluster)


def test_names_and_values_reach_the_run_as_they_are(cluster, tmp_path):
    results = tmp_path / """100% %j it's --a #1 "q" $(touch x) `y`"""
    name = 'a --b %j "$SLURM_JOB_ID"'
    settings = (*QUICK, "program.processes=1", "processors=1", f"name={json.dumps(name)}")
    result = submit(cluster, results, "--time=5", "--wait", settings=settings)
    assert result["exit"] == 0, result["notes"] + log(result)
    assert result["result"]["experiment"] == name
    (number,) = result["jobs"].values()
    assert Path(result["folder"], f"{number}.log").is_file()


KILLS = int(os.environ.get("LOCKSTEP_KILLS", "6"))
SEED = os.environ.get("LOCKSTEP_KILLS_SEED", str(random.randrange(10**6)))


@pytest.mark.soak
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_a_submit_that_is_killed_leaves_nothing_but_its_job(cluster, tmp_path, signum):
    """The job goes on to its end, and its records are whole."""
    chance = random.Random(f"{SEED}-{signum.name}")
    words = [word for setting in QUICK for word in ("--set", setting)]
    command = [sys.executable, "-m", "harness.cli", "submit", "three-jobs", *words, "--time=5", "--wait"]
    ends = Counter()
    for number in range(KILLS):
        results = tmp_path / f"{signum.name}-{number}"
        submitting = cluster.hosts.start([*command, "--no-simulate", "--results", str(results)])
        time.sleep(chance.uniform(0, 3))
        for pid in cluster.hosts.head.processes():
            words_of = text(f"/proc/{pid}/cmdline").split("\0")
            if "submit" in words_of and "harness.cli" in words_of:
                with suppress(ProcessLookupError):
                    os.kill(pid, signum)
        _, err = submitting.communicate(timeout=60)
        assert "Traceback" not in err, err
        assert eventually(lambda: not cluster.call("squeue", "-h").strip(), 120), SEED
        assert nothing_is_left(cluster), SEED
        run_count = len(database.load(results).runs) if (results / database.FILE_NAME).exists() else 0
        ends[run_count] += 1
        assert not list(results.glob("*.json*")), SEED
    print(f"{signum.name}: LOCKSTEP_KILLS_SEED={SEED}, of {KILLS} so many by runs recorded: {dict(ends)}")


COMMANDS = """
name = "commands"
processors = {nodes}
repeats = 1
[[jobs]]
command = ["{{launcher}}", "-n", "{nodes}", {python}, "-c", {program}]
environment = {{ OMP_NUM_THREADS = "3" }}
[[schedulers]]
policy = "none"
"""


@pytest.mark.parametrize("nodes", [1, 2])
def test_commands_find_the_variables_of_the_submitters_shell(cluster, tmp_path, nodes):
    """They also find their job of Slurm, and each the number of ranks that their launcher has started."""
    names = ["ESPRESSO_PSEUDO", "OMP_NUM_THREADS", "SLURM_JOB_ID"]
    code = f"import os; print(*map(os.environ.get, {names!r}), file=open(os.uname().nodename, 'w'))"
    file = tmp_path / "commands.toml"
    words = {"python": json.dumps(sys.executable), "program": json.dumps(code)}
    file.write_text(COMMANDS.format(nodes=nodes, **words))
    submit = [sys.executable, "-m", "harness.cli", "submit", str(file), "--no-simulate", "--time=5", "--wait"]
    start = f"cd {tmp_path}; export ESPRESSO_PSEUDO=/pseudo PMI_RANK=7; exec {shlex.join(submit)}"
    options = f"--nodes={nodes} --results {tmp_path / 'results'} --json"
    run = cluster.hosts.start(["env", f"PYTHONPATH={ROOT}", "sh", "-c", f"{start} {options}"])
    out, err = run.communicate(timeout=250)
    document = json.loads(out)
    assert run.returncode == 0, err + log(document)
    (number,) = document["jobs"].values()
    for node in range(1, nodes + 1):
        assert (tmp_path / f"node{node}").read_text() == f"/pseudo 3 {number}\n"
    assert nothing_is_left(cluster)


TOGETHER = """
import json, shutil, time
from coordinator.drive import agents
from coordinator.host.launchers import Srun
from coordinator.host.rundir import RunDirectory
from coordinator.wire.agent_config import Setup
from coordinator.wire.zmq_transport import Keys
agent = 'read setup; echo ${#setup} >&2; test $SLURM_PROCID = 1 && kill -9 $$; exec sleep 4'
agents.ARGV = ("/bin/sh", "-c", agent)
directory, launcher = RunDirectory.create(), Srun(shutil.which("srun"), "of Slurm")
setup = Setup(str(directory.path), "tcp://127.0.0.1:1", "driver", Keys.make(), None, 2.0)
starter = agents.start_elsewhere(directory, setup, launcher, ["node2", "node1"], [0, 1]).program
ends = directory.log(agents.ends_name(0))
while not ends.read_text():
    time.sleep(0.02)
first, alive = ends.read_text().split(), starter.poll() is None
starter.wait()
said = directory.log(agents.log_name(0)).read_text()
print(json.dumps([first, alive, ends.read_text().split(), said, len(setup.encode()) - 1]))
directory.remove()
directory.unlock()
"""


def test_one_step_starts_agents_on_all_nodes_and_the_end_of_one_ends_no_other(cluster):
    words = ["salloc", "--quiet", "--nodes=2", sys.executable, "-c", TOGETHER]
    run = cluster.hosts.start(["env", f"PYTHONPATH={ROOT}", *words])
    out, err = run.communicate(timeout=100)
    first, alive, ends, lines, length = json.loads(out)
    assert (first, alive, ends) == (["1"], True, ["1", "0"]), err + lines
    assert lines.splitlines().count(str(length)) == 2, "both have the set-up"
    assert nothing_is_left(cluster)


def test_a_cancelled_job_leaves_nothing_behind(cluster, tmp_path):
    job = submit(cluster, tmp_path, "--nodes=2", settings=LONG)
    number = job["jobs"]["three-jobs.sbatch"]
    assert eventually(
        lambda: (tmp_path / "lockstep.sqlite").exists() and len(database.load(tmp_path).runs), 60
    )
    cluster.call("scancel", number)
    assert eventually(lambda: state(cluster, number) == "CANCELLED", 60), state(cluster, number)
    assert nothing_is_left(cluster)
    assert set(database.load(tmp_path).runs.failure) <= {"", "interrupted"}


def test_a_job_that_runs_out_of_time_keeps_what_it_has_and_is_resumed(cluster, tmp_path):
    # Slurm looks at the clock twice a minute, and may give its signal that much too early.
    early = ("--nodes=2", "--time=2", "--set=slurm.signal_s=60", "--wait")
    first = submit(cluster, tmp_path, *early, settings=LONG)
    (ended,) = first["states"].values()
    assert ended == {"state": "TIMEOUT", "status": 130} and first["exit"] == 1
    assert "continue with --resume" in log(first) and "ran into its time limit" in first["notes"]
    kept = len(database.load(tmp_path).runs)
    assert kept > 0 and nothing_is_left(cluster)
    goal = ("repeats=1", *LONG[1:])
    second = submit(cluster, tmp_path, "--nodes=2", "--resume", "--wait", settings=goal)
    assert second["exit"] == 0, second["notes"] + log(second)
    runs = database.load(tmp_path).runs
    done = runs[(runs.failure == "") & (runs["repeat"] == 0)]
    assert sorted(done.kind) == ["dedicated", "policy"], "nothing is measured twice"


def test_a_requeued_job_goes_on(cluster, tmp_path):
    several = ("repeats=8", *QUICK[1:])
    job = submit(cluster, tmp_path, "--nodes=2", "--set=slurm.requeue=true", settings=several)
    number = job["jobs"]["three-jobs.sbatch"]
    assert eventually(
        lambda: (tmp_path / "lockstep.sqlite").exists() and len(database.load(tmp_path).runs), 60
    )
    before = len(database.load(tmp_path).runs)
    cluster.call("scancel", "--batch", "--signal=USR1", number)
    assert eventually(lambda: state(cluster, number) == "PENDING", 30), log(job)
    assert eventually(lambda: Path(status_file(job["folder"], number)).exists(), 100), log(job)
    assert Path(status_file(job["folder"], number)).read_text().split() == ["0"], log(job)
    runs = database.load(tmp_path).runs
    assert len(set(runs.session)) == 2 and 0 < before < 16
    assert len(runs[runs.failure == ""]) == 16


def test_a_sweep_is_shared_out_and_collected(cluster, tmp_path):
    sweep = ("sweep.program.imbalance=[0.25,1.5]", *QUICK)
    options = ("--array=2", "--wait", "--ntasks-per-node=1")
    result = submit(cluster, tmp_path, *options, settings=(*sweep, "program.processes=1"))
    assert result["exit"] == 0, result["notes"] + log(result)
    assert {ended["state"] for ended in result["states"].values()} == {"COMPLETED"} and len(
        result["states"]
    ) == 3
    assert [row["measured"]["workload_slowdown"]["n"] for row in result["result"]["rows"]] == [1, 1]
    assert (tmp_path / "report.html").exists()


def test_a_job_whose_node_goes_down_lost_it(cluster, tmp_path):
    job = submit(cluster, tmp_path, "--nodes=2", settings=LONG)
    number = job["jobs"]["three-jobs.sbatch"]
    assert eventually(lambda: state(cluster, number) == "RUNNING", 60), cluster.logs()
    cluster.call("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test")
    question = f"{STATE}; print(states([SlurmJob('{number}')], '{job['folder']}'))"
    asked = (sys.executable, "-c", question)
    assert eventually(lambda: "State.NODE_FAIL" in cluster.call(*asked), 60), state(cluster, number)
    assert nothing_is_left(cluster)
    cluster.wait_for_nodes()  # which come back by themselves: ReturnToService=2


def test_a_script_that_fails_before_the_run_has_failed(cluster, tmp_path):
    result = submit(
        cluster, tmp_path, "--nodes=2", "--wait", "--set=slurm.setup=['cd /nonexistent || exit 4']"
    )
    (ended,) = result["states"].values()
    assert result["exit"] == 1 and ended == {"state": "FAILED", "status": None}
    assert "No such file" in log(result)


def test_a_job_that_slurm_has_never_heard_of_is_unknown(cluster, tmp_path):
    question = f"{STATE}; print(states([SlurmJob('4711')], {str(tmp_path)!r}))"
    assert "State.UNKNOWN" in cluster.call(sys.executable, "-c", question)


@pytest.mark.parametrize(
    "words, status, told",
    [
        (["three-jobs", "--partition=none"], 1, "invalid partition"),
        (["three-jobs", "--array=1001"], 2, "must be at most 1000, as the cluster's MaxArraySize is 1001"),
    ],
)
def test_what_slurm_refuses_is_told(cluster, tmp_path, words, status, told):
    command = [sys.executable, "-m", "harness.cli", "submit", *words, "--results", str(tmp_path / "r")]
    run = cluster.hosts.start(command)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out) == (status, "") and told in err and "Traceback" not in err
    assert status == 1 or not (tmp_path / "r").exists()


def test_lists_of_hosts_are_read_as_scontrol_reads_them(cluster):
    for names in ("c[01-03,07]", "a,b[1-2],d[1,3]x[0-1]", "c[098-101]", "c[9-011]", "[1-3]", "c[1,1]"):
        assert cluster.call("scontrol", "show", "hostnames", names).split() == expand(names)
