"""The store: complete, append-only, versioned, and safe against kills and bad places."""

import base64
import contextlib
import dataclasses
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_runs import measured
from places import ROOT

from harness.spec.experiment import load
from harness.store import database, schema, tables
from harness.store.conditions import Conditions
from harness.store.database import Store, StoreError
from harness.store.records import Calibration
from harness.store.spool import Spool
from workloads.validation import InputError


@pytest.fixture
def records(tmp_path):
    """One repeat of the built-in experiment, in a store at tmp_path / "results"."""
    return measured(load("three-jobs", settings=["repeats=1"]), tmp_path / "results", timeline=True)


def test_what_is_stored_comes_back(records, tmp_path):
    with Store(tmp_path / "results") as opened:
        back = opened.runs(records[0].digest)
        assert opened.runs("another") == []
        assert [run.id for run in opened.runs(records[0].digest, after=7)] == [8, 9]
    assert len(back) == len(records) == 9
    for before, after in zip(records, back, strict=True):
        for name in ("makespan_ns", "scheduler", "conditions", "switches"):
            assert getattr(after, name) == getattr(before, name)
        assert list(after.ranks) == [dataclasses.replace(rank, timeline=None) for rank in before.ranks]
        jobs = [dataclasses.replace(job, placement=list(job.placement)) for job in before.jobs]
        assert list(after.jobs) == jobs


def test_frames_have_the_documented_columns(records, tmp_path):
    frames = database.load(tmp_path / "results")
    described = (ROOT / "docs" / "reference/store.md").read_text()
    for field in dataclasses.fields(frames):
        for column in getattr(frames, field.name).columns:
            assert f"`{column}`" in described, f"{field.name}.{column}"
    assert len(frames.runs) == 9
    assert len(frames.ranks) == 2 * frames.jobs.shape[0]
    gangs = [table["policy"] == "gang" for table in frames.runs.scheduler]
    assert set(frames.switches.run) == set(frames.runs.id[gangs])
    assert frames.runs.conditions[0]["processors"] == [0, 1]
    assert database.load(tmp_path / "results" / database.FILE_NAME).runs.equals(frames.runs)


def test_records_are_immutable(records, tmp_path):
    with Store(tmp_path / "results") as opened:
        opened.add_calibrations(
            [Calibration("s", "now", "latency_ns", [1.0], [0, 1], 0, "mpich", Conditions())]
        )
    with sqlite3.connect(tmp_path / "results" / database.FILE_NAME) as connection:
        for table in tables.TABLES:
            column = connection.execute(f"SELECT * FROM {table}").description[0][0]
            for deed in (f"UPDATE {table} SET {column} = 7", f"DELETE FROM {table}"):
                with pytest.raises(sqlite3.IntegrityError, match="immutable"):
                    connection.execute(deed)


def test_a_run_is_stored_whole_or_not_at_all(records, tmp_path):
    twice = dataclasses.replace(records[0], ranks=records[0].ranks + records[0].ranks[:1])
    with Store(tmp_path / "other") as opened:
        with pytest.raises(sqlite3.IntegrityError):
            opened.add_run(twice)
        assert opened.runs(twice.digest) == []
        opened.add_run(records[0])
        assert len(opened.runs(twice.digest)) == 1


@pytest.mark.parametrize("found", [schema.SCHEMA - 1, schema.SCHEMA + 1])
def test_a_store_of_another_version_is_refused_with_both_versions(records, tmp_path, monkeypatch, found):
    file = tmp_path / "results" / database.FILE_NAME
    with Store(tmp_path / "results") as store:
        written = Conditions(host="a", packages={"lockstep-scheduling": "0.1.9"})
        store.add_run(dataclasses.replace(records[0], conditions=written))
    with sqlite3.connect(file) as connection:
        connection.execute(f"PRAGMA user_version = {found}")
    monkeypatch.setattr(schema.metadata, "version", lambda package: "0.3.0")
    theirs = f"was written by Lockstep 0.1.9 with schema {found}"
    text = f"{theirs}; this is Lockstep 0.3.0 with schema {schema.SCHEMA};"
    for attempt in (lambda: Store(tmp_path / "results"), lambda: database.load(file)):
        with pytest.raises(InputError, match=text):
            attempt()


def test_other_files_are_refused_and_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / database.FILE_NAME) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(InputError, match="another program's database"):
        Store(tmp_path)
    text = tmp_path / "text"
    text.mkdir()
    (text / database.FILE_NAME).write_text("not a database at all, but a file of some length" * 50)
    before = (text / database.FILE_NAME).read_bytes()
    with pytest.raises(InputError, match="not a database"):
        Store(text)
    assert (text / database.FILE_NAME).read_bytes() == before


