"""The journal of a run of a log: what remains of a run that was interrupted, wherever its last line ends."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_runs import made_up
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coordinator.view import ANY_JOB, After
from coordinator.workload import JobResult, ParallelJob, Result
from harness.store import journal
from harness.store.conditions import Conditions
from workloads.program import Program

S = 1_000_000_000
JOBS = [ParallelJob(number, Program(phases=1, processes=1)) for number in range(5)]
RUN = journal.RunName("d" * 64, (0, 0, "policy", "{}", 0))
HEADER = journal.header(RUN, Conditions(host="here", kernel="6"))


def result(number, at_ns, failure="", requeued=0):
    finish_ns = None if failure else at_ns
    return JobResult(number, 1, (0,), 0, 0, finish_ns, failure, requeued=requeued)


def ranks(number, at_ns):
    return [replace(made_up(number, 0, 0, S, at_ns), processes=1)]


@pytest.fixture
def place(tmp_path):
    return RUN.place(tmp_path / "lockstep.sqlite")


def opened(place, *, resume=True, warn=pytest.fail):
    return journal.kept(place, HEADER, warn, resume=resume)


def play(history, until=99):
    """One job after the other, each for a second of the run's clock; it is killed after ``until`` steps."""
    now_ns, steps, jobs = history.begin_ns, 0, []
    for job in history.past.rest(JOBS):
        if steps == until:
            return None
        history.begins(job.number, now_ns)
        now_ns, steps = now_ns + S, steps + 1
        if steps == until:
            return None
        jobs.append(result(job.number, now_ns))
        history.ends(jobs[-1], ranks(job.number, now_ns), now_ns)
        steps += 1
    every = tuple(rank for job in jobs for rank in ranks(job.number, job.finish_ns))
    return history.past.joined(Result(tuple(jobs), every, (), "none", "", "mpich"))


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lives=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3000)), max_size=6))
def test_each_job_is_there_once_and_what_has_ended_stays(place, lives):
    """Whenever the run is killed, and however much of its last lines the disk lacks."""
    place.unlink(missing_ok=True)
    ended, interruptions = {}, 0
    for until, lost_bytes in lives:
        with opened(place, warn=lambda text: None) as history:
            assert {n: end.job for n, end in history.past.ended.items()} == ended
            play(history, until)
        whole = place.read_bytes()
        place.write_bytes(whole[: max(0, len(whole) - lost_bytes)])
        with place.open("rb") as file:
            past = journal.read(file.fileno(), HEADER, lambda text: None).past
        ended = {n: end.job for n, end in past.ended.items()}
        interruptions = 0 if past.empty else len(past.interrupted_ns) + 1
    with opened(place, warn=lambda text: None) as history:
        last = play(history)
    assert [job.number for job in last.jobs] == [rank.job for rank in last.ranks] == [*range(5)]
    assert [job.finish_ns for job in last.jobs] == [(n + 1) * S for n in range(5)]
    assert {n: last.jobs[n] for n in ended} == ended
    known = history.past.known()
    assert len(known.get("interrupted_ns", ())) == interruptions
    assert known.get("ran_again", 0) == sum(bool(job.requeued) for job in last.jobs)


def test_a_line_that_is_changed_ends_it_and_is_told(place):
    with opened(place) as history:
        play(history)
    lines = place.read_bytes().splitlines(keepends=True)
    for number in range(1, len(lines)):
        changed = lines[number].replace(b"at_ns", b"at_nz")
        place.write_bytes(b"".join([*lines[:number], changed, *lines[number + 1 :]]))
        told = []
        with opened(place, warn=told.append) as history:
            assert len(history.past.ended) == (number - 1) // 2
        assert len(told) == 1 and f"line {number + 1} on" in told[0] and told == history.warnings


def test_a_line_is_taken_at_its_place_only(place):
    """The ends of two jobs, exchanged, or one of them left out."""
    with opened(place) as history:
        play(history)
    lines = place.read_bytes().splitlines(keepends=True)
    place.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    with opened(place, warn=lambda text: None) as history:
        assert not history.past.ended


@pytest.mark.parametrize("other", [{"schema": 99}, {"digest": "e" * 64}, {"key": [1, 0]}])
def test_that_of_another_run_or_version_is_not_continued(place, other):
    with journal.kept(place, HEADER | other, pytest.fail, resume=True) as history:
        play(history, 3)
    told = []
    with opened(place, warn=told.append) as history:
        assert (history.past.empty, history.begin_ns) == (True, 0)
    assert "it begins again" in told[0]


