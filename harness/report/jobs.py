"""An experiment of the job level as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from harness.report.cells import UNKNOWN, four_digits, one_digit, table
from harness.spec.naming import policy_name

COLUMNS = {
    "response_s": "response\ns",
    "wait_s": "wait\ns",
    "slowdown": "slowdown\n",
    "bounded_slowdown": "bounded\nslowdown",
    "processors": "mean\nsize",
    "utilisation": "utili-\nsation",
    "fairness": "fair-\nness",
}
REGIONS = {"internal": "inter-\nnal", "external": "exter-\nnal", "missed": "missed\n"}
"""Columns for policies that give regions: see ``Fragmentation``."""


def columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """The columns for rows with these metrics."""
    regions = any("missed" in metrics for metrics in rows)
    return COLUMNS | REGIONS if regions else COLUMNS


def render(document: Mapping[str, Any], files: Sequence[Path]) -> Iterator[RenderableType]:
    """One row for each scheduler, then the files that were written."""
    title = f"{document['experiment']}: {document['jobs']} jobs on {document['processors']} processors"
    left_out = ", ".join(f"{count} {reason}" for reason, count in document["skipped"].items())
    yield Text(title + (f" (left out: {left_out})" if left_out else ""), style="bold")
    shown = columns(row["metrics"] for row in document["rows"])
    rows = table(["scheduler\n"], shown.values())
    rows.columns[0].min_width = 24
    for row in document["rows"]:
        label = policy_name(row["scheduler"])
        if row["saturated"]:
            rows.add_row(f"{label}\nsaturated: {row['saturated']}", *[UNKNOWN] * len(shown))
            continue
        rows.add_row(label, *(_cell(row, key) for key in shown))
    yield rows
    for path in files:
        yield Text(str(path))


def _cell(row: Mapping[str, Any], key: str) -> str:
    value, half = row["metrics"].get(key), row["half_width"].get(key)
    if value is None:
        return UNKNOWN
    return four_digits(value) + (f" +-{one_digit(half)}" if half and key == "response_s" else "")