def test_places_that_cannot_hold_a_store(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/results")):
        with pytest.raises(InputError, match="--results = "):
            Store(place)
    with pytest.raises(InputError, match=r"RESULTS = .*is not a directory that exists"):
        database.load(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    with pytest.raises(InputError, match=r"RESULTS = .*holds no records"):
        database.load(tmp_path)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="permission"):
        Store(tmp_path / "results")


def test_a_full_disk_is_told_and_keeps_what_was_recorded(records, tmp_path, monkeypatch):
    connections = []

    def connect(*given):
        connections.append(schema.connect(*given))
        return connections[-1]

    monkeypatch.setattr(database, "connect", connect)
    with Store(tmp_path / "full") as opened:
        opened.add_run(records[0])
        connections[0].execute(f"PRAGMA max_page_count = {told(opened.path, 'page_count')}")
        with pytest.raises(StoreError, match=r"full.*--resume"):
            for record in records * 5:
                opened.add_run(record)
    with Store(tmp_path / "full") as opened:
        kept = opened.runs(records[0].digest)
        assert kept and all(len(one.ranks) in (2, 6) for one in kept)
        opened.add_run(records[1])


def told(path, name):
    """What SQLite tells of a file."""
    with contextlib.closing(sqlite3.connect(path)) as reader:
        return reader.execute(f"PRAGMA {name}").fetchone()[0]


def test_a_reader_keeps_no_writer_waiting(records, tmp_path):
    with Store(tmp_path / "results") as opened:
        reader = sqlite3.connect(opened.path)
        assert told(opened.path, "journal_mode") == "wal"
        cursor = reader.execute("SELECT * FROM ranks")
        cursor.fetchone()
        before = len(opened.numbers())
        opened.add_run(records[0])
        assert len(opened.numbers()) == before + 1
        assert cursor.fetchone()
        cursor.close()
        reader.close()
    assert not list((tmp_path / "results").glob("*-wal"))


@pytest.fixture
def shared(monkeypatch):
    """As if results lay on a network file system, where nobody waits long for a lock."""
    monkeypatch.setattr(schema, "on_local_file_system", lambda folder: False)
    monkeypatch.setattr(schema, "BUSY_S", 0.05)
    monkeypatch.setattr(database, "CLOSING_MS", 50)


def test_a_run_that_meets_a_lock_is_kept_and_taken_in_later(records, tmp_path, shared):
    folder = tmp_path / "shared"
    messages = []
    with Store(folder, warn=messages.append) as opened, sqlite3.connect(opened.path) as reader:
        opened.add_run(records[0])
        assert told(opened.path, "journal_mode") == "delete"
        cursor = reader.execute("SELECT * FROM ranks")
        cursor.fetchone()
        assert not messages
        assert opened.add_run(records[1]) is None
    (file,) = folder.glob("*.run.json")
    assert "database is locked" in messages[0] and str(file) in messages[0]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    cursor.close()
    reader.close()
    with Store(folder, existing=True, warn=messages.append) as opened:
        assert "took in 1 finished run" in messages[-1]
        back = opened.runs(records[0].digest)
        assert [one.makespan_ns for one in back] == [one.makespan_ns for one in records[:2]]
        assert back[1].ranks[0].waits == records[1].ranks[0].waits
        assert len(opened.timelines(back[1].id)) == len(back[1].ranks)
    assert [path.name for path in folder.iterdir()] == [database.FILE_NAME]


def test_a_lock_that_ends_in_time_leaves_nothing_beside_the_store(records, tmp_path, shared):
    with Store(tmp_path / "shared") as opened:
        other = sqlite3.connect(opened.path)
        other.execute("BEGIN IMMEDIATE")
        assert opened.add_run(records[0]) is None
        other.close()
    with Store(tmp_path / "shared") as opened:
        assert len(opened.numbers()) == 1
    assert not list((tmp_path / "shared").glob("*.json*"))


def test_a_run_that_is_kept_twice_is_taken_in_once(records, tmp_path):
    with Store(tmp_path / "all") as opened:
        opened.add_run(records[0])
    beside = Spool(opened.path)
    for record in 2 * records[:2]:
        beside.keep(record)
    with Store(tmp_path / "all") as opened:
        assert len(opened.runs(records[0].digest)) == 2
    assert not beside.waiting()


NO_RUNS = [
    "",
    "{}",
    "5",
    "[" * 100_000,
    '{"schema": 2}',
    '{"schema": 1, "run": {"id": 3}, "jobs": [], "ranks": []}',
]


@pytest.mark.parametrize("text", NO_RUNS, ids=range(len(NO_RUNS)))
def test_a_file_beside_the_store_that_holds_no_run_is_told_and_left(tmp_path, text):
    messages = []
    with Store(tmp_path):
        pass
    file = tmp_path / f"{database.FILE_NAME}.0.run.json"
    file.write_text(text)
    with Store(tmp_path, warn=messages.append) as opened:
        assert not opened.numbers()
    assert f"{file} holds a run that is not taken in" in messages[0] and file.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="mounting takes root")
