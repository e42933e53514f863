"""Parts of reports and progress as plain lines: for logs, and where rich is not installed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from itertools import zip_longest
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from harness.analyse.columns import duration, fixed, interval
from harness.report.cells import Fitting, Part, Table

if TYPE_CHECKING:
    from harness.measure import session

PLAIN_EVERY_S = 10.0
WIDTH_WITHOUT_TERMINAL = 80


def width() -> int:
    """The width of the terminal, or of standard output without one, in characters."""
    return get_terminal_size((WIDTH_WITHOUT_TERMINAL, 24)).columns


def shown(part: Part, *, verbatim: bool = False, wide: bool = False) -> str:
    """A part as text, with all columns if ``wide``; a terminal wraps its long lines."""
    return "".join(f"{line}\n" for line in lines(part, wide=wide))


def lines(part: Part, *, wide: bool = False) -> Iterator[str]:
    """The lines of a part; columns are as wide as their longest cells."""
    match part:
        case Fitting(whole, below, otherwise):
            drawn = [*lines(whole)]
            fits = wide or max(map(len, drawn)) <= width()
            yield from (
                [*drawn, *map(str, below)] if fits else (line for one in otherwise for line in lines(one))
            )
        case Table(headings, title):
            yield from [title] if title else []
            rows = [[one.text for one in headings], *(list(map(str, row)) for row, _ in part.rows)]
            split = [[cell.split("\n") for cell in row] for row in rows]
            sizes = [
                max(len(line) for cell in column for line in cell) for column in zip(*split, strict=True)
            ]
            for number, row in enumerate(split):
                for line in zip_longest(*row, fillvalue=""):
                    yield "".join(
                        f" {cell:{'>' if heading.number else '<'}{size}}"
                        for heading, cell, size in zip(headings, line, sizes, strict=True)
                    ).rstrip()
                yield from ["-" * (sum(sizes) + len(sizes))] if number == 0 else []
        case _:
            yield str(part)


class PlainWatcher(AbstractContextManager["PlainWatcher"]):
    """Lines for a log: one line for the first run, then one every PLAIN_EVERY_S, and all warnings."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._said_s = float("-inf")

    def __exit__(self, *error: object) -> None:
        return None

    def progress(self, progress: session.Progress) -> None:
        """Print the progress, unless PLAIN_EVERY_S have not passed."""
        if time.monotonic() - self._said_s >= PLAIN_EVERY_S or progress.done == progress.total:
            self._said_s = time.monotonic()
            left = f"; {duration(progress.left_s)} left" if progress.left_s else ""
            self._say(f"{progress.done}/{progress.total} {progress.label}{left}")

    def row_status(self, status: session.RowStatus) -> None:
        if status.final:
            simulated = "" if status.simulated is None else f", simulated {status.simulated:.2f}"
            self._say(f"{status.row}: {' '.join(told(status)[1:])}{simulated}")

    def note(self, text: str) -> None:
        """Print nothing: notes are too many for a log."""

    def warn(self, text: str) -> None:
        self._say(f"warning: {text}")

    def _say(self, line: str) -> None:
        if self._stream is None:
            return
        with suppress(OSError):  # stderr may be closed: no reason to end
            self._stream.write(f"{line}\n")
            self._stream.flush()


def told(status: session.RowStatus) -> tuple[str, str, str, str]:
    return status.row, fixed(status.median), interval(status.interval, status.n), f"n = {status.n}"
