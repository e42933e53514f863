"""The comparison of ``lockstep waits`` for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.report.cells import CI95, LEAST_TO_MOST, UNKNOWN, doubts, fixed, interval, table


def render(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The table of the document of ``commands.waits``, the best choice, and how to set it."""
    alone = document["alone_s"]
    ends = f" ({_interval(alone)})" if alone["n"] > 1 else ""
    yield from doubts(document["doubts"])
    yield Text(f"As it is and alone: {alone['median']:.2f} s{ends}, the median of {_rounds(alone['n'])}.")
    yield _table(document)
    for knob in document["unavailable"]:
        yield Text(f"This MPI has no {knob['name']} ({knob['mpi']} {knob['versions']}).")
    fastest, as_good = document["fastest"], ", ".join(document["as_good"])
    if document["best"]:
        yield Text(f"Best: {fastest}.", style="" if document["doubts"] else "bold")
    else:
        yield Text(f"No choice is best beyond noise. Fastest in the median: {fastest}.")
        yield Text(f"Intervals that overlap with its own: {as_good}. More --rounds may tell them apart.")
    (chosen,) = (row for row in document["choices"] if row["choice"] == fastest)
    yield Text(f"To have {fastest}:" if chosen["lines"] else "There is nothing to set.")
    yield from (Text(f"    {line}") for line in chosen["lines"])


def _interval(known: Mapping[str, Any]) -> str:
    return interval(known["ci95"] or known["extremes"], known["n"])


def _rounds(count: int) -> str:
    return f"{count} round{'' if count == 1 else 's'}"


def _table(document: Mapping[str, Any]) -> Table:
    jobs = document["jobs"]
    ends = LEAST_TO_MOST if document["alone_s"]["n"] == 2 else CI95
    shared = [f"{jobs} at a time\nover their sum", ends] if jobs > 1 else []
    made = table(["choice"], ["alone\nover as it is", ends, *shared, "processor\ntime, s"])
    for row in document["choices"]:
        cells = [fixed(row["alone"]["median"]), _interval(row["alone"])]
        if jobs > 1:
            cells += [fixed(row["together"]["median"]), _interval(row["together"])]
        if row["stopped"]:
            cells[-2] = f"> {document['give_up']:g}"
        cpu = UNKNOWN if row["cpu_s"] is None else f"{row['cpu_s']:.1f}"
        made.add_row(row["choice"], *cells, cpu)
    return made
