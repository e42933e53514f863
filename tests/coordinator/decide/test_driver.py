"""The driver: the decisions that follow from events, and real runs from end to end."""

import os
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_sets import conduct
from runs import usable, workload

from coordinator import policies
from coordinator.decide.conductor import active_ranks
from coordinator.drive.driver import run_workload
from coordinator.host.mechanisms import known
from coordinator.host.priority import levels
from coordinator.view import After, Decision, ExecutionTime, Job, Reason, Slot
from coordinator.workload import Workload
from workloads.validation import InputError

MS = 1_000_000


def two_process_jobs(*arrivals_ms):
    return [Job(number, 2, at * MS, moldable=True) for number, at in enumerate(arrivals_ms)]


def test_jobs_begin_when_they_arrive_and_leave_in_any_order():
    gang = policies.create("gang", {"quantum_ms": 10})
    conductor, job_set = conduct(gang, two_process_jobs(0, 0, 25), lead_ns=5 * MS)
    assert job_set.launched == {0: (0, 1), 1: (0, 1), 2: (0, 1)}
    for job in range(3):
        assert not conductor.prepared
        conductor.ready(job, 0)
    assert conductor.prepared and not job_set.begun
    assert conductor.due_ns() == -5 * MS
    conductor.advance(-5 * MS)
    assert job_set.begun == {0: (0, (0, 1)), 1: (0, (0, 1))}
    assert [at for at, _ in job_set.published] == [0], "jobs of one instant arrive together"
    assert conductor.due_ns() == 20 * MS
    conductor.advance(20 * MS)
    assert job_set.begun[2] == (25 * MS, (0, 1))
    # The table for the arrival is out; what happens before it cannot go back in time.
    conductor.leave(1)
    conductor.advance(22 * MS)
    assert job_set.published[-1][0] == 25 * MS
    for job, now_ms in ((0, 40), (2, 50)):
        conductor.leave(job)
        assert conductor.due_ns() <= now_ms * MS
        conductor.advance(now_ms * MS)
    assert conductor.over and conductor.due_ns() is None
    assert job_set.reasons == [Reason.ARRIVAL] * 2 + [Reason.DEPARTURE] * 3


def test_what_ranks_of_a_job_say_before_it_begins_or_after_it_has_left_changes_nothing():
    jobs = [Job(number, 2, number * 50 * MS, malleable=True) for number in range(2)]
    conductor, job_set = conduct(policies.create("dynamic", {}), jobs)
    for job in range(2):
        conductor.ready(job, 0)
    conductor.advance(0)
    conductor.evolve(1, 1)
    conductor.advance(10 * MS)
    assert job_set.reasons == [Reason.ARRIVAL]
    conductor.evolve(0, 1)
    conductor.advance(20 * MS)
    assert job_set.reasons == [Reason.ARRIVAL, Reason.PHASE]
    assert len(job_set.decided[-1][2].placements[0]) == 1
    conductor.leave(0)
    conductor.advance(30 * MS)
    conductor.evolve(0, 2)
    conductor.advance(50 * MS)
    assert job_set.reasons[2:] == [Reason.DEPARTURE, Reason.ARRIVAL]
    conductor.evolve(1, 0)
    conductor.advance(60 * MS)
    assert len(job_set.decided[-1][2].placements[1]) == 1, "nobody can use fewer than one"


def test_a_job_that_fails_before_it_arrives_never_arrives():
    conductor, job_set = conduct(policies.create("none", {}), two_process_jobs(0, 50))
    conductor.ready(0, 0)
    conductor.advance(0)
    conductor.leave(1)
    assert conductor.due_ns() is None
    conductor.leave(0)
    conductor.advance(20 * MS)
    conductor.leave(0)
    assert conductor.over and conductor.due_ns() is None
    assert job_set.reasons == [Reason.ARRIVAL, Reason.DEPARTURE]


