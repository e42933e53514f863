"""Columns of tables: where a value is in a record, what it means, and its texts in each output."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from harness.analyse.statistics import FEWEST, Estimate

UNKNOWN = "-"

CI95, LEAST_TO_MOST = "95 %\ninterval", "least\nto most"  # headings of intervals

MEASURED, SIMULATED = SIDES = ("measured", "simulated")


def at(record: Any, path: str | Callable[[Any], Any]) -> Any:
    """What a function gives, or stands at a path of attributes, keys and positions; None if unknown."""
    if callable(path):
        return path(record)
    for name in path.split("."):
        if record is None:
            return None
        if isinstance(record, Mapping):
            record = record.get(name)
        else:
            record = record[int(name)] if name.isdigit() else getattr(record, name)
    return record


@dataclass(frozen=True)
class Column:
    """A column, for all outputs in which it has a name."""

    # Of its value in a record, such as ``measured.makespan_s`` in a row; or a function of the record.
    path: str | Callable[[Any], Any]
    heading: str = ""  # in tables for a terminal
    shown: Callable[[Any], Any] = str  # makes the text of a known value there
    csv: str = ""  # name in comma-separated values and Markdown
    # Name in frames, which have a line for each side of a row, so the path begins with ``measured``.
    frame: str = ""
    page: str = ""  # heading on the page
    unit: str = ""  # on the page, behind ``shown``, unless ``on_page`` makes another text
    group: str = ""  # columns of a group stand together
    meaning: str = ""  # for docs/reference/results-as-json.md, alongside the group's
    # The column is left out unless a record has a value at this path, or this function gives one.
    needs: str | Callable[[Any], Any] = ""
    on_page: Callable[[Any], str] | None = None
    words: bool = False  # whether it is text: it stands at the left, and may wrap
    unknown: str = UNKNOWN  # the text of an unknown value

    def of(self, side: str) -> Self:
        path = self.path.replace(MEASURED, side, 1) if isinstance(self.path, str) else self.path
        return replace(self, path=path, needs="")

    def value(self, record: Any) -> Any:
        return at(record, self.path)

    def text(self, record: Any) -> Any:
        value = self.value(record)
        return self.unknown if value is None else self.shown(value)

    def cell(self, record: Any) -> str:
        value = self.value(record)
        if value is None:
            return self.unknown
        return self.on_page(value) if self.on_page else f"{self.shown(value)} {self.unit}".rstrip()


def needed(columns: Iterable[Column], records: Sequence[Any]) -> list[Column]:
    return [one for one in columns if not one.needs or any(at(record, one.needs) for record in records)]


def fixed(value: float | None, digits: int = 2) -> str:
    """A number with ``digits`` decimals; UNKNOWN for None."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def percent(share: float, digits: int = 1, sign: str = "") -> str:
    """A share in percent, without its sign."""
    return f"{100 * share:{sign}.{digits}f}"


def four_digits(value: float) -> str:
    """A number to four digits, or to the unit if it has more before the point; never with an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def one_digit(value: float) -> str:
    """A number to one digit; never with an exponent."""
    return four_digits(float(f"{value:.1g}"))


def interval(ends: Sequence[float] | None, n: int = FEWEST) -> str:
    """Ends of a 95 % interval, or with ``n`` = 2 from the minimum to the maximum; UNKNOWN for None."""
    between = "-" if n >= FEWEST else " to "
    return f"{ends[0]:.2f}{between}{ends[1]:.2f}" if ends else UNKNOWN


def ends(estimate: Estimate) -> str:
    return interval(estimate.ends, estimate.n)


def counted(counts: Mapping[str, int], form: str = "") -> str:
    """How many there are, each count in this form, by what they are."""
    return ", ".join(f"{count:{form}} {what}" for what, count in counts.items())


def minute(instant: str) -> str:
    """The day and the minute of a time in ISO 8601."""
    return instant[:16].replace("T", " ")


def duration(seconds: float) -> str:
    """A duration as text: "42 s", "3 min 20 s", "5 h 2 min", "3 days"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole < 2 * 86_400 else f"{whole // 86_400} days"
