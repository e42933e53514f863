"""Simulated experiments and reproduced papers as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.naming import policy_name, program_name, waiting_name

PARTS = {"computing": "comp", "communicating": "comm", "synchronizing": "sync", "switching": "switch"}
PARTS |= {"idle": "idle"}
UNKNOWN = "-"


def experiment(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """A table per point of the sweep (``commands.simulate`` makes the document)."""
    for settings, group in groupby(document["rows"], key=lambda row: row["settings"]):
        rows = list(group)
        programs = [job["program"] for job in rows[0].get("jobs", ())] or [rows[0]["program"]]
        described = "; ".join(dict.fromkeys(map(program_name, programs)))
        point = "".join(f"; {key} = {value}" for key, value in settings.items())
        yield Text(
            f"{document['experiment']}, simulated: {rows[0]['count']} x {described}{point}", style="bold"
        )
        yield _rows(rows)


def _rows(rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("policy", "waiting"):
        table.add_column(heading, no_wrap=True)
    for heading in ("workload\nslowdown", "95 %\ninterval", "job\nmean", "job\nmax"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in PARTS.values():
        table.add_column(f"{heading}\n%", justify="right", no_wrap=True)
    for row in rows:
        found = row["simulated"]
        slowdown = found["workload_slowdown"]
        cells = [policy_name(row["scheduler"]), waiting_name(row["scheduler"])]
        if slowdown["median"] is None:
            table.add_row(*cells, *[UNKNOWN] * (4 + len(PARTS)))
            continue
        interval = "{:.2f}-{:.2f}".format(*slowdown["ci95"]) if slowdown["ci95"] else UNKNOWN
        cells += [f"{slowdown['median']:.2f}", interval]
        cells += [f"{found['slowdown'][key]:.2f}" for key in ("mean", "max")]
        cells += [f"{100 * found['breakdown'][part]:.1f}" for part in PARTS]
        table.add_row(*cells)
    return table


def reproduction(document: Mapping[str, Any], pictures: Sequence[Path]) -> Iterator[RenderableType]:
    """Cells with a published value beside it, claims with their verdicts, and where the pictures are."""
    yield Text(document["title"], style="bold")
    published = [cell for cell in document["cells"] if cell.get("paper") is not None]
    if published:
        yield _published(published)
    claims = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("figure", "claim", "found", "verdict"):
        claims.add_column(heading, overflow="fold")
    for claim in document["claims"]:
        verdict = f"{claim['verdict']}: {claim['why']}" if claim["why"] else claim["verdict"]
        claims.add_row(claim["figure"], claim["text"], claim["found"], verdict)
    if document["claims"]:
        yield claims
    if document["note"]:
        yield Text(document["note"], style="dim")
    for path in pictures:
        yield Text(str(path))


def _published(cells: Sequence[Mapping[str, Any]]) -> Table:
    """One row per cell: what tells it from the others, the simulated and the published value."""
    keys = [key for key in cells[0] if _tells(cells, key)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in (*keys, "simulated", "paper"):
        table.add_column(heading, justify="right")
    for cell in cells:
        values = [f"{cell[key]:g}" if isinstance(cell[key], float) else str(cell[key]) for key in keys]
        table.add_row(*values, f"{cell['simulated']:.2f}", f"{cell['paper']:.2f}")
    return table


def _tells(cells: Sequence[Mapping[str, Any]], key: str) -> bool:
    plain = isinstance(cells[0][key], str | int | float) and key not in ("simulated", "paper")
    return plain and not key.startswith(("simulated", "spun")) and len({cell[key] for cell in cells}) > 1