def test_a_job_that_follows_one_that_fails_arrives_after_that_all_the_same():
    """Job 1 fails before it arrives: job 2, which follows it, counts from then."""
    first, second, third, fourth = two_process_jobs(0, 50, 10, 20)
    jobs = [first, second, replace(third, after=After(1, 7 * MS)), replace(fourth, after=After(0))]
    conductor, job_set = conduct(policies.create("none", {}), jobs)
    for job in range(4):
        conductor.ready(job, 0)
    conductor.advance(0)
    conductor.leave(1)
    assert conductor.due_ns() == 50 * MS
    conductor.leave(0)
    conductor.advance(30 * MS)
    assert conductor.arrival_ns(3) == 30 * MS and 3 in job_set.begun
    conductor.advance(50 * MS)
    assert conductor.due_ns() == conductor.arrival_ns(2) == 57 * MS and 2 not in job_set.begun
    conductor.advance(57 * MS)
    assert job_set.begun[2][0] == 57 * MS and 1 not in job_set.begun


def test_a_job_that_follows_none_of_the_workload_arrives_at_its_own_time():
    first, second = two_process_jobs(0, 50)
    conductor, _ = conduct(policies.create("none", {}), [first, replace(second, after=After(7, MS))])
    conductor.advance(0)
    assert conductor.due_ns() == 50 * MS


@pytest.mark.slow
def test_real_jobs_follow_others():
    jobs = workload("fcfs", jobs=3, phases=300)
    first, second, third = jobs.jobs
    second = replace(second, arrival_s=30.0, after=After(0, 100 * MS))
    result = run_workload(replace(jobs, jobs=(first, second, replace(third, after=After(1)))))
    assert result.failure == ""
    one, two, three = result.jobs
    late_ns = two.arrival_ns - one.finish_ns - 100 * MS
    assert 0 <= late_ns < 1000 * MS and two.start_ns >= two.arrival_ns
    assert two.finish_ns <= three.arrival_ns <= three.start_ns < three.finish_ns < 20_000 * MS


@dataclass(frozen=True)
class AdmittingLater:
    """Decides a job's size only when it places it, in tables of one slot."""

    reacts_to_phases: ClassVar[bool] = False
    uses_attained_service: ClassVar[bool] = False
    slot_ms: int = 10

    def processes(self, job, view):
        return None

    def decide(self, view, reason):
        jobs = {job.number: (0,) for job in view.jobs}
        return Decision(jobs, (Slot((tuple(jobs), ()), self.slot_ms * MS),), cyclic=False)


def test_a_moldable_job_whose_size_admission_tells_waits_with_all_that_it_can_use():
    conductor, job_set = conduct(AdmittingLater(), two_process_jobs(0, 0))
    assert job_set.launched == {0: (0, 1), 1: (0, 1)} and not conductor.prepared
    conductor.ready(0, -1)
    conductor.ready(1, -1)
    job_set.launched.clear()
    conductor.advance(0)
    assert job_set.begun == {0: (0, (0,)), 1: (0, (0,))} and not job_set.launched


def test_a_rigid_job_whose_size_admission_tells_is_launched_then_and_begins_when_ready():
    conductor, job_set = conduct(AdmittingLater(), [Job(0, 2)])
    assert conductor.prepared and not job_set.launched
    conductor.advance(0)
    assert job_set.launched == {0: (0,)} and not job_set.begun
    conductor.ready(0, 3 * MS)
    assert job_set.begun == {0: (3 * MS, (0,))}
    assert conductor.admitted_ns == {0: 0}


def test_between_nodes_some_of_a_moldable_job_wait_wherever_it_may_be_placed():
    """Two nodes of two processors: job 0 takes three of them, job 1 gets the last, on the second node."""
    jobs = [Job(0, 3), Job(1, 3, MS, moldable=True, estimate=ExecutionTime(1.0, beta_s=0.2))]
    conductor, job_set = conduct(policies.create("asp", {}), jobs, 4, node_of=[0, 0, 1, 1])
    assert job_set.launched == {0: (0, 1, 2), 1: (0, 1, 2, 3)}
    job_set.launched.clear()
    for job in range(2):
        conductor.ready(job, 0)
    conductor.advance(MS)
    assert job_set.begun == {0: (0, (0, 1, 2)), 1: (MS, (3,))} and not job_set.launched


def test_seats_are_the_first_free_ranks_of_each_node():
    assert active_ranks((0, 1, 2, 3), (3, 1, 2), (0, 0, 1, 1)) == (2, 0, 3)
    assert active_ranks((0, 2), (0, 1), (0, 0, 1, 1)) is None
    assert active_ranks((0, 1, 0), (1, 1), (0, 0)) == (0, 1)


