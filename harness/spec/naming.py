"""Schedulers and programs in a few words, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def scheduler_name(table: Mapping[str, Any]) -> str:
    """The policy of a [[schedulers]] table, and its waiting rule if it is not ``spin``."""
    name = policy_name(table)
    return name if table["blocking"] == "spin" else f"{name} {waiting_name(table)}"


def policy_name(table: Mapping[str, Any]) -> str:
    """The policy of a [[schedulers]] table, with its quantum and with options that are not the defaults."""
    name = str(table["policy"])
    if "quantum_ms" in table:
        name += f" {table['quantum_ms']:g} ms"
    if not table.get("retry", True):
        name += ", srun waits"
    if table["mechanism"] != "auto":
        name += f" {table['mechanism']}"
    if table["local"] != "other":
        name += f", {table['local']}"
    return name if table.get("bind", True) else f"{name}, unbound"


def waiting_name(table: Mapping[str, Any]) -> str:
    """The waiting rule of a [[schedulers]] table."""
    if table["blocking"] == "fixed":
        return f"fixed {table['spin_switches']:g}"
    if table["blocking"] == "global-adaptive" and table.get("imbalance_estimate") == "arrival-spread":
        return "global-adaptive, arrival-spread"
    return str(table["blocking"])


def program_name(program: Mapping[str, Any]) -> str:
    """A job's program, from the table that describes it (``harness.spec.jobs.described``)."""
    if "argv" in program:
        n = program["processes"]
        return f"{' '.join(program['argv'])}, {n} process{'es' if n > 1 else ''}"
    if "work_s" in program:
        return f"sequential, {program['work_s']:g} s"
    if "burst_ms" in program:
        return f"interactive, {program['burst_ms']:g} ms after {program['think_ms']:g} ms of think time"
    g = duration_name(program["granularity_us"])
    p = program["processes"]
    processes = f"{p} process{'es' if p > 1 else ''}"
    return f"{program['pattern']}, {processes}, g = {g}, v = {program['imbalance']:g} g"


def duration_name(time_us: float) -> str:
    """A time in the unit that suits it."""
    return f"{time_us / 1000:g} ms" if time_us >= 1000 else f"{time_us:g} us"
