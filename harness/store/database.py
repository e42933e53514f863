"""The append-only store of records: one SQLite file in the results directory.

A run is written in one transaction, so that a crash at any moment loses at most the run in
progress. A run that cannot be written goes into a file alongside the store (``harness.store.spool``);
the next invocation that opens the store adds it. Tables refuse UPDATE and DELETE. Every run has a
checksum: a reader gets the run as it was written, or a StoreError.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import sqlite3
import statistics
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store import payloads, spool
from harness.store.payloads import BROKEN, StoreError, damaged, decoded, reading, run_record
from harness.store.plausible import check_calibration
from harness.store.records import (
    DEDICATED,
    POLICY,
    Calibration,
    JobTime,
    RunRecord,
    plain,
    switch_summary,
    typed,
)
from harness.store.schema import connect, flaw, uri
from harness.store.spool import Spool
from harness.store.tables import PARTS, TABLES
from workloads import timeline
from workloads.validation import InputError, LockstepError

if TYPE_CHECKING:
    import pandas

__all__ = ["FILE_NAME", "Frames", "Store", "StoreError", "load"]

FILE_NAME = "lockstep.sqlite"

CLOSING_MS = 1000  # how long a store waits for a lock when it takes in the runs alongside it


@dataclass(frozen=True)
class Frames:
    """All records as pandas frames; their columns are described in docs/reference/store.md."""

    runs: pandas.DataFrame
    jobs: pandas.DataFrame
    ranks: pandas.DataFrame
    switches: pandas.DataFrame
    calibrations: pandas.DataFrame


class Store:
    """An open store, as a context manager: of a directory, which may have to be made.

    If it must be there already (``existing``), it may be read-only, and ``folder`` may be its file. ``warn``
    receives messages about runs that could not be written.
    """

    def __init__(
        self, folder: Path, *, existing: bool = False, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        self.path = folder if existing and folder.is_file() else folder / FILE_NAME
        self._warn = warn
        self._kept = 0
        if existing and not self.path.exists():
            rule = "holds no records of Lockstep" if folder.exists() else "is not a directory that exists"
            raise InputError(
                "RESULTS",
                str(folder),
                rule,
                "name the directory that lockstep run --results wrote (default: lockstep-results)",
            )
        try:
            if not existing:
                folder.mkdir(parents=True, exist_ok=True)
            self._database = connect(self.path, "rw" if existing else "rwc")
            if not existing:
                self._database.execute("BEGIN IMMEDIATE")  # fails now rather than after the first run
                self._database.execute("ROLLBACK")
                if reason := flaw(self._database):
                    raise damaged(self.path, reason)
            described = self._database.execute("SELECT * FROM ranks LIMIT 0").description
        except LockstepError:
            raise
        except (OSError, sqlite3.Error, *BROKEN) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            remedy = "check the path and its permissions" + ("" if existing else ", and the free space")
            raise InputError(
                "RESULTS" if existing else "--results",
                str(folder),
                f"must be a directory with {'' if existing else 'room for '}a store: {reason.lower()}",
                remedy,
            ) from None
        self._rank_columns = frozenset(column[0] for column in described)
        self._spool = Spool(self.path, reserve=not existing)
        self._take_in()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, *ignored: object) -> None:
        if self._kept and kind is None:
            self._take_in()
        self._spool.close()
        self._database.close()

    def add_run(self, record: RunRecord) -> int | None:
        """Store a run, all or nothing; returns its number, None if a file alongside a locked store has it."""
        try:
            with self._written():
                return self._insert_run(record)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.InterfaceError):
                raise
            self._keep(record, error)
            return None

    def _keep(self, record: RunRecord, cause: sqlite3.Error) -> None:
        try:
            path = self._spool.keep(record)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{self._refusal(cause)}; the run cannot be saved beside it either: {error}; earlier records "
                "are safe; make room, or choose another directory with --results, and continue with --resume"
            ) from None
        self._kept += 1
        kept = f"{path} holds the finished run, and the next invocation adds it to the store"
        if payloads.primary_code(cause) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            remedy = "make room, or choose another directory with --results, and continue with --resume"
            raise StoreError(f"{self._refusal(cause)}; {kept}; {remedy}") from None
        self._warn(f"{self._refusal(cause)}; {kept}")

    def _take_in(self) -> None:
        files = self._spool.waiting()
        if not files:
            return
        (patience_ms,) = self._database.execute("PRAGMA busy_timeout").fetchone()
        self._database.execute(f"PRAGMA busy_timeout = {CLOSING_MS}")
        taken = 0
        for file in files:
            try:
                record = spool.read(file)
                with self._written():
                    if not self._holds(record):
                        run_record(self._database, self._insert_run(record))
                        taken += 1
                file.unlink(missing_ok=True)
            except FileNotFoundError:
                continue  # another invocation has taken it in
            except (OSError, sqlite3.Error, *BROKEN) as error:
                self._warn(f"{file} holds a run that is not taken in: {error}")
        self._database.execute(f"PRAGMA busy_timeout = {patience_ms}")
        if taken:
            self._warn(
                f"took in {taken} finished run{'s' if taken > 1 else ''} that {self.path} could not take"
            )

    def _holds(self, record: RunRecord) -> bool:
        keys = ("session", "recorded_at", "kind", "cell", "repeat")
        values = [*(getattr(record, key) for key in keys), json.dumps(record.scheduler)]
        where = " AND ".join(f"{key} = ?" for key in (*keys, "scheduler"))
        return self._database.execute(f"SELECT 1 FROM runs WHERE {where}", values).fetchone() is not None

    def _insert_run(self, record: RunRecord) -> int:
        row = plain(record, *PARTS, "id")
        run = self._insert("runs", row | {"makespan_ns": record.makespan_ns})
        for job in record.jobs:
            self._insert("jobs", {"run": run} | dataclasses.asdict(job))
        for result in record.ranks:
            rank = result.recorded()
            if packed := rank.pop("timeline", None):
                place = {"run": run, "job": rank["job"], "rank": rank["rank"]}
                self._insert("timelines", place | {"rows": base64.b64decode(packed)})
            columns = {key: value for key, value in rank.items() if key in self._rank_columns}
            more = {key: value for key, value in rank.items() if key not in self._rank_columns}
            self._insert("ranks", {"run": run} | columns | {"more": more})
        if summary := switch_summary(record.switches):
            every = json.dumps([dataclasses.astuple(switch) for switch in record.switches])
            blob = zlib.compress(every.encode())
            self._insert("switches", {"run": run} | summary | {"every": blob})
        self._insert("checksums", {"run": run, "sha256": payloads.checksum(self._database, run)})
        return run

    def add_calibrations(self, calibrations: Iterable[Calibration]) -> None:
        with self._transaction():
            for one in calibrations:
                median = {"median": statistics.median(one.samples)}
                self._insert("calibrations", plain(one) | median)

    def calibrations(self) -> Iterator[list[Calibration]]:
        """All calibrations, the newest first; each has the first steps and units of its session.

        Programs do the same work in all runs of a session, so these are not measured again.
        """
        with reading(self.path):
            rows = self._database.execute(
                "SELECT session, recorded_at FROM calibrations "
                "GROUP BY session, recorded_at ORDER BY max(id) DESC"
            ).fetchall()
        for calibration in rows:
            yield self._calibration(calibration["session"], calibration["recorded_at"])

    def _calibration(self, session: str, recorded_at: str) -> list[Calibration]:
        lasting = "quantity IN ('memory_step_ns', 'unit_ns')"
        groups = "GROUP BY quantity, working_set_bytes"
        first = f"SELECT min(id) FROM calibrations WHERE session = ? AND {lasting} {groups}"
        its = f"session = ? AND recorded_at = ? AND NOT {lasting}"
        own = f"SELECT max(id) FROM calibrations WHERE {its} {groups}"
        fields = [f.name for f in dataclasses.fields(Calibration)]
        with reading(self.path):
            rows = self._database.execute(
                f"SELECT * FROM calibrations WHERE id IN ({first}) OR id IN ({own}) ORDER BY id",
                (session, session, recorded_at),
            )
            values = [decoded("calibrations", row) for row in rows]
            calibrations = [Calibration(**typed({name: row[name] for name in fields})) for row in values]
            for calibration in calibrations:
                check_calibration(calibration)
            return calibrations

    def merge(self, other: Store) -> int:
        """Add the records that only ``other`` holds, in its order; returns the number of runs.

        Stores only grow, so the first records of each session are the ones that were merged before.
        """
        with reading(other.path):
            other.check()  # nothing damaged spreads
            self._database.execute("ATTACH DATABASE ? AS part", (uri(other.path, "mode=rw"),))
        try:
            with self._transaction():
                for old in self._lacking("calibrations"):
                    self._copy("calibrations", "id", old)
                lacking = self._lacking("runs")
                for old in lacking:
                    new = self._copy("runs", "id", old)
                    for table in (*PARTS, "timelines", "checksums"):
                        self._copy(table, "run", old, new)
        finally:
            self._database.execute("DETACH DATABASE part")
        return len(lacking)

    def _lacking(self, table: str) -> list[int]:
        rows = self._database.execute(
            f"SELECT id FROM (SELECT id, session, row_number() OVER (PARTITION BY session ORDER BY id) AS n "
            f"FROM part.{table}) AS theirs WHERE n > (SELECT count(*) FROM main.{table} AS ours "
            f"WHERE ours.session = theirs.session) ORDER BY id"
        )
        return [row["id"] for row in rows]

    def _copy(self, table: str, key: str, old: int, new: int | None = None) -> int:
        """Copy the rows of an attached store whose ``key`` is ``old``; they get the key ``new``."""
        described = self._database.execute(f"SELECT * FROM main.{table} LIMIT 0").description
        rest = ", ".join(column[0] for column in described if column[0] != key)
        done = self._database.execute(
            f"INSERT INTO main.{table} ({key}, {rest}) SELECT ?, {rest} FROM part.{table} WHERE {key} = ?",
            (new, old),
        )
        return int(done.lastrowid or 0)

    def numbers(self) -> list[int]:
        with reading(self.path):
            return [row["id"] for row in self._database.execute("SELECT id FROM runs ORDER BY id")]

    def check(self) -> None:
        with reading(self.path):
            for number in self.numbers():
                run_record(self._database, number)

    def runs(self, digest: str, after: int = 0) -> list[RunRecord]:
        """The runs of an experiment whose numbers are above ``after``, oldest first."""
        with reading(self.path):
            rows = self._database.execute(
                "SELECT id FROM runs WHERE digest = ? AND id > ? ORDER BY id", (digest, after)
            )
            records = [run_record(self._database, row["id"]) for row in rows.fetchall()]
            if any(record.digest != digest for record in records):
                raise ValueError("the index of its runs is wrong")
            return records

    def count(self, digest: str, kinds: Collection[str]) -> int:
        """How many runs of some kinds there are of an experiment."""
        query = f"SELECT count(*) FROM runs WHERE digest = ? AND kind IN ({', '.join('?' * len(kinds))})"
        with reading(self.path):
            return int(self._database.execute(query, (digest, *kinds)).fetchone()[0])

    def times(self, digest: str, policies: Collection[str] = (), after: int = 0) -> list[JobTime]:
        """How long jobs of an experiment took in its dedicated runs, and in those under some policies.

        Of runs whose numbers are above ``after``, oldest first; it leaves out jobs that did not end well.
        """
        names = "run, kind, program, processes, start_ns, finish_ns"
        under = f"json_extract(scheduler, '$.policy') IN ({', '.join('?' * len(policies))})"
        query = (
            f"SELECT {names} FROM runs JOIN jobs ON run = runs.id WHERE digest = ? AND runs.id > ? "
            f"AND (kind = ? OR kind = ? AND {under}) AND jobs.failure = '' "
            "AND start_ns IS NOT NULL AND finish_ns IS NOT NULL ORDER BY run, job"
        )
        with reading(self.path):
            rows = self._database.execute(query, (digest, after, DEDICATED, POLICY, *policies))
            return [_job_time(row) for row in rows]

    def run(self, number: int) -> RunRecord:
        with reading(self.path):
            if self._database.execute("SELECT 1 FROM runs WHERE id = ?", (number,)).fetchone():
                return run_record(self._database, number)
            (last,) = self._database.execute("SELECT max(id) FROM runs").fetchone()
        if not last:
            raise InputError(
                "--run", number, "cannot be in this store, which holds no runs", "make some with lockstep run"
            )
        raise InputError(
            "--run",
            number,
            f"the store's runs have the numbers 1 to {last}",
            "choose one of them, or leave --run out",
        )

    def experiments(self) -> list[tuple[str, str]]:
        """Digest and name of each experiment by its last run."""
        with reading(self.path):
            rows = self._database.execute(
                "SELECT digest, experiment, max(recorded_at) AS last FROM runs "
                "GROUP BY digest ORDER BY last, id"
            ).fetchall()
            if not all(isinstance(value, str) for row in rows for value in tuple(row)):
                raise ValueError("an experiment's name or digest is no text")
            return [(row["digest"], row["experiment"]) for row in rows]

    def with_timelines(self, digest: str) -> list[int]:
        """Numbers of an experiment's runs that have timelines."""
        with reading(self.path):
            rows = self._database.execute(
                "SELECT DISTINCT run FROM timelines JOIN runs ON runs.id = run WHERE digest = ? ORDER BY run",
                (digest,),
            )
            return [row["run"] for row in rows]

    def timelines(self, run: int) -> dict[tuple[int, int], bytes]:
        """The timelines of a run by job and rank, as ``workloads.timeline`` packs them."""
        with reading(self.path):
            timelines = [
                decoded("timelines", row) for row in payloads.rows_of(self._database, "timelines", run)
            ]
            for row in timelines:
                timeline.unpack(row["rows"])  # it has a separate checksum
            return {(row["job"], row["rank"]): row["rows"] for row in timelines}

    def _insert(self, table: str, row: Mapping[str, Any]) -> int:
        columns = TABLES[table]
        values = [json.dumps(value) if columns[name].parsed else value for name, value in row.items()]
        places = ", ".join("?" for _ in row)
        done = self._database.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", values)
        return int(done.lastrowid or 0)

    @contextmanager
    def _written(self) -> Iterator[None]:
        """A transaction; on an error of SQLite nothing is written."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
            self._database.execute("COMMIT")
        finally:
            if self._database.in_transaction:
                with suppress(sqlite3.Error):  # SQLite has rolled back by itself, or will when opened
                    self._database.execute("ROLLBACK")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """The same with a StoreError for a failure to write."""
        try:
            with self._written():
                yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            raise StoreError(
                f"{self._refusal(error)}; earlier records are safe; "
                "make room, or choose another directory with --results, and continue with --resume"
            ) from None

    def _refusal(self, error: sqlite3.Error) -> str:
        return f"cannot write to {self.path}: {error}"

    def frames(self) -> Frames:
        import pandas  # noqa: PLC0415 - takes longer to import than all the rest together

        frames = {}
        with reading(self.path):
            self.check()
            for table in TABLES:
                rows = self._database.execute(f"SELECT * FROM {table} ORDER BY rowid")
                columns = [description[0] for description in rows.description]
                frames[table] = pandas.DataFrame([decoded(table, row) for row in rows], columns=columns)
        frames["switches"] = frames["switches"].drop(columns="every")
        del frames["timelines"], frames["checksums"]
        return Frames(**frames)


def _job_time(row: sqlite3.Row) -> JobTime:
    of_job = {name: payloads.checked("jobs", name, row[name]) for name in row.keys() if name != "kind"}  # noqa: SIM118
    seconds = (of_job.pop("finish_ns") - of_job.pop("start_ns")) / 1e9
    return JobTime(kind=payloads.checked("runs", "kind", row["kind"]), seconds=seconds, **of_job)


def load(path: str | Path) -> Frames:
    """All records of the store at ``path``, a results directory or the file in it."""
    with Store(Path(path), existing=True) as store:
        return store.frames()