def test_a_policy_whose_tables_have_no_length_is_an_error_not_a_hang():
    conductor, _ = conduct(AdmittingLater(slot_ms=0), two_process_jobs(0))
    with pytest.raises(ValueError, match="over as well"):
        conductor.advance(0)


@given(
    policy=st.sampled_from(["none", "implicit", "gang", "partitioned", "batch"]),
    arrivals=st.lists(st.integers(0, 100), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
    lead_ms=st.sampled_from([0, 5]),
)
def test_every_job_begins_once_after_its_arrival_and_decisions_never_go_back(
    policy, arrivals, order, lead_ms
):
    jobs = two_process_jobs(*arrivals)
    conductor, job_set = conduct(policies.create(policy, {}), jobs, lead_ns=lead_ms * MS)
    for job in jobs:
        conductor.ready(job.number, 0)
    now_ns, left = -lead_ms * MS, set()
    while not conductor.over:
        conductor.advance(now_ns)
        for job in order.sample(sorted(job_set.begun), len(job_set.begun)):
            if job not in left and order.random() < 0.5:
                left.add(job)
                conductor.leave(job)
        now_ns += 3 * MS
    assert all(job_set.begun[job.number][0] >= job.arrival_ns for job in jobs)
    times = [at for at, _ in job_set.published]
    assert times == sorted(times) and len(job_set.decided) <= len(set(arrivals)) + len(jobs)


def course(conductor, job_set, jobs, choices):
    """What happens on two processors, of which one may be lost: methods of the conductor with arguments."""
    now_ns = -5 * MS
    lost = False
    while not conductor.over:
        now_ns += choices.randrange(4) * MS
        due_ns = conductor.due_ns()
        if due_ns is not None and due_ns <= now_ns:
            yield "advance", now_ns
        job = choices.choice(jobs).number
        if conductor.is_over(job):
            continue
        if job in job_set.places and job not in job_set.begun:
            yield "ready", job, now_ns
        elif job in job_set.begun and choices.random() < 0.5:
            yield "leave", job
        elif not lost and choices.random() < 0.1:
            lost = True
            gone = choices.randrange(2)
            here = [
                one for one, place in job_set.places.items() if gone in place and not conductor.is_over(one)
            ]
            failed = tuple(one for one in here if one in job_set.begun)
            for displaced in {*here} - {*failed}:
                del job_set.places[displaced]
            yield "lose", (gone,), failed


@given(
    policy=st.sampled_from(["none", "gang", "partitioned", "batch", "two-queue", "easy"]),
    arrivals=st.lists(st.integers(0, 30), min_size=1, max_size=5),
    choices=st.randoms(use_true_random=False),
)
def test_the_same_events_lead_to_the_same_decisions(policy, arrivals, choices):
    jobs = [Job(number, 1, at * MS, moldable=True) for number, at in enumerate(arrivals)]

    (conductor, job_set), (again, other) = (
        conduct(policies.create(policy, {}), jobs, lead_ns=5 * MS, node_of=[0, 1]) for _ in range(2)
    )
    seen = []
    for name, *arguments in islice(course(conductor, job_set, jobs, choices), 60):
        seen.append((name, arguments))
        getattr(conductor, name)(*arguments)
    for name, arguments in seen:
        getattr(again, name)(*arguments)
    assert (other.decided, other.orders, other.published) == (
        job_set.decided,
        job_set.orders,
        job_set.published,
    )
    assert again.placements == conductor.placements and again.due_ns() == conductor.due_ns()


def test_jobs_that_a_loss_ends_do_not_move_as_others_end():
    """Gang scheduling would give the place of the first to the second, which is about to end as well."""
    jobs = [Job(number, 1, number * MS) for number in range(3)]
    conductor, job_set = conduct(policies.create("gang", {}), jobs)
    conductor.advance(5 * MS)
    for job in range(3):
        conductor.ready(job, 5 * MS)
    conductor.advance(500 * MS)
    assert job_set.begun.keys() == {0, 1, 2} and job_set.places[0] == job_set.places[2]
    conductor.lose(job_set.places[0], [0, 2])
    conductor.advance(600 * MS)
    assert job_set.reasons[-2:] == [Reason.ARRIVAL, Reason.NODE_LOST]
    assert not conductor.is_over(1) and conductor.is_over(2)


REAL = [
    ("partitioned", {}, "none"),
    ("processor-sets", {"hold_ms": 20}, "none"),
    ("multilevel-two-queue", {"quanta_ms": [20, 40], "slots": [1, 0], "insert": True}, "signals"),
    *(("gang", {"quantum_ms": 10}, mechanism) for mechanism in known()),
]
"""What differs for the driver: no slots, and tables that are cyclic or not."""


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "options", "mechanism"), REAL, ids=str)
def test_three_jobs_run_to_their_end(policy, options, mechanism):
    usable("signals" if mechanism == "none" else mechanism)
    messages, text = [], "auto" if mechanism == "none" else mechanism
    work = workload(policy, jobs=3, phases=300, mechanism=text, arrival_s=0.02, options=options)
    result = run_workload(work, messages.append)
    assert (result.failure, result.mechanism) == ("", mechanism)
    for number, job in enumerate(result.jobs):
        assert job.failure == "" and len(job.placement) == job.processes
        assert job.arrival_ns == number * 20 * MS
        assert job.arrival_ns - 1 * MS <= job.start_ns < job.finish_ns
        assert sum(rank.job == number for rank in result.ranks) == job.processes
    assert all(rank.phases == 300 and rank.timeline is None for rank in result.ranks)
    assert policy != "gang" or result.switches
    assert sum("has finished" in line for line in messages) == 3


