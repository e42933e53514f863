"""Stores in which bytes have changed: every command that reads one gives what was written, or a message.

``LOCKSTEP_DAMAGED`` says which copies the long form reads, as FIRST:END (0:1000).
"""

import json
import os
import random
import shutil
from dataclasses import replace

import pytest

from harness.store import records
from harness.store.conditions import Conditions
from harness.store.database import FILE_NAME, Store, StoreError, load
from harness.store.records import Calibration
from workloads.validation import InputError

READERS = (
    ("compare", "STORE", "--json"),
    ("report", "STORE", "--format", "csv", "-o", "REPORT"),
    ("trace", "STORE", "-o", "REPORT", "--json"),
    ("collect", "STORE", "--results", "MERGED", "--json"),
)


@pytest.fixture
def whole(lockstep, tmp_path):
    """The bytes of a store with measured and simulated runs, timelines, switches and calibrations."""
    status, _, err = lockstep("run", "three-jobs", "--set", "repeats=2", "--timeline", "--results", "whole")
    assert status == 0, err
    return (tmp_path / "whole" / FILE_NAME).read_bytes()


def damaged(whole, seed):
    """A copy in which some bytes, a block or the end are not what they were."""
    chance = random.Random(seed)
    copy = bytearray(whole)
    match seed % 5:
        case 0:
            del copy[chance.randrange(len(copy)) :]
        case 1:
            at = chance.randrange(len(copy))
            copy[at : at + 4096] = bytes(len(copy[at : at + 4096]))
        case 2:
            at = chance.randrange(0, len(copy), 4096)
            copy[at : at + 4096] = chance.randbytes(len(copy[at : at + 4096]))
        case _:
            for _ in range(chance.choice([1, 3, 20, 300])):
                copy[chance.randrange(len(copy))] = chance.randrange(256)
    return bytes(copy)


def check(lockstep, whole, folder, seeds):
    ends = {"as written": 0, "refused": 0}
    wanted = [json.loads(json.dumps(vars(run), default=vars)) for run in runs(folder / "whole")]
    for seed in seeds:
        place = folder / f"copy{seed}"
        place.mkdir()
        (place / FILE_NAME).write_bytes(damaged(whole, seed) if seed else whole)
        try:
            load(place)
            for run in runs(place):
                assert json.loads(json.dumps(vars(run), default=vars)) in wanted, seed
            ends["as written"] += 1
        except (StoreError, InputError) as error:
            ends["refused"] += 1
            assert str(place) in str(error), seed
        command = [
            {"STORE": str(place), "REPORT": str(place / "r"), "MERGED": str(place / "m")}.get(word, word)
            for word in READERS[seed // 5 % len(READERS)]
        ]
        status, _, err = lockstep(*command)
        assert status in (0, 1, 2), (seed, command)
        assert status == 0 or command[0] == "compare" or "lockstep: " in err, (seed, err)
        shutil.rmtree(place)
    assert min(ends.values()) > 0, ends


def runs(place):
    with Store(place, existing=True) as store:
        return [run for digest, _ in store.experiments() for run in store.runs(digest)]


@pytest.mark.slow
def test_a_damaged_store_gives_what_was_written_or_a_message(lockstep, whole, tmp_path):
    check(lockstep, whole, tmp_path, range(31))


@pytest.mark.soak
def test_many_damaged_stores(lockstep, whole, tmp_path):
    first, end = map(int, os.environ.get("LOCKSTEP_DAMAGED", "0:1000").split(":"))
    check(lockstep, whole, tmp_path, range(first, end))


@pytest.mark.parametrize(
    "fields",
    [
        *({"recorded_at": time} for time in ("yesterday", "2026-01-01T00:00:00")),
        *({"quantity": name} for name in ("migration_ns", "slot_cost_ns a b")),
        *({"quantity": f"send_after_idle_ns {length}"} for length in ("x", "nan")),
    ],
)
def test_a_damaged_calibration_is_refused(tmp_path, fields):
    calibration = Calibration("s", records.now(), "remote_wakeup_ns", [1.0], [0, 1], 0, "mpich", Conditions())
    with Store(tmp_path) as store:
        store.add_calibrations([calibration])
        assert next(store.calibrations()) == [calibration]
        store.add_calibrations([replace(calibration, session="t", **fields)])
        with pytest.raises(StoreError, match="is damaged: "):
            list(store.calibrations())
