"""Slurm's gang scheduling as a policy, without any Slurm: what is checked, submitted and read back."""

import json
import os
import signal
import subprocess
import time

import pytest
from fake_runs import rank_record
from programs import programs

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.view import Job, Machine
from coordinator.workload import ParallelJob, Workload
from harness.analyse import rows, verdicts
from harness.measure import slurm_gang
from harness.spec.submission import Submission
from slurm import partition
from slurm.job import JobState
from workloads.agent_line import SlurmRank, record_file
from workloads.program import Program

PARTITION = "PartitionName=g\n   Hidden=NO MaxNodes=1\n   State=UP OverSubscribe={share} PreemptMode=GANG\n"
CONFIGURATION = "PreemptMode             = {mode}\nPriorityType = x\nSchedulerTimeSlice      = 5 sec\n"

FILE = """
processors = 2
[[jobs]]
program = { processes = 2, phases = 1 }
[[schedulers]]
policy = "gang"
[[schedulers]]
policy = "slurm-gang"
quantum_ms = 5000
[slurm]
gang_partition = "g"
"""


def scontrol(share="FORCE:4", mode="GANG"):
    partition, configuration = PARTITION.format(share=share), CONFIGURATION.format(mode=mode)
    return f'case "$2" in partition) printf "{partition}";; *) printf "{configuration}";; esac'


@pytest.mark.parametrize(
    ("share", "mode", "found"),
    [
        ("FORCE:4", "GANG", (5, "")),
        ("FORCE", "GANG,SUSPEND", (5, "")),
        ("NO", "GANG", (0, "the partition has OverSubscribe=NO, not FORCE")),
        ("YES:4", "GANG", (0, "the partition has OverSubscribe=YES:4, not FORCE")),
        ("FORCE:4", "OFF", (0, "slurm.conf has PreemptMode=OFF, without GANG")),
    ],
)
def test_a_partition_has_gang_scheduling_or_is_told_what_it_lacks(share, mode, found):
    assert partition.judged(PARTITION.format(share=share), CONFIGURATION.format(mode=mode)) == found


def stepped(folder, srun, *command, retry):
    """The lines of a step, and one step, with a program in place of srun that takes no options."""
    skip = 'while [ "${1#--}" != "$1" ]; do shift; done'
    path = programs(folder, srun=f"echo x >> {folder}/tries; {skip}; {srun}")
    lines = partition.step(1, "pmi2", retry=retry, begun=str(folder / "begun"))
    script = "\n".join([*lines, f'step {" ".join(command)}; echo "status $?"'])
    return subprocess.run(["bash", "-c", script], env={"PATH": path}, stdout=-1, text=True, check=True)


@pytest.mark.slow
def test_a_refused_step_is_tried_again_and_a_program_that_fails_is_not(tmp_path):
    refuse = f'[ $(wc -l < {tmp_path}/tries) -gt 2 ] || exit 1; exec "$@"'
    done = stepped(tmp_path, refuse, "echo", "'a b'", retry=True)
    assert done.stdout == "a b\nstatus 0\n" and (tmp_path / "tries").read_text() == "x\n" * 3
    for retry in (True, False):
        (tmp_path / "tries").unlink()
        (tmp_path / "begun").write_text("of an earlier start")
        done = stepped(tmp_path, 'exec "$@"', "sh", "-c", "'exit 3'", retry=retry)
        assert done.stdout == "status 3\n" and (tmp_path / "tries").read_text() == "x\n"


def test_a_rank_alone_leaves_its_record_by_the_wall_clock(tmp_path):
    mine = os.sched_getaffinity(0)
    try:
        alone = SlurmRank(str(tmp_path), 3, 1)
        core, _ = alone.begin()
        assert os.sched_getaffinity(0) == {core}
    finally:
        os.sched_setaffinity(0, mine)
    now_ns = time.monotonic_ns()
    alone.leave({"job": 3, "start_ns": now_ns - 5, "finish_ns": now_ns})
    record = json.loads(record_file(str(tmp_path), 3, 1).read_text())
    assert record["finish_ns"] - record["start_ns"] == 5 and record["job"] == 3
    assert abs(record["finish_ns"] - time.time_ns()) < 1e9
    assert [path.name for path in tmp_path.iterdir()] == ["3-1.json"]


@pytest.mark.parametrize(
    ("left", "told"),
    [
        ("{", "no JSON object"),
        ("[" * 100_000, "no JSON object"),
        ("[]", "no JSON object"),
        ('{"start_ns": "noon"}', "it lacks job"),
    ],
)
def test_a_record_that_is_none_fails_its_job(tmp_path, left, told):
    record_file(str(tmp_path), 0, 0).write_text(left)
    job = ParallelJob(0, Program(phases=1, processes=1))
    made = Workload((job,), policies.create("slurm-gang", {"quantum_ms": 5000}), ())
    result, records = slurm_gang._outcome(made, job, tmp_path, (JobState.COMPLETED, None), 0)
    assert told in result.failure and "0-0.json" in result.failure and not records


def test_it_is_simulated_as_gang_with_such_slots():
    plans = []
    for name in ("gang", "slurm-gang"):
        run = Session(
            policies.create(name, {"quantum_ms": 5000}), Machine(2), [Job(n, 2, 0, False) for n in (0, 1)]
        )
        plans.append([run.arrive(n).decide(0).decision for n in (0, 1)])
    assert plans[0] == plans[1] and plans[0][-1].slots[0].length_ns == 5_000_000_000


