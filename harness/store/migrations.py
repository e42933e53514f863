"""What older stores and records lack or call by other names, and the present form of it."""

from collections.abc import Mapping
from typing import Any

from harness.spec.scheduler import added, present
from harness.store.records import BY_JOB
from harness.store.tables import made, remade

SCHEMA = 7

STATEMENTS = {
    1: made("timelines"),
    2: remade("ranks"),
    3: "CREATE TABLE schedules (id INTEGER PRIMARY KEY, session, recorded_at, experiment, source, "
    "processors, seed, scheduler, metrics, half_width, replications, saturated, conditions);",
    4: made("checksums"),
    5: "ALTER TABLE jobs ADD COLUMN admitted_ns INTEGER; ALTER TABLE jobs ADD COLUMN estimate TEXT;",
    6: f"""
    ALTER TABLE runs ADD COLUMN schedule TEXT;
    INSERT INTO runs (session, recorded_at, experiment, digest, cell, settings, kind, scheduler, repeat, seed,
        processors, constants, mechanism, mechanism_reason, launcher, wall_s, failure, conditions, schedule)
    SELECT session, recorded_at, experiment, session, 0, '{{}}', '{BY_JOB}', scheduler, 0, seed,
        '[]', '{{}}', '', '', 'simulator', 0.0, '', conditions,
        '{{"source": ' || source || ', "processors": ' || processors || ', "metrics": ' || metrics ||
        ', "half_width": ' || half_width || ', "replications": ' || replications ||
        ', "saturated": ' || json_quote(saturated) || '}}'
    FROM schedules ORDER BY id;
    DROP TABLE schedules;
    """,
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
    if table == "runs" and row["kind"] != BY_JOB:
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
