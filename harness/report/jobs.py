"""Experiments of the job level as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

COLUMNS = {
    "response_s": "response\ns",
    "wait_s": "wait\ns",
    "slowdown": "slowdown\n",
    "bounded_slowdown": "bounded\nslowdown",
    "processors": "mean\nsize",
    "utilisation": "utili-\nsation",
    "fairness": "fair-\nness",
}


def table(document: Mapping[str, Any], files: Sequence[Path]) -> Iterator[RenderableType]:
    """One row a scheduler, then what was written."""
    title = f"{document['experiment']}: {document['jobs']} jobs on {document['processors']} processors"
    left_out = ", ".join(f"{count} {reason}" for reason, count in document["skipped"].items())
    yield Text(title + (f" (left out: {left_out})" if left_out else ""), style="bold")
    rows = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    rows.add_column("scheduler\n", overflow="fold", min_width=24)
    for heading in COLUMNS.values():
        rows.add_column(heading, justify="right", no_wrap=True)
    for row in document["rows"]:
        name, *options = (
            f"{key} {value}" if key != "policy" else value for key, value in row["scheduler"].items()
        )
        label = f"{name} ({', '.join(options)})" if options else name
        if row["saturated"]:
            rows.add_row(label, f"saturated: {row['saturated']}")
            continue
        rows.add_row(label, *(_cell(row, key) for key in COLUMNS))
    yield rows
    for path in files:
        yield Text(str(path))


def _cell(row: Mapping[str, Any], key: str) -> str:
    value, half = row["metrics"].get(key), row["half_width"].get(key)
    if value is None:
        return "-"
    return f"{value:.4g}" + (f" +-{half:.1g}" if half and key == "response_s" else "")
