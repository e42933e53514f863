"""Lines and tables as values; ``terminal`` draws them, and ``plain`` where rich is not installed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.analyse.columns import CI95, LEAST_TO_MOST, Column
from harness.analyse.statistics import Estimate


@dataclass(frozen=True)
class Line:
    """A line of text, or several; ``style`` is in rich's words.

    Where a terminal wraps it, its further lines stand ``indent`` characters to the right.
    """

    text: str = ""
    style: str = ""
    indent: int = 0

    def __str__(self) -> str:
        return self.text


class Fragments(tuple[Line, ...]):
    """Texts with styles of their own that make one line."""

    def __str__(self) -> str:
        return "".join(map(str, self)).rstrip()


@dataclass(frozen=True)
class Heading:
    """The head of a column: of numbers, which are never cut, or of words, which may ``wrap``."""

    text: str
    number: bool = False
    wrap: bool = True
    min_width: int = 0  # width below which the column never goes, in characters


@dataclass
class Table:
    """Rows of cells, each row with a style; a ``ruled`` table has lines between its rows."""

    headings: list[Heading]
    title: str = ""
    ruled: bool = False
    rows: list[tuple[tuple[str | Line, ...], str]] = field(default_factory=list)

    def add_row(self, *cells: str | Line, style: str = "") -> None:
        self.rows.append((cells, style))


@dataclass(frozen=True)
class Fitting:
    """A table and lines below it, where they fit or all columns are asked for; else something else."""

    whole: Table
    below: Sequence[Line]
    otherwise: Sequence["Part"]


Part = str | Line | Fragments | Table | Fitting  # what a report consists of


def table(words: Iterable[str], numbers: Iterable[str] = (), *, wrap: bool = True) -> Table:
    """A table without lines between rows: columns of words, which may ``wrap``, then columns of numbers."""
    return Table(
        [*(Heading(one, wrap=wrap) for one in words), *(Heading(one, number=True) for one in numbers)]
    )


def listed(columns: Sequence[Column], records: Sequence[Any], *, wrap: bool = True) -> Table:
    """A line for each record; the heading of intervals of 95 % fits to what the records have."""
    columns = [headed(column, records) for column in columns]
    report_table = Table([Heading(column.heading, not column.words, wrap) for column in columns])
    for record in records:
        report_table.add_row(*(column.text(record) for column in columns))
    return report_table


def headed(column: Column, records: Sequence[Any]) -> Column:
    """The column; if it is of estimates' intervals, with a heading for their kinds."""
    if column.heading != CI95:
        return column
    values = [column.value(record) for record in records]
    kinds = {one.kind for one in values if isinstance(one, Estimate) and one.kind}
    fitted = LEAST_TO_MOST if kinds == {"least to most"} else CI95 if len(kinds) < 2 else "\ninterval"
    return replace(column, heading=fitted)


def numbered(sentences: Sequence[str]) -> list[str]:
    """A line for each warning, with its number if there are several: the gravest comes first."""
    numbers = [f" {number}" for number in range(1, len(sentences) + 1)] if len(sentences) > 1 else [""]
    return [f"Warning{number}: {sentence}." for number, sentence in zip(numbers, sentences, strict=False)]


def warning_lines(sentences: Iterable[str]) -> Iterator[Line]:
    """A line for each warning, to stand above what it weakens."""
    for text in numbered([*sentences]):
        yield Line(text, style="bold yellow", indent=text.index(": ") + 2)
