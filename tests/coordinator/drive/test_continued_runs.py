"""The rest of a run: its clock goes on where it stood, and its history hears of begins and ends of jobs."""

import time
from dataclasses import replace

import pytest
from job_sets import JobSet
from runs import needs_two, workload

from coordinator import policies
from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Session
from coordinator.drive.driver import run_workload
from coordinator.view import Job, Machine, Reason

S = 1_000_000_000


class History:
    def __init__(self, begin_ns):
        self.begin_ns = begin_ns
        self.heard = []
        self.results = {}
        self.ranks = {}

    def begins(self, job, at_ns):
        self.heard.append(("begins", job))
        assert at_ns >= self.begin_ns

    def ends(self, job, ranks, at_ns):
        self.heard.append(("ends", job.number))
        self.results[job.number], self.ranks[job.number] = job, tuple(ranks)
        assert at_ns >= (job.finish_ns or 0)


def test_jobs_that_have_arrived_before_the_rest_begins_arrive_at_once():
    """In the order of their arrivals, since when they have waited; later ones come when they come."""
    jobs = [Job(number, 2, arrival_ns) for number, arrival_ns in ((3, 7 * S), (5, 2 * S), (6, 11 * S))]
    job_set = JobSet()
    session = job_set.watch(Session(policies.create("fcfs", {}), Machine(2), jobs))
    conductor = Conductor(session, jobs, job_set, lead_ns=S // 100)
    conductor.prepare(10 * S)
    for job in (3, 5, 6):
        conductor.ready(job, 10 * S)
    conductor.advance(10 * S)
    assert [(reason, at_ns) for reason, at_ns, _ in job_set.decided] == [(Reason.ARRIVAL, 10 * S)]
    assert job_set.begun == {5: (10 * S, (0, 1))}
    conductor.leave(5)
    conductor.advance(12 * S)
    assert job_set.begun[3] == (12 * S, (0, 1))


def test_the_first_jobs_of_a_rest_are_launched_ahead_of_it():
    """Those that the first decision places, where more wait than are launched."""
    jobs = [Job(number, 1, number * S) for number in range(6)]
    job_set = JobSet()
    session = Session(policies.create("ordered", {"order": "ljf"}), Machine(1), jobs)
    Conductor(session, jobs, job_set, ahead=1).prepare(3 * S)
    assert len(job_set.launched) == 1


@needs_two
@pytest.mark.slow
@pytest.mark.parametrize("policy", ["gang", "fcfs"])
def test_the_clock_goes_on_even_after_a_restart_of_the_host(policy):
    """It is ahead of the host's own clock, which begins again with the host."""
    begin_ns = time.monotonic_ns() + 1000 * S
    history = History(begin_ns)
    result = run_workload(workload(policy, jobs=3, phases=1000, processes=2), history=history)
    assert not result.failure
    assert all(begin_ns <= job.start_ns < job.finish_ns < begin_ns + 60 * S for job in result.jobs)
    assert [job.arrival_ns for job in result.jobs] == [0, 0, 0]
    assert sorted(history.heard) == sorted((what, n) for what in ("begins", "ends") for n in range(3))
    ended = {job.number: replace(job, status=None) for job in result.jobs}  # their launchers end later
    assert history.results == ended
    ranks = {n: tuple(rank for rank in result.ranks if rank.job == n) for n in range(3)}
    assert history.ranks == ranks
    if policy == "gang":
        assert result.switches and all(switch.due_ns >= begin_ns for switch in result.switches)


@needs_two
@pytest.mark.slow
def test_a_job_that_fails_is_told_with_its_reason():
    history = History(0)
    failing = workload("fcfs", jobs=1, command=["false"], processes=1)
    result = run_workload(failing, history=history)
    assert history.heard[0] == ("begins", 0)
    assert history.results[0] == result.jobs[0]  # the last word, if it first seems to have finished
    assert "status 1" in history.results[0].failure


@needs_two
@pytest.mark.slow
def test_a_run_whose_jobs_are_all_over_ends_at_once():
    result = run_workload(workload("fcfs", jobs=0), history=History(5 * S))
    assert (result.failure, result.jobs) == ("", ())
