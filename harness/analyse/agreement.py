"""The agreement of simulated with measured slowdowns over all rows of an experiment."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby

from harness.analyse.rows import Row
from harness.analyse.statistics import apart
from harness.store.records import quantile


@dataclass(frozen=True)
class Errors:
    """Errors of simulated workload slowdowns: ``median_error`` and ``p90_error`` of absolute values."""

    rows: int
    median_error: float
    p90_error: float
    bias: float


@dataclass(frozen=True)
class Agreement:
    """Errors over all rows and for each scheduler, and the rank correlation of schedulers.

    ``kendall_tau`` covers ``pairs`` of schedulers at one point of the sweep whose measured
    intervals do not overlap: the share of pairs that the simulator orders like the measurement, minus
    the share in the opposite order; None without such a pair. Source: Kendall 1938, "A New Measure of Rank
    Correlation".
    """

    errors: Errors
    kendall_tau: float | None
    pairs: int
    schedulers: Mapping[str, Errors]


def agreement(rows: Sequence[Row]) -> Agreement | None:
    """The agreement over all rows that have both sides; None without such a row."""
    if not (errors := errors_of(rows)):
        return None
    orders = list(_orders(rows))
    tau = statistics.fmean(orders) if orders else None
    return Agreement(errors, kendall_tau=tau, pairs=len(orders), schedulers=by_scheduler(rows))


def errors_of(rows: Iterable[Row]) -> Errors | None:
    errors = [row.error for row in rows if row.error is not None]
    if not errors:
        return None
    absolute = sorted(map(abs, errors))
    middle = statistics.median(absolute)
    most = quantile(absolute, 0.9)
    return Errors(len(errors), middle, most, bias=statistics.median(errors))


def by_scheduler(rows: Iterable[Row]) -> dict[str, Errors]:
    rows_of: dict[str, list[Row]] = {}
    for row in rows:
        rows_of.setdefault(row.name, []).append(row)
    pairs = ((name, errors_of(ours)) for name, ours in rows_of.items())
    return {name: errors for name, errors in pairs if errors}


def _orders(rows: Sequence[Row]) -> Iterator[float]:
    """For every pair of schedulers: 1 if simulated in the measured order, -1 in the other, 0 if equal."""
    for _, block in groupby(rows, key=lambda row: row.settings):
        for one, other in combinations(block, 2):
            ours, theirs = (row.measured and row.measured.workload_slowdown for row in (one, other))
            if one.error is None or other.error is None or not (ours and theirs and apart(ours, theirs)):
                continue
            measured, simulated = (
                (one.median(side) or 0.0) - (other.median(side) or 0.0) for side in ("measured", "simulated")
            )
            yield math.copysign(1, measured) * ((simulated > 0) - (simulated < 0))


def sentence(agreement: Agreement) -> str:
    errors = agreement.errors
    clauses = (
        f"Simulated against measured, {errors.rows} rows: median error {errors.median_error:.1%}, "
        f"90th percentile {errors.p90_error:.1%}"
    )
    if agreement.kendall_tau is None:
        return f"{clauses}; no two schedulers differ measurably."
    tau = f"Kendall's tau {agreement.kendall_tau:.2f} over {agreement.pairs} pairs"
    return f"{clauses}; {tau} that differ measurably."
