"""Verdicts: simulated against measured slowdowns, repeats still needed for one, bounds of ``--fail-if``."""

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import Row, Verdict
from harness.analyse.statistics import FEWEST, Estimate, more_values
from harness.spec import settings
from harness.store import conditions
from harness.store.records import MEASURED_KINDS, RunRecord
from workloads.validation import InputError, one_of

TOLERANCE = 0.15
UNBOUND = "processes that are not bound are simulated on one host only"

WITHIN = "within"
OUTSIDE = "outside"
NOT_SIGNIFICANT = "not significant"
NOT_COMPARABLE = "not comparable"

MOST_REPEATS = 1000  # if a verdict needs more repeats than this, it needs too many


def verdict(row: Row, records: Sequence[RunRecord], tolerance: float) -> Verdict:
    """The verdict on a row of ``summary.rows`` made from ``records``.

    *Within* if the 95 % interval of the error of the simulated workload slowdown lies between -tolerance and
    +tolerance, *outside* if it lies beyond, and else *not significant*.
    """
    if difference := _difference(row, records):
        field, one, other = difference
        return Verdict(NOT_COMPARABLE, f"{field}: {one!r} and {other!r}")
    if reason := _unknown(row):
        return Verdict(NOT_COMPARABLE, f"simulated: {reason}")
    if row.withheld:
        return Verdict(NOT_COMPARABLE, f"measured: {row.withheld.reason}")
    for side in ("measured", "simulated"):
        if row.median(side) is None:
            return Verdict(NOT_COMPARABLE, f"{side}: no run succeeded")
    assert row.measured is not None and row.simulated is not None
    if row.measured.workload_slowdown.ci95 is None:
        count = row.measured.workload_slowdown.n
        more = FEWEST - count
        return Verdict(
            NOT_SIGNIFICANT,
            f"an interval takes {FEWEST} repeats, not {count}: at least {more} more",
            more_repeats=more,
        )
    return _judged(row.measured.workload_slowdown, row.simulated.workload_slowdown, tolerance)


def _unknown(row: Row) -> str:
    if row.simulated is None and row.scheduler.get("bind", True) is not True:
        return settings.of_table(row.scheduler).not_simulated or UNBOUND
    for job in row.jobs if row.simulated is None else ():
        if not job.work.simulable:
            return f"{job.work.label} is not simulated"
    return ""


def judged(results: ResultsDocument, records: Sequence[RunRecord], tolerance: float) -> ResultsDocument:
    rows = [replace(row, verdict=verdict(row, records, tolerance)) for row in results.rows]
    return replace(results, rows=rows)


def _judged(measured: Estimate, simulated: Estimate, tolerance: float) -> Verdict:
    assert measured.median is not None and simulated.median is not None
    centre = math.log(simulated.median / measured.median)
    half = math.hypot(_half(measured.ci95), _half(simulated.ci95))
    low = math.log(1 - tolerance)
    high = math.log(1 + tolerance)
    interval = math.exp(centre - half) - 1, math.exp(centre + half) - 1
    if low <= centre - half and centre + half <= high:
        return Verdict(WITHIN, interval=interval)
    if centre + half < low or high < centre - half:
        return Verdict(OUTSIDE, interval=interval)
    room = min(abs(centre - low), abs(centre - high))
    more = _more_repeats(measured, simulated, room)
    if more is None:
        reason = f"the error is too near the tolerance for a verdict: more than {MOST_REPEATS} more repeats"
    else:
        reason = f"about {more} more repeat{'s' if more > 1 else ''} for a verdict"
    return Verdict(NOT_SIGNIFICANT, reason, interval, more)


def _more_repeats(measured: Estimate, simulated: Estimate, room: float) -> int | None:
    """Repeats until the interval of the error is half as wide as ``room``; None if there are too many."""
    ours = _half(measured.ci95)
    theirs = _half(simulated.ci95)
    if simulated.n <= measured.n:  # each measured repeat brings a simulated one
        return more_values(measured.n, math.hypot(ours, theirs), room, MOST_REPEATS)
    if theirs >= room:
        return None
    return more_values(measured.n, ours, math.sqrt(room**2 - theirs**2), MOST_REPEATS)


def _half(ci95: Sequence[float] | None) -> float:
    """Half the width of an interval on the logarithmic scale; 0 for a simulation without one."""
    return 0.0 if ci95 is None else math.log(ci95[1] / ci95[0]) / 2


def _difference(row: Row, records: Sequence[RunRecord]) -> tuple[str, Any, Any] | None:
    """The first field in which the runs of a row differ, with both values; None if there is none."""
    ours = [
        record
        for record in records
        if record.kind in MEASURED_KINDS
        and dict(record.settings) == row.settings
        and (record.scheduler == row.scheduler or "dedicated" in record.kind)
    ]
    for record in ours[1:]:
        if difference := conditions.difference(ours[0].conditions, record.conditions):
            return difference
    mechanisms = {r.mechanism for r in ours if r.scheduler == row.scheduler and r.mechanism}
    if len(mechanisms) > 1:
        one, other, *_ = sorted(mechanisms)
        return "mechanism", one, other
    return None


COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
ANY = "any"
_TEXT = re.compile(r"\s*(.+?)\s*(>=|<=|>|<)\s*((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e-?[0-9]+)?)\s*")


@dataclass(frozen=True)
class Threshold:
    """A bound of the median workload slowdown of all rows of a scheduler."""

    text: str  # as the user wrote it
    name: str  # the scheduler's name, or ANY
    comparison: str  # a key of COMPARISONS; the command fails where it holds
    bound: float  # the number on the right

    def broken_by(self, row: Row, side: str) -> bool:
        """Whether this row makes the command fail; an unknown slowdown does."""
        median = row.median(side)
        return median is None or bool(COMPARISONS[self.comparison](median, self.bound))


def parse(texts: Iterable[str], names: Sequence[str]) -> list[Threshold]:
    limits = []
    for text in texts:
        match = _TEXT.fullmatch(text)
        if match is None or math.isinf(float(match[3])):
            raise InputError(
                "--fail-if",
                text,
                "is no condition",
                'write a name, a comparison and a number, as in "gang 100 ms > 1.05", or "any > 2"',
            )
        one_of("--fail-if", match[1], [*names, ANY])
        limits.append(Threshold(text, match[1], match[2], float(match[3])))
    return limits


Broken = tuple[Threshold, Row]  # a bound, and a row that breaks it


def broken(thresholds: Iterable[Threshold], rows: Iterable[Row], side: str) -> list[Broken]:
    rows = list(rows)
    return [
        (threshold, row)
        for threshold in thresholds
        for row in rows
        if threshold.name in (ANY, row.name) and threshold.broken_by(row, side)
    ]
