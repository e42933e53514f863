"""What released versions wrote is read as they read it, and their series go on."""

import json
from itertools import zip_longest

import among_others
import pytest
from kept_files import STORED, VERSIONS, told, unpacked

from harness.spec import experiment
from harness.store.database import Store

pytestmark = pytest.mark.slow
MOST_BYTES = 70_000


def alike(kept, now):
    """``now`` without keys that came later; numbers that differ by rounding are those of ``kept``."""
    if isinstance(kept, dict) and isinstance(now, dict):
        return {key: alike(value, now[key]) for key, value in kept.items() if key in now}
    if isinstance(kept, list) and isinstance(now, list):
        return [alike(*pair) for pair in zip_longest(kept, now)]
    return kept if isinstance(kept, float) and now == pytest.approx(kept, rel=1e-9) else now


def test_there_is_a_release():
    assert "0.3.0" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_store_and_a_recording_are_read(version, tmp_path, monkeypatch):
    """All of it: that others disturbed runs of that time only hides their rows."""
    among_others.allow(monkeypatch.setattr)
    document = json.loads((STORED / version / "told.json").read_text())
    now = json.loads(json.dumps(told(version, unpacked(version, tmp_path))))
    assert alike(document, now) == document
    assert sum(file.stat().st_size for file in (STORED / version).iterdir()) < MOST_BYTES


@pytest.mark.parametrize("version", VERSIONS)
def test_a_series_goes_on(version, tmp_path):
    wanted = experiment.load(str(STORED / version / "two-jobs.toml"))
    with Store(unpacked(version, tmp_path), existing=True) as store:
        runs = store.runs(wanted.digest)
        assert {run.kind for run in runs} == {"dedicated", "policy", "simulated", "simulated dedicated"}
        copies = store.add_run(runs[0])
        assert store.run(copies).ranks == runs[0].ranks
