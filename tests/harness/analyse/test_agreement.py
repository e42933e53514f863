"""Errors over all rows, and whether the simulator ranks schedulers as the machine does."""

import pytest

from harness.analyse.agreement import agreement, sentence
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import Estimate


def row(settings, measured, simulated, ci95, scheduler="none"):
    table = {"policy": scheduler, "waiting": "spin", "local": "other", "mechanism": "auto"}
    predicted = simulated and Summary(Estimate(simulated, None, 1))
    return Row((JobRow(0.0, {}),), {"g": settings}, table, Summary(Estimate(measured, ci95, 3)), predicted)


def test_errors_count_whatever_their_sign():
    rows = [row(1, 1.0, 0.9, None), row(1, 2.0, 2.0, None), row(2, 1.0, 1.3, None), row(2, 1.0, None, None)]
    result = agreement(rows)
    assert result.errors.rows == 3
    assert result.errors.median_error == pytest.approx(0.1)
    assert result.errors.p90_error == pytest.approx(0.1 + 0.8 * 0.2)
    assert (result.kendall_tau, result.pairs) == (None, 0)
    assert "no two schedulers differ" in sentence(result)


@pytest.mark.parametrize(
    "rows, tau, pairs",
    [
        # Intervals that overlap have no order that means anything, nor have other points of the sweep.
        ([(1, 1.0, 1.1), (1, 1.05, 1.0), (1, 2.0, 2.2), (2, 3.0, 5.0)], 1.0, 2),
        ([(1, 1.0, 2.0), (1, 2.0, 1.5), (1, 4.0, 9.0)], pytest.approx(1 / 3), 3),
        ([(1, 1.0, 2.0), (1, 2.0, 2.0)], 0, 1),
    ],
)
def test_only_pairs_that_differ_measurably_are_ranked_and_the_opposite_order_counts_against(rows, tau, pairs):
    result = agreement([row(*one, (one[1] - 0.1, one[1] + 0.1)) for one in rows])
    assert (result.kendall_tau, result.pairs) == (tau, pairs)
    assert f"tau {result.kendall_tau:.2f} over {pairs} pairs" in sentence(result)


def test_without_a_simulation_there_is_nothing_to_agree():
    assert agreement([row(1, 1.0, None, (0.9, 1.1))]) is None
    assert agreement([]) is None


def test_each_scheduler_is_told_by_itself_with_its_bias():
    pairs = [("none", 1.2), ("none", 0.9), ("none", 1.05), ("gang", 0.8)]
    rows = [row(1, 1.0, simulated, None, scheduler) for scheduler, simulated in pairs]
    schedulers = agreement(rows).schedulers
    assert list(schedulers) == ["none", "gang"]
    none, gang = schedulers.values()
    assert (none.rows, gang.rows) == (3, 1)
    assert (none.median_error, none.bias) == (pytest.approx(0.1), pytest.approx(0.05))
    assert gang.bias == pytest.approx(-0.2)