def test_only_resume_continues_it(place):
    with opened(place) as history:
        play(history, 3)
    with opened(place, resume=False) as history:
        assert (history.past.rest(JOBS), history.begin_ns) == (tuple(JOBS), 0)
    with opened(place, resume=False) as history:  # no job had begun: nothing was lost
        play(history, 1)
    with opened(place) as history:
        assert (history.past.ended, history.past.again) == ({}, {0})


def test_an_attempt_in_which_no_job_begins_is_no_interruption(place):
    for _ in range(3):
        with opened(place) as history:
            play(history, 0)
    with opened(place) as history:
        play(history, 3)
    for _ in range(3):
        with opened(place) as history:
            assert (history.past.interrupted_ns, [*history.past.ended]) == ([S], [0])


def test_before_the_first_job_begins_nothing_is_interrupted(place):
    with opened(place):
        pass
    with opened(place) as history:
        assert play(history) and history.past.known() == {}


def test_a_job_that_failed_just_before_an_interruption_runs_again(place):
    with opened(place) as history:
        for number, at_s in ((0, 1), (1, 4)):
            history.begins(number, 0)
            history.ends(result(number, 0, "rank 0 has gone"), [], at_s * S)
        history.begins(2, 7 * S)
    with opened(place) as history:
        assert [job.number for job in history.past.rest(JOBS)] == [1, 2, 3, 4]
        history.ends(result(1, 9 * S), ranks(1, 9 * S), 9 * S)
        history.begins(2, 9 * S)
    with opened(place) as history:
        jobs = [result(n, 20 * S, requeued=n == 2) for n in (2, 3, 4)]
        whole = history.past.joined(Result(tuple(jobs), (), (), "none", "", "mpich"))
    assert [job.requeued for job in whole.jobs] == [0, 1, 3, 0, 0]  # job 2 also lost its processors once
    assert whole.failure == "job 0: rank 0 has gone"
    assert history.past.known() == {"interrupted_ns": [7 * S, 9 * S], "ran_again": 2}


LOCKS = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX)
print(flush=True)
input()
"""
"""Program text that has the lock of a file until it gets a line."""


def test_another_process_that_writes_it_is_left_alone(place):
    with subprocess.Popen(
        [sys.executable, "-S", "-c", LOCKS, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        with opened(place) as history:
            assert play(history)
        journal.settle(place, DONE)
        assert place.read_bytes() == b""
        other.communicate(b"\n")
    journal.settle(place, DONE)
    assert not place.exists()


def test_jobs_that_follow_one_that_is_over_arrive_after_it(place):
    """And those that follow any one, in their order, one after each end."""
    afters = [None, After(0, 3 * S), After(ANY_JOB), After(ANY_JOB, S), After(3)]
    jobs = [replace(job, after=after) for job, after in zip(JOBS, afters, strict=True)]
    with opened(place) as history:
        history.begins(0, 0)
        history.ends(result(0, 2 * S), ranks(0, 2 * S), 2 * S)
    with opened(place) as history:
        rest = history.past.rest(jobs)
    assert [(job.number, job.arrival_s, job.after) for job in rest] == [
        (1, 5.0, None),
        (2, 2.0, None),
        (3, 0.0, After(ANY_JOB, S)),
        (4, 0.0, After(3)),
    ]


DONE = SimpleNamespace(succeeded=True, jobs=())


@pytest.mark.parametrize("steps, over", [(9, False), (10, True)])
def test_a_run_that_failed_by_itself_does_not_continue_and_one_that_broke_off_does(place, steps, over):
    """All jobs of the one have ended."""
    with opened(place) as history:
        play(history, steps)
    journal.settle(place, SimpleNamespace(succeeded=False, jobs=[SimpleNamespace(job=n) for n in range(5)]))
    assert place.exists() is not over


def test_a_full_disk_ends_it_and_not_the_run():
    told = []
    with journal.kept(Path("/dev/full"), HEADER, told.append, resume=False) as history:
        assert play(history)
    assert told == history.warnings and len(told) == 1 and os.strerror(28) in told[0]


def test_where_no_file_can_be_there_is_none(tmp_path):
    told = []
    with journal.kept(tmp_path / "no" / "journal", HEADER, told.append, resume=True) as history:
        assert play(history)
    assert len(told) == 1 and "cannot be opened" in told[0]
