"""Parts of reports on a terminal, drawn by rich."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from rich import box
from rich import table as rich
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.text import Text

from harness.report import cells
from harness.report.cells import Fitting, Line, Part, Pieces
from harness.report.plain import width

ENDLESS = 10_000
"""A width, in characters, in which every table fits."""


def shown(part: Part, *, verbatim: bool = False) -> str:
    """A part as text for standard output; ``verbatim`` wraps no line."""
    with _console().capture() as captured:
        _console().print(drawn(part), soft_wrap=verbatim)
    return captured.get()


@cache
def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else width())


def drawn(part: Part) -> RenderableType:
    """What rich prints: nothing in a text is markup, or stands for an emoji."""
    match part:
        case cells.Table():
            return _table(part)
        case Fitting():
            return _Fitting(part)
        case Pieces():
            line = Text.assemble(*((one.text, one.style) for one in part))
            line.rstrip()
            return line
        case _:
            return _text(part)


def _text(line: str | Line) -> Text:
    return Text(line.text, line.style) if isinstance(line, Line) else Text(line)


def _table(table: cells.Table) -> rich.Table:
    looks: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0)}
    if table.ruled:
        made = rich.Table(title=table.title, title_justify="left", show_lines=True)
    else:
        made = _WholeTable(**looks)
    for one in table.headings:
        looks = {"justify": "right"} if one.number else {"overflow": "ellipsis" if table.ruled else "fold"}
        made.add_column(one.text, no_wrap=one.number or not one.wrap, min_width=one.least or None, **looks)
    for row, style in table.rows:
        made.add_row(*map(_text, row), style=style)
    return made


class _Fitting:
    def __init__(self, fitting: Fitting) -> None:
        self._fitting = fitting

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole, wide = _table(self._fitting.whole), options.update(max_width=ENDLESS)
        if Measurement.get(console, wide, whole).maximum <= options.max_width:
            yield from [whole, *map(drawn, self._fitting.below)]
        else:
            yield from map(drawn, self._fitting.otherwise)


class _WholeTable(rich.Table):
    """A table that never cuts a number: columns of numbers that do not fit are named below it instead."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        numbers = [place for place, column in enumerate(self.columns) if column.justify == "right"]
        kept = set(range(len(self.columns)))
        left_out: list[str] = []
        while len(numbers) > 1 and self._least_width(console, options, kept) > options.max_width:
            kept.remove(last := numbers.pop())
            left_out.insert(0, " ".join(str(self.columns[last].header).replace("-\n", "").split()))
        yield from rich.Table.__rich_console__(self._of(kept) if left_out else self, console, options)
        if left_out:
            whole = self._least_width(console, options, set(range(len(self.columns))))
            yield Text(f"Too narrow for: {', '.join(left_out)}. COLUMNS={whole} shows all.", style="dim")

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

    def _of(self, kept: set[int]) -> rich.Table:
        """The same table with the ``kept`` columns only."""
        made = rich.Table(box=self.box, padding=self.padding)
        places = sorted(kept)
        for column in (self.columns[place] for place in places):
            looks: dict[str, Any] = {"no_wrap": column.no_wrap, "overflow": column.overflow}
            made.add_column(column.header, justify=column.justify, min_width=column.min_width, **looks)
        cells = [list(self.columns[place].cells) for place in places]
        for row, line in zip(self.rows, zip(*cells, strict=True), strict=True):
            made.add_row(*line, style=row.style)
        return made
