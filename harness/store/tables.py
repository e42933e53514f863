"""The tables of the store: most columns are the fields of the records."""

import types
import typing
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.store.conditions import Conditions
from harness.store.records import Calibration, JobRecord, RunRecord, Schedule
from workloads.constants import MachineConstants
from workloads.record import NAMES, OURS, RankResult, Waits


class Column(NamedTuple):
    """A column: its values in Python; a ``parsed`` one holds JSON. ``key`` is a rule of SQL."""

    kind: type
    required: bool = True
    parsed: bool = False
    key: str = ""

    @property
    def stored(self) -> type:
        return str if self.parsed else self.kind


INTEGER, REAL, TEXT, BLOB = Column(int), Column(float), Column(str), Column(bytes)
TABLE = Column(dict, parsed=True)
KINDS = {int: INTEGER, float: REAL, str: TEXT, Mapping: TABLE, Sequence: Column(list, parsed=True)}
KINDS |= {MachineConstants: TABLE, Conditions: TABLE, Schedule: TABLE, Waits: TABLE}
SQL = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}
OF_RUN = INTEGER._replace(key="REFERENCES runs (id)")
KEY = Column(int, required=False, key="PRIMARY KEY")


def _fields(record: type, *left_out: str) -> dict[str, Column]:
    columns = {}
    hints = typing.get_type_hints(record)
    for name in (name for name in hints if name not in left_out):
        hint = hints[name]
        union = typing.get_origin(hint) in (types.UnionType, typing.Union)
        options = typing.get_args(hint) if union else (hint,)
        column = KINDS[typing.get_origin(options[0]) or options[0]]
        columns[name] = column._replace(required=types.NoneType not in options)
    return columns


TABLES: Mapping[str, Mapping[str, Column]] = {
    "runs": {
        "id": KEY,
        **_fields(RunRecord, "jobs", "ranks", "switches", "id"),
        "makespan_ns": INTEGER._replace(required=False),
    },
    "jobs": {"run": OF_RUN} | _fields(JobRecord),
    "ranks": {"run": OF_RUN} | _fields(RankResult, *(set(NAMES) - set(OURS))) | {"more": TABLE},
    "switches": {
        "run": KEY._replace(key="PRIMARY KEY REFERENCES runs (id)"),
        "count": INTEGER,
        **dict.fromkeys(("switch_delay_p50_ns", "switch_delay_p99_ns", "skew_p50_ns", "skew_p99_ns"), REAL),
        "every": BLOB,
    },
    "timelines": {"run": OF_RUN, "job": INTEGER, "rank": INTEGER, "rows": BLOB},
    "calibrations": {"id": KEY} | _fields(Calibration) | {"median": REAL},
    "checksums": {"run": KEY._replace(key="PRIMARY KEY REFERENCES runs (id)"), "sha256": TEXT},
}

PRIMARY = {"jobs": "run, job", "ranks": "run, job, rank", "timelines": "run, job, rank"}
"""Primary keys of several columns."""


PARTS = ("jobs", "ranks", "switches")
"""Tables that hold a run together with ``runs``; its checksum covers them."""


def primary_key(table: str) -> set[str]:
    """The columns of a table's primary key."""
    if table in PRIMARY:
        return set(PRIMARY[table].split(", "))
    return {name for name, one in TABLES[table].items() if one.key.startswith("PRIMARY KEY")}


def made(table: str) -> str:
    """Statements that make a table; a second process that does the same does no harm."""
    columns = [
        f"{name} {SQL[one.stored]}{' NOT NULL' if one.required else ''} {one.key}"
        for name, one in TABLES[table].items()
    ]
    columns += [f"PRIMARY KEY ({PRIMARY[table]})"] if table in PRIMARY else []
    statements = [f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)});"]
    statements += [
        f"CREATE TRIGGER IF NOT EXISTS {table}_no_{deed} BEFORE {deed} ON {table} "
        "BEGIN SELECT RAISE(ABORT, 'records are immutable'); END;"
        for deed in ("UPDATE", "DELETE")
    ]
    return "\n".join(statements)
