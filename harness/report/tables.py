"""The rows of a report as Markdown and as comma-separated values."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from harness.analyse.breakdown import PARTS
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import Row, swept
from harness.analyse.states import STATES
from harness.analyse.statistics import estimate

SIDES = ("measured", "simulated")

MARKUP = "|<\\`"
"""Characters that have a meaning in Markdown."""


def comma_separated(found: ResultsDocument) -> str:
    """A heading and a line for each row, with full precision; unknown values are empty."""
    keys = swept(found.rows)
    commands = any(side.states for row in found.rows for side in row.sides.values())
    return lines_of_values(
        [_cells(row, keys) | _shares(row) | (_states(row) if commands else {}) for row in found.rows]
    )


def lines_of_values(lines: Sequence[Mapping[str, Any]]) -> str:
    """A heading of the keys, and a line for each of at least one mapping."""
    text = io.StringIO()
    writer = csv.DictWriter(text, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def markdown(found: ResultsDocument) -> str:
    """A heading, the doubts and a table."""
    keys = swept(found.rows)
    rows = [_cells(row, keys) for row in found.rows]
    lines = [f"# {_short(found.experiment)}", ""]
    lines += [*(f"- Doubt: {doubt}." for doubt in found.doubts), ""] if found.doubts else []
    lines += [f"| {' | '.join(rows[0])} |", "|---" * len(rows[0]) + "|"]
    lines += [f"| {' | '.join(map(_short, cells.values()))} |" for cells in rows]
    return "\n".join(lines) + "\n"


def _cells(row: Row, keys: Mapping[str, str]) -> dict[str, Any]:
    slowdown = row.measured.workload_slowdown if row.measured else estimate([])
    low, high = slowdown.ends or (None, None)
    measured, simulated = (side and side.responses for side in (row.measured, row.simulated))
    return {
        "program": row.workload,
        **{heading: row.settings.get(key) for key, heading in keys.items()},
        "scheduler": row.name,
        "measured": slowdown.median,
        "low": low,
        "high": high,
        "interval": slowdown.kind or None,
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


def _shares(row: Row) -> dict[str, float | None]:
    """The breakdowns of both sides."""
    parts = {side: row.sides[side].breakdown if side in row.sides else None for side in SIDES}
    return {f"{side}_{part}": getattr(known, part, None) for side, known in parts.items() for part in PARTS}


def _states(row: Row) -> dict[str, float | None]:
    """What the ranks did, measured."""
    known = row.measured and row.measured.states
    return {f"measured_{state}": getattr(known, state, None) for state in (*STATES, "in_waits")}


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else escaped(str(value))


def escaped(text: str) -> str:
    """Text that means itself in Markdown."""
    return "".join(f"\\{c}" if c in MARKUP else c for c in text)
