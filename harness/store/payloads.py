"""From the rows of a store to Python: checked values, or a StoreError with a remedy."""

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coordinator.workload import Switch
from harness.store.plausible import check_run
from harness.store.records import BY_JOB, JobRecord, RunRecord, typed
from harness.store.tables import PARTS, TABLES, Column
from workloads.record import RankResult
from workloads.validation import InputError, LockstepError, shown

TYPES: Mapping[type, tuple[type, ...]] = {int: (int,), float: (float, int), str: (str,), bytes: (bytes,)}
"""The types of a column's values."""

BROKEN = (ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError, zlib.error)
"""Python's errors on content that Lockstep did not write."""

PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
PASSING |= {sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}
"""SQLite's errors that say nothing about the content."""


class StoreError(LockstepError):
    """Records could not be read or written; the message states what to do."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error about the content of the store at ``path`` into one that names it.

    A value that another version, or a user's own policy, may have written is no damage.
    """
    try:
        yield
    except InputError as error:
        if error.key == "RESULTS":  # it names the store already
            raise
        raise InputError(
            "RESULTS",
            str(path),
            f"holds runs with {error.key} = {shown(error.value)}, which {error.rule}",
            "use the version of Lockstep, and the policies, with which they were made",
        ) from None
    except sqlite3.Error as error:
        if primary_code(error) in PASSING:
            raise StoreError(f"cannot read {path}: {error}; try again") from None
        raise damaged(path, error) from None
    except BROKEN as error:
        raise damaged(path, error) from None


def damaged(path: Path, reason: object) -> StoreError:
    text = " ".join(str(reason).split())[:200]
    remedy = "restore it from a copy, or measure again with another --results"
    rest = f"to see the intact part: sqlite3 {path} .recover"
    return StoreError(f"{path} is damaged: {text}; {remedy}; {rest}")


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's code of an error without its details; 0 if it has none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def decoded(table: str, row: sqlite3.Row) -> dict[str, Any]:
    """The values of a row, with JSON columns parsed."""
    values = dict(zip(row.keys(), row, strict=True))
    if lacking := TABLES[table].keys() - values.keys():
        raise ValueError(f"{table} lacks {', '.join(sorted(lacking))}")
    return {name: checked(table, name, value) for name, value in values.items()}


def checked(table: str, name: str, value: Any) -> Any:
    """A value of a column, parsed if that holds JSON."""
    column = TABLES[table][name]
    if value is None and not column.required:
        return None
    if not isinstance(value, TYPES[column.stored]):
        raise ValueError(f"{table}.{name} holds {_short(value)}")
    return _parsed(f"{table}.{name}", column, value) if column.parsed else value


def _parsed(where: str, column: Column, text: Any) -> Any:
    value: Any = json.loads(text, parse_constant=_unknown if where == "runs.schedule" else _refuse)
    if value is None and not column.required:
        return None
    numbers = isinstance(value, list) and all(isinstance(part, int | float) for part in value)
    if not isinstance(value, column.kind) or (isinstance(value, list) and not numbers):
        raise ValueError(f"{where} holds {_short(value)}")
    return value


def _unknown(constant: str) -> None:
    """What a mean over jobs is where nothing has it; it was NaN once."""


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no number")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:40]}..."


def rows_of(database: sqlite3.Connection, table: str, run: int) -> list[sqlite3.Row]:
    """The rows of a run in one table, in the order in which they were added."""
    key = "id" if table == "runs" else "run"
    return database.execute(f"SELECT * FROM {table} WHERE {key} = ? ORDER BY rowid", (run,)).fetchall()


def checksum(database: sqlite3.Connection, run: int) -> str:
    """SHA-256 over all rows of a run in any order, without timelines, its number and missing values."""
    digest = hashlib.sha256()
    for table in ("runs", *PARTS):
        rows = [dict(zip(row.keys(), row, strict=True)) for row in rows_of(database, table, run)]
        for row in sorted(rows, key=_place):
            del row["id" if table == "runs" else "run"]
            for name, value in sorted(row.items()):
                data = value if isinstance(value, bytes) else str(value).encode()
                if value is not None:
                    digest.update(f"{table}.{name} {type(value).__name__} {len(data)} ".encode() + data)
    return digest.hexdigest()


def _place(row: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What rows are sorted by; a damaged one may have anything in the place of a number."""
    values = (row.get("job", 0), row.get("rank", 0))
    return tuple((type(value).__name__, value) for value in values)


def run_record(database: sqlite3.Connection, run: int) -> RunRecord:
    checksums = [row["sha256"] for row in rows_of(database, "checksums", run)]
    if checksums != [checksum(database, run)]:
        raise ValueError(f"run {run} is not what was written")
    parts = {
        table: [decoded(table, row) for row in rows_of(database, table, run)] for table in ("runs", *PARTS)
    }
    for row in (row for table in PARTS for row in parts[table]):
        del row["run"]
    (whole,) = parts["runs"]
    del whole["makespan_ns"]
    if whole["kind"] == BY_JOB and whole["schedule"] is None:
        raise ValueError("runs.schedule is missing")
    if not parts["jobs"] and whole["schedule"] is None:
        raise ValueError(f"run {run} has no jobs")
    every = [json.loads(zlib.decompress(row["every"])) for row in parts["switches"]]
    record = RunRecord(
        **typed(whole),
        jobs=tuple(JobRecord(**row) for row in parts["jobs"]),
        ranks=tuple(RankResult.of_record(row.pop("more") | row) for row in parts["ranks"]),
        switches=tuple(Switch(*switch) for part in every for switch in part),
    )
    check_run(record)
    return record
