"""Results in which values have changed, in a store or waiting beside it: refused or read, never a fault.

``LOCKSTEP_CHANGED`` says how many copies of each kind the long form reads (10,000), ``LOCKSTEP_CHANGED_SEED``
repeats a series.
"""

import json
import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from fake_records import records

from harness.analyse import stored_runs
from harness.measure.session import Silent
from harness.spec import experiment
from harness.store import payloads
from harness.store.database import FILE_NAME, Store, StoreError
from harness.store.spool import Spool
from harness.store.tables import TABLES
from workloads.validation import InputError

COUNT = int(os.environ.get("LOCKSTEP_CHANGED", "10000"))
SEED = os.environ.get("LOCKSTEP_CHANGED_SEED", str(random.randrange(10**6)))

ABSURD = (None, True, -1, 0, 10**30, 1e308, float("nan"), "", "x", "9" * 400, [], [[]], {}, {"x": None})
"""What stands in the place of a value."""

LAST_RANK = "rowid = (SELECT max(rowid) FROM ranks)"
LAST_JOB = "job = 2 AND run = (SELECT min(run) FROM jobs WHERE job = 2)"
"""The last job of the first of several runs that have it."""


APART = "UPDATE ranks SET start_ns = finish_ns + 1e9, finish_ns = finish_ns + 2e9 WHERE rank = 1"
NODES = """
    UPDATE runs SET conditions = json_set(
        conditions, '$.nodes_after', json('[{"host": "a"}, {"host": "b", "uncertainty_ns": %d, "steps": %d}]')
    )
"""
"""What moves the clock of every second rank by more than its job's length, and how exact clocks were."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of seven runs, and another one in a file that waits beside it."""
    folder = tmp_path_factory.mktemp("changed")
    wanted = experiment.load("three-jobs", settings=["repeats=2", "schedulers=[{policy='gang'}]"])
    run_records = records(wanted)
    with Store(folder / "whole") as store:
        for record in run_records[:-1]:
            store.add_run(record)
    spool = Spool(folder / FILE_NAME, reserve=False)
    file = spool.keep(run_records[-1])
    spool.close()
    return folder / "whole", file


