"""How well the simulator agrees with the machine over all rows of an experiment."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, groupby
from typing import Any

from harness.naming import scheduler_name
from harness.records import quantile

Row = Mapping[str, Any]


def agreement(rows: Sequence[Row]) -> dict[str, Any] | None:
    """Errors of the simulated workload slowdowns, and whether schedulers rank alike (docs/formats.md).

    None if no row has both sides. ``kendall_tau`` goes over pairs of schedulers of one point
    of the sweep whose measured intervals do not overlap: the share that the simulator has in
    the same order, minus that in the opposite one; None without such a pair. Source: Kendall
    1938, "A New Measure of Rank Correlation".
    """
    told = [row for row in rows if row["error"] is not None]
    if not told:
        return None
    orders = list(_orders(rows))
    by_scheduler: dict[str, list[float]] = {}
    for row in told:
        by_scheduler.setdefault(scheduler_name(row["scheduler"]), []).append(row["error"])
    return {
        **_errors([row["error"] for row in told]),
        "kendall_tau": statistics.fmean(orders) if orders else None,
        "pairs": len(orders),
        "schedulers": [{"scheduler": name, **_errors(errors)} for name, errors in by_scheduler.items()],
    }


def _errors(errors: Sequence[float]) -> dict[str, float]:
    absolute = sorted(map(abs, errors))
    return {
        "rows": len(errors),
        "median_error": statistics.median(absolute),
        "p90_error": quantile(absolute, 0.9),
        "bias": statistics.median(errors),
    }


def _orders(rows: Sequence[Row]) -> Iterator[float]:
    """1 for every pair of schedulers that is simulated in its measured order, -1 in the other, 0 if equal."""
    for _, block in groupby(rows, key=lambda row: row["settings"]):
        told = [row for row in block if row["error"] is not None and _slowdown(row, "measured")["ci95"]]
        for one, other in combinations(told, 2):
            (low, high), (other_low, other_high) = (
                _slowdown(row, "measured")["ci95"] for row in (one, other)
            )
            if high < other_low or other_high < low:
                measured, simulated = (
                    _slowdown(one, side)["median"] - _slowdown(other, side)["median"]
                    for side in ("measured", "simulated")
                )
                yield math.copysign(1, measured) * ((simulated > 0) - (simulated < 0))


def _slowdown(row: Row, side: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = row[side]["workload_slowdown"]
    return found


def sentence(found: Mapping[str, Any]) -> str:
    """An agreement in words."""
    said = (
        f"Simulated against measured, {found['rows']} rows: error {found['median_error']:.1%} in the median, "
        f"90th percentile {found['p90_error']:.1%}"
    )
    if found["kendall_tau"] is None:
        return f"{said}; no two schedulers differ measurably."
    tau = f"Kendall's tau {found['kendall_tau']:.2f} over {found['pairs']} pairs"
    return f"{said}; {tau} that differ measurably."
