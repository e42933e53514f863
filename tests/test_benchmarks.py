"""Parts of benchmarks that only show on some machines."""

import runpy
from pathlib import Path

from places import ROOT


def test_copies_at_once_have_temporary_directories_of_their_own(tmp_path):
    """In one that three launchers of Open MPI share, the first to end removes what the others use."""
    timed = runpy.run_path(str(ROOT / "tests" / "benchmarks" / "exec_cost.py"))["timed"]
    assert timed(["sh", "-c", "echo $TMPDIR >> folders; echo 1.5"], 3, tmp_path, {}) == 1.5
    folders = set((tmp_path / "folders").read_text().split())
    assert len(folders) == 3 and not any(Path(folder).exists() for folder in folders)
