"""Rounds of runs of programs, with each way for their processes to wait, alone and several at a time."""

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
    """One run of a round: a choice, and the numbers of the programs at a time; copies have one."""

    choice: str
    programs: tuple[int, ...]


Round = Mapping[WaitCell, Spent]

Runner = Callable[[WaitChoice, tuple[int, ...], float | None], Spent]
"""Runs programs with a choice; stops them after a number of seconds."""


def measure(
    choices: Sequence[WaitChoice],
    programs: tuple[int, ...],
    rounds: int,
    timeout_factor: float,
    run: Runner,
    watcher: Watcher,
) -> list[Round]:
    """Measure all choices, each program alone and all at a time, and each program alone as it is.

    Every second round reverses the order, so that a host that drifts favours none. A run that takes
    longer than ``timeout_factor`` times the sum of the times alone is stopped, and its cell not tried again.
    """
    by_name = {AS_IT_IS: WaitChoice(AS_IT_IS)} | {choice.name: choice for choice in choices}
    apart = [(number,) for number in sorted(set(programs))]
    as_they_are = [WaitCell(AS_IT_IS, one) for one in apart]
    measured = [WaitCell(choice.name, which) for which in [*apart, programs] for choice in choices]
    cells = list(dict.fromkeys([*as_they_are, *measured]))
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
            progress(f"{cell.choice}, {'alone' if cell.programs in apart else f'{len(programs)} at a time'}")
            alone = [seconds for one in done if (seconds := alone_s(cell.programs, one))]
            limited = alone and cell not in as_they_are
            limit_s = timeout_factor * statistics.median(alone) if limited else None
            begin_s = time.monotonic()
            spent = done[-1][cell] = run(by_name[cell.choice], cell.programs, limit_s)
            pace.took(_guess(cell), time.monotonic() - begin_s)
            left[cell] = left[cell] - 1 if spent.wall_s is not None else 0
    progress("all runs")
    return list(done)


def alone_s(programs: Sequence[int], done: Round) -> float | None:
    """The sum of the times of programs alone as they are, in a round; None unless all are known."""
    spent = [done.get(WaitCell(AS_IT_IS, (number,))) for number in programs]
    known = [one.wall_s for one in spent if one and one.wall_s]
    return sum(known) if len(known) == len(programs) else None


def _guess(cell: WaitCell) -> Guess:
    return Guess(len(cell.programs), f"{cell.choice} {cell.programs}")
