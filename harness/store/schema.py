"""How the file of a store is opened, made or refused."""

import json
import os
import sqlite3
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import psutil

from harness.store.tables import TABLES, made, primary_key
from workloads.validation import InputError

APPLICATION_ID = 0x4C6B5374
SCHEMA = 10  # a store of another one was written by another version, and is refused
BUSY_S = 30.0


INDEXES = {
    "runs_by_digest": "runs (digest, cell, repeat)",
    "calibrations_by_session": "calibrations (session, recorded_at)",
}
"""With them the time to find the records of one experiment or session does not grow with the others."""


def uri(file: Path, options: str) -> str:
    return f"{Path(os.path.realpath(file)).as_uri()}?{options}"


def connect(file: Path, mode: str) -> sqlite3.Connection:
    """A connection to a store of this schema, made if need be; ``mode`` is SQLite's, rwc or rw."""
    try:
        return _connected(file, f"mode={mode}")
    except sqlite3.OperationalError:
        # SQLite cannot open a log in a read-only directory; without a log the file is the whole store.
        log = file.with_name(f"{file.name}-wal")
        if mode == "rwc" or os.access(file.parent, os.W_OK) or log.exists():
            raise
        return _connected(file, "mode=ro&immutable=1")


def _connected(file: Path, options: str) -> sqlite3.Connection:
    database = sqlite3.connect(uri(file, options), uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        database.row_factory = sqlite3.Row
        database.execute("PRAGMA foreign_keys = ON")
        database.execute("PRAGMA synchronous = FULL")
        _make_or_refuse(database, file)
        if options == "mode=rwc":
            _choose_journal(database, file)
    except BaseException:
        database.close()
        raise
    return database


def _choose_journal(database: sqlite3.Connection, file: Path) -> None:
    """Choose a write-ahead log, with which readers block no writer, if only this host has the file."""
    mode = "wal" if on_local_file_system(file.parent) else "delete"
    database.execute("PRAGMA busy_timeout = 0")
    with suppress(sqlite3.OperationalError):  # a reader is active: keep the present mode
        database.execute(f"PRAGMA journal_mode = {mode}")
    database.execute(f"PRAGMA busy_timeout = {round(BUSY_S * 1000)}")
    (present_mode,) = database.execute("PRAGMA journal_mode").fetchone()
    if present_mode == "wal" and mode != "wal":
        raise sqlite3.OperationalError("its write-ahead log is in use, which this file system cannot share")


def _make_or_refuse(database: sqlite3.Connection, file: Path) -> None:
    version = _number(database, "user_version")
    if version == 0 and database.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
        script = ["BEGIN IMMEDIATE;", *map(made, TABLES)]
        script.append("CREATE INDEX IF NOT EXISTS runs_by_digest ON runs (digest, cell, repeat);")
        script.append(
            "CREATE INDEX IF NOT EXISTS calibrations_by_session ON calibrations (session, recorded_at);"
        )
        script.append(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {SCHEMA}; COMMIT;")
        database.executescript("\n".join(script))
        return
    if _number(database, "application_id") != APPLICATION_ID:
        raise InputError(
            "--results",
            str(file),
            "must be a store of Lockstep, but is another program's database",
            "choose another directory",
        )
    if version != SCHEMA:
        this = f"this is {_named(_version())} with schema {SCHEMA}"
        raise InputError(
            "--results",
            str(file),
            f"was written by {_named(_writer(database))} with schema {version}; {this}",
            "use the Lockstep that wrote it, or another directory",
        )


def flaw(database: sqlite3.Connection) -> str:
    """Why a store takes no further run, since another program has changed it; empty if it takes one."""
    for table in TABLES:
        described = database.execute(f"PRAGMA table_info({table})")
        if {row["name"] for row in described if row["pk"]} != primary_key(table):
            return f"{table} has lost its primary key"
    for table in (table for table, columns in TABLES.items() if "run" in columns):
        beyond = f"SELECT 1 FROM {table} WHERE run > (SELECT coalesce(max(id), 0) FROM runs)"
        if database.execute(beyond).fetchone():
            return f"{table} has rows of a run that is not in runs"
    return ""


PACKAGE = "lockstep-scheduling"


def _named(version: str | None) -> str:
    return f"Lockstep {version}" if version else "a Lockstep of unknown version"


def _version() -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(PACKAGE)
    return None


def _writer(database: sqlite3.Connection) -> str | None:
    """The version that recorded the last run of a store of any schema; None if it does not say."""
    with suppress(sqlite3.Error, ValueError, LookupError, TypeError):
        (text,) = database.execute("SELECT conditions FROM runs ORDER BY id DESC LIMIT 1").fetchone()
        return str(json.loads(text)["packages"][PACKAGE])
    return None


def _number(database: sqlite3.Connection, pragma: str) -> int:
    return int(database.execute(f"PRAGMA {pragma}").fetchone()[0])


LOCAL = frozenset(
    "bcachefs btrfs ext2 ext3 ext4 f2fs jfs overlay ramfs reiserfs tmpfs xfs zfs".split()  # noqa: SIM905
)
"""File systems that only one host mounts. On any other, two hosts could not share the memory."""


def on_local_file_system(folder: Path) -> bool:
    """Whether ``folder`` lies on a file system that only this host has; False if unknown."""
    place, kind, longest = Path(os.path.realpath(folder)), "", 0
    with suppress(OSError):
        for one in psutil.disk_partitions(all=True):
            point = Path(one.mountpoint)
            if place.is_relative_to(point) and len(point.parts) >= longest:  # the last of two hides the first
                longest, kind = len(point.parts), one.fstype
    return kind in LOCAL
