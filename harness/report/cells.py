"""Tables for a terminal, from columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from harness.analyse.columns import Column
from harness.analyse.rows import CI95, LEAST_TO_MOST
from harness.analyse.statistics import Estimate

ENDLESS = 10_000
"""A width, in characters, in which every table fits."""


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


def listed(columns: Sequence[Column], records: Sequence[Any], *, wrap: bool = True) -> Table:
    """A line for each record; the heading of intervals of 95 % fits to what the records have."""
    columns = [headed(column, records) for column in columns]
    made = table((), ())
    for column in columns:
        words: dict[str, Any] = {"no_wrap": not wrap, "overflow": "fold"}
        numbers = {"justify": "right", "no_wrap": True}
        made.add_column(column.heading, **(words if column.words else numbers))
    for record in records:
        made.add_row(*(column.text(record) for column in columns))
    return made


def headed(column: Column, records: Sequence[Any]) -> Column:
    """The column; if it is of estimates' intervals, with a heading for their kinds."""
    if column.heading != CI95:
        return column
    found = [column.value(record) for record in records]
    kinds = {one.kind for one in found if isinstance(one, Estimate) and one.kind}
    fitted = LEAST_TO_MOST if kinds == {"least to most"} else CI95 if len(kinds) < 2 else "\ninterval"
    return replace(column, heading=fitted)


def doubts(sentences: Iterable[str]) -> Iterator[Text]:
    """A line for each doubt, to stand above what it weakens."""
    return (Text(f"Doubt: {sentence}.", style="bold yellow") for sentence in sentences)
