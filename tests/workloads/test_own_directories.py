"""Directories from which code is loaded: no other user can change them, on the whole way."""

import os
import stat
from pathlib import Path

import pytest
import unprivileged_actions
from runs import NOBODY, as_nobody

from workloads import native
from workloads.own_directories import check_way, open_own, private

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o002, 0o022])
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def test_what_is_made_is_closed_whatever_the_umask(tmp_path, umask):
    place = tmp_path / "home" / ".cache" / "lockstep"
    assert private(place) == place == private(place)
    assert {mode(one) for one in (place, place.parent, place.parent.parent)} == {0o700}


@pytest.mark.parametrize(("found", "kept"), [(0o755, True), (0o777, False), (0o1777, False)])
def test_one_s_own_open_directory_is_closed_and_emptied_if_others_could_write(tmp_path, found, kept):
    place = tmp_path / "cache"
    (place / "inner").mkdir(parents=True)
    (place / "link").symlink_to(tmp_path)
    place.chmod(found)
    private(place)
    assert mode(place) == 0o700
    assert {one.name for one in place.iterdir()} == ({"inner", "link"} if kept else set())
    assert tmp_path.exists()


@needs_root
@pytest.mark.parametrize("open_mode", [0o777, 0o775, 0o757])
def test_a_directory_below_one_that_others_can_write_to_is_refused(tmp_path, open_mode):
    """What another user then does: he renames it while it is in use."""
    between = tmp_path / "open"
    between.mkdir()
    between.chmod(open_mode)
    os.chown(between, 0, NOBODY)
    for place in (between / "cache", between / "cache" / "inner"):
        place.mkdir(mode=0o700, exist_ok=True)
        with pytest.raises(PermissionError, match=f"{between} can be changed by others"):
            private(place)
    with pytest.raises(PermissionError):
        private(between / "missing" / "cache")
    assert not (between / "missing").exists()
    between.chmod(0o1777)  # as /tmp: nobody but us can rename it there
    assert private(between / "cache")


@needs_root
def test_the_directory_of_another_user_and_links_of_his_are_refused(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, NOBODY, NOBODY)
    link = tmp_path / "link"
    link.symlink_to(private(tmp_path / "ours"))
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    for place in (theirs, theirs / "lockstep", link, link / "lockstep"):
        with pytest.raises(PermissionError, match=f"belongs to user {NOBODY}"):
            private(place)
    for place in (theirs, link):
        with pytest.raises(PermissionError):
            check_way(place)


def test_a_descriptor_leads_to_what_was_checked_though_it_was_exchanged(tmp_path):
    place = private(tmp_path / "cache")
    descriptor = open_own(place)
    (place / "ours").touch()
    place.rename(tmp_path / "away")
    private(place)
    assert [one.name for one in Path(f"/proc/self/fd/{descriptor}").iterdir()] == ["ours"]
    os.close(descriptor)
    place.chmod(0o755)
    with pytest.raises(PermissionError):
        open_own(place)
    place.chmod(0o700)
    (tmp_path / "link").symlink_to(place)
    with pytest.raises(OSError, match="link"):
        open_own(tmp_path / "link")


@needs_root
def test_the_other_user_cannot_do_what_the_checks_prevent(tmp_path):
    """The attack itself: to rename a directory that has passed them."""
    place = private(tmp_path / "cache")
    for above in (tmp_path, *tmp_path.parents):
        assert not as_nobody(unprivileged_actions.rename, above / "cache", "away")
    assert place.exists()


def test_others_may_read_a_copy_of_a_library_and_change_none_of_it(tmp_path, umask):
    kept, folder = private(tmp_path / "cache"), private(tmp_path / "run") / "copy"
    for name in ("preload.so", "wrappers.so"):
        (kept / name).write_bytes(name.encode())
        (kept / name).chmod(0o600)
    made = native.readable(native.Library(kept / "preload.so", (Path("libmpi.so"),), ("libm.so",)), folder)
    assert made == native.Library(folder / "preload.so", (Path("libmpi.so"),), ("libm.so",))
    assert {one.name: (one.read_bytes(), mode(one)) for one in folder.iterdir()} == {
        name: (name.encode(), 0o644) for name in ("preload.so", "wrappers.so")
    }
    assert mode(folder) == 0o755
    with pytest.raises(FileExistsError):
        native.readable(made, folder)
