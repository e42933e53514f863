"""Results in which values have changed, in a store or waiting beside it: refused or read, never a fault.

``LOCKSTEP_CHANGED`` says how many copies of each kind the long form reads (10,000), ``LOCKSTEP_CHANGED_SEED``
repeats a series.
"""

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from fake_records import records

from harness.analyse import stored_runs
from harness.measure.session import Silent
from harness.spec import experiment
from harness.store.database import FILE_NAME, Store, StoreError
from harness.store.spool import Spool
from harness.store.tables import TABLES
from workloads.validation import InputError

COUNT = int(os.environ.get("LOCKSTEP_CHANGED", "10000"))
SEED = os.environ.get("LOCKSTEP_CHANGED_SEED", str(random.randrange(10**6)))

ABSURD = (None, True, -1, 0, 10**30, 1e308, float("nan"), "", "x", "9" * 400, [], [[]], {}, {"x": None})
"""What stands in the place of a value."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of six runs, and one of them in a file that waits beside it."""
    folder = tmp_path_factory.mktemp("changed")
    wanted = experiment.load("three-jobs", settings=["repeats=1", "schedulers=[{policy='gang'}]"])
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


def change_a_cell(store, chance):
    """Change a value of a store that SQLite itself can read."""
    with closing(sqlite3.connect(store)) as database, database:
        filled = [name for name in TABLES if database.execute(f"SELECT 1 FROM {name}").fetchone()]
        table = chance.choice(filled)
        database.execute(f"DROP TRIGGER IF EXISTS {table}_update")
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
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


def cells(made, folder, seed, count):
    whole, _ = made
    ends = Counter()
    for number in range(count):
        place = folder / "copy"
        shutil.copytree(whole, place)
        if change_a_cell(place / FILE_NAME, random.Random(f"{seed}-{number}")):
            ends[read(place)] += 1
        shutil.rmtree(place)
    return ends


def waiting(made, folder, seed, count):
    whole, file = made
    content = json.loads(file.read_text())
    ends = Counter()
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        place = folder / "copy"
        shutil.copytree(whole, place)
        messages, text = [], json.dumps(changed(content, chance))
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
