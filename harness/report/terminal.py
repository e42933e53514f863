"""Parts of reports on a terminal, drawn by rich."""

import sys
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from rich import box
from rich import table as rich
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.text import Text

from harness.report import cells
from harness.report.cells import Fitting, Fragments, Line, Part
from harness.report.plain import width

ENDLESS = 10_000  # a width, in characters, in which every table fits


def shown(part: Part, *, verbatim: bool = False, wide: bool = False) -> str:
    """A part as text for standard output; ``verbatim`` wraps no line, ``wide`` leaves out no column."""
    with _console().capture() as captured:
        _console().print(drawn(part, wide=wide), soft_wrap=verbatim)
    return captured.get()


@cache
def _console() -> Console:
    return Console(highlight=False, width=None if sys.stdout.isatty() else width())


def drawn(part: Part, *, wide: bool = False) -> RenderableType:
    """What rich prints, with all columns if ``wide``: nothing in a text is markup, or stands for an emoji."""
    match part:
        case cells.Table():
            return _WholeTable(part, wide=wide)
        case Fitting():
            return _Fitting(part, wide=wide)
        case Fragments():
            line = Text.assemble(*((one.text, one.style) for one in part))
            line.rstrip()
            return line
        case Line(text, style, indent) if indent:
            hanging = rich.Table.grid()
            hanging.add_column(width=indent)
            hanging.add_column(overflow="fold")
            hanging.add_row(Text(text[:indent], style), Text(text[indent:], style))
            return hanging
        case _:
            return _text(part)


def _text(line: str | Line) -> Text:
    return Text(line.text, line.style) if isinstance(line, Line) else Text(line)


def _table(table: cells.Table, kept: Iterable[int]) -> rich.Table:
    """The ``kept`` columns of a table."""
    places = list(kept)
    looks: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0)}
    if table.ruled:
        looks = {"title": table.title, "title_justify": "left", "show_lines": True}
    rich_table = rich.Table(**looks)
    for one in (table.headings[place] for place in places):
        looks = {"justify": "right"} if one.number else {"overflow": "ellipsis" if table.ruled else "fold"}
        rich_table.add_column(
            one.text, no_wrap=one.number or not one.wrap, min_width=one.min_width or None, **looks
        )
    for row, style in table.rows:
        rich_table.add_row(*(_text(row[place]) for place in places), style=style)
    return rich_table


class _Fitting:
    def __init__(self, fitting: Fitting, *, wide: bool) -> None:
        self._fitting = fitting
        self._wide = wide

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = self._fitting.whole
        endless = options.update(max_width=ENDLESS)
        rich_table = _table(whole, range(len(whole.headings)))
        if Measurement.get(console, endless, rich_table).maximum <= options.max_width:
            yield from [rich_table, *map(drawn, self._fitting.below)]
        elif self._wide:
            yield from [_WholeTable(whole, wide=True), *map(drawn, self._fitting.below)]
        else:
            yield from map(drawn, self._fitting.otherwise)


class _WholeTable:
    """A table that never cuts a number.

    Columns of numbers that do not fit are named below it instead; if it is ``wide``, they follow in further
    tables, each with the columns of words.
    """

    def __init__(self, table: cells.Table, *, wide: bool) -> None:
        self._table = table
        self._wide = wide

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        headings = self._table.headings
        endless = options.update(max_width=ENDLESS)
        words = [place for place, one in enumerate(headings) if not one.number or self._table.ruled]
        left = [place for place in range(len(headings)) if place not in words]
        while True:
            kept = sorted([*words, *left])
            left = []
            while (
                len(kept) > len(words) + 1 and self._least_width(console, endless, kept) > options.max_width
            ):
                last = max(place for place in kept if place not in words)
                kept.remove(last)
                left.insert(0, last)
            yield _table(self._table, kept)
            if not left or not self._wide:
                break
        if left:
            names = [" ".join(headings[place].text.replace("-\n", "").split()) for place in left]
            whole = self._least_width(console, endless, range(len(headings)))
            yield Text(
                f"Too narrow for: {', '.join(names)}. COLUMNS={whole} or --wide shows all.", style="dim"
            )

    def _least_width(self, console: Console, endless: ConsoleOptions, kept: Sequence[int]) -> int:
        """The width in which columns of words are as narrow as their longest word, and all others whole."""
        width = Measurement.get(console, endless, _table(self._table, kept)).maximum
        for place, heading in ((place, self._table.headings[place]) for place in kept):
            if heading.wrap and not heading.number:
                texts = [heading.text, *(str(row[place]) for row, _ in self._table.rows)]
                lines = max(cell_len(line) for text in texts for line in text.split("\n"))
                longest = max((cell_len(word) for text in texts for word in text.split()), default=0)
                width -= lines - min(lines, max(longest, heading.min_width))
        return width
