"""What older stores and records lack or call by other names, and the present form of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.spec.scheduler import added, present
from harness.store.tables import made, remade

SCHEMA = 6

STATEMENTS = {
    1: made("timelines"),
    2: remade("ranks"),
    3: made("schedules"),
    4: made("checksums"),
    5: "ALTER TABLE jobs ADD COLUMN admitted_ns INTEGER; ALTER TABLE jobs ADD COLUMN estimate TEXT;",
}
"""For each older schema number the statements that lead to the next one."""

FORMER = {
    **{"switch": "remote_wakeup", "handoff": "local_switch", "wakeup": "idle_wakeup", "unit": "walk_step"},
    **{"handoff_pair": "local_switch_pair", "handoff_scatter": "switch_scatter", "rest": "idle_times"},
    **{"rested_switch": "switch_after_idle", "rested_send": "send_after_idle"},
}
"""Names of constants in older records, without their units, and the present ones."""


def migrate(table: str, row: dict[str, Any]) -> None:
    """Bring the decoded values of a row up to date."""
    if table == "calibrations":
        row["quantity"] = present_name(row["quantity"])
    if table == "runs":
        row["constants"] = present_constants(row["constants"])
        scheduler = present(row["scheduler"])
        defaults = added(str(scheduler.get("policy")))
        remedy = defaults["remedy"] | scheduler.get("remedy", {})
        row["scheduler"] = defaults | scheduler | {"remedy": remedy}


def present_constants(recorded: Mapping[str, Any]) -> dict[str, Any]:
    return {present_name(name): value for name, value in recorded.items()}


def present_name(recorded: str) -> str:
    """What a constant or a quantity of a calibration is called today."""
    name, _, unit = recorded.rpartition("_")
    return f"{FORMER[name]}_{unit}" if name in FORMER else recorded
