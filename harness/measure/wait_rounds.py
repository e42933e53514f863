"""Rounds of runs of a program, with each way for its ranks to wait, alone and several at a time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.measure.guarded_copies import Spent
from harness.measure.session import Progress, Watcher

AS_IT_IS = "as it is"
TWO_PHASE = "two-phase"


@dataclass(frozen=True)
class WaitChoice:
    """A way for ranks to wait: its name, its variables, and the lines with which people set it."""

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()


class WaitCell(NamedTuple):
    """One run of a round: a choice, and how many copies run at a time."""

    choice: str
    copies: int


ALONE = WaitCell(AS_IT_IS, 1)

Round = Mapping[WaitCell, Spent]

Runner = Callable[[WaitChoice, int, float | None], Spent]
"""Runs a number of copies with a choice; stops them after a number of seconds."""


def measure(
    choices: Sequence[WaitChoice], jobs: int, rounds: int, give_up: float, run: Runner, watcher: Watcher
) -> list[Round]:
    """Measure all choices, alone and ``jobs`` at a time; the first choice must be AS_IT_IS.

    Every second round reverses the order, so that a host that drifts favours none. A run that takes
    longer than ``give_up`` times the sum of the times alone is stopped, and its cell not tried again.
    """
    by_name = {choice.name: choice for choice in choices}
    cells = [WaitCell(name, copies) for copies in dict.fromkeys((1, jobs)) for name in by_name]
    done: list[dict[WaitCell, Spent]] = []
    telling = _Remaining(watcher, cells, rounds)
    for number in range(rounds):
        done.append({})
        for cell in cells if number % 2 == 0 else reversed(cells):
            if not telling.left[cell]:
                continue
            telling.begin(cell)
            alone = [known.wall_s for one in done if (known := one.get(ALONE)) and known.wall_s]
            limit_s = give_up * cell.copies * statistics.median(alone) if alone and cell != ALONE else None
            spent = run(by_name[cell.choice], cell.copies, limit_s)
            done[-1][cell] = spent
            telling.end(cell, again=spent.wall_s is not None)
    return list(done)


class _Remaining:
    """The runs left; reports to a watcher, with the time left by earlier runs of the same cells."""

    def __init__(self, watcher: Watcher, cells: Sequence[WaitCell], rounds: int) -> None:
        self.left = dict.fromkeys(cells, rounds)
        self._watcher = watcher
        self._took_s: dict[WaitCell, list[float]] = {cell: [] for cell in cells}
        self._begin_s = self._run_s = time.monotonic()

    def begin(self, cell: WaitCell) -> None:
        """A run begins."""
        self._run_s = time.monotonic()
        what = "alone" if cell.copies == 1 else f"{cell.copies} at a time"
        self._tell(f"{cell.choice}, {what}")

    def end(self, cell: WaitCell, *, again: bool) -> None:
        """It has ended; unless ``again``, the cell has no more runs."""
        self._took_s[cell].append(time.monotonic() - self._run_s)
        self.left[cell] = self.left[cell] - 1 if again else 0
        if not any(self.left.values()):
            self._tell("all runs")

    def _tell(self, label: str) -> None:
        done, left = sum(map(len, self._took_s.values())), sum(self.left.values())
        alone_s = statistics.fmean(self._took_s[ALONE] or [1.0])
        left_s = sum(
            self.left[cell] * (statistics.fmean(took_s) if took_s else cell.copies * alone_s)
            for cell, took_s in self._took_s.items()
        )
        elapsed_s = time.monotonic() - self._begin_s
        self._watcher.progress(Progress(label, done, done + left, elapsed_s, left_s))
