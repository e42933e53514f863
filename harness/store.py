"""The append-only store of records: one SQLite file in the results directory.

A run is written in one transaction, so that a crash at any moment loses at most the run in
progress. The rollback journal is kept (no write-ahead log), since results directories often
lie on network file systems, where a log's shared memory does not work. Tables refuse UPDATE
and DELETE.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sqlite3
import statistics
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from coordinator.workload import Switch
from harness.records import Calibration, JobRecord, RunRecord, ScheduleRecord, switch_summary
from harness.schema import JSON_COLUMNS, TABLES, connect
from workloads.validation import InputError

if TYPE_CHECKING:
    import pandas

FILE_NAME = "lockstep.sqlite"


class StoreError(Exception):
    """A record could not be written; the message says what to do."""


@dataclass(frozen=True)
class Frames:
    """All records as pandas frames; their columns are described in docs/formats.md."""

    runs: pandas.DataFrame
    jobs: pandas.DataFrame
    ranks: pandas.DataFrame
    switches: pandas.DataFrame
    calibrations: pandas.DataFrame
    schedules: pandas.DataFrame


class Store:
    """An open store; use it as a context manager.

    Args:
        folder: where it lies; made if it is not there.
        existing: accept only what is there already, also by the path of the file itself,
            and also if it can only be read.

    Raises:
        InputError: if ``folder`` cannot hold a store, or holds none or one of another schema.
    """

    def __init__(self, folder: Path, *, existing: bool = False) -> None:
        self.path = folder if existing and folder.is_file() else folder / FILE_NAME
        try:
            if not existing:
                folder.mkdir(parents=True, exist_ok=True)
            self._database = connect(self.path, "rw" if existing else "rwc")
            if not existing:
                self._database.execute("BEGIN IMMEDIATE")  # fails now rather than after the first run
                self._database.execute("ROLLBACK")
        except (OSError, sqlite3.Error) as error:
            raise _unusable(folder, error) from None
        described = self._database.execute("SELECT * FROM ranks LIMIT 0").description
        self._rank_columns = frozenset(column[0] for column in described)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def add_run(self, record: RunRecord) -> int:
        """Store a run with its jobs, ranks, switches and timelines, all or nothing; returns its number.

        Raises:
            StoreError: if it cannot be written.
        """
        parts = ("jobs", "ranks", "switches", "id")
        row = {f.name: getattr(record, f.name) for f in dataclasses.fields(record) if f.name not in parts}
        with self._transaction():
            run = self._insert("runs", row | {"makespan_ns": record.makespan_ns})
            for job in record.jobs:
                self._insert("jobs", {"run": run} | dataclasses.asdict(job))
            for recorded in record.ranks:
                rank = dict(recorded)
                if timeline := rank.pop("timeline", None):
                    place = {"run": run, "job": rank["job"], "rank": rank["rank"]}
                    self._insert("timelines", place | {"rows": base64.b64decode(timeline)})
                known = {key: value for key, value in rank.items() if key in self._rank_columns}
                more = {key: value for key, value in rank.items() if key not in self._rank_columns}
                self._insert("ranks", {"run": run} | known | {"more": more})
            if summary := switch_summary(record.switches):
                every = json.dumps([dataclasses.astuple(switch) for switch in record.switches])
                blob = zlib.compress(every.encode())
                self._insert("switches", {"run": run} | dataclasses.asdict(summary) | {"every": blob})
        return run

    def add_calibration(self, calibration: Calibration) -> None:
        """Store the samples of a machine constant.

        Raises:
            StoreError: if they cannot be written.
        """
        median = statistics.median(calibration.samples)
        with self._transaction():
            self._insert("calibrations", dataclasses.asdict(calibration) | {"median": median})

    def add_schedules(self, schedules: Iterable[ScheduleRecord]) -> None:
        """Store what schedulers gave at the job level, all or nothing.

        Raises:
            StoreError: if it cannot be written.
        """
        with self._transaction():
            for schedule in schedules:
                self._insert("schedules", dataclasses.asdict(schedule))

    def last_calibration(self) -> list[Calibration]:
        """The machine constants of the session that calibrated last; empty if none did."""
        rows = self._database.execute(
            "SELECT * FROM calibrations WHERE session = "
            "(SELECT session FROM calibrations ORDER BY id DESC LIMIT 1) ORDER BY id"
        )
        fields = [f.name for f in dataclasses.fields(Calibration)]
        decoded = (_decoded(row) for row in rows.fetchall())
        return [Calibration(**{name: row[name] for name in fields}) for row in decoded]

    def merge(self, other: Store) -> int:
        """Add what ``other`` holds and this store does not, in its order; returns how many runs.

        A store is only ever added to, so of each session the first records are those that have been
        merged before.

        Raises:
            StoreError: if it cannot be written.
        """
        self._database.execute("ATTACH DATABASE ? AS part", (str(other.path),))
        try:
            with self._transaction():
                for old in self._lacking("calibrations"):
                    self._copy("calibrations", "id", old)
                lacking = self._lacking("runs")
                for old in lacking:
                    new = self._copy("runs", "id", old)
                    for table in ("jobs", "ranks", "switches", "timelines"):
                        self._copy(table, "run", old, new)
        finally:
            self._database.execute("DETACH DATABASE part")
        return len(lacking)

    def _lacking(self, table: str) -> list[int]:
        """Ids of the rows of an attached store's table that are not in ours."""
        found = self._database.execute(
            f"SELECT id FROM (SELECT id, session, row_number() OVER (PARTITION BY session ORDER BY id) AS n "
            f"FROM part.{table}) AS theirs WHERE n > (SELECT count(*) FROM main.{table} AS ours "
            f"WHERE ours.session = theirs.session) ORDER BY id"
        )
        return [row["id"] for row in found]

    def _copy(self, table: str, key: str, old: int, new: int | None = None) -> int:
        """Copy the rows of an attached store whose ``key`` is ``old``; they get the key ``new``."""
        described = self._database.execute(f"SELECT * FROM main.{table} LIMIT 0").description
        rest = ", ".join(column[0] for column in described if column[0] != key)
        done = self._database.execute(
            f"INSERT INTO main.{table} ({key}, {rest}) SELECT ?, {rest} FROM part.{table} WHERE {key} = ?",
            (new, old),
        )
        return int(done.lastrowid or 0)

    def runs(self, digest: str, session: str | None = None) -> list[RunRecord]:
        """The runs of an experiment, oldest first; only those of ``session`` if it is given."""
        rows = self._database.execute(
            "SELECT * FROM runs WHERE digest = ? AND (session = ? OR ? IS NULL) ORDER BY id",
            (digest, session, session),
        )
        return [self._record(_decoded(row)) for row in rows.fetchall()]

    def run(self, number: int) -> RunRecord:
        """The run with this number.

        Raises:
            InputError: if there is none.
        """
        row = self._database.execute("SELECT * FROM runs WHERE id = ?", (number,)).fetchone()
        if row is None:
            (last,) = self._database.execute("SELECT max(id) FROM runs").fetchone()
            rule = f"the store's runs have the numbers 1 to {last}" if last else "the store holds no runs"
            raise InputError("--run", number, rule, "lockstep report --format csv lists them")
        return self._record(_decoded(row))

    def experiments(self) -> list[tuple[str, str]]:
        """Digest and name of each experiment in the store, in the order of their last runs."""
        found = self._database.execute(
            "SELECT digest, experiment, max(id) AS last FROM runs GROUP BY digest ORDER BY last"
        )
        return [(row["digest"], row["experiment"]) for row in found]

    def with_timelines(self, digest: str) -> list[int]:
        """Numbers of an experiment's runs that have timelines."""
        found = self._database.execute(
            "SELECT DISTINCT run FROM timelines JOIN runs ON runs.id = run WHERE digest = ? ORDER BY run",
            (digest,),
        )
        return [row["run"] for row in found]

    def timelines(self, run: int) -> dict[tuple[int, int], bytes]:
        """The timelines of a run by job and rank, as ``workloads.timeline`` packs them."""
        found = self._database.execute("SELECT job, rank, rows FROM timelines WHERE run = ?", (run,))
        return {(row["job"], row["rank"]): row["rows"] for row in found}

    def _record(self, row: dict[str, Any]) -> RunRecord:
        run = row["id"]
        del row["makespan_ns"]
        every = [zlib.decompress(part["every"]) for part in self._parts("switches", run)]
        return RunRecord(
            **row,
            jobs=tuple(JobRecord(**part) for part in self._parts("jobs", run)),
            ranks=tuple(_known(rank | rank.pop("more")) for rank in self._parts("ranks", run)),
            switches=tuple(Switch(*switch) for part in every for switch in json.loads(part)),
        )

    def _parts(self, table: str, run: int) -> list[dict[str, Any]]:
        found = self._database.execute(f"SELECT * FROM {table} WHERE run = ? ORDER BY rowid", (run,))
        return [{key: value for key, value in _decoded(row).items() if key != "run"} for row in found]

    def _insert(self, table: str, row: Mapping[str, Any]) -> int:
        values = [json.dumps(value) if name in JSON_COLUMNS else value for name, value in row.items()]
        places = ", ".join("?" for _ in row)
        done = self._database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", values)
        return int(done.lastrowid or 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise StoreError(
                f"cannot write to {self.path}: {error}; what was recorded before is safe; "
                "make room, or choose another directory with --results, and go on with --resume"
            ) from None
        finally:
            if self._database.in_transaction:
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself, or will when opened
                    self._database.execute("ROLLBACK")


def load(path: str | Path) -> Frames:
    """All records of the store at ``path``, a results directory or the file in it.

    Raises:
        InputError: if there is none, or one of another schema.
    """
    import pandas  # noqa: PLC0415 - takes longer to import than all the rest together

    place = Path(path)
    file = place if place.is_file() else place / FILE_NAME
    frames = {}
    try:
        with closing(connect(file, "rw")) as database:
            for table in TABLES:
                rows = database.execute(f"SELECT * FROM {table} ORDER BY rowid")
                columns = [description[0] for description in rows.description]
                frames[table] = pandas.DataFrame([_decoded(row) for row in rows], columns=columns)
    except sqlite3.Error as error:
        raise _unusable(place, error) from None
    frames["switches"] = frames["switches"].drop(columns="every")
    del frames["timelines"]
    return Frames(**frames)


def _decoded(row: sqlite3.Row) -> dict[str, Any]:
    cells = zip(row.keys(), row, strict=True)
    return {
        name: json.loads(value) if name in JSON_COLUMNS and value is not None else value
        for name, value in cells
    }


def _known(rank: Mapping[str, Any]) -> dict[str, Any]:
    """A rank record without what is not known of programs that record nothing."""
    return {key: value for key, value in rank.items() if value is not None}


def _unusable(place: Path, error: Exception) -> InputError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    rule = f"must be a directory with room for a store: {reason.lower()}"
    return InputError("--results", str(place), rule, "check the path, its permissions and the free space")