@pytest.mark.slow
def test_the_driver_has_a_prompt_priority_while_it_drives():
    if levels() is None:
        pytest.skip("this user may not have a higher priority")
    before, seen = os.sched_getscheduler(0), []
    result = run_workload(
        workload("none", jobs=1, phases=20), lambda _: seen.append(os.sched_getscheduler(0))
    )
    assert result.failure == "" and {*seen} == {os.SCHED_FIFO | os.SCHED_RESET_ON_FORK}
    assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == before


@pytest.mark.slow
def test_a_malleable_job_shares_its_processors_while_another_is_there():
    """Job 0 has both processors, one while job 1 runs, and both again; what it had is on record."""
    counts = (250, 40)
    programs = [{"malleable": True, "phases": count} for count in counts]
    work = workload("dyn-equi", granularity_us=1000, arrival_s=0.05, timeout_s=180.0, programs=programs)
    messages = []
    result = run_workload(work, messages.append)
    assert result.failure == "" and [job.processes for job in result.jobs] == [2, 2]
    assert [line[-11:] for line in messages if "job 0 continues" in line] == ["1 processes", "2 processes"]
    sizes = {rank.job: rank.sizes for rank in result.ranks if rank.rank == 0}
    assert {job: [active for _, active in size] for job, size in sizes.items()} == {0: [2, 1, 2], 1: [1]}
    for job, count in enumerate(counts):  # whoever does it, the phases are the work of two processes
        computing_ns = sum(rank.computing_ns for rank in result.ranks if rank.job == job)
        assert 2 * count * 1e6 <= computing_ns < 1.5 * 2 * count * 1e6


@pytest.mark.slow
def test_a_run_that_takes_too_long_fails_and_says_so():
    result = run_workload(workload("gang", phases=100_000, timeout_s=0.7))
    assert "timed out: the run may take 0.7 s" in result.failure
    assert all(job.finish_ns is None and "timed out" in job.failure for job in result.jobs)


@pytest.mark.slow
def test_realtime_ranks_share_by_round_robin_where_permitted():
    if known()["realtime"].unavailable():
        pytest.skip(known()["realtime"].unavailable())
    result = run_workload(workload("implicit", phases=200, waiting="fixed", local="rr"))
    assert result.failure == ""


@pytest.mark.slow
def test_a_job_of_more_processes_than_processors_goes_round():
    large = workload("implicit", jobs=1, processes=5, phases=50, waiting="global-adaptive")
    result = run_workload(large)
    count = len(large.processors)
    assert result.failure == "" and len(result.ranks) == 5
    assert result.jobs[0].placement == tuple(rank % count for rank in range(5))
    assert "one process per processor" in refused(policy="batch", jobs=1, processes=5)


