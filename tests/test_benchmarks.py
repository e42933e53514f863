"""Parts of benchmarks that only show on some machines."""

import runpy
from pathlib import Path

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
