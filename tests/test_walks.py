"""A policy, a launcher, a constant and a column as developers add them: the page says which files that takes.

``tests/support/walks`` has these changes, each for a copy of the project. The first lines of a change are
the tests that are run there, which also renew tables. Then come whole new files, and lines below a line that
a file has, or instead of it.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from places import ROOT, SUPPORT

PARTS = (
    "workloads",
    "coordinator",
    "harness",
    "slurm",
    "lockstep",
    "docs",
    "tests",
    "setup.cfg",
    "README.md",
)
LIMIT_S = 600
"""The tests of an addition take some ten seconds, and several times that beside others."""

WALKS = sorted((SUPPORT / "walks").glob("*.txt"))

pytestmark = pytest.mark.slow


def listed(kind):
    """The files that docs/architecture.md lists for a kind of change: the patterns of each item."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    part = re.search(rf"(?s)^- \*\*A {kind}\b.*?(?=^- \*\*|\Z)", page, re.MULTILINE)[0]
    items = re.findall(r"(?ms)^  [0-9]\. (.*?)(?=^  [0-9]\. |^$|\Z)", part)
    names = [re.findall(r"`([\w./-]+/(?:[\w.-]+)?)`", item) for item in items]
    return [[re.sub("[A-Z]{4,}", "[a-z_]+", re.escape(name)) for name in item] for item in names]


def copied(folder):
    """A copy of the project without what the tests of these changes do without."""
    left_out = shutil.ignore_patterns("__pycache__", "stored_papers", "benchmarks", "pictures", "evidence")
    for part in (ROOT / name for name in PARTS):
        if part.is_dir():
            shutil.copytree(part, folder / part.name, ignore=left_out)
        else:
            shutil.copy(part, folder)


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not {"__pycache__", ".hypothesis"} & {*path.parts}
    }


def change(folder, name, how, anchor, text):
    """Carry out one step of a change in a copy of the project."""
    file = folder / name
    if not how:
        assert not file.exists()
        file.write_text(text)
        return
    lines = file.read_text().splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if line.strip() == anchor]
    assert len(places) == 1, f"{name} has {len(places)} lines {anchor!r}"
    lines[places[0] + (how == "below") : places[0] + 1] = [text]
    file.write_text("".join(lines))


@pytest.mark.parametrize("walk", WALKS, ids=lambda path: path.stem)
def test_an_addition_takes_the_files_that_the_page_lists(walk, tmp_path):
    copied(project := tmp_path / "project")
    before = contents(project)
    tests, *steps = re.split(r"(?m)^=== (\S+)(?: (below|instead of) (.*))?\n", walk.read_text())
    for name, how, anchor, text in zip(*(steps[part::4] for part in range(4)), strict=True):
        change(project, name, how, anchor, text)
    environment = {**os.environ, "PYTHONPATH": str(project), "NUMBA_DISABLE_JIT": "1"}
    line = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "--renew",
        *shlex.split(tests),
    ]
    done = subprocess.run(
        line, cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = contents(project)
    changed = {name for name in after if after[name] != before.get(name)}
    items = listed(walk.stem)
    of_items = [{name for name in changed for one in item if re.match(one, name)} for item in items]
    assert set().union(*of_items) == changed
    assert all(of_items), [item for item, names in zip(items, of_items, strict=True) if not names]
