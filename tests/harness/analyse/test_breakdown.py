"""The five-way breakdown: what is charged to what, and that it always sums to one."""

import itertools
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_results import rank_result

from harness.analyse.breakdown import Breakdown, mean, of_run, states

times = st.integers(0, 10**12)
ranks = st.builds(
    rank_result,
    processor=st.integers(0, 3),
    computing_ns=times,
    communicating_ns=times,
    synchronizing_ns=times,
    voluntary_switches=st.integers(0, 10**7),
    involuntary_switches=st.integers(0, 10**7),
)


def rank(*, computing=0, communicating=0, synchronizing=0, voluntary=0, involuntary=0):
    return rank_result(
        computing_ns=computing,
        communicating_ns=communicating,
        synchronizing_ns=synchronizing,
        voluntary_switches=voluntary,
        involuntary_switches=involuntary,
    )


@given(st.lists(ranks, max_size=12), st.integers(1, 10**13), st.floats(0, 1e6))
def test_five_shares_sum_to_exactly_one_and_none_is_negative(records, makespan_ns, switch_ns):
    shares = astuple(of_run(records, range(4), makespan_ns, switch_ns))
    assert min(shares) >= 0
    assert all(sum(order) == 1.0 for order in itertools.permutations(shares))


@pytest.mark.parametrize(
    "running_ns, ready_ns, shares",
    [(300, 200, (0.3, 0.2, 0.5)), (300, 900, (0.3, 0.7, 0.0)), (4000, 900, (1.0, 0.0, 0.0))],
)
def test_a_rank_runs_is_ready_or_sleeps_all_the_time(running_ns, ready_ns, shares):
    """The threads of a rank may together run for longer than it lasts."""
    known = states([rank_result(looked_ns=1000, running_ns=running_ns, ready_ns=ready_ns)])
    assert (known.running, known.ready, known.asleep) == pytest.approx(shares)


@given(st.lists(st.floats(0, 1e3), min_size=4, max_size=4))
def test_any_shares_make_a_breakdown(shares):
    breakdown = Breakdown.of(*shares)
    assert sum(astuple(breakdown)) == 1.0
    if sum(shares) <= 1:
        assert astuple(breakdown)[:4] == pytest.approx(shares, abs=2**-39)


@pytest.mark.parametrize(
    "ranks, processors, shares",
    [
        # A processor is idle when none of its processes runs, and so is one without ranks.
        ([rank(computing=300), rank(computing=200, synchronizing=100)], [0], (0.5, 0, 0.1, 0, 0.4)),
        ([rank(computing=1000)], [0, 1], (0.5, 0, 0, 0, 0.5)),
        # Voluntary switches are taken from the waits that made them, others from unaccounted time.
        (
            [rank(computing=500, communicating=100, synchronizing=300, voluntary=20)],
            [0],
            (0.5, 0.05, 0.15, 0.2, 0.1),
        ),
        ([rank(computing=500, synchronizing=300, involuntary=5)], [0], (0.5, 0, 0.3, 0.05, 0.15)),
        # Neither takes more than there is, and more time than the window is scaled down.
        ([rank(computing=900, synchronizing=50, voluntary=99, involuntary=99)], [0], (0.9, 0, 0, 0.1, 0)),
        ([rank(computing=2000)], [0], (1, 0, 0, 0, 0)),
    ],
)
def test_what_a_window_of_1000_ns_and_switches_of_10_ns_are_charged_to(ranks, processors, shares):
    assert astuple(of_run(ranks, processors, 1000, 10)) == pytest.approx((*shares, 0))


def test_the_mean_is_taken_part_by_part():
    assert astuple(mean([Breakdown.of(1, 0, 0, 0), Breakdown.of(0, 0, 0.5, 0)])) == (0.5, 0, 0.25, 0, 0.25, 0)


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.floats(0, 1))
def test_what_other_programs_take_is_not_idle(shares, others):
    alone = Breakdown.of(*shares)
    beside = alone.beside(others)
    assert beside.others == pytest.approx(min(others, alone.idle), abs=2**-39)
    assert sum(astuple(beside)) == 1.0 and astuple(beside)[:4] == astuple(alone)[:4]
    assert sum(astuple(mean([alone, beside]))) == 1.0
    assert mean([beside, beside]).others == pytest.approx(beside.others, abs=2**-38)