def changed(value, chance):
    """A JSON value in which one value at some depth is another, missing, or there twice."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.15:
        return chance.choice(ABSURD)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = chance.choice(keys)
    copy = value.copy()
    if chance.random() < 0.15:
        del copy[key]
    elif chance.random() < 0.1 and isinstance(copy, list):
        copy.append(copy[key])
    else:
        copy[key] = changed(value[key], chance)
    return copy


def read(place):
    """How a store reads: with rows, or refused in a message that names it."""
    try:
        stored_runs.read(place, None, Silent())[-1].results.document()
    except (StoreError, InputError) as error:
        assert "\n" not in str(error)
        return "refused"
    return "read"


def allow_changes(database):
    for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        database.execute(f"DROP TRIGGER {name}")


def change_a_cell(store, chance):
    """Change a value of a store that SQLite itself can read."""
    with closing(sqlite3.connect(store)) as database, database:
        filled = [name for name in TABLES if database.execute(f"SELECT 1 FROM {name}").fetchone()]
        table = chance.choice(filled)
        allow_changes(database)
        rows = database.execute(f"SELECT rowid, * FROM {table}")
        columns = [column[0] for column in rows.description][1:]
        number, *values = chance.choice(rows.fetchall())
        column, value = chance.choice([*zip(columns, values, strict=True)])
        try:
            new = json.dumps(changed(json.loads(value), chance))
        except (TypeError, ValueError):
            new = chance.choice([None, -1, 2**62, 1e308, "", "x", b"\0"])
        database.execute("PRAGMA foreign_keys = OFF")
        try:
            database.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (new, number))
        except sqlite3.IntegrityError:
            return False
        return True


def seal(store):
    """Give every run the checksum of what the store has now, as somebody who wants it read would do."""
    with closing(sqlite3.connect(store)) as database, database:
        database.row_factory = sqlite3.Row
        for (run,) in database.execute("SELECT id FROM runs").fetchall():
            database.execute(
                "UPDATE checksums SET sha256 = ? WHERE run = ?", (payloads.checksum(database, run), run)
            )


def cells(made, folder, seed, count):
    """Half of the changed stores have checksums that agree with them."""
    whole, _ = made
    ends = Counter()
    for number in range(count):
        place = folder / "copy"
        shutil.copytree(whole, place)
        if change_a_cell(place / FILE_NAME, random.Random(f"{seed}-{number}")):
            if number % 2:
                seal(place / FILE_NAME)
            ends[read(place)] += 1
        shutil.rmtree(place)
    return ends


def rewritten(made, folder, change):
    """A copy of the store with a change that its checksums agree with."""
    place = folder / "copy"
    shutil.copytree(made[0], place)
    with closing(sqlite3.connect(place / FILE_NAME)) as database:
        allow_changes(database)
        database.executescript(change)
    seal(place / FILE_NAME)
    return place


@pytest.mark.parametrize(
    "change, reason",
    [
        ("UPDATE runs SET kind = 'x'", "no run has 'x' as kind"),
        ("UPDATE runs SET processors = '[0, 0]'", "as processors"),
        ("UPDATE runs SET wall_s = -1", "as wall_s"),
        ("UPDATE runs SET repeat = -1", "as repeat"),
        ('UPDATE runs SET scheduler = \'{"policy": ["x"]}\'', "holds runs with policy = "),
        ('UPDATE runs SET constants = \'{"latency_us": "x"}\'', "no run has 'x' as constants.latency_us"),
        ("UPDATE runs SET conditions = '{\"load_before\": [1]}'", "no run has [1] as conditions.load_before"),
        ("UPDATE jobs SET placement = '[7, 8]'", "as placement"),
        ("UPDATE jobs SET arrival_ns = -1", "as arrival_ns"),
        ("UPDATE jobs SET finish_ns = arrival_ns", "as finish_ns"),
        ("UPDATE jobs SET admitted_ns = 1 << 60", "as admitted_ns"),
        (
            "UPDATE jobs SET program = json_set(program, '$.imbalance', 'x')",
            "holds runs with imbalance = 'x'",
        ),
        ("UPDATE jobs SET program = '{\"x\": 1}'", "is damaged: "),
        (f"UPDATE ranks SET job = 'x' WHERE {LAST_RANK}", "is damaged: ranks.job holds 'x'"),
        ("UPDATE ranks SET job = job + 5", "no run has 5 as job of a rank"),
        (f"DELETE FROM ranks WHERE {LAST_JOB}; DELETE FROM jobs WHERE {LAST_JOB}", "have different jobs"),
        ("UPDATE ranks SET processor = 7", "as processor of a rank"),
        (APART, "as start_ns of a rank, for which"),
        (f"{APART}; {NODES % (499_000_000, 0)}", "as start_ns of a rank, for which"),
    ],
)
def test_what_no_run_can_have_made_is_refused(made, tmp_path, change, reason):
    """Checksums tell damage only: somebody may have written another store on purpose."""
    place = rewritten(made, tmp_path, change)
    with pytest.raises((StoreError, InputError), match=re.escape(reason)) as refused:
        stored_runs.read(place, None, Silent())
    assert str(place) in str(refused.value)


@pytest.mark.parametrize("uncertainty_ns, steps", [(501_000_000, 0), (0, 1)])
def test_clocks_that_are_known_to_differ_are_no_fault_of_records(made, tmp_path, uncertainty_ns, steps):
    place = rewritten(made, tmp_path, f"{APART}; {NODES % (uncertainty_ns, steps)}")
    assert read(place) == "read"


def without_key(table):
    return f"CREATE TABLE new AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE new RENAME TO {table}"


@pytest.mark.parametrize(
    "change, reason",
    [
        *((without_key(table), f"{table} has lost its primary key") for table in TABLES),
        ("DELETE FROM runs WHERE id = (SELECT max(id) FROM runs)", "jobs has rows of a run that is not in"),
        ("UPDATE checksums SET run = 99 WHERE run = 1", "checksums has rows of a run that is not in runs"),
    ],
)
def test_a_store_that_takes_no_further_run_is_refused_before_one_is_made(
    made, lockstep, tmp_path, change, reason
):
    shutil.copytree(made[0], tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy" / FILE_NAME)) as database:
        allow_changes(database)
        database.executescript(change)
    options = ("--set", "repeats=2", "--policy", "gang", "--no-simulate", "--resume", "--results", "copy")
    status, out, err = lockstep("run", "three-jobs", *options)
    assert (status, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith(f"lockstep: copy/{FILE_NAME} is damaged: {reason}")


def waiting(made, folder, seed, count):
    whole, file = made
    content = json.loads(file.read_text())
    ends = Counter()
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        place = folder / "copy"
        shutil.copytree(whole, place)
        messages = []
        text = json.dumps(changed(content, chance))
        if chance.random() < 0.2:
            text = text[: chance.randrange(len(text))]
        (place / file.name).write_text(text)
        with Store(place, warn=messages.append):
            pass
        assert messages and all("\n" not in line for line in messages), number
        ends["taken in" if "took in" in messages[-1] else "left"] += 1
        assert read(place) == "read", number
        shutil.rmtree(place)
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("way", [cells, waiting])
def test_changed_results_are_refused_or_read(way, made, tmp_path):
    assert sum(way(made, tmp_path, "always the same", 30).values()) > 20


@pytest.mark.soak
@pytest.mark.parametrize("way", [cells, waiting])
def test_many_changed_results_are_refused_or_read(way, made, tmp_path, capsys):
    ends = way(made, tmp_path, SEED, COUNT)
    with capsys.disabled():
        print(f"\n{way.__name__}: {dict(ends)} of {COUNT}, LOCKSTEP_CHANGED_SEED={SEED}")
