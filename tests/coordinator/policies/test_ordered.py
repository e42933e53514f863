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
from coordinator.policies.ordered import BACKFILLS, QUEUES, earliest, occupy, score
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
@given(JOBS, st.sampled_from(STATIC))
def test_conservative_never_starts_a_job_after_a_reservation_of_it(jobs, order):
    outcome, plans = played(jobs, order=order, backfill="conservative")
    for _, plan in plans:
        for job, start_ns in plan.decision.state.starts_ns.items():
            assert outcome.start_ns[job] <= start_ns


@settings(max_examples=150, deadline=None)
@given(JOBS, st.sampled_from(STATIC))
def test_easy_never_delays_the_first_job(jobs, order):
    """As long as a job is the first to wait, the time at which enough processors are free, by the estimates
    of those that run, does not grow."""
    columns = made(jobs)
    facts = zip(columns.submit_ns.tolist(), columns.estimates_ns().tolist(), strict=True)
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
        placements, ends_ns = plan.decision.placements, plan.decision.state.ends_ns
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
        assert begins_ns[earliest(size, length, begins_ns, free, steps)] == next(fits)


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_a_job_without_an_estimate_comes_to_its_turn(backfill):
    jobs = [(0, 8, 3, 1.0), (1, 8, 3, 1.0), (1, 1, 1, 1.0)]
    outcome, _ = played(jobs, order="ljf", backfill=backfill)
    assert outcome.finished.all()
