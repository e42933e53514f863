"""Files for dashboards: what a slowdown, its interval and its ratio become in each form."""

import json

import pytest
from jsonschema import Draft7Validator

from harness.analyse.comparison import BETTER, Comparison
from harness.analyse.rows import JobRow, Row, Summary
from harness.analyse.statistics import Estimate
from harness.report import dashboards

BMF = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "type": "object",
            "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
            "required": ["value"],
            "additionalProperties": False,
        },
    },
}
"""Bencher's form, as its page on the Bencher Metric Format says."""

PROGRAM = {"pattern": "NEWS", "processes": 2, "granularity_us": 500.0, "dedicated_s": 1.0}


def row(policy, estimate, simulated=None, makespan_s=None, **settings):
    measured = Summary(estimate, makespan_s=makespan_s)
    other = simulated and Summary(simulated)
    scheduler = {"policy": policy} | ({"quantum_ms": 100} if policy == "gang" else {})
    return Row((JobRow(0.0, PROGRAM),), settings, scheduler, measured, other)


ROWS = [
    row("gang", Estimate(1.04, (1.02, 1.07), 5), Estimate(1.03, None, 1), 6.5, processors=2),
    row("none", Estimate(2.8, None, 2), makespan_s=7.0),
    row("batch", Estimate(None, None, 0)),
]


def test_bencher_gets_the_interval_where_there_is_one_and_no_row_without_a_slowdown():
    document = json.loads(dashboards.bencher([*dashboards.of_rows("mine", ROWS, "measured")]))
    Draft7Validator(BMF).validate(document)
    assert document == {
        "mine: gang 100 ms, processors = 2": {
            "workload slowdown": {"value": 1.04, "lower_value": 1.02, "upper_value": 1.07},
            "makespan": {"value": 6.5},
        },
        "mine: none": {"workload slowdown": {"value": 2.8}, "makespan": {"value": 7.0}},
    }


def test_each_side_has_its_own_measure():
    (metric,) = dashboards.of_rows("mine", ROWS, "simulated")
    assert (metric.measure, metric.value, metric.interval) == ("simulated workload slowdown", 1.03, None)


def test_github_action_benchmark_gets_a_list_of_which_less_is_better():
    slowdown, makespan, *_ = json.loads(
        dashboards.github_benchmark([*dashboards.of_rows("mine", ROWS, "measured")])
    )
    assert slowdown["name"] == "mine: gang 100 ms, processors = 2, workload slowdown"
    assert (slowdown["unit"], slowdown["value"], slowdown["range"]) == ("x", 1.04, "95 %: 1.02 to 1.07")
    assert slowdown["extra"].startswith("NEWS, 2 processes") and slowdown["extra"].endswith("5 repeats")
    assert (makespan["unit"], makespan["value"]) == ("s", 6.5) and "range" not in makespan


@pytest.mark.parametrize(("ratio", "count"), [(0.9, 2), (None, 0)])
def test_a_comparison_has_the_ratio_if_it_is_known(ratio, count):
    compared = Comparison(ROWS[1], ROWS[0], ratio, (0.8, 0.95), BETTER)
    metrics = [*dashboards.of_comparison("mine", [compared, Comparison(ROWS[0], None)])]
    assert [(one.measure, one.value, one.interval) for one in metrics] == [
        ("workload slowdown", 1.04, (1.02, 1.07)),
        ("workload slowdown after / before", 0.9, (0.8, 0.95)),
    ][:count]
