"""The five-way breakdown: what is charged to what, and that it always sums to one."""

import itertools
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyse.breakdown import Breakdown, mean, of_run

times = st.integers(0, 10**12)
ranks = st.fixed_dictionaries(
    {
        "processor": st.integers(0, 3),
        "computing_ns": times,
        "communicating_ns": times,
        "synchronizing_ns": times,
        "voluntary_switches": st.integers(0, 10**7),
        "involuntary_switches": st.integers(0, 10**7),
    }
)


def rank(*, processor=0, computing=0, communicating=0, synchronizing=0, voluntary=0, involuntary=0):
    return {
        "processor": processor,
        "computing_ns": computing,
        "communicating_ns": communicating,
        "synchronizing_ns": synchronizing,
        "voluntary_switches": voluntary,
        "involuntary_switches": involuntary,
    }


@given(st.lists(ranks, max_size=12), st.integers(1, 10**13), st.floats(0, 1e6))
def test_five_shares_sum_to_exactly_one_and_none_is_negative(records, makespan_ns, switch_ns):
    shares = astuple(of_run(records, range(4), makespan_ns, switch_ns))
    assert min(shares) >= 0
    assert all(sum(order) == 1.0 for order in itertools.permutations(shares))


@given(st.lists(st.floats(0, 1e3), min_size=4, max_size=4))
def test_any_shares_make_a_breakdown(shares):
    breakdown = Breakdown.of(*shares)
    assert sum(astuple(breakdown)) == 1.0
    if sum(shares) <= 1:
        assert astuple(breakdown)[:4] == pytest.approx(shares, abs=2**-39)


def test_a_processor_is_idle_when_none_of_its_processes_runs():
    run = of_run([rank(computing=300), rank(computing=200, synchronizing=100)], [0], 1000, 0)
    assert astuple(run) == pytest.approx((0.5, 0, 0.1, 0, 0.4))


def test_processors_without_ranks_are_idle_and_count():
    run = of_run([rank(computing=1000)], [0, 1], 1000, 0)
    assert astuple(run) == pytest.approx((0.5, 0, 0, 0, 0.5))


def test_voluntary_switches_are_taken_from_the_waits_that_made_them():
    run = of_run([rank(computing=500, communicating=100, synchronizing=300, voluntary=20)], [0], 1000, 10)
    assert astuple(run) == pytest.approx((0.5, 0.05, 0.15, 0.2, 0.1))


def test_involuntary_switches_are_taken_from_unaccounted_time():
    run = of_run([rank(computing=500, synchronizing=300, involuntary=5)], [0], 1000, 10)
    assert astuple(run) == pytest.approx((0.5, 0, 0.3, 0.05, 0.15))


def test_switches_never_take_more_than_there_is():
    run = of_run([rank(computing=900, synchronizing=50, voluntary=99, involuntary=99)], [0], 1000, 10)
    assert astuple(run) == pytest.approx((0.9, 0, 0, 0.1, 0))


def test_more_time_than_the_window_is_scaled_down():
    assert astuple(of_run([rank(computing=2000)], [0], 1000, 0)) == (1, 0, 0, 0, 0)


def test_the_mean_is_taken_part_by_part():
    assert astuple(mean([Breakdown.of(1, 0, 0, 0), Breakdown.of(0, 0, 0.5, 0)])) == (0.5, 0, 0.25, 0, 0.25)
