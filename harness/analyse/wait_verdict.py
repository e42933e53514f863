"""How choices of waiting compare with the program as it is, and which is best beyond noise."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.analyse.statistics import Estimate, apart, estimate
from harness.measure.wait_rounds import ALONE, Round, WaitCell


@dataclass(frozen=True)
class WaitRow:
    """What is known of a choice.

    Attributes:
        choice: its name.
        alone: the time of one copy over that of one as it is, of the same round.
        together: the time of all copies at a time over the sum of theirs alone as it is.
        cpu_s: processor time of all copies at a time: the median.
        stopped: whether it took so long at a time that it was stopped.
    """

    choice: str
    alone: Estimate
    together: Estimate
    cpu_s: float | None
    stopped: bool


@dataclass(frozen=True)
class WaitVerdict:
    """The choice with the least median at a time, and those that may be as good: their intervals overlap."""

    fastest: str
    as_good: tuple[str, ...]

    @property
    def best(self) -> str | None:
        return None if self.as_good else self.fastest


def rows(choices: Iterable[str], jobs: int, rounds: Sequence[Round]) -> list[WaitRow]:
    """A row for each choice, in this order; with one job both ratios are the same."""
    return [_row(choice, jobs, rounds) for choice in choices]


def _row(choice: str, jobs: int, rounds: Sequence[Round]) -> WaitRow:
    together = WaitCell(choice, jobs)
    spent = [one[together] for one in rounds if together in one]
    cpu_s = [known.cpu_s for known in spent if known.cpu_s is not None]
    return WaitRow(
        choice=choice,
        alone=estimate(_ratios(WaitCell(choice, 1), rounds)),
        together=estimate(_ratios(together, rounds)),
        cpu_s=statistics.median(cpu_s) if cpu_s else None,
        stopped=any(known.wall_s is None for known in spent),
    )


def _ratios(cell: WaitCell, rounds: Sequence[Round]) -> list[float]:
    """Over the sum of the times alone of the same round; none if any run was stopped."""
    spent_s = [(one[cell].wall_s, one[ALONE].wall_s) for one in rounds if cell in one]
    if any(wall_s is None for wall_s, _ in spent_s):
        return []
    return [wall_s / (cell.copies * alone_s) for wall_s, alone_s in spent_s if wall_s and alone_s]


def verdict(found: Iterable[WaitRow]) -> WaitVerdict:
    """The best choice, and what cannot be told from it. At least one must not have been stopped."""
    known = sorted((row for row in found if row.together.median), key=_median)
    best, *others = known
    return WaitVerdict(
        best.choice, tuple(row.choice for row in others if not apart(best.together, row.together))
    )


def _median(row: WaitRow) -> float:
    return row.together.median or float("inf")