@pytest.mark.parametrize(
    ("change", "tools", "complaint"),
    [
        (("", ""), scontrol(share="NO"), "slurm.gang_partition = 'g': the partition has OverSubscribe=NO"),
        (("", ""), scontrol(mode="OFF"), "the administrator sets"),
        (("", ""), "echo 'invalid partition' >&2; exit 1", "scontrol: invalid partition"),
        (("= 5000", "= 30000"), scontrol(), "quantum_ms = 30000: slurm.conf has SchedulerTimeSlice=5"),
        (("= 5000", "= 100"), scontrol(), "quantum_ms = 100: must be a number of at least 5000"),
        (('gang_partition = "g"', ""), scontrol(), "slurm-gang needs a partition"),
        (("processes = 2,", "processes = 1,"), scontrol(), "a process on each processor"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_refused_before_anything_is_submitted(
    tmp_path, monkeypatch, lockstep, change, tools, complaint
):
    (tmp_path / "x.toml").write_text(FILE.replace(*change))
    monkeypatch.setenv("PATH", programs(tmp_path, scontrol=tools))
    status, _, err = lockstep("submit", "x.toml", "--wait", "--results", "r")
    assert status == 2 and complaint in err and not (tmp_path / "r").exists()


@pytest.mark.parametrize("command", ["run", "submit"])
def test_it_takes_a_submission_that_waits(tmp_path, lockstep, command):
    (tmp_path / "x.toml").write_text(FILE)
    status, _, err = lockstep(command, "x.toml", "--results", "r")
    assert status == 2 and "--wait" in err


def test_it_is_not_compared_with_a_simulation():
    table = {"policy": "slurm-gang", "quantum_ms": 5000}
    row = rows.Row((rows.JobRow(0.0, {}),), {}, table, None, None)
    verdict = verdicts.verdict(row, [], 0.1)
    assert verdict.verdict == verdicts.NOT_COMPARABLE and "Slurm" in verdict.reason


WORKLOAD = Workload(
    (ParallelJob(0, Program(processes=2, phases=1)),), policies.create("slurm-gang", {}), (8, 9)
)
RECORD = {"start_ns": 2_000_000_000, "finish_ns": 3_000_000_000, "processor": 5}


@pytest.mark.slow
@pytest.mark.parametrize("breaks", [False, True])
def test_what_jobs_leave_becomes_a_result(tmp_path, monkeypatch, breaks):
    """A sbatch that runs the script at once, and an srun that leaves the record of every rank."""
    begin_ns = time.time_ns()
    times = {key: value + begin_ns if key.endswith("_ns") else value for key, value in RECORD.items()}
    record = rank_record(0, 0, 5, 900_000_000, 0) | times
    ranks = (f"echo '{json.dumps(record | {'rank': rank})}' > $folder/0-{rank}.json" for rank in (0, 1))
    leave = "exit 7" if breaks else "; ".join(ranks)
    sbatch = 'for file; do :; done; SLURM_JOB_ID=12 bash "$file" > /dev/null 2>&1; echo 12'
    srun = f"folder=$(dirname {tmp_path}/gang-*/0.sbatch); : > $folder/0.begun; {leave}"
    tools = {"sbatch": sbatch, "srun": srun, "squeue": "exit 0", "sacct": "exit 1", "scancel": "exit 0"}
    monkeypatch.setenv("PATH", programs(tmp_path, **tools))
    cluster = slurm_gang.Cluster(Submission(gang_partition="g"), tmp_path, "pmi2")
    result = cluster.run_workload(WORKLOAD, lambda text: None)
    (ended,) = result.jobs
    if breaks:
        assert ended.failure == "ended with status 7" and result.failure == "job 0: ended with status 7"
        return
    assert not result.failure and ended.start_ns == pytest.approx(2e9, abs=1e9)
    assert (ended.finish_ns or 0) - (ended.start_ns or 0) == 1e9
    assert [(rank["processor"], rank["core"]) for rank in result.ranks] == [(8, 5), (9, 5)]


@pytest.mark.slow
@pytest.mark.parametrize("during", ["the wait", "the submission"])
def test_an_interrupt_ends_the_jobs(tmp_path, monkeypatch, during):
    """A job that is accepted as a signal comes is ended, too."""

    def interrupt(text):
        raise KeyboardInterrupt

    accept = f"kill -TERM {os.getpid()}; sleep .2; echo 12" if during == "the submission" else "echo 12"
    tools = {"sbatch": accept, "squeue": "echo '12|RUNNING'", "scancel": f'echo "$@" > {tmp_path}/ended'}
    monkeypatch.setenv("PATH", programs(tmp_path, **tools))
    former = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("in the middle of a submission"))
    try:
        with pytest.raises(KeyboardInterrupt if during == "the wait" else SystemExit):
            cluster = slurm_gang.Cluster(Submission(gang_partition="g"), tmp_path, "pmi2")
            cluster.run_workload(WORKLOAD, interrupt if during == "the wait" else print)
    finally:
        signal.signal(signal.SIGTERM, former)
    assert (tmp_path / "ended").read_text() == "12\n"
