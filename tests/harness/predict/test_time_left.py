"""How long simulations still take: replayed by a clock of our own, with costs that were recorded once."""

import heapq
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import SUPPORT

from harness import papers
from harness.measure.time_left import COMPILED, OVERDUE, Guess, Pace, TimeLeft, alike, order, spread
from harness.predict import process_level
from harness.predict.job_level import SimulatedByJob
from harness.predict.simulations import carry_out
from harness.spec import experiment

COSTS = json.loads((SUPPORT / "recorded_costs.json").read_text())
"""CPU time of each part in seconds (tests/benchmarks/time_left.py)."""

WORKERS = 2


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


class Replayed(Exception):
    """The parts were replayed; their values are nobody's business."""


def replay(guesses, costs, workers=WORKERS):
    """The pairs of time and shown time left after each end of a part, and the time of the last end."""
    clock = Clock()
    time_left = TimeLeft(guesses, workers, clock)
    waiting = iter(time_left.order)
    running = []
    estimates = []
    for number in (next(waiting, None) for _ in range(workers)):
        if number is not None:
            heapq.heappush(running, (costs[number], number))
    while running:
        clock.now_s, number = heapq.heappop(running)
        time_left.ended(number)
        estimates.append((clock.now_s, time_left.left_s()))
        if (following := next(waiting, None)) is not None:
            heapq.heappush(running, (clock.now_s + costs[following], following))
    return estimates, clock.now_s


def shown_over_true(said, end_s, share):
    """The time left that is shown after a share of the time, over the true one; None if none is shown."""
    now_s = share * end_s
    known = [(at_s, left_s) for at_s, left_s in said if at_s <= now_s and left_s is not None]
    return (known[-1][0] + known[-1][1] - now_s) / (end_s - now_s) if known else None


def replaying(costs, found):
    """A pool that replays recorded costs instead of computing."""

    def compute(parts, work, progress, keep=None, guess=alike):
        found.append(replay(list(map(guess, parts)), costs))
        raise Replayed

    return compute


def of_hori96(compute):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(papers, "compute", compute)
        papers.reproduce("hori96", quick=True)


def of_processes(compute):
    process_level.predict(experiment.load(str(SUPPORT / "time_left.toml")), None, lambda *step: None, compute)


def of_adaptive(compute):
    back_end = SimulatedByJob.of(experiment.load("adaptive"))
    carry_out(back_end.tasks, back_end, lambda *step: None, compute)


@pytest.mark.parametrize(
    "name, simulate", [("reproduce hori96 --quick", of_hori96), ("simulate time_left.toml", of_processes)]
)
def test_the_time_left_is_within_a_factor_of_1_5_after_a_tenth_of_the_time(name, simulate):
    pairs = []
    with pytest.raises(Replayed):
        simulate(replaying([20 * cost_s for cost_s in COSTS[name]], pairs))  # as of longer jobs
    ((estimates, end_s),) = pairs
    for percent in range(10, 96, 5):
        assert 1 / 1.5 < shown_over_true(estimates, end_s, percent / 100) < 1.5, percent


def test_few_parts_show_no_time_left_rather_than_a_wrong_one():
    pairs = []
    with pytest.raises(Replayed):
        of_adaptive(replaying(COSTS["simulate adaptive"], pairs))
    ((estimates, end_s),) = pairs
    assert len(estimates) == 4 and estimates[0][1] is None and estimates[-1] == (end_s, 0.0)


KINDS = [Guess(1.0, kind) for _ in range(50) for kind in ("slow", "fast")]
LONGER = [Guess(float(1 + number)) for number in range(100)]
ALIKE = [Guess(1.0)] * 60
FIRST_TWO = order(ALIKE)[:2]


@pytest.mark.parametrize(
    "guesses, costs, shares, within",
    [
        (KINDS, [5.0 if guess.kind == "slow" else 0.1 for guess in KINDS], (0.1, 0.5, 0.9), 1.1),
        (LONGER, [guess.seconds**1.4 for guess in LONGER], (0.1, 0.25, 0.5, 0.75, 0.9), 1.5),
        (ALIKE, [30.0 if number in FIRST_TWO else 1.0 for number in range(60)], (0.7,), 1.1),
    ],
    ids=["kinds are told apart", "parts are judged by their like", "what compiles does not count for long"],
)
def test_the_time_left_is_known_where_parts_differ(guesses, costs, shares, within):
    estimates, end_s = replay(guesses, costs)
    for share in shares:
        assert 1 / within < shown_over_true(estimates, end_s, share) < within
    assert guesses is not ALIKE or estimates[0][1] is None


def test_a_part_that_tells_of_its_steps_is_judged_by_them():
    clock = Clock()
    time_left = TimeLeft([Guess(1.0)] * 4, 2, clock)
    first, second = time_left.order[:2]
    for at_s, done in ((30.0, 1), (32.0, 2), (34.0, 3)):  # the first step has compiled
        clock.now_s = at_s
        time_left.advanced(first, done, 10)
        assert time_left.left_s() == (None if done == 1 else pytest.approx(left_at(at_s, done)))
    time_left.advanced(first, 4, 5)
    clock.now_s = 35.0
    assert time_left.left_s() < left_at(34.0, 3) / 2
    time_left.ended(second)


def left_at(now_s, done):
    """Two parts run for 2 s a step of 10; the other running one has told nothing and counts as overdue."""
    still_s = 2.0 * (10 - done)
    overdue_s = OVERDUE * now_s
    return (still_s + overdue_s + 2 * 20.0) / WORKERS


def test_the_end_is_known_and_no_part_at_all_is_no_fault():
    assert replay([Guess(1.0)], [2.0]) == ([(2.0, 0.0)], 2.0)
    assert TimeLeft([], 2).order == []


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=60))
def test_all_parts_are_in_the_order_and_the_longest_is_not_the_last_of_many(seconds):
    guesses = [Guess(one) for one in seconds]
    positions = order(guesses)
    assert sorted(positions) == list(range(len(seconds)))
    rest = [seconds[number] for number in positions if seconds[number] > 0.03 * sum(seconds)]
    assert rest == sorted(rest, reverse=True)


@pytest.mark.parametrize("count", [1, 2, 7, 264])
def test_every_beginning_of_the_order_is_spread_evenly_over_the_parts(count):
    numbers = spread(count)
    assert sorted(numbers) == list(range(count))
    for first in range(10, count):
        mean = sum(numbers[:first]) / first
        assert abs(mean / (count - 1) - 0.5) < 0.1


def test_the_first_of_parts_one_after_the_other_tells_nothing_of_the_others_if_it_may_have_compiled():
    pace = Pace(COMPILED)
    left = [Guess(1.0)] * 4
    estimates = []
    for seconds in (30.0, 2.0, 2.0, 2.0, 2.0):
        estimates.append(pace.state(left)[-1])
        pace.took(Guess(1.0), seconds)
    assert estimates == [None, None, 8.0, 8.0, 8.0]
    assert pace.state([])[-1] == 0.0
    assert Pace(0).state(left)[-1] == 4.0
