"""Advice as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.naming import duration_name, program_name, scheduler_name

UNKNOWN = "-"


def render(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """What to use, what was predicted for each candidate, and where the answer changes."""
    jobs, best = document["jobs"], document["rows"][0]
    what = f"{jobs} job{'s' if jobs > 1 else ''} of {program_name(document['program'])}"
    yield Text(f"{what} on {document['processors']} processors, simulated with this host's constants")
    yield Text(f"Use {scheduler_name(best['scheduler'])}.", style="bold")
    yield _predictions(document)
    yield Text("Over the granularity, all else alike:")
    yield _ranges(document)


def _predictions(document: Mapping[str, Any]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("scheduler", no_wrap=True)
    for heading in ("workload\nslowdown", "95 %\ninterval", "job\nmean", "job\nmax"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in document["rows"]:
        found = row["workload_slowdown"]
        median = UNKNOWN if found["median"] is None else f"{found['median']:.2f}"
        interval = "{:.2f}-{:.2f}".format(*found["ci95"]) if found["ci95"] else UNKNOWN
        jobs = [f"{row['slowdown'][key]:.2f}" if row["slowdown"] else UNKNOWN for key in ("mean", "max")]
        table.add_row(scheduler_name(row["scheduler"]), median, interval, *jobs)
    return table


def _ranges(document: Mapping[str, Any]) -> Table:
    table = Table("granularity", "best, or as good", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("workload\nslowdown", justify="right")
    for one in document["ranges"]:
        ends = dict.fromkeys((duration_name(one["from_us"]), duration_name(one["to_us"])))
        table.add_row(" to ".join(ends), scheduler_name(one["scheduler"]), f"{one['slowdown']:.2f}")
    return table
