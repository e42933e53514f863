"""Slowdowns as files of services that draw them over the history of a project."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from harness.analyse.comparison import Comparison
from harness.analyse.rows import Row, place_name
from harness.analyse.statistics import Estimate


class Metric(NamedTuple):
    """A number of a benchmark, of which less is better, and its 95 % interval; None without one."""

    benchmark: str
    measure: str
    unit: str
    value: float
    interval: tuple[float, float] | None = None
    about: str = ""  # the value, in a few words


def of_rows(experiment: str, rows: Iterable[Row], side: str) -> Iterator[Metric]:
    """The slowdown of each row on one side, and its makespan; rows without a slowdown have neither."""
    before = "" if side == "measured" else f"{side} "
    for row in rows:
        summary = row.sides.get(side)
        if summary is None or row.median(side) is None:
            continue
        kind = "bounded slowdown" if summary.schedule else "workload slowdown"
        benchmark = f"{experiment}: {place_name(row)}"
        yield from _slowdown(benchmark, f"{before}{kind}", row, summary.workload_slowdown)
        if summary.makespan_s is not None:
            yield Metric(benchmark, f"{before}makespan", "s", summary.makespan_s, about=row.workload)


def of_comparison(experiment: str, rows: Iterable[Comparison]) -> Iterator[Metric]:
    """The slowdown of each row afterwards, and its ratio to the one before, where both are known."""
    for row in rows:
        if row.ratio is not None and row.after is not None:
            after = row.after.first_side
            benchmark = f"{experiment}: {place_name(row.after)}"
            before = "simulated " if row.after.measured is None else ""
            kind = f"{before}{'bounded' if after.schedule else 'workload'} slowdown"
            yield from _slowdown(benchmark, kind, row.after, after.workload_slowdown)
            yield Metric(benchmark, f"{kind} after / before", "x", row.ratio, row.interval, row.verdict)


def _slowdown(benchmark: str, measure: str, row: Row, estimate: Estimate) -> Iterator[Metric]:
    if estimate.median is not None:
        about = f"{row.workload}; {estimate.n} repeat{'s' if estimate.n > 1 else ''}"
        yield Metric(benchmark, measure, "x", estimate.median, estimate.ci95, about)


def bencher(metrics: Sequence[Metric]) -> str:
    """The Bencher Metric Format, by benchmark and measure: a value and the ends of its interval."""
    benchmarks: dict[str, dict[str, Any]] = {}
    for one in metrics:
        ends = dict(zip(("lower_value", "upper_value"), one.interval or (), strict=False))
        benchmarks.setdefault(one.benchmark, {})[one.measure] = {"value": one.value, **ends}
    return json.dumps(benchmarks, indent=2, allow_nan=False) + "\n"


def github_benchmark(metrics: Sequence[Metric]) -> str:
    """The list that github-action-benchmark reads as ``customSmallerIsBetter``."""
    entries = [
        {"name": f"{one.benchmark}, {one.measure}", "unit": one.unit, "value": one.value}
        | ({"range": "95 %: {:.4g} to {:.4g}".format(*one.interval)} if one.interval else {})
        | ({"extra": one.about} if one.about else {})
        for one in metrics
    ]
    return json.dumps(entries, indent=2, allow_nan=False) + "\n"


FORMATS = {"--export-bmf": bencher, "--export-github-benchmark": github_benchmark}
"""The forms of the files, by the option that asks for one."""
