"""Rounds of runs of a program, with each way for its ranks to wait, alone and several at a time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.measure.guarded_copies import Spent
from harness.measure.session import Progress, Watcher
from harness.measure.time_left import Guess, Pace

AS_IT_IS = "as it is"
TWO_PHASE = "two-phase"


@dataclass(frozen=True)
class WaitChoice:
    """A way to wait: its name, its variables, the lines with which people set it, whether it is of MPI."""

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    of_mpi: bool = True


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
    """Measure all choices, alone and ``jobs`` at a time, and one copy as it is.

    Every second round reverses the order, so that a host that drifts favours none. A run that takes
    longer than ``give_up`` times the sum of the times alone is stopped, and its cell not tried again.
    """
    by_name = {AS_IT_IS: WaitChoice(AS_IT_IS)} | {choice.name: choice for choice in choices}
    measured = [WaitCell(choice.name, copies) for copies in dict.fromkeys((1, jobs)) for choice in choices]
    cells = list(dict.fromkeys([ALONE, *measured]))
    done: list[dict[WaitCell, Spent]] = []
    left, pace = dict.fromkeys(cells, rounds), Pace()

    def progress(label: str) -> None:
        guesses = [_guess(cell) for cell, count in left.items() for _ in range(count)]
        watcher.progress(Progress(label, *pace.state(guesses)))

    for number in range(rounds):
        done.append({})
        for cell in cells if number % 2 == 0 else reversed(cells):
            if not left[cell]:
                continue
            progress(f"{cell.choice}, {'alone' if cell.copies == 1 else f'{cell.copies} at a time'}")
            alone = [known.wall_s for one in done if (known := one.get(ALONE)) and known.wall_s]
            limit_s = give_up * cell.copies * statistics.median(alone) if alone and cell != ALONE else None
            begin_s = time.monotonic()
            spent = done[-1][cell] = run(by_name[cell.choice], cell.copies, limit_s)
            pace.took(_guess(cell), time.monotonic() - begin_s)
            left[cell] = left[cell] - 1 if spent.wall_s is not None else 0
    progress("all runs")
    return list(done)


def _guess(cell: WaitCell) -> Guess:
    return Guess(cell.copies, f"{cell.choice} {cell.copies}")
