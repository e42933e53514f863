"""What sites make of the replies of Slurm's tools: clusters, banners, lost ids, limits, tools that hang."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import slurm_replies
from fake_commands import fake_commands

from harness import cli
from slurm import client, command, partition
from slurm.command import SlurmError
from slurm.job import SlurmJob

FILE = """
name = "x"
processors = 2
[[jobs]]
program = { processes = 2, phases = 1 }
[[schedulers]]
policy = "none"
[sweep]
"program.granularity_us" = [100, 200, 300]
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Puts shell scripts in place of Slurm's commands; returns the file that gets their arguments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    (tmp_path / "x.toml").write_text(FILE)

    def site(**scripts):
        told = f'echo "${{0##*/}} $*" >> {tmp_path}/asked'
        fake_commands(tmp_path, **{name: f"{told}\n{text}" for name, text in scripts.items()})
        return tmp_path / "asked"

    return site


def submit(*options):
    return cli.main(["submit", "x.toml", *options])


@pytest.mark.slow
@pytest.mark.parametrize("cases", [10, pytest.param(500, marks=pytest.mark.soak)])
def test_drawn_replies_are_read(tmp_path, monkeypatch, cases):
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    failures = slurm_replies.tried(tmp_path, cases, seed=7)
    assert not failures.first and failures.replies >= 4 * cases


def test_the_cluster_of_a_job_is_asked_and_told(site, capsys):
    finish = "for file; do :; done; echo '0 ' > $(dirname $file)/${id}.status"
    sbatch = f'case "$*" in *collect*) id=20;; *) id=19_1;; esac; {finish}; echo "${{id%_1}};slaking"'
    asked = site(sbatch=sbatch, squeue="exit 0", sacct="exit 1", scontrol="echo MaxArraySize = 1001")
    submit("--array=1", "--wait", "--json")
    document = json.loads(capsys.readouterr().out)
    assert document["cluster"] == "slaking" and document["jobs"] == {"x.sbatch": "19", "collect.sbatch": "20"}
    assert {job: state["state"] for job, state in document["states"].items()} == dict.fromkeys(
        ("19_1", "20"), "COMPLETED"
    )
    lines = asked.read_text().splitlines()
    assert sum("-M slaking" in line for line in lines if line.startswith(("squeue", "sacct"))) == 4
    assert any("-M slaking --dependency=afterany:19 " in line for line in lines)
    submit()
    assert "scancel -M slaking 19" in capsys.readouterr().err


def test_jobs_of_two_clusters_are_ended_on_each(site):
    asked = site(scancel="exit 0")
    jobs = [SlurmJob("1"), SlurmJob("2", "a"), SlurmJob("3", "a").task(4)]
    client.cancel(jobs)
    assert asked.read_text() == "scancel 1\nscancel -M a 2 3_4\n"
    assert client.ends(jobs) == "scancel 1; scancel -M a 2 3_4"
    site(scancel="[ $1 = -M ] || { echo 'error: no' >&2; exit 1; }")
    with pytest.raises(SlurmError, match="no"):
        client.cancel(jobs)
    assert asked.read_text().splitlines()[3] == "scancel -M a 2 3_4"


@pytest.mark.parametrize(
    "sbatch",
    [
        *("echo welcome", "exit 0", "echo 12; echo 13", "echo 12; exit 1"),
        "echo 'sbatch: error: Batch job submission failed: Socket timed out' >&2; exit 1",
        "kill -TERM $$",
        "exit 143",
        "sleep 9",
    ],
)
def test_a_job_that_may_be_queued_is_told(site, monkeypatch, capsys, sbatch):
    monkeypatch.setattr(command, "PATIENCE_S", 0.1)
    asked = site(sbatch=sbatch)
    assert submit() == 1
    err = " ".join(capsys.readouterr().err.split())
    assert "a job may be queued: " in err and "squeue --me" in err and "scancel" in err
    assert len(asked.read_text().splitlines()) == 1, "it is not submitted twice"


def test_a_second_job_that_may_be_queued_is_not_submitted_by_hand(site, capsys):
    site(sbatch='case "$*" in *collect*) ;; *) echo 12;; esac', scontrol="exit 1")
    assert submit("--array=2") == 1
    err = " ".join(capsys.readouterr().err.split())
    assert "a job may be queued: " in err and "scancel 12" in err and "sbatch --dependency" not in err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_id(site, capsys, number):
    site(sbatch=f"kill -{number} {os.getpid()}; sleep .1; echo '12;slaking'", scontrol="exit 1")
    assert submit("--array=2") == 130
    err = " ".join(capsys.readouterr().err.split())
    assert "scancel -M slaking 12" in err and "collect.sbatch is not submitted: interrupted" in err
    site(sbatch=f"kill -{number} {os.getpid()}; sleep .1")
    assert submit() == 130
    assert "a job may be queued: " in capsys.readouterr().err


def test_a_tool_that_leaves_a_child_is_not_waited_for(site):
    site(sbatch="sleep 20 & echo 12; exit 0")
    begin_s = time.monotonic()
    assert client.submit(Path("x")) == SlurmJob("12") and time.monotonic() - begin_s < 15


def test_a_tool_that_hangs_is_ended_with_its_children(site, tmp_path, monkeypatch):
    site(squeue=f"sh -c 'sleep .3; touch {tmp_path}/late'; true")
    monkeypatch.setattr(command, "PATIENCE_S", 0.05)
    with pytest.raises(SlurmError, match="squeue: no end after"):
        client.states([SlurmJob("1")], str(tmp_path))
    time.sleep(0.4)
    assert not (tmp_path / "late").exists()


def test_a_tool_cannot_ask_back(site):
    site(scontrol="read answer || echo MaxArraySize = 7")
    assert partition.most_tasks() == 6


@pytest.mark.parametrize("size, status", [("1001", 0), ("4", 0), ("3", 2), ("0", 2), ("N/A", 0)])
def test_an_array_that_the_cluster_refuses_is_not_submitted(site, capsys, size, status):
    asked = site(sbatch="echo 12", scontrol=f"echo 'MaxArraySize            = {size}'")
    assert submit("--array=3", "--sbatch=-M slaking") == status
    lines = asked.read_text().splitlines()
    assert lines[0] == "scontrol -M slaking show config" and (len(lines) > 1) == (status == 0)
    if status:
        assert "--array = 3: " in (err := capsys.readouterr().err) and "MaxArraySize" in err


@pytest.mark.parametrize(
    "options, accepted",
    [
        (("--time=1",), False),
        (("--time=0:30",), False),
        (("--time=2",), True),
        (("--time=1:01",), True),  # Slurm rounds up
        (("--time=0",), True),
        (("--time=UNLIMITED",), True),
        (("--time=0-1",), True),
        (("--time=1", "--set=slurm.signal_s=30"), True),
        (("--time=10", "--set=slurm.signal_s=600"), False),
        (("--time=10", "--sbatch=-t 1 --qos=x"), False),
        (("--time=1", "--sbatch=--time 1-0  # long"), True),
        (("--time=soon",), False),
        (("--time=1:2:3:4",), False),
    ],
)
def test_a_time_limit_leaves_time_for_the_run(site, capsys, options, accepted):
    assert submit("--dry-run", *options) == (0 if accepted else 2)
    assert accepted or "slurm.time = " in capsys.readouterr().err
