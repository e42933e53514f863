"""Plugins of pytest that start MPI ranks, under ``lockstep exec``: what the guide's tests print."""

import os
import re
import subprocess
import sys
import venv

import pytest
from places import ROOT

pytestmark = [pytest.mark.tools, pytest.mark.slow]

GUIDE = (ROOT / "docs" / "how-to" / "faster-tests.md").read_text()
PACKAGES = ("mpich", "mpi4py", "pytest", "mpi-pytest", "pytest-isolate-mpi")
EXEC = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from harness.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with the guide's tests, and an environment with the plugins, which this one has not."""
    folder = tmp_path_factory.mktemp("plugins")
    venv.create(folder / "venv", with_pip=True)
    subprocess.run([folder / "venv/bin/pip", "install", "--quiet", *PACKAGES], check=True, timeout=900)
    for title, text in re.findall(r'(?ms)^```python title="(test_.*?)"\n(.*?)^```$', GUIDE):
        (folder / title).write_text(text)
    return folder


def under_exec(place, *words):
    """Status, outputs, and the number of ranks that waited in two phases."""
    path = f"{place}/venv/bin:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-c", EXEC, "exec", "--", *words, "-p", "no:cacheprovider"],
        cwd=place,
        env=os.environ | {"PATH": path, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    ranks = re.findall(r"two-phase waits: (\d+) ranks", done.stderr)
    return done.returncode, done.stdout, [int(count) for count in ranks]


@pytest.mark.parametrize(
    "words, passed",
    [
        (["pytest", "test_parallel.py"], "1 passed"),
        (["pytest", "test_isolated.py"], "4 passed"),
        (["mpiexec", "-n", "4", "pytest", "-m", "parallel[match]", "test_parallel.py"], "1 passed"),
    ],
)
def test_ranks_that_a_plugin_starts_wait_in_two_phases(place, words, passed):
    status, said, ranks = under_exec(place, *words)
    assert (status, passed in said) == (0, True), said
    assert len(ranks) == 1 and ranks[0] >= 4


@pytest.mark.parametrize("name", ["test_parallel.py", "test_isolated.py"])
def test_a_test_that_fails_still_fails(place, name):
    broken = place / f"broken_{name}"
    broken.write_text((place / name).read_text().replace("== [4] * 200", "== [5] * 200"))
    assert "[5]" in broken.read_text()
    status, said, _ = under_exec(place, "pytest", broken.name)
    assert status == 1 and "failed" in said
