"""The rows of a report as text: Markdown and comma-separated values."""

from __future__ import annotations

import csv
import io
from typing import Any

from harness.analyse.breakdown import PARTS
from harness.analyse.results_document import Results
from harness.analyse.rows import Row
from harness.analyse.statistics import estimate
from harness.spec.naming import program_name

MARKUP = "|<\\`"
"""Characters that would begin something else than text in Markdown."""

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


def comma_separated(found: Results) -> str:
    """One line per row, with full precision; empty where nothing is known."""
    text = io.StringIO()
    writer = csv.DictWriter(text, (*COLUMNS, *_shares()), lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_cells, found.rows))
    return text.getvalue()


def markdown(found: Results) -> str:
    """A heading, a table and the doubts."""
    lines = [
        f"# {_short(found.experiment)}",
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---" * len(COLUMNS) + "|",
    ]
    for cells in map(_cells, found.rows):
        lines.append("| " + " | ".join(_short(cells[column]) for column in COLUMNS) + " |")
    if found.doubts:
        lines += ["", *(f"- Doubt: {doubt}." for doubt in found.doubts)]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> dict[str, Any]:
    slowdown = row.measured.workload_slowdown if row.measured else estimate([])
    low, high = slowdown.ci95 or (None, None)
    measured, simulated = (side and side.responses for side in (row.measured, row.simulated))
    cells = {
        "program": program_name(row.program),
        "scheduler": row.name,
        "measured": slowdown.median,
        "low": low,
        "high": high,
        "repeats": slowdown.n,
        "simulated": row.median("simulated"),
        "error": row.error,
        "response_mean_ms": measured and measured.mean_ms,
        "response_p99_ms": measured and measured.p99_ms,
        "simulated_response_mean_ms": simulated and simulated.mean_ms,
        "simulated_response_p99_ms": simulated and simulated.p99_ms,
        "verdict": row.verdict and row.verdict.verdict,
        "reason": row.verdict and row.verdict.reason,
    }
    for name, side in row.sides.items():
        if side.breakdown:
            cells |= {f"{name}_{part}": share for part, share in vars(side.breakdown).items()}
    return cells


def _shares() -> list[str]:
    return [f"{side}_{part}" for side in ("measured", "simulated") for part in PARTS]


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return (
        f"{value:.3f}"
        if isinstance(value, float)
        else "".join(f"\\{c}" if c in MARKUP else c for c in str(value))
    )
