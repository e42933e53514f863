"""Parts of benchmarks that only show on some machines."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from faults_in_code import Fault
from places import ROOT


def test_copies_at_once_have_temporary_directories_of_their_own(tmp_path):
    """In one that three launchers of Open MPI share, the first to end removes what the others use."""
    timed = runpy.run_path(str(ROOT / "tests" / "benchmarks" / "exec_cost.py"))["timed"]
    assert timed(["sh", "-c", "echo $TMPDIR >> folders; echo 1.5"], 3, tmp_path, {}) == 1.5
    folders = set((tmp_path / "folders").read_text().split())
    assert len(folders) == 3 and not any(Path(folder).exists() for folder in folders)


@pytest.mark.slow
def test_each_planted_fault_is_seen_by_tests_that_are_compiled_once(tmp_path, monkeypatch):
    """Faults of one size in one second are the worst case for bytecode, which is kept by both."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    clone = runpy.run_path(str(ROOT / "tests" / "benchmarks" / "planted_faults.py"))["Clone"](tmp_path)
    (clone.root / "workloads" / "small.py").write_text("VALUE = 1\n")
    test = "from workloads.small import VALUE\n\n\ndef test_it():\n    assert VALUE == 1\n"
    (clone.root / "tests" / "test_small.py").write_text(test)

    def failing():
        return clone.failing(["tests/test_small.py"], "quick")

    for value in "23":
        with clone.planted(Fault("workloads/small.py", 1, "constant", 8, 9, value)):
            assert failing() == {"tests.test_small::test_it"}
    assert failing() == set()
    assert [*(clone.root / "tests" / "__pycache__").glob("test_small*pytest*")]


def test_the_published_rules_backfill_less_than_easy_and_begin_with_long_jobs():
    """Docs/evidence/lublin-orders.md: 28 processors for 200 s would not delay the second job, but wait."""
    plain = runpy.run_path(str(ROOT / "tests" / "benchmarks" / "lublin_orders.py"))["Plain"]
    at_s, sizes, run_s = (np.array(one) for one in ((1, 2, 3, 4), (200, 100, 28, 28), (100, 50, 90, 200)))
    slowdowns = [1, (101 + 50 - 2) / 50, 1, (101 + 200 - 4) / 200]
    assert plain(at_s, sizes, run_s)("fcfs") == pytest.approx(sum(slowdowns) / 4)
    at_s, sizes, run_s = (np.array(one) for one in ((1, 2, 3, 4), (256,) * 4, (100, 10, 200, 1000)))
    in_order = [1, 109 / 10, (111 + 200 - 3) / 200, (311 + 1000 - 4) / 1000]
    long_first = [1, 109 / 10, (1111 + 200 - 3) / 200, (111 + 1000 - 4) / 1000]  # of those that still wait
    for order in ("wfp3", "unicep"):
        assert plain(at_s, sizes, run_s)(order) == pytest.approx(sum(in_order) / 4)
        assert plain(at_s, sizes, run_s, start_s=-1)(order) == pytest.approx(sum(long_first) / 4)
