"""Simulated experiments and reproduced papers as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.analyse.rows import Row
from harness.report.cells import LEGEND_TWO, SHARES, SLOWDOWNS, headed, share_cells, slowdown_cells, table
from harness.spec.naming import policy_name, program_name, waiting_name


def experiment(name: str, rows: Sequence[Row]) -> Iterator[RenderableType]:
    """The rows of ``lockstep simulate``: a table for each point of the sweep."""
    for settings, group in groupby(rows, key=lambda row: row.settings):
        block = list(group)
        described = "; ".join(dict.fromkeys(program_name(job.program) for job in block[0].jobs))
        point = "".join(f"; {key} = {value}" for key, value in settings.items())
        yield Text(f"{name}, simulated: {len(block[0].jobs)} x {described}{point}", style="bold")
        yield _rows(block)
    if any(row.simulated and row.simulated.workload_slowdown.n == 2 for row in rows):
        yield Text(LEGEND_TWO, style="dim")


def _rows(rows: Sequence[Row]) -> Table:
    known = (row.simulated.workload_slowdown for row in rows if row.simulated)
    made = table(["policy", "waiting"], [*headed(SLOWDOWNS, known), *SHARES], wrap=False)
    for row in rows:
        names = policy_name(row.scheduler), waiting_name(row.scheduler)
        made.add_row(*names, *slowdown_cells(row.simulated), *share_cells(row.simulated))
    return made


def reproduction(document: Mapping[str, Any], pictures: Sequence[Path]) -> Iterator[RenderableType]:
    """Cells beside their published values, claims with their verdicts, and the paths of the pictures."""
    yield Text(document["title"], style="bold")
    published = [cell for cell in document["cells"] if cell.get("paper") is not None]
    if published:
        yield _published(published)
    claims = table(["figure", "claim", "found", "verdict"])
    for claim in document["claims"]:
        places = f" ({' against '.join(claim['places'])})" if claim["places"] else ""
        why = f": {claim['why']}" if claim["why"] else ""
        verdict = f"{claim['verdict']}{places}{why}"
        claims.add_row(claim["figure"], claim["text"], claim["found"], verdict)
    if document["claims"]:
        yield claims
    if document["note"]:
        yield Text(document["note"], style="dim")
    for path in pictures:
        yield Text(str(path))


def _published(cells: Sequence[Mapping[str, Any]]) -> Table:
    """A row for each cell: the keys that differ between cells, the simulated and the published value."""
    keys = [key for key in cells[0] if _tells(cells, key)]
    made = table([], [*keys, "simulated", "paper"])
    for cell in cells:
        values = [f"{cell[key]:g}" if isinstance(cell[key], float) else str(cell[key]) for key in keys]
        made.add_row(*values, f"{cell['simulated']:.2f}", f"{cell['paper']:.2f}")
    return made


def _tells(cells: Sequence[Mapping[str, Any]], key: str) -> bool:
    plain = isinstance(cells[0][key], str | int | float) and key not in ("simulated", "paper")
    return plain and not key.startswith(("simulated", "spun")) and len({cell[key] for cell in cells}) > 1
