"""A bounded number of jobs is launched ahead of time, and each one begins, whatever the policy wants."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_sets import conduct

from coordinator import policies
from coordinator.view import ExecutionTime, Job

PROCESSORS = 4
FCFS = policies.create("fcfs", {})
POLICIES = [
    FCFS,
    policies.create("easy", {}),
    policies.create("ordered", {"order": "smallest"}),
    policies.create("ordered", {"order": "ljf", "backfill": "conservative"}),
    policies.create("gang", {"quantum_ms": 10}),
    policies.create("none", {}),
]


def queue(*jobs):
    """Jobs of the given arrival, processes and execution time, in nanoseconds."""
    return [
        Job(number, processes, arrival_ns, estimate=ExecutionTime(run_ns * processes / 1e9))
        for number, (arrival_ns, processes, run_ns) in enumerate(jobs)
    ]


def launches(job_set):
    return [order[1] for order in job_set.orders if order[0] == "launch"]


class Played:
    """A workload under a conductor: jobs are ready ``startup_ns`` after their launch.

    ``most`` is the largest number of jobs that were launched and waited without a place.
    """

    def __init__(self, policy, jobs, runs_ns, *, ahead, startup_ns):
        self.conductor, self.job_set = conduct(policy, jobs, PROCESSORS, ahead=ahead)
        self.most, self._now_ns = 0, 0
        self._runs_ns, self._startup_ns = runs_ns, startup_ns
        self._ready_ns, self._ends_ns = {}, {}
        while not self.conductor.over:
            self._turn()

    def _turn(self):
        begun = self.job_set.begun
        for job in self.job_set.launched:
            self._ready_ns.setdefault(job, self._now_ns + self._startup_ns)
        for job in [job for job, at_ns in self._ready_ns.items() if at_ns == self._now_ns]:
            self.conductor.ready(job, self._now_ns)
        for job, (at_ns, _) in begun.items():
            self._ends_ns.setdefault(job, at_ns + self._runs_ns[job])
        for job in [job for job, at_ns in self._ends_ns.items() if at_ns == self._now_ns]:
            self.conductor.leave(job)
        self.conductor.advance(self._now_ns)
        if self.job_set.published:
            placed = self.job_set.published[-1][1].decision.placements
            waiting = self.job_set.launched.keys() - begun.keys() - placed.keys()
            self.most = max(self.most, len(waiting))
        if self.conductor.lags:
            self.conductor.launch_next()
            return
        if self.job_set.launched.keys() - self._ready_ns.keys() or begun.keys() - self._ends_ns.keys():
            return
        due_ns = self.conductor.due_ns()
        dues = [*self._ready_ns.values(), *self._ends_ns.values(), *([] if due_ns is None else [due_ns])]
        coming = [at_ns for at_ns in dues if at_ns > self._now_ns]
        assert coming or self.conductor.over, "jobs wait for ever"
        self._now_ns = min(coming, default=self._now_ns)


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=15, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, PROCESSORS), st.integers(1, 30)), min_size=1, max_size=12
    ),
    ahead=st.integers(1, 4),
    startup=st.integers(0, 5),
)
def test_few_wait_launched_and_all_begin(policy, jobs, ahead, startup):
    """However long launches take, each job is launched once, and no job waits for ever for others."""
    ms = [(arrival * 10**6, size, run * 10**6) for arrival, size, run in jobs]
    played = Played(policy, queue(*ms), [run for *_, run in ms], ahead=ahead, startup_ns=startup * 10**6)
    assert sorted(launches(played.job_set)) == sorted(played.job_set.begun) == list(range(len(jobs)))
    assert played.most <= ahead


def test_the_next_job_in_order_of_arrival_is_launched_when_one_begins():
    jobs = queue((0, 4, 9), (30, 1, 9), (20, 1, 9), (40, 1, 9))
    conductor, job_set = conduct(FCFS, jobs, PROCESSORS, ahead=2)
    assert launches(job_set) == [0, 2]
    conductor.ready(0, 0)
    conductor.advance(0)
    assert conductor.lags
    conductor.launch_next()
    assert launches(job_set) == [0, 2, 1]
    assert not conductor.lags


def test_a_job_that_the_policy_wants_is_launched_though_others_wait():
    """Job 3 is the smallest, and the two that are launched are larger."""
    smallest = policies.create("ordered", {"order": "smallest"})
    jobs = queue((0, 4, 9), (1, 3, 9), (2, 3, 9), (3, 1, 9))
    conductor, job_set = conduct(smallest, jobs, PROCESSORS, ahead=2)
    conductor.ready(0, 0)
    conductor.advance(0)
    conductor.launch_next()
    assert launches(job_set) == [0, 1, 2]
    conductor.advance(3)
    conductor.leave(0)
    conductor.advance(9)
    assert launches(job_set) == [0, 1, 2, 3]
    conductor.ready(3, 12)
    assert job_set.begun[3] == (12, (0,))


@pytest.mark.parametrize(("policy", "together"), [("none", 5), ("fcfs", 2)])
def test_what_begins_with_the_run_is_launched_before_it(policy, together):
    jobs = queue(*[(0, 4, 9)] * 5, *[(5, 4, 9)] * 3)
    _, job_set = conduct(policies.create(policy, {}), jobs, PROCESSORS, ahead=2)
    assert launches(job_set) == list(range(together))


def test_a_job_that_is_over_before_its_launch_is_never_launched():
    conductor, job_set = conduct(FCFS, queue((0, 4, 9), (1, 1, 9), (2, 1, 9)), PROCESSORS, ahead=1)
    conductor.leave(1)
    conductor.ready(0, 0)
    conductor.advance(0)
    while conductor.lags:
        conductor.launch_next()
    assert launches(job_set) == [0, 2]


def test_after_the_loss_of_a_node_no_job_is_launched_there_ahead_of_time():
    """Job 2 would have had its processor there; it gets another one when it comes."""
    jobs = queue((0, 1, 9), (0, 1, 9), (20, 2, 9), (30, 2, 9))
    conductor, job_set = conduct(FCFS, jobs, PROCESSORS, ahead=1, node_of=[0, 0, 1, 1])
    before = launches(job_set)
    conductor.ready(0, 0)
    conductor.ready(1, 0)
    conductor.advance(0)
    conductor.lose((0, 1), [job for job, (_, place) in job_set.begun.items() if set(place) & {0, 1}])
    while conductor.lags:
        conductor.launch_next()
    assert all(
        set(order[2]) <= {2, 3} for order in job_set.orders if order[0] == "launch" and order[1] not in before
    )
    conductor.advance(20)
    assert set(job_set.launched[2]) == {2, 3}
