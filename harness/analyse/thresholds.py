"""Conditions on rows under which a command fails: ``--fail-if "gang 100 ms > 1.05"``."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.analyse.rows import Row
from workloads.validation import InputError

COMPARISONS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
ANY = "any"
_TEXT = re.compile(r"\s*(.+?)\s*(>=|<=|>|<)\s*([0-9.]+(?:e-?[0-9]+)?)\s*")


@dataclass(frozen=True)
class Threshold:
    """A bound of the median workload slowdown of all rows of a scheduler.

    Attributes:
        text: as the user wrote it.
        name: the scheduler's name, or ANY.
        comparison: a key of COMPARISONS; the command fails where it holds.
        bound: the number on the right.
    """

    text: str
    name: str
    comparison: str
    bound: float

    def broken_by(self, row: Row, side: str) -> bool:
        """Whether this row makes the command fail; an unknown slowdown does."""
        median = row.median(side)
        return median is None or bool(COMPARISONS[self.comparison](median, self.bound))


def parse(texts: Iterable[str], names: Sequence[str]) -> list[Threshold]:
    """The thresholds in ``texts`` on schedulers with these ``names``."""
    found = []
    for text in texts:
        match = _TEXT.fullmatch(text)
        if match is None or not _is_number(match[3]):
            remedy = 'write a name, a comparison and a number, as in "gang 100 ms > 1.05", or "any > 2"'
            raise InputError("--fail-if", text, "is no condition", remedy)
        if match[1] not in (*names, ANY):
            close = difflib.get_close_matches(match[1], names, n=1)
            remedy = f"did you mean {close[0]!r}?" if close else "the schedulers are: " + ", ".join(names)
            raise InputError("--fail-if", text, f"no scheduler is called {match[1]!r}", remedy)
        found.append(Threshold(text, match[1], match[2], float(match[3])))
    return found


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def broken(thresholds: Iterable[Threshold], rows: Iterable[Row], side: str) -> list[tuple[Threshold, Row]]:
    rows = list(rows)
    return [
        (threshold, row)
        for threshold in thresholds
        for row in rows
        if threshold.name in (ANY, row.name) and threshold.broken_by(row, side)
    ]