def refused(**changes):
    with pytest.raises(InputError) as caught:
        run_workload(workload(**changes))
    return str(caught.value)


def test_what_cannot_be_had_is_refused_before_anything_starts():
    assert "did you mean 'signals'" in refused(policy="gang", mechanism="signal")
    assert "must be one of other, rr" in refused(local="fifo")
    lonely = workload("batch")
    with pytest.raises(InputError, match=r"must be at most 1.*one process per processor"):
        run_workload(Workload(lonely.jobs, lonely.policy, lonely.processors[:1]))
    assert "cannot move between hosts" in refused(
        policy="dyn-equi", hosts=("a", "b"), programs=[{"malleable": True}]
    )
    with pytest.raises(InputError, match="may not use that core"):
        run_workload(Workload(lonely.jobs[:1], lonely.policy, (0, max(os.sched_getaffinity(0)) + 1)))


@dataclass(frozen=True)
class Swapping:
    """Places each job on the processor that the rehearsal did not foresee once another has left."""

    reacts_to_phases: ClassVar[bool] = False
    uses_attained_service: ClassVar[bool] = False

    def processes(self, job, view):
        return 1

    def decide(self, view, reason):
        (first, *_) = view.jobs or (None,)
        places = {first.number: (first.number % 2 if reason is Reason.ARRIVAL else 0,)} if first else {}
        return Decision(places, (Slot((tuple(places),) * 2),))


def test_between_nodes_jobs_start_where_they_are_foreseen_and_again_where_they_were_not():
    jobs = [Job(number, 1, number * MS) for number in range(3)]
    conductor, job_set = conduct(Swapping(), jobs, node_of=[0, 1])
    # Only the first job is placed in the rehearsal; the others are guessed to begin at processor 0.
    assert job_set.launched == {0: (0,), 1: (0,), 2: (0,)}
    for number in range(3):
        conductor.ready(number, 0)
    conductor.advance(2 * MS)
    conductor.leave(0)
    conductor.advance(3 * MS)
    assert job_set.begun[1] == (3 * MS, (0,))
    conductor.lose([1])
    conductor.advance(4 * MS)
    assert job_set.reasons[-1] is Reason.NODE_LOST


def test_a_job_that_waits_on_the_wrong_node_is_started_again():
    jobs = [Job(number, 1, 0) for number in range(2)]
    conductor, job_set = conduct(policies.create("gang", {"quantum_ms": 10}), jobs, node_of=[0, 1])
    assert job_set.launched == {0: (0,), 1: (1,)}
    # The first fails before it arrives: its place is free, and the second is to have it.
    conductor.ready(1, 0)
    conductor.leave(0)
    conductor.advance(0)
    assert job_set.launched[1] == (0,) and 1 not in job_set.begun
    conductor.ready(1, 5 * MS)
    assert job_set.begun[1] == (5 * MS, (0,))


def test_a_job_whose_node_is_lost_before_it_begins_starts_anew_elsewhere():
    """Two nodes of one processor; job 1 is to arrive on the second, which is lost before."""
    jobs = [Job(0, 1, 0), Job(1, 1, 10 * MS), Job(2, 1, 0)]
    conductor, job_set = conduct(policies.create("gang", {"quantum_ms": 10}), jobs, node_of=[0, 1])
    assert job_set.launched == {0: (0,), 1: (0,), 2: (1,)}
    for job in range(3):
        conductor.ready(job, 0)
    conductor.advance(0)
    assert set(job_set.begun) == {0, 2}
    conductor.lose([0], failed=[0])
    assert conductor.is_over(0) and not conductor.is_over(2)
    conductor.advance(5 * MS)
    conductor.advance(10 * MS)
    assert job_set.launched[1] == (1,) and 1 not in job_set.begun
    conductor.ready(1, 12 * MS)
    assert job_set.begun[1] == (12 * MS, (1,))
    runs = [slot.runs for slot in job_set.published[-1][1].decision.slots]
    assert runs == [((), (2,)), ((), (1,))]
