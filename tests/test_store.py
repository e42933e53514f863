"""The store: complete, append-only, versioned, and safe against kills and bad places."""

import base64
import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from imitation import TOOLS, Quiet

from harness import run, schema, store
from harness.calibrate import Constants
from harness.experiment import load
from harness.records import Calibration, ScheduleRecord
from harness.site import Site
from harness.store import Store, StoreError
from workloads.validation import InputError

HERE = Path(__file__).resolve().parent


@pytest.fixture
def records(tmp_path):
    """One repeat of the built-in experiment, in a store at tmp_path / "results"."""
    experiment = load("three-jobs", settings=["repeats=1"])
    with Store(tmp_path / "results") as opened:
        site = Site.here((0, 1), TOOLS, opened)
        constants = Constants(4.0, 30.0, 2.0)
        return list(run.run(experiment, run.plan(experiment), site, constants, Quiet(), timeline=True))


def test_what_is_stored_comes_back(records, tmp_path):
    with Store(tmp_path / "results") as opened:
        back = opened.runs(records[0].digest)
    assert len(back) == len(records) == 9
    for before, after in zip(records, back, strict=True):
        assert after.makespan_ns == before.makespan_ns
        assert after.scheduler == before.scheduler
        assert after.conditions == before.conditions
        assert after.switches == before.switches
        assert [dict(rank) for rank in after.ranks] == [
            {key: value for key, value in rank.items() if key != "timeline"} for rank in before.ranks
        ]
        assert [dataclasses.astuple(job) for job in after.jobs] == [
            dataclasses.astuple(dataclasses.replace(job, placement=list(job.placement)))
            for job in before.jobs
        ]


def test_runs_are_found_by_digest_and_session(records, tmp_path):
    with Store(tmp_path / "results") as opened:
        assert opened.runs("another") == []
        assert opened.runs(records[0].digest, "another") == []
        assert len(opened.runs(records[0].digest, records[0].session)) == 9


def test_frames_have_the_documented_columns(records, tmp_path):
    frames = store.load(tmp_path / "results")
    described = (HERE.parent / "docs" / "formats.md").read_text()
    for field in dataclasses.fields(frames):
        for column in getattr(frames, field.name).columns:
            assert f"`{column}`" in described, f"{field.name}.{column}"
    assert len(frames.runs) == 9
    assert len(frames.ranks) == 2 * frames.jobs.shape[0]
    assert set(frames.switches.run) == {
        run_id
        for run_id, table in zip(frames.runs.id, frames.runs.scheduler, strict=True)
        if table["policy"] == "gang"
    }
    assert frames.runs.conditions[0]["processors"] == [0, 1]
    assert store.load(tmp_path / "results" / store.FILE_NAME).runs.equals(frames.runs)


@pytest.mark.parametrize("table", list(schema.TABLES))
def test_records_are_immutable(records, tmp_path, table):
    with sqlite3.connect(tmp_path / "results" / store.FILE_NAME) as database:
        if table == "calibrations":
            with Store(tmp_path / "results") as opened:
                opened.add_calibration(Calibration("s", "now", "switch_ns", [1.0], [0, 1], 0, "mpich", {}))
        if table == "schedules":
            with Store(tmp_path / "results") as opened:
                opened.add_schedules([ScheduleRecord("s", "now", "e", {}, 4, 1, {}, {}, {}, 1, "", {})])
        column = database.execute(f"SELECT * FROM {table}").description[0][0]
        for deed in (f"UPDATE {table} SET {column} = 7", f"DELETE FROM {table}"):
            with pytest.raises(sqlite3.IntegrityError, match="immutable"):
                database.execute(deed)


def test_a_run_is_stored_whole_or_not_at_all(records, tmp_path):
    twice = dataclasses.replace(records[0], ranks=records[0].ranks + records[0].ranks[:1])
    with Store(tmp_path / "other") as opened:
        with pytest.raises(sqlite3.IntegrityError):
            opened.add_run(twice)
        assert opened.runs(twice.digest) == []
        opened.add_run(records[0])
        assert len(opened.runs(twice.digest)) == 1


