"""Jobs end with the process that has submitted them, and partitions and accounts are read, without Slurm."""

import os
import subprocess
import sys

import pytest
from fake_commands import fake_commands
from fake_slurm import fake_slurm
from places import ROOT
from runs import eventually

from slurm import accounting
from slurm.accounting import Accounted
from slurm.cancellation import ended_with_us
from slurm.command import SlurmError
from slurm.job import SlurmJob
from slurm.partition import Partition, partition


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """The directory of the commands."""
    monkeypatch.setenv("PATH", fake_slurm(tmp_path / "slurm"))
    return tmp_path / "slurm"


def asked(folder):
    file = folder / "asked"
    return file.read_text().splitlines() if file.exists() else []


def test_jobs_that_are_over_are_left_alone(slurm):
    with ended_with_us("a-run"):
        pass
    assert asked(slurm) == []


def test_an_error_ends_the_jobs_before_it_goes_on(slurm):
    with pytest.raises(SlurmError, match=r"^refused$"), ended_with_us("a-run", ("-M", "c")):
        raise SlurmError("refused")
    assert asked(slurm) == ["scancel -M c --name=a-run"] * 2


def test_jobs_that_do_not_end_are_told_with_the_command_that_ends_them(slurm, monkeypatch):
    monkeypatch.setenv("PATH", fake_commands(slurm, squeue="echo 7"))
    with (
        pytest.raises(SlurmError, match=r"^late; jobs may be left, and scancel --name=a-run ends them$"),
        ended_with_us("a-run"),
    ):
        raise SlurmError("late")
    assert len(asked(slurm)) > 1


KILLED = """
import os, signal
from slurm.cancellation import ended_with_us
with ended_with_us("a-run"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_jobs_of_a_killed_process_are_ended(slurm):
    subprocess.run([sys.executable, "-c", KILLED], env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
    assert eventually(lambda: asked(slurm) == ["scancel --name=a-run"] * 5, 30)


def test_a_job_that_comes_after_the_end_is_cancelled_too(slurm, monkeypatch):
    """Slurm gets it from an sbatch that was in progress."""
    late = f"[ $(wc -l < {slurm}/asked) = 2 ] && echo 7; exit 0"
    monkeypatch.setenv("PATH", fake_commands(slurm, squeue=late))
    with pytest.raises(SlurmError, match=r"^interrupted$"), ended_with_us("a-run"):
        raise SlurmError("interrupted")
    assert len(asked(slurm)) == 3


def test_accounts_have_seconds_and_leave_out_steps_and_other_jobs(slurm, monkeypatch):
    lines = ("*** Welcome ***", "7|RUNNING|100|103|Unknown", "7.batch|RUNNING|103|103|Unknown")
    lines += ("8|CANCELLED by 0|101|None|104", "9|PENDING|102|Unknown|Unknown", "10|COMPLETED|1|2|3")
    monkeypatch.setenv("PATH", fake_commands(slurm, sacct="\n".join(f"echo '{line}'" for line in lines)))
    jobs = [SlurmJob(str(number)) for number in (7, 8, 9, 11)]
    assert accounting.times(jobs) == {
        jobs[0]: Accounted("RUNNING", 100, 103, None),
        jobs[1]: Accounted("CANCELLED", 101, None, 104),
        jobs[2]: Accounted("PENDING", 102, None, None),
    }


@pytest.mark.parametrize("storage", ["accounting_storage/none", "(null)"])
def test_a_cluster_without_accounting_is_told(tmp_path, monkeypatch, storage):
    line = f"AccountingStorageType   = {storage}"
    monkeypatch.setenv("PATH", fake_slurm(tmp_path / "slurm", configuration=line))
    with pytest.raises(SlurmError, match="it keeps no accounting"):
        accounting.check()


def test_partitions_have_the_processors_that_are_up(slurm):
    assert partition() == Partition("short", 2)
    assert partition("none,long") == Partition("long", 64)
    with pytest.raises(SlurmError, match=r"there is no partition 'none' \(its partitions: short, long\)"):
        partition("none")
