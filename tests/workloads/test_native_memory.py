"""What the cache directory remembers of compilers: kept while the files are unchanged, and no longer."""

import os

import pytest
from native_programs import LOCKSTEP, hasty_wrapper, run

from workloads.native import recall, remember


@pytest.fixture
def files(tmp_path):
    """A file, and a link to another one, on which an answer rests."""
    there = tmp_path / "mpi.h"
    other = tmp_path / "4.1"
    there.write_text("1")
    other.write_text("2")
    (tmp_path / "mpicc").symlink_to(other)
    remember(tmp_path, "which?", "this", [there, tmp_path / "mpicc"])
    return there, tmp_path / "mpicc"


def again(path, text):
    """Write a file anew in its place, with its old times."""
    before = path.stat()
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").chmod(before.st_mode)
    os.utime(path.with_suffix(".new"), ns=(before.st_atime_ns, before.st_mtime_ns))
    path.with_suffix(".new").rename(path)


def relink(link):
    (link.parent / "4.2").hardlink_to(link.resolve())
    link.unlink()
    link.symlink_to(link.parent / "4.2")


CHANGES = {
    "content": lambda file, link: file.write_text("12"),
    "time": lambda file, link: os.utime(file, ns=(1, 1)),
    "replaced": lambda file, link: again(file, "3"),
    "gone": lambda file, link: file.unlink(),
    "what a link leads to": lambda file, link: link.resolve().write_text("22"),
    "where a link leads": lambda file, link: relink(link),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_answer_is_forgotten_when_a_file_changes(tmp_path, files, change):
    assert recall(tmp_path, "which?") == "this"
    assert recall(tmp_path, "which else?") is None
    CHANGES[change](*files)
    assert recall(tmp_path, "which?") is None


@pytest.mark.parametrize("left", [b"", b'{"answer": "th', b"[]", b'{"files": {}}', b"\xff"])
def test_half_an_answer_is_none(tmp_path, files, left):
    (kept,) = tmp_path.glob("known-*")
    kept.write_bytes(left)
    assert recall(tmp_path, "which?") is None


def test_nothing_is_kept_where_nothing_can_be_written(tmp_path):
    remember(tmp_path / "none", "which?", "this", [])
    remember(tmp_path, "which?", "this", [tmp_path / "none"])
    assert recall(tmp_path, "which?") is None


@pytest.mark.slow
def test_a_compiler_runs_again_only_if_something_has_changed(tmp_path):
    ran = tmp_path / "ran"
    mpicc = hasty_wrapper(tmp_path, f'echo "$@" >> {ran}')
    cache = {"XDG_CACHE_HOME": str(tmp_path)}

    def runs(**extra):
        ran.write_text("")
        result = run([*LOCKSTEP, "exec", "--mpicc", str(mpicc), "--", "true"], extra=cache | extra)
        assert result.returncode == 0, result.stderr
        return len(ran.read_text().splitlines())

    first = runs()
    assert first >= 3 and runs() == 0
    again(mpicc, mpicc.read_text())
    assert 0 < runs() < first  # the library is there, but nobody knew
    assert runs() == 0 and runs(MPICH_CC="gcc", OMPI_CC="gcc") > 0