def test_the_run_at_which_the_disk_fills_up_is_kept_and_taken_in(records, tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", tmp_path], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        filler = tmp_path / "filler"
        added = 0
        with Store(tmp_path / "full") as opened:
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(4096))
            with pytest.raises(StoreError, match=r"full; .* holds the finished run.*--resume"):
                for record in records * 9:
                    opened.add_run(record)
                    added += 1
        filler.unlink()
        with Store(tmp_path / "full") as opened:
            assert len(opened.numbers()) == added + 1
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


MOUNTS = {"/": "ext4", "/home": "nfs4", "/home/a b": "xfs", "/mnt": "fuse.sshfs", "/mnt/": "tmpfs"}


@pytest.mark.parametrize(
    "folder, local",
    [("/x", True), ("/home/me", False), ("/home/a b/c", True), ("/homeless", True), ("/mnt/x", True)],
)
def test_which_file_systems_only_one_host_has(folder, local, monkeypatch):
    mounted = [SimpleNamespace(mountpoint=place, fstype=kind) for place, kind in MOUNTS.items()]
    monkeypatch.setattr(schema.psutil, "disk_partitions", lambda all: mounted)
    assert schema.on_local_file_system(Path(folder)) == local
    mounted.clear()
    assert not schema.on_local_file_system(Path(folder))


def test_a_store_of_a_file_system_with_a_log_can_be_read_where_nothing_can_be_written(records, tmp_path):
    read_only = tmp_path / "read-only"
    read_only.mkdir()
    data = (tmp_path / "results" / database.FILE_NAME).read_bytes()
    (read_only / database.FILE_NAME).write_bytes(data)
    mount = f"mount --bind {read_only} {read_only} && mount -o remount,bind,ro {read_only}"
    mounted = os.getuid() == 0 and subprocess.run(mount, shell=True, check=False).returncode == 0
    if not mounted:
        read_only.chmod(0o500)
    try:
        assert len(database.load(read_only).runs) == 9
    finally:
        read_only.chmod(0o700) if not mounted else subprocess.run(["umount", "-l", read_only], check=True)


WRITER = """
import sys
from pathlib import Path
from harness.store.database import Store
source, target, digest = sys.argv[1:]
with Store(Path(source)) as store:
    records = store.runs(digest)
with Store(Path(target)) as store:
    store.add_run(records[0])
    print("ready", flush=True)
    while True:
        for record in records:
            store.add_run(record)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_only_whole_runs(records, tmp_path):
    target = tmp_path / "killed"
    words = [tmp_path / "results", target, records[0].digest]
    with subprocess.Popen([sys.executable, "-c", WRITER, *words], cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(0.07)  # in the midst of some run
        writer.send_signal(signal.SIGKILL)
    frames = database.load(target)
    jobs, ranks = (table.groupby("run").size() for table in (frames.jobs, frames.ranks))
    assert list(jobs.index) == list(ranks.index) == list(frames.runs.id)
    assert (ranks == 2 * jobs).all()
    with Store(target) as opened:
        opened.add_run(records[0])


def test_two_writers_take_turns(records, tmp_path):
    with Store(tmp_path / "shared") as one, Store(tmp_path / "shared") as other:
        for record in records[:3]:
            one.add_run(record)
            other.add_run(record)
    assert len(database.load(tmp_path / "shared").runs) == 6


def test_timelines_are_kept_apart_and_come_back(records, tmp_path):
    with Store(tmp_path / "results") as opened:
        numbers = opened.with_timelines(records[0].digest)
        assert len(numbers) == 9
        timelines = opened.timelines(numbers[0])
    sent = {(rank.job, rank.rank): rank.timeline for rank in records[0].ranks}
    assert {place: base64.b64encode(packed).decode() for place, packed in timelines.items()} == sent