def test_a_newer_store_is_refused(records, tmp_path):
    file = tmp_path / "results" / store.FILE_NAME
    with sqlite3.connect(file) as database:
        database.execute(f"PRAGMA user_version = {schema.SCHEMA + 1}")
    for attempt in (lambda: Store(tmp_path / "results"), lambda: store.load(file)):
        with pytest.raises(InputError, match=f"found {schema.SCHEMA + 1}, required {schema.SCHEMA}"):
            attempt()


def test_other_files_are_refused_and_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / store.FILE_NAME) as database:
        database.execute("CREATE TABLE theirs (x)")
    with pytest.raises(InputError, match="another program's database"):
        Store(tmp_path)
    text = tmp_path / "text"
    text.mkdir()
    (text / store.FILE_NAME).write_text("not a database at all, but a file of some length" * 50)
    before = (text / store.FILE_NAME).read_bytes()
    with pytest.raises(InputError, match="not a database"):
        Store(text)
    assert (text / store.FILE_NAME).read_bytes() == before


def test_places_that_cannot_hold_a_store(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/results")):
        with pytest.raises(InputError, match="--results = "):
            Store(place)
    with pytest.raises(InputError, match="--results = "):
        store.load(tmp_path / "nothing")


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_directory_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="permission"):
        Store(tmp_path / "results")


def test_a_full_disk_is_told_and_keeps_what_was_recorded(records, tmp_path):
    with Store(tmp_path / "full") as opened:
        opened.add_run(records[0])
        pages = opened._database.execute("PRAGMA page_count").fetchone()[0]
        opened._database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match=r"full.*--resume"):
            for record in records * 5:
                opened.add_run(record)
    with Store(tmp_path / "full") as opened:
        kept = opened.runs(records[0].digest)
        assert kept and all(len(one.ranks) in (2, 6) for one in kept)
        opened.add_run(records[1])


WRITER = """
import sys
sys.path[:0] = [{tests!r}, {root!r}]
from pathlib import Path
from harness.store import Store
with Store(Path({source!r})) as store:
    records = store.runs({digest!r})
with Store(Path({target!r})) as store:
    store.add_run(records[0])
    print("ready", flush=True)
    while True:
        for record in records:
            store.add_run(record)
"""


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(5))
def test_a_killed_writer_leaves_only_whole_runs(records, tmp_path, attempt):
    target = tmp_path / "killed"
    code = WRITER.format(
        tests=str(HERE),
        root=str(HERE.parent),
        source=str(tmp_path / "results"),
        target=str(target),
        digest=records[0].digest,
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"ready\n"
        time.sleep(0.05 + 0.013 * attempt)
        writer.send_signal(signal.SIGKILL)
    frames = store.load(target)
    jobs = frames.jobs.groupby("run").size()
    ranks = frames.ranks.groupby("run").size()
    assert list(jobs.index) == list(ranks.index) == list(frames.runs.id)
    assert (ranks == 2 * jobs).all()
    with Store(target) as opened:
        opened.add_run(records[0])


def test_two_writers_take_turns(records, tmp_path):
    with Store(tmp_path / "shared") as one, Store(tmp_path / "shared") as other:
        for record in records[:3]:
            one.add_run(record)
            other.add_run(record)
    assert len(store.load(tmp_path / "shared").runs) == 6


def test_timelines_are_kept_apart_and_come_back(records, tmp_path):
    with Store(tmp_path / "results") as opened:
        numbers = opened.with_timelines(records[0].digest)
        assert len(numbers) == 9
        found = opened.timelines(numbers[0])
    sent = {(rank["job"], rank["rank"]): rank["timeline"] for rank in records[0].ranks}
    assert {place: base64.b64encode(packed).decode() for place, packed in found.items()} == sent


def test_an_older_store_is_migrated(records, tmp_path):
    file = tmp_path / "results" / store.FILE_NAME
    with sqlite3.connect(file) as database:
        database.executescript("DROP TABLE timelines; PRAGMA user_version = 1;")
    with Store(tmp_path / "results") as opened:
        assert opened.with_timelines(records[0].digest) == []
        opened.add_run(records[0])
        assert len(opened.with_timelines(records[0].digest)) == 1


def test_results_that_are_only_read_are_not_created(tmp_path):
    with pytest.raises(InputError):
        Store(tmp_path / "nothing", existing=True)
    assert not (tmp_path / "nothing").exists()
