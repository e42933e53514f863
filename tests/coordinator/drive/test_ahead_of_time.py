"""Ranks are launched ahead of time, even if a job's size is unknown before its admission."""

import os
import signal
from pathlib import Path

import pytest
from faults import start
from runs import command, eventually, needs_two, running, state, workload

from coordinator.drive import driver, running_jobs
from coordinator.drive.driver import run_workload
from coordinator.host.background import Background
from coordinator.host.launcher_choice import find_launcher
from coordinator.host.processes import JOB, environment_of

pytestmark = pytest.mark.slow

HALVES = {"policy": "equipartition", "options": {"parts": 2}, "jobs": 2, "arrival_s": 0.01}


@pytest.fixture
def launched(monkeypatch):
    """Jobs and numbers of processes, in the order of their launches."""
    seen = []
    real = running_jobs.start_launcher

    def counted(context, job, *rest):
        seen.append((job.number, rest[0]))
        return real(context, job, *rest)

    monkeypatch.setattr(running_jobs, "start_launcher", counted)
    return seen


def rank_of(run, job, rank):
    """The pid of a launched rank; rank 1 does not take part where there is room for one only."""
    for pid in run.processes():
        variables = environment_of(pid)
        ours = variables.get(JOB) == str(job) and "workloads.rank" in " ".join(command(pid))
        if ours and variables.get(find_launcher().rank) == str(rank):
            return pid
    raise AssertionError(f"job {job} has no rank {rank}")


def used_ticks(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def hear(lines, *wanted):
    """Read what a driver says up to the last of these lines."""
    missing = set(wanted)
    while missing:
        missing.discard(next(lines).strip())


@needs_two
@pytest.mark.parametrize("malleable", [False, True])
def test_a_job_begins_with_some_of_the_ranks_that_wait_for_it(launched, malleable):
    """Under asp the first has both processors; those that come meanwhile get one each."""
    programs = [{"malleable": malleable}] * 3
    result = run_workload(
        workload("asp", phases=500, granularity_us=200, arrival_s=0.01, programs=programs), None
    )
    assert result.failure == ""
    assert sorted(launched) == [(0, 2), (1, 2), (2, 2)]
    assert [len(job.placement) for job in result.jobs] == [2, 1, 1]
    computing = [sum(rank.computing_ns for rank in result.ranks if rank.job == job) for job in range(3)]
    for total_ns in computing:  # a job's work is the same on one processor and on two
        assert total_ns >= 0.95 * 500 * 2 * 200_000
    if not malleable:
        assert [(rank.job, rank.rank, rank.processes) for rank in result.ranks] == [
            *[(0, 0, 2), (0, 1, 2)],
            *[(1, 0, 1), (2, 0, 1)],
        ]


@pytest.mark.parametrize("victim", ["driver", "waiting rank"])
def test_a_rank_that_does_not_take_part_sleeps_and_belongs_to_its_job(victim):
    """Its job fails with it; whoever is killed, nothing remains."""
    with running(**HALVES, phases=20_000 if victim == "driver" else 5000) as run:
        hear(iter(run.driver.stderr), "job 0 starts", "job 1 starts")
        run.note()
        busy, waiting = (rank_of(run, 1, rank) for rank in range(2))
        before, sleeper = used_ticks(busy), used_ticks(waiting)
        assert eventually(lambda: used_ticks(busy) >= before + 10)
        assert used_ticks(waiting) <= sleeper + 1 and state(waiting) == "S"
        os.kill(run.driver.pid if victim == "driver" else waiting, signal.SIGKILL)
        if victim != "driver":
            failures = run.result()["jobs"]
            assert failures[0] == "" and failures[1]
        assert eventually(lambda: not run.remains()), run.remains()


def test_on_two_hosts_those_begin_that_are_where_the_job_is_placed(hosts):
    """Job 0 has both hosts; jobs 1 and 2 one each, whose rank there has waited since the beginning."""
    run = start(hosts, policy="asp", jobs=3, phases=1000, arrival_s=0.01)

    def launchers():
        command_lines = [(pid, command(pid)) for pid in hosts.head.processes()]
        return {pid for pid, words in command_lines if any("workloads.rank" in word for word in words)}

    said = iter(run.stderr)
    hear(said, "job 0 starts")
    before = launchers()
    hear(said, "job 1 starts", "job 2 starts")
    assert len(before) >= 3 and launchers() <= before
    out, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert '"failure": ""' in out and '"placements": [[0, 1], [0], [1]]' in out, out
    assert not hosts.processes() and not hosts.files()


@needs_two
def test_jobs_that_are_launched_during_a_run_stand_back_until_they_are_needed(monkeypatch):
    """Their start would take CPU time from the jobs that are measured."""
    put, fetched = [], []

    class Watched(Background):
        def put(self, job, launcher):
            super().put(job, launcher)
            put.append(job)

        def fetch(self, job, now_ns, *, complete):
            super().fetch(job, now_ns, complete=complete)
            if job not in self:
                fetched.append(job)

    monkeypatch.setattr(running_jobs, "Background", Watched)
    monkeypatch.setattr(driver, "AHEAD", 1)
    result = run_workload(workload("fcfs", phases=200, granularity_us=1000, jobs=4), None)
    assert result.failure == "" and [job.failure for job in result.jobs] == [""] * 4
    assert put == [1, 2, 3] and sorted(fetched) == put
