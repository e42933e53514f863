"""Intervals, Student's t, bounded slowdown, quantiles."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analyse.statistics import bounded_slowdown, estimate, median_interval, student_factor
from harness.store.records import quantile

ratios = st.lists(st.floats(0.01, 100), min_size=3, max_size=20)


@pytest.mark.parametrize(
    "degrees, expected",
    # Two-sided 95 % points as printed in every textbook.
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (9, 2.2622), (30, 2.0423), (120, 1.9799)],
)
def test_student_quantiles_are_those_of_the_tables(degrees, expected):
    assert student_factor(degrees) == pytest.approx(expected, abs=5e-5)


def test_an_interval_takes_three_values_and_two_are_the_least_and_the_most():
    assert estimate([]) == type(estimate([]))(None, None, 0)
    one = estimate([1.5])
    two = estimate([1.5, 1.1])
    three = estimate([1.5, 1.1, 1.2])
    assert (one.median, one.ci95, one.ends, one.kind, one.n) == (1.5, None, None, None, 1)
    assert (two.median, two.ci95, two.ends, two.kind) == (1.3, None, (1.1, 1.5), "least to most")
    assert (three.ends, three.kind, three.extremes) == (three.ci95, "95 %", (1.1, 1.5))
    assert math.isinf(two.width) and three.width == pytest.approx((three.ci95[1] - three.ci95[0]) / 1.2)


def test_a_known_interval():
    interval = estimate([1.0, math.e, math.e**2])
    half = 4.3027 / math.sqrt(3)
    assert interval.ci95 == pytest.approx((math.exp(1 - half), math.exp(1 + half)), rel=1e-4)
    assert estimate([2.0, 2.0, 2.0]).ci95 == pytest.approx((2.0, 2.0))


@given(ratios, st.floats(0.1, 10))
def test_the_interval_holds_the_geometric_mean_and_scales_with_the_ratios(values, factor):
    low, high = estimate(values).ci95
    centre = math.exp(statistics.fmean(map(math.log, values)))
    assert low <= centre * (1 + 1e-9) and centre <= high * (1 + 1e-9)
    scaled = estimate([factor * value for value in values]).ci95
    assert scaled == pytest.approx((factor * low, factor * high), rel=1e-6)


@pytest.mark.parametrize(
    "response_s, dedicated_s, tau_s, expected",
    [(30, 10, 1, 3), (30, 0.1, 10, 3), (1, 0.1, 10, 1), (5, 10, 1, 1)],
)
def test_bounded_slowdown(response_s, dedicated_s, tau_s, expected):
    assert bounded_slowdown(response_s, dedicated_s, tau_s) == expected


@given(st.lists(st.integers(0, 10**9), min_size=1))
def test_quantiles_lie_between_the_extremes_and_the_half_is_the_median(values):
    ordered = sorted(values)
    assert ordered[0] <= quantile(ordered, 0.99) <= ordered[-1]
    assert quantile(ordered, 0.5) == pytest.approx(statistics.median(ordered))


def test_the_interval_of_a_median_has_the_order_statistics_of_the_tables():
    """The ranks of the sign test: 1 and 6 of 6, 2 and 9 of 10, 10 and 21 of 30."""
    assert median_interval([1.0] * 5) is None
    for n, low, high in ((6, 1, 6), (10, 2, 9), (30, 10, 21)):
        assert median_interval(list(range(1, n + 1))) == (low, high)
