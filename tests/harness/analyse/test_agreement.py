"""Errors over all rows, and whether the simulator ranks schedulers as the machine does."""

import pytest

from harness.analyse.agreement import agreement, sentence
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import Estimate


def row(settings, measured, simulated, ci95, scheduler="none"):
    table = {"policy": scheduler, "blocking": "spin", "local": "other", "mechanism": "auto"}
    predicted = simulated and Summary(Estimate(simulated, None, 1))
    return Row((JobRow(0.0, {}),), {"g": settings}, table, Summary(Estimate(measured, ci95, 3)), predicted)


def test_errors_count_whatever_their_sign():
    rows = [row(1, 1.0, 0.9, None), row(1, 2.0, 2.0, None), row(2, 1.0, 1.3, None), row(2, 1.0, None, None)]
    found = agreement(rows)
    assert found.errors.rows == 3
    assert found.errors.median_error == pytest.approx(0.1)
    assert found.errors.p90_error == pytest.approx(0.1 + 0.8 * 0.2)
    assert (found.kendall_tau, found.pairs) == (None, 0)
    assert "no two schedulers differ" in sentence(found)


def test_only_pairs_that_differ_measurably_are_ranked():
    rows = [
        row(1, 1.0, 1.1, (0.9, 1.1)),
        row(1, 1.05, 1.0, (0.95, 1.15)),  # overlaps the first: its order means nothing
        row(1, 2.0, 2.2, (1.9, 2.1)),
        row(2, 3.0, 5.0, (2.9, 3.1)),  # another point of the sweep
    ]
    found = agreement(rows)
    assert (found.kendall_tau, found.pairs) == (1.0, 2)


def test_the_opposite_order_counts_against():
    rows = [row(1, 1.0, 2.0, (0.9, 1.1)), row(1, 2.0, 1.5, (1.9, 2.1)), row(1, 4.0, 9.0, (3.9, 4.1))]
    found = agreement(rows)
    assert found.kendall_tau == pytest.approx(1 / 3)
    assert "tau 0.33 over 3 pairs" in sentence(found)
    tied = [row(1, 1.0, 2.0, (0.9, 1.1)), row(1, 2.0, 2.0, (1.9, 2.1))]
    assert agreement(tied).kendall_tau == 0


def test_without_a_simulation_there_is_nothing_to_agree():
    assert agreement([row(1, 1.0, None, (0.9, 1.1))]) is None
    assert agreement([]) is None


def test_each_scheduler_is_told_by_itself_with_its_bias():
    rows = [
        row(1, 1.0, 1.2, None),
        row(2, 1.0, 0.9, None),
        row(3, 1.0, 1.05, None),
        row(3, 1.0, 0.8, None, "gang"),
    ]
    found = agreement(rows).schedulers
    assert list(found) == ["none", "gang"]
    none, gang = found.values()
    assert (none.rows, gang.rows) == (3, 1)
    assert (none.median_error, none.bias) == (pytest.approx(0.1), pytest.approx(0.05))
    assert gang.bias == pytest.approx(-0.2)
