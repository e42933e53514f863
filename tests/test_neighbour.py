"""A hostile neighbour: what another user of the machine does has no effect on us, and is told clearly."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runs import eventually

from coordinator import cleanup
from coordinator.processes import DIRECTORY, RUN, environment_of
from coordinator.rundir import RunDirectory

NOBODY = 65534

RUN_OF_NOBODY = "0badcafe"

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")


@pytest.fixture
def shared(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for temporary files that all users share, as /tmp."""
    tmp_path_factory.getbasetemp()  # not in the directory that goes with this test
    with tempfile.TemporaryDirectory(prefix="ls-shared-") as name:
        Path(name).chmod(0o1777)
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


Neighbour = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    """Starts a command as another user, and returns once it is that command; all end with the test."""
    started = []

    def start(*argv: str, **variables: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(argv, env={**os.environ, **variables}, user=NOBODY, group=NOBODY, cwd="/")
        started.append(process)
        assert eventually(lambda: variables.items() <= environment_of(process.pid).items())
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory of ours that is no run's."""
    place = tmp_path / RUN_OF_NOBODY
    place.mkdir(mode=0o700)
    (place / "thesis").touch()
    return place


@needs_root
def test_the_mark_of_a_foreign_process_ends_and_removes_nothing(
    shared: Path, neighbour: Neighbour, precious: Path
) -> None:
    process = neighbour("sleep", "60", **{RUN: RUN_OF_NOBODY, DIRECTORY: str(precious)})
    assert not any(RUN_OF_NOBODY in line for line in cleanup.clean())
    assert cleanup.release(RunDirectory(shared / "lockstep-0" / RUN_OF_NOBODY)) == []
    assert process.poll() is None
    assert (precious / "thesis").exists()


@needs_root
def test_a_set_uid_program_is_not_taken_for_a_process_of_ours(shared: Path, neighbour: Neighbour) -> None:
    """It has our effective user id, and the environment of the user who started it."""
    program = shared / "sleep"
    subprocess.run(["install", "-m", "4755", "/bin/sleep", str(program)], check=True)
    process = neighbour(str(program), "60", **{RUN: RUN_OF_NOBODY})
    assert not any(RUN_OF_NOBODY in line for line in cleanup.clean())
    assert process.poll() is None


@pytest.mark.parametrize("run", [RUN_OF_NOBODY, "..", "/", ""])
def test_a_mark_that_names_what_is_no_run_directory_removes_nothing(
    shared: Path, precious: Path, run: str
) -> None:
    """Also in a process of our own: somebody may have talked us into that environment."""
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, RUN: run, DIRECTORY: str(precious)})
    try:
        assert eventually(lambda: RUN in environment_of(process.pid))
        said = cleanup.clean()
        assert (precious / "thesis").exists() and shared.exists()
        if run == RUN_OF_NOBODY:  # the mark of a run that has lost its directory
            assert process.wait(5) == -signal.SIGTERM and f"run {run}: ended 1 process" in said
        else:
            assert process.poll() is None
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.chmod(0o755),
        lambda path: path.parent.chmod(0o755),
        lambda path: (path / "journal").write_text('{"made_s": 0}\n'),
        lambda path: (path / "journal").write_text("5\n"),
        lambda path: path.rename(path.with_name("precious")),
    ],
    ids=["open to others", "in an open directory", "of another run", "without a journal", "without a name"],
)
def test_a_directory_is_a_runs_only_if_everything_fits(shared: Path, spoil: Callable[[Path], object]) -> None:
    directory = RunDirectory.create()
    directory.unlock()
    assert directory.ours
    spoil(directory.path)
    assert not directory.ours
    assert not any(RunDirectory(path).ours for path in directory.path.parent.iterdir())
