"""The answer as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from harness import agreement
from harness.naming import policy_name, program_name, waiting_name

PARTS = ("computing", "communicating", "synchronizing", "switching", "idle")
UNKNOWN = "-"
ENDLESS = 10_000

Headings = tuple[str, ...]
_SLOWDOWNS: Headings = ("workload\nslowdown", "95 %\ninterval", "job\nmean", "job\nmax")
_SIMULATED: Headings = ("simu-\nlated", "error\n%")
_SHARES: Headings = ("comp\n%", "comm\n%", "sync\n%", "switch\n%", "idle\n%")
_SLOTS: Headings = ("late\nus", "skew\nus")
_RESPONSES: Headings = ("burst\nms",)
_SIMULATED_RESPONSES: Headings = ("burst ms\nsimulated",)
LEGEND_RESPONSES = "Burst: mean/99th percentile of the response times of interactive jobs' bursts."
LEGEND = (
    "Workload slowdown: makespan / sum of dedicated times; job: response time / dedicated time. "
    "Late, skew: median/99th percentile of slot switches."
)


def render(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A table per point of the sweep, then what is doubtful (``commands.run`` makes the document)."""
    for _, rows in groupby(document["rows"], key=lambda row: row["settings"]):
        block = list(rows)
        yield Text(_title(document["experiment"], block[0]), style="bold")
        yield _Block(block)
    yield Text(LEGEND, style="dim")
    if any(row["measured"]["responses"] for row in document["rows"]):
        yield Text(LEGEND_RESPONSES, style="dim")
    if document["agreement"]:
        yield Text(agreement.sentence(document["agreement"]))
    for doubt in document["doubts"]:
        yield Text(f"Doubt: {doubt}.")


class _Block:
    """The rows of one point of the sweep: one table, or two on a terminal too narrow for it."""

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = rows
        self._slots = _SLOTS if any(row["measured"]["switches"] for row in rows) else ()
        self._responses: Headings = _RESPONSES if any(row["measured"]["responses"] for row in rows) else ()
        if any(row["simulated"] and row["simulated"]["responses"] for row in rows):
            self._responses += _SIMULATED_RESPONSES
        self._slowdowns = _SLOWDOWNS
        if any(row["simulated"] for row in rows):
            self._slowdowns = (*_SLOWDOWNS[:2], *_SIMULATED, *_SLOWDOWNS[2:])

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = self._table(self._slowdowns, _SHARES, self._slots)
        if Measurement.get(console, options.update(max_width=ENDLESS), whole).maximum <= options.max_width:
            yield whole
        else:
            yield self._table(self._slowdowns, (), self._slots)
            yield self._table((), _SHARES, ())

    def _table(self, slowdowns: Headings, shares: Headings, slots: Headings) -> Table:
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("policy", no_wrap=True)
        table.add_column("waiting", no_wrap=True)
        responses = self._responses if slowdowns else ()
        for heading in (*slowdowns, *responses, *shares, *slots):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self._rows:
            measured = row["measured"]
            cells = [policy_name(row["scheduler"]), waiting_name(row["scheduler"])]
            cells += _slowdowns(row, slowdowns) if slowdowns else ()
            cells += _responses(row, responses)
            cells += _shares(measured) if shares else ()
            cells += _slots(measured["switches"]) if slots else ()
            table.add_row(*cells)
        return table


def _title(name: str, row: Mapping[str, Any]) -> str:
    programs = [job["program"] for job in row.get("jobs", ())] or [row["program"]]
    described = "; ".join(dict.fromkeys(map(program_name, programs)))
    jobs = f"{row['count']} job{'s' if row['count'] > 1 else ''}"
    alone_s = row["measured"]["dedicated_s"]
    alone = f"; alone, one after the other: {alone_s:.2f} s" if alone_s else ""
    n = max(row["measured"]["workload_slowdown"]["n"], 1)
    return f"{name}: {jobs} of {described}{alone}; {n} repeat{'s' if n > 1 else ''}"


def _slowdowns(row: Mapping[str, Any], headings: Headings) -> Iterator[str]:
    measured = row["measured"]
    slowdown = measured["workload_slowdown"]
    yield UNKNOWN if slowdown["median"] is None else f"{slowdown['median']:.2f}"
    yield UNKNOWN if slowdown["ci95"] is None else "{:.2f}-{:.2f}".format(*slowdown["ci95"])
    if _SIMULATED[0] in headings:
        predicted = row["simulated"] and row["simulated"]["workload_slowdown"]["median"]
        yield UNKNOWN if predicted is None else f"{predicted:.2f}"
        yield UNKNOWN if row["error"] is None else f"{100 * row['error']:+.0f}"
    for key in ("mean", "max"):
        yield UNKNOWN if measured["slowdown"] is None else f"{measured['slowdown'][key]:.2f}"


def _responses(row: Mapping[str, Any], headings: Headings) -> Iterator[str]:
    for heading, side in (*_RESPONSES, "measured"), (*_SIMULATED_RESPONSES, "simulated"):
        if heading in headings:
            found = row[side] and row[side]["responses"]
            yield f"{found['mean_ms']:.1f}/{found['p99_ms']:.1f}" if found else UNKNOWN


def _shares(measured: Mapping[str, Any]) -> Iterator[str]:
    for part in PARTS:
        yield UNKNOWN if measured["breakdown"] is None else f"{100 * measured['breakdown'][part]:.1f}"


def _slots(switches: Mapping[str, Any] | None) -> Iterator[str]:
    for key in ("lateness_us", "skew_us"):
        yield "" if switches is None else f"{switches[key]['p50']:.0f}/{switches[key]['p99']:.0f}"
