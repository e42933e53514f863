"""Orders of the queue and backfilling: what they promise to jobs that wait.

``tests/harness/simulator/test_instants.py`` compares all starts with an independent scheduler.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import policies
from coordinator.policies import allocation
from coordinator.policies.backfilling import earliest, occupy
from coordinator.policies.ordered import BACKFILLS, QUEUES, score
from coordinator.policies.predictions import corrected, predicted
from coordinator.view import ExecutionTime, Job, Machine, Reason, View
from harness.predict.trace import read
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import Following, rigid
from harness.simulator.jobs.simulate import simulate

S = 1_000_000_000
STATIC = [name for name, kind in QUEUES.items() if kind not in allocation.DYNAMIC]
JOBS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 8), st.integers(1, 9), st.sampled_from([1.0, 1.0, 2.0, 5.0])),
    min_size=1,
    max_size=14,
)
"""Times between arrivals, sizes, run times, and estimates over run times."""


def made(jobs):
    gaps, sizes, run_s, factors = (np.array(column) for column in zip(*jobs, strict=True))
    submit_ns = np.cumsum(gaps) * S
    return rigid(submit_ns, sizes.astype(np.int64), run_s.astype(np.int64) * S, factors.astype(float))


def played(jobs, **parameters):
    """The outcome, and the plan of each event with its time."""
    plans = []
    policy = policies.create("ordered", parameters)
    outcome, _ = event_by_event.simulate(
        made(jobs), 8, policy, watch=lambda plan, at_ns: plans.append((at_ns, plan))
    )
    return outcome, plans


@settings(max_examples=150, deadline=None)
@given(JOBS, st.sampled_from(STATIC), st.sampled_from(["user", "perfect"]))
def test_conservative_never_starts_a_job_after_a_reservation_of_it(jobs, order, estimate):
    outcome, plans = played(jobs, order=order, backfill="conservative", estimate=estimate)
    for _, plan in plans:
        for job, start_ns in plan.decision.state.starts_ns.items():
            assert outcome.start_ns[job] <= start_ns


@settings(max_examples=150, deadline=None)
@given(JOBS, st.sampled_from(STATIC))
def test_easy_never_delays_the_first_job(jobs, order):
    """As long as a job is the first to wait, the time at which enough processors are free, by the estimates
    of those that run, does not grow."""
    columns = made(jobs)
    estimates_ns = columns.estimates_ns().tolist()
    facts = zip(columns.submit_ns.tolist(), estimates_ns, strict=True)
    keys = [
        (score(QUEUES[order], submit_ns / S, 0.0, estimate_ns / S, size), job)
        for job, ((submit_ns, estimate_ns), (_, size, *_)) in enumerate(zip(facts, jobs, strict=True))
    ]
    outcome, plans = played(jobs, order=order, backfill="easy")
    promised_ns, before_ns = {}, -1
    for at_ns, plan in plans:
        here = [job for job in range(len(jobs)) if columns.submit_ns[job] <= at_ns]
        waiting = [keys[job] for job in here if outcome.start_ns[job] > at_ns]
        come = min((keys[job] for job in here if columns.submit_ns[job] > before_ns), default=(np.inf, 0))
        promised_ns = {job: end_ns for job, end_ns in promised_ns.items() if keys[job] < come}
        before_ns = at_ns
        _, first = min(waiting, default=come)
        placements, begins_ns = plan.decision.placements, plan.decision.state.begins_ns
        ends_ns = {job: begins_ns[job] + estimates_ns[job] for job in placements}
        free = 8 - sum(len(place) for place in placements.values())
        for end_ns, job in sorted((ends_ns[job], job) for job in placements if waiting):
            free += len(placements[job])
            if free >= columns.max_processes[first]:
                assert end_ns <= promised_ns.get(first, end_ns)
                promised_ns[first] = end_ns
                break


@pytest.mark.parametrize(("name", "parameters"), [("fcfs", {}), ("easy", {"backfill": "easy"})])
def test_the_policies_of_clusters_are_settings_of_it(name, parameters):
    chance = np.random.default_rng(7)
    jobs = [
        (int(gap), int(size), int(run_s), float(factor))
        for gap, size, run_s, factor in zip(
            chance.integers(0, 3, 200),
            chance.integers(1, 9, 200),
            chance.integers(1, 9, 200),
            chance.choice([1.0, 3.0], 200),
            strict=True,
        )
    ]
    one, other = (
        simulate(made(jobs), 8, policies.create(*policy)) for policy in ((name, {}), ("ordered", parameters))
    )
    assert (one.start_ns == other.start_ns).all() and (one.first == other.first).all()


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("order", QUEUES)
def test_jobs_that_follow_others_wait_from_their_arrival_on(order, backfill):
    """The third one arrives when the first has ended: kernel and policy take that time."""
    jobs = rigid(
        np.array([0, 0, 1, 8]) * S, np.ones(4, dtype=np.int64), np.array([10, 20, 50, 50]) * S, np.ones(4)
    )
    following = Following(np.array([-1, -1, 0, -1]), np.array([-1, -1, -1, -1]))
    policy = policies.create("ordered", {"order": order, "backfill": backfill})
    followed = replace(jobs, following=following)
    one, (other, _) = simulate(followed, 1, policy), event_by_event.simulate(followed, 1, policy)
    assert one.start_ns.tolist() == other.start_ns.tolist()


def test_predictions_are_the_mean_of_two_run_times_at_most_the_estimate():
    assert predicted(90, -1, -1) == predicted(90, 20, -1) == 90
    assert predicted(90, 20, 41) == 30
    assert predicted(25, 20, 41) == 25


def test_a_job_that_outlives_its_prediction_gets_one_that_is_twice_as_long():
    assert [corrected(30, 100, elapsed) for elapsed in (0, 29, 30, 59, 60, 99, 100, 200)] == [
        *(30, 30, 60, 60, 100, 100, 100, 100)
    ]


LOG = """; MaxProcs: 2
1 0 -1 10 1 -1 -1 1 1000 -1 1 {0} -1 -1 -1 -1 -1 -1
2 0 -1 20 1 -1 -1 1 1000 -1 1 {0} -1 -1 -1 -1 -1 -1
3 30 -1 40 1 -1 -1 1 40 -1 1 7 -1 -1 -1 -1 -1 -1
4 31 -1 10 2 -1 -1 2 10 -1 1 7 -1 -1 -1 -1 -1 -1
5 32 -1 {1} 1 -1 -1 1 1000 -1 1 {0} -1 -1 -1 -1 -1 -1
6 55 -1 18 1 -1 -1 1 18 -1 1 7 -1 -1 -1 -1 -1 -1
"""
"""The fifth job runs for as long as the first two on average, or longer, and says that it needs 1000 s; the
fourth waits for the third, whose estimate is right."""


@pytest.mark.parametrize(
    ("backfill", "user", "run_s", "starts_s"),
    [
        ("easy", 3, 15, [0, 0, 30, 70, 32, 80]),  # predicted: 15 s, which fit before the fourth job
        ("conservative", 3, 15, [0, 0, 30, 70, 32, 80]),
        ("easy", -1, 15, [0, 0, 30, 70, 80, 80]),  # nobody knows whose it is: its estimate holds
        ("conservative", -1, 15, [0, 0, 30, 70, 80, 80]),
        ("easy", 3, 36, [0, 0, 30, 70, 32, 80]),
        # At 47 s it gets 30 s, at 62 s 60 s. The fourth job is then planned for 92 s: the last one passes.
        ("conservative", 3, 36, [0, 0, 30, 86, 32, 68]),
    ],
)
def test_jobs_are_backfilled_by_what_their_users_ran_last(tmp_path, backfill, user, run_s, starts_s):
    path = tmp_path / "log.swf"
    path.write_text(LOG.format(user, run_s))
    jobs = read(path).jobs
    policy = policies.create("ordered", {"backfill": backfill, "estimate": "last-two"})
    for outcome in (simulate(jobs, 2, policy), event_by_event.simulate(jobs, 2, policy)[0]):
        assert (outcome.start_ns / S).tolist() == starts_s


def test_true_execution_times_are_used_where_they_are_known():
    """Else a policy with perfect estimates goes by those of users."""
    known = Job(0, 1, estimate=ExecutionTime(9.0), execution_time=ExecutionTime(2.0))
    view = View(Machine(1), 0, (known, Job(1, 1, estimate=ExecutionTime(3.0))), 2)
    for estimate, first in (("perfect", 0), ("user", 1)):
        policy = policies.create("ordered", {"order": "sjf", "estimate": estimate})
        assert [*policy.decide(view, Reason.ARRIVAL).placements] == [first]


def test_formulas_of_orders():
    """Numbers by hand: 100 s requested, 4 processors, 50 s of wait, submitted after 1,000 s."""
    values = {name: score(kind, 1000.0, 50.0, 100.0, 4) for name, kind in QUEUES.items()}
    assert values == pytest.approx(
        {
            "fcfs": 1000.0,
            "sjf": 100.0,
            "ljf": -100.0,
            "smallest": 4.0,
            "largest": -4.0,
            "wfp3": -0.5,
            "unicep": -0.25,
            "f1": 8 + 870 * 3,
            "f2": 40 + 25600 * 3,
            "f3": 400 + 6860000 * 3,
            "f4": 200 + 530000 * 3,
            "expansion": -1.5,
        }
    )


def test_one_processor_and_the_first_second_have_scores():
    """Their logarithms would be 0, and minus infinity."""
    assert (
        score(allocation.UNICEP, 0.0, 50.0, 100.0, 1) == score(allocation.UNICEP, 0.0, 50.0, 100.0, 2) == -0.5
    )
    assert score(allocation.F1, 0.0, 0.0, 100.0, 3) == score(allocation.F1, 1.0, 0.0, 100.0, 3) == 6.0


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9), st.integers(1, 9)), max_size=8))
def test_free_processors_by_steps_are_those_of_each_second(spans):
    begins_ns, free, steps = [0] * 20, [9] * 20, 1
    seconds = [9] * 40
    for size, begin, length in spans:
        steps = occupy(size, begin, begin + length, begins_ns, free, steps)
        for second in range(begin, begin + length):
            seconds[second] -= size
    assert begins_ns[:steps] == sorted(set(begins_ns[:steps]))
    for second, expected in enumerate(seconds):
        assert free[sum(begin <= second for begin in begins_ns[:steps]) - 1] == expected
    for size, length in ((1, 1), (5, 3), (9, 20)):
        fits = (at for at in range(40) if all(count >= size for count in seconds[at : at + length]))
        assert begins_ns[earliest(size, length, (0, 0), begins_ns, free, steps)] == next(fits)


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_a_job_without_an_estimate_comes_to_its_turn(backfill):
    jobs = [(0, 8, 3, 1.0), (1, 8, 3, 1.0), (1, 1, 1, 1.0)]
    outcome, _ = played(jobs, order="ljf", backfill=backfill)
    assert outcome.finished.all()
