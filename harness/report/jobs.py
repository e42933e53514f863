"""An experiment of the job level as a table: for a terminal, comma-separated, in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from harness.analyse.columns import UNKNOWN, four_digits, one_digit
from harness.predict.job_level import Schedule
from harness.report import tables
from harness.report.cells import table
from harness.report.job_content import JobContent
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
    if document["lost"]:
        title += f", of which {len(document['lost'])} are lost"
    left_out = ", ".join(f"{count} {reason}" for reason, count in document["skipped"].items())
    yield Text(title + (f" (left out: {left_out})" if left_out else ""), style="bold")
    if assumed := document["assumed"]:
        yield Text("assumed: " + ", ".join(f"{count} {reason}" for reason, count in assumed.items()))
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


def comma_separated(rows: Sequence[Schedule]) -> str:
    """A heading and a line for each scheduler: means, then half-widths; unknown values are empty."""
    names = list(dict.fromkeys(name for row in rows for name in row.metrics))
    return tables.lines_of_values(
        [
            {"scheduler": row.label, "replications": row.replications, "saturated": row.saturated}
            | {name: row.metrics.get(name) for name in names}
            | {f"{name}_half": row.half_width.get(name) for name in names}
            for row in rows
        ]
    )


def markdown(content: JobContent) -> str:
    """A heading, the doubts and a table."""
    shown = columns(row.metrics for row in content.rows)
    headings = [heading.replace("-\n", "").replace("\n", " ").strip() for heading in shown.values()]
    lines = [f"# {tables.escaped(content.name)}", ""]
    if content.doubts:
        lines += [*(f"- Doubt: {tables.escaped(doubt)}." for doubt in content.doubts), ""]
    lines += [f"| scheduler | {' | '.join(headings)} |", "|---" * (1 + len(shown)) + "|"]
    for row in content.rows:
        label = f"{row.label} (saturated: {row.saturated})" if row.saturated else row.label
        cells = [_cell(row.document(), key) for key in shown]
        lines.append(f"| {tables.escaped(label)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, Any], key: str) -> str:
    value, half = row["metrics"].get(key), row["half_width"].get(key)
    if value is None:
        return UNKNOWN
    return four_digits(value) + (f" +-{one_digit(half)}" if half and key == "response_s" else "")
