"""The verdicts of ``lockstep compare`` as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness import agreement
from harness.naming import program_name, scheduler_name

UNKNOWN = "-"
HEADINGS = ("measured", "95 %\ninterval", "simu-\nlated", "error\n%", "95 %\ninterval")


def render(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A table per experiment, and how many rows have which verdict."""
    for experiment in document["experiments"]:
        yield Text(f"{experiment['experiment']} ({experiment['digest'][:8]})", style="bold")
        yield _table(experiment["rows"])
        counts = Counter(row["verdict"] for row in experiment["rows"])
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        yield Text(f"Tolerance {document['tolerance']:.0%}: {said}.")
        if experiment["agreement"]:
            yield _agreement(experiment["agreement"])
            yield Text(agreement.sentence(experiment["agreement"]))


def _table(rows: list[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    swept = len({str(row["settings"]) for row in rows}) > 1
    if swept:
        table.add_column("program")
    table.add_column("scheduler")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("verdict")
    for row in rows:
        cells = [program_name(row["program"])] if swept else []
        said = row["verdict"] + (f": {row['reason']}" if row["reason"] else "")
        table.add_row(*cells, scheduler_name(row["scheduler"]), *_numbers(row), said)
    return table


def _agreement(found: Mapping[str, Any]) -> Table:
    table = Table("scheduler", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("rows", "|error|\nmedian %", "90th\npercentile", "error\nmedian %"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in found["schedulers"]:
        errors = (f"{100 * one[key]:.1f}" for key in ("median_error", "p90_error"))
        table.add_row(one["scheduler"], str(one["rows"]), *errors, f"{100 * one['bias']:+.1f}")
    return table


def _numbers(row: Mapping[str, Any]) -> Iterator[str]:
    measured, simulated = (row[side] and row[side]["workload_slowdown"] for side in ("measured", "simulated"))
    yield f"{measured['median']:.2f}" if measured and measured["median"] else UNKNOWN
    yield "{:.2f}-{:.2f}".format(*measured["ci95"]) if measured and measured["ci95"] else UNKNOWN
    yield f"{simulated['median']:.2f}" if simulated and simulated["median"] else UNKNOWN
    yield UNKNOWN if row["error"] is None else f"{100 * row['error']:+.1f}"
    yield (
        UNKNOWN
        if row["interval"] is None
        else "{:+.0f} to {:+.0f}".format(*(100 * e for e in row["interval"]))
    )
