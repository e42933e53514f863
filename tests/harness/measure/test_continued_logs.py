"""A run of a job log that was interrupted: ``--resume`` runs the rest of it, and one record has all."""

import dataclasses
import json

import pytest
import short_queue
from fake_runs import TOOLS, command_on_made_up_runs, imitate

from harness import application
from harness.store import conditions
from harness.store.database import Store

RUN = ("run", "queue.toml", "--no-simulate")


class Interrupted:
    """A coordinator that is interrupted after some jobs have ended and the next has begun, then no more."""

    def __init__(self):
        self.ends = [1, 2]
        self.clocks_ns = []
        self.workloads = []

    def run_workload(self, workload, progress=None, history=None):
        self.workloads.append([job.number for job in workload.jobs])
        self.clocks_ns.append(history.begin_ns)
        result = imitate(workload)
        for job in result.jobs[: self.ends[0] if self.ends else 0]:
            history.begins(job.number, job.start_ns)
            ended = dataclasses.replace(job, finish_ns=history.begin_ns + job.finish_ns)
            ranks = [rank for rank in result.ranks if rank.job == job.number]
            history.ends(ended, ranks, ended.finish_ns)
        if not self.ends:
            return result
        history.begins(result.jobs[self.ends[0]].number, result.jobs[self.ends[0]].start_ns)
        del self.ends[0]
        raise KeyboardInterrupt


@pytest.fixture
def runs():
    return Interrupted()


@pytest.fixture
def lockstep(tmp_path, monkeypatch, capsys, runs):
    short_queue.write(tmp_path, "fcfs")
    command = command_on_made_up_runs(monkeypatch, tmp_path, capsys)
    tools = dataclasses.replace(TOOLS, run_workload=runs.run_workload)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)
    return command


def record():
    with Store(application.Path("lockstep-results"), existing=True) as store:
        (number,) = store.numbers()
        return store.run(number)


def journals(place):
    return [*place.glob("lockstep-results/*.journal")]


def test_a_continued_run_has_each_job_once_and_tells_that_it_was_interrupted(lockstep, runs, tmp_path):
    for _ in range(2):
        status, _, said = lockstep(*RUN, "--resume")
        assert (status, "continue with --resume" in said, len(journals(tmp_path))) == (130, True, 1)
    status, out, said = lockstep(*RUN, "--resume", "--json")
    assert runs.workloads == [[0, 1, 2, 3], [1, 2, 3], [3]]
    assert runs.clocks_ns[0] == 0 < runs.clocks_ns[1] < runs.clocks_ns[2]
    assert (status, journals(tmp_path)) == (0, [])
    whole = record()
    assert [job.job for job in whole.jobs] == [0, 1, 2, 3]
    assert [job.requeued for job in whole.jobs] == [0, 1, 0, 1]
    assert sorted((rank.job, rank.rank) for rank in whole.ranks) == sorted(
        (job.job, rank) for job in whole.jobs for rank in range(job.processes)
    )
    assert [*whole.conditions.interrupted_ns] == runs.clocks_ns[1:]
    assert whole.wall_s > runs.clocks_ns[2] / 1e9
    (warning,) = [one for one in json.loads(out)["warnings"] if "interrupted" in one]
    assert "under fcfs was interrupted 2 times" in warning and "2 of 4 jobs ran again" in warning
    assert lockstep("report", "lockstep-results", "-o", "page.html")[0] == 0
    assert "2 of 4 jobs ran again" in " ".join((tmp_path / "page.html").read_text().split())


def test_without_resume_the_run_begins_anew(lockstep, runs, tmp_path):
    lockstep(*RUN)
    del runs.ends[0]
    assert lockstep(*RUN)[0] == 0
    assert runs.workloads == [[0, 1, 2, 3]] * 2
    assert not record().conditions.interrupted_ns
    assert journals(tmp_path) == []


def test_a_journal_that_a_recorded_run_has_left_goes(lockstep, runs, tmp_path):
    """As after a kill between the record and the removal."""
    lockstep(*RUN)
    (left,) = journals(tmp_path)
    content = left.read_bytes()
    del runs.ends[0]
    lockstep(*RUN)
    left.write_bytes(content)
    status, _, said = lockstep(*RUN, "--resume")
    assert (status, "0 runs recorded" in said, journals(tmp_path)) == (0, True, [])


def test_parts_under_other_conditions_are_not_joined(lockstep, runs, tmp_path, monkeypatch):
    lockstep(*RUN)
    monkeypatch.setattr(conditions.platform, "release", lambda: "another")
    status, _, said = lockstep(*RUN, "--resume")
    assert status == 2
    assert "--resume: the interrupted run was measured with kernel" in said
    assert len(runs.workloads) == len(journals(tmp_path)) == 1


def test_a_run_that_broke_off_continues_too(lockstep, runs, tmp_path, monkeypatch):
    whole = runs.run_workload

    def broken(workload, progress=None, history=None):
        try:
            return whole(workload, progress, history)
        except KeyboardInterrupt:
            return dataclasses.replace(imitate(workload), failure="timed out", broken="timed out")

    tools = dataclasses.replace(TOOLS, run_workload=broken)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: tools)
    del runs.ends[1]
    assert lockstep(*RUN)[0] == 1
    assert lockstep(*RUN, "--resume")[0] == 0
    assert runs.workloads == [[0, 1, 2, 3], [1, 2, 3]]
    assert journals(tmp_path) == []
