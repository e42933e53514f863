"""Tables for a terminal, and their cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from harness.analyse.breakdown import PARTS
from harness.analyse.rows import Summary
from harness.analyse.states import STATES
from harness.analyse.statistics import FEWEST, Estimate

UNKNOWN = "-"

ENDLESS = 10_000
"""A width, in characters, in which every table fits."""

CI95, LEAST_TO_MOST = "95 %\ninterval", "least\nto most"
"""Headings of intervals of one kind."""

SLOWDOWNS = ("workload\nslowdown", CI95, "job\nmean", "job\nmax")
"""Headings of :func:`slowdown_cells`; :func:`headed` fits the second to the rows."""

LEGEND_TWO = "Of two repeats, intervals are from the least to the most: a 95 % interval takes three."

SHARES = ("comp\n%", "comm\n%", "sync\n%", "switch\n%", "idle\n%")
"""Headings of :func:`share_cells`."""

OF_RANKS = ("run\n%", "ready\n%", "asleep\n%")
"""Headings of :func:`state_cells`."""

LEGEND_STATES = (
    "Run, ready, asleep: the ranks' time by the kernel's count. Run: computing, or spinning in waits; "
    "ready: waiting for a processor; asleep: blocked, or stopped in slots of other jobs."
)


class WholeTable(Table):
    """A table that never cuts a number: columns of numbers that do not fit are named below it instead."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        numbers = [place for place, column in enumerate(self.columns) if column.justify == "right"]
        kept = set(range(len(self.columns)))
        left_out: list[str] = []
        while len(numbers) > 1 and self._least_width(console, options, kept) > options.max_width:
            kept.remove(last := numbers.pop())
            left_out.insert(0, " ".join(str(self.columns[last].header).replace("-\n", "").split()))
        yield from Table.__rich_console__(self._of(kept) if left_out else self, console, options)
        if left_out:
            yield Text(f"Too narrow for: {', '.join(left_out)}.", style="dim")

    def _least_width(self, console: Console, options: ConsoleOptions, kept: set[int]) -> int:
        """The width in which columns of words are as narrow as their longest word, and all others whole."""
        width = Measurement.get(console, options.update(max_width=ENDLESS), self._of(kept)).maximum
        for place in kept:
            column = self.columns[place]
            if not column.no_wrap:
                texts = [str(cell) for cell in (column.header, *column.cells)]
                lines = max(cell_len(line) for text in texts for line in text.split("\n"))
                longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
                width -= lines - min(lines, max(longest, column.min_width or 0))
        return width

    def _of(self, kept: set[int]) -> Table:
        """The same table with the ``kept`` columns only."""
        made = Table(box=self.box, padding=self.padding)
        places = sorted(kept)
        for column in (self.columns[place] for place in places):
            looks: dict[str, Any] = {"no_wrap": column.no_wrap, "overflow": column.overflow}
            made.add_column(column.header, justify=column.justify, min_width=column.min_width, **looks)
        cells = [list(self.columns[place].cells) for place in places]
        for row, line in zip(self.rows, zip(*cells, strict=True), strict=True):
            made.add_row(*line, style=row.style)
        return made


def table(words: Iterable[str], numbers: Iterable[str] = (), *, wrap: bool = True) -> Table:
    """A table without lines between rows: columns of words, which may ``wrap``, then columns of numbers."""
    made = WholeTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in words:
        made.add_column(heading, no_wrap=not wrap, overflow="fold")
    for heading in numbers:
        made.add_column(heading, justify="right", no_wrap=True)
    return made


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with ``digits`` decimals; UNKNOWN for None."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def four_digits(value: float) -> str:
    """A number to four digits, or to the unit if it has more before the point; never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def one_digit(value: float) -> str:
    """A number to one digit; never with an exponent."""
    return four_digits(float(f"{value:.1g}"))


def interval(ends: Sequence[float] | None, n: int = FEWEST) -> str:
    """The ends of an interval of 95 %, or with ``n`` = 2 from the least to the most; UNKNOWN for None."""
    between = "-" if n >= FEWEST else " to "
    return f"{ends[0]:.2f}{between}{ends[1]:.2f}" if ends else UNKNOWN


def duration(seconds: float) -> str:
    """A duration as text: "42 s", "3 min 20 s", "5 h 2 min", "3 days"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole < 2 * 86_400 else f"{whole // 86_400} days"


def headed(headings: Sequence[str], found: Iterable[Estimate]) -> tuple[str, ...]:
    """``headings`` with the one of intervals of 95 % fitted to what the estimates have."""
    kinds = {one.kind for one in found if one.kind}
    fitted = LEAST_TO_MOST if kinds == {"least to most"} else CI95 if len(kinds) < 2 else "\ninterval"
    return tuple(fitted if heading == CI95 else heading for heading in headings)


def doubts(sentences: Iterable[str]) -> Iterator[Text]:
    """A line for each doubt, to stand above what it weakens."""
    return (Text(f"Doubt: {sentence}.", style="bold yellow") for sentence in sentences)


def slowdown_cells(known: Summary | None) -> list[str]:
    """The cells under SLOWDOWNS for one side of a row."""
    if known is None:
        return [UNKNOWN] * len(SLOWDOWNS)
    workload, jobs = known.workload_slowdown, known.slowdown
    each = (jobs.mean, jobs.max) if jobs else (None, None)
    return [fixed(workload.median), interval(workload.ends, workload.n), *map(fixed, each)]


def share_cells(known: Summary | None) -> list[str]:
    """The cells under SHARES for one side of a row, in percent."""
    if known is None or known.breakdown is None:
        return [UNKNOWN] * len(PARTS)
    return [fixed(100 * share, 1) for share in vars(known.breakdown).values()]


def state_cells(known: Summary | None) -> list[str]:
    """The cells under OF_RANKS for one side of a row, in percent."""
    if known is None or known.states is None:
        return [UNKNOWN] * len(OF_RANKS)
    return [fixed(100 * getattr(known.states, state), 1) for state in STATES]
