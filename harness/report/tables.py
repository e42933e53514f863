"""The rows of a report as text: Markdown and comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from harness.naming import program_name, scheduler_name
from harness.report.text import PARTS

COLUMNS = (
    "program",
    "scheduler",
    "measured",
    "low",
    "high",
    "repeats",
    "simulated",
    "error",
    "response_mean_ms",
    "response_p99_ms",
    "simulated_response_mean_ms",
    "simulated_response_p99_ms",
    "verdict",
    "reason",
)


def comma_separated(document: Mapping[str, Any]) -> str:
    """One line per row, with full precision; empty where nothing is known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, (*COLUMNS, *_shares()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(_cells(document))
    return text.getvalue()


def markdown(document: Mapping[str, Any]) -> str:
    """A heading, a table and the doubts."""
    lines = [
        f"# {document['experiment']}",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
    ]
    for cells in _cells(document):
        lines.append("| " + " | ".join(_short(cells[column]) for column in COLUMNS) + " |")
    if document["doubts"]:
        lines += ["", *(f"- Doubt: {doubt}." for doubt in document["doubts"])]
    return "\n".join(lines) + "\n"


def _cells(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for row in document["rows"]:
        measured, simulated = (row[side] or {} for side in ("measured", "simulated"))
        slowdown = measured.get("workload_slowdown", {})
        low, high = slowdown.get("ci95") or (None, None)
        cells = {
            "program": program_name(row["program"]),
            "scheduler": scheduler_name(row["scheduler"]),
            "measured": slowdown.get("median"),
            "low": low,
            "high": high,
            "repeats": slowdown.get("n", 0),
            "simulated": simulated.get("workload_slowdown", {}).get("median"),
            "error": row["error"],
            "response_mean_ms": (measured.get("responses") or {}).get("mean_ms"),
            "response_p99_ms": (measured.get("responses") or {}).get("p99_ms"),
            "simulated_response_mean_ms": (simulated.get("responses") or {}).get("mean_ms"),
            "simulated_response_p99_ms": (simulated.get("responses") or {}).get("p99_ms"),
            "verdict": row["verdict"],
            "reason": row["reason"],
        }
        for name, side in (("measured", measured), ("simulated", simulated)):
            shares = side.get("breakdown") or {}
            cells |= {f"{name}_{part}": shares.get(part) for part in PARTS}
        yield cells


def _shares() -> list[str]:
    return [f"{side}_{part}" for side in ("measured", "simulated") for part in PARTS]


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value).replace("|", "\\|")
