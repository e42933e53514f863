"""What ``lockstep observe`` prints of a program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.report.cells import doubts, table

MOST_KINDS = 8


def jobs_table(program: Mapping[str, Any]) -> str:
    """The table of an experiment file with such a program."""
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in program.items())
    return f"[[jobs]]\ncount = 3\nprogram = {{ {fields} }}"


def render(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The document of ``commands.observe`` as lines and a table."""
    yield from doubts(document["doubts"])
    share = f"{document['computing']:.1%} computing, {document['in_mpi']:.1%} in MPI"
    yield Text(f"{document['processes']} ranks, {document['elapsed_s']:.2f} s alone: {share}.")
    yield Text(_kept(document))
    if document["computing_us"]:
        yield Text(_phases(document))
    yield _kinds(document)
    if document["program"]:
        yield Text("The nearest synthetic program, for an experiment file:")
        yield from (Text(f"    {line}") for line in jobs_table(document["program"]).splitlines())
    else:
        yield Text("It has no phases in which its ranks compute and then wait for each other.")
    yield Text(f"Recorded in {document['recording']}")


def _kept(document: Mapping[str, Any]) -> str:
    varies = document["variation"]
    parts = [f"{document['operations']} operations, {document['kept']} of them kept"]
    if document["start_up_s"]:
        parts.append(f"start-up {document['start_up_s']:.2f} s")
    parts.append(f"{document['covered']:.0%} of the time after it in {document['stretches']} stretches")
    if varies is not None:
        parts.append(f"whose mean phases vary by {varies:.1%}")
    return ", ".join(parts) + "."


def _phases(document: Mapping[str, Any]) -> str:
    spread, counts = document["computing_us"], document["per_phase"]
    between = document["between_ranks"]
    return (
        f"{document['phases']} phases a rank: {spread['median']:.4g} us of computing in the median, "
        f"5 to 95 %: {spread['p5']:.4g} to {spread['p95']:.4g}; the busiest rank computes "
        f"{between or 0:.1%} more than the mean. Per phase {counts['operations']:.2g} operations, "
        f"{counts['messages']:.2g} messages, {counts['collectives']:.2g} collective, "
        f"{counts['bytes']:.4g} bytes."
    )


def _kinds(document: Mapping[str, Any]) -> Table:
    made = table(["operation"], ["number", "bytes", "time in it, s"])
    for one in document["kinds"][:MOST_KINDS]:
        made.add_row(one["kind"], str(one["operations"]), str(one["bytes"]), f"{one['within_s']:.3f}")
    return made
