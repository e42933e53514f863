"""Tables of policies, mechanisms and machine constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

MEANING = {
    "switch": "context switch: additional cost of a message that wakes a process on a busy processor",
    "handoff": "switch between two processes of one processor",
    "latency": "one-way message, both ends spinning",
    "wakeup": "wake-up of a blocked process on an idle processor",
    "send": "processor time to send a message",
    "receive": "processor time to receive a message",
    "serve": "processor time to answer a read, beyond receiving and sending",
    "poll": "poll that finds no message",
    "detour": "length of the operating system's detours",
    "detour_gap": "time from one detour to the next, one sample for each processor",
    "slot_cost": "time that a processor loses by a slot switch",
    "lateness": "lateness of slot switches",
    "skew": "time between the first and the last processor in a slot switch",
    "tick": "the kernel's clock tick",
    "slice": "the slice of the default scheduling class",
    "rr_interval": "the turn of SCHED_RR",
    "reload": "additional time of a walk through the working set after another process's walk",
    "unit": "one step through the working set",
}


def constants(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The constants of ``commands.calibrate``, and doubts about them."""
    table = Table("constant", "meaning")
    for heading in ("median us", "95 % interval", "p10 us", "p90 us", "samples"):
        table.add_column(heading, justify="right")
    for row in document["constants"]:
        numbers = [f"{row[key]:.2f}" for key in ("median_us", "p10_us", "p90_us")]
        numbers.insert(1, "{:.2f}-{:.2f}".format(*row["ci95_us"]) if row["ci95_us"] else "-")
        meaning = MEANING.get(row["quantity"].split()[0], "")
        table.add_row(row["quantity"], meaning, *numbers, str(row["n"]))
    yield table
    for doubt in document["doubts"]:
        yield Text(f"Doubt: {doubt}.")


def policies(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The lists of ``commands.policies``."""
    table = Table(title="Policies", title_justify="left", show_lines=True)
    for heading in ("policy", "what it does", "parameters", "source"):
        table.add_column(heading)
    for row in document["policies"]:
        parameters = ", ".join(f"{key} = {value!r}" for key, value in row["parameters"].items())
        table.add_row(row["policy"], row["what"], parameters or "none", row["source"])
    yield table
    yield Text("\nWaiting rules (blocking): " + ", ".join(document["blocking"]) + "\n")
    table = Table(title="Mechanisms", title_justify="left", show_lines=True)
    for heading in ("mechanism", "privilege", "here", "worst harm"):
        table.add_column(heading)
    for row in document["mechanisms"]:
        here = row["unavailable"] or "available"
        table.add_row(row["mechanism"], row["privilege"] or "none", here, row["worst_harm"])
    yield table
