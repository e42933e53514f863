"""Directories that no other user can change: checks of the whole way to them, and making one.

A user who can write to a directory can replace everything below it. So code is loaded only from directories
whose way is checked from the root directory on, as ssh does for its keys. Once a directory on the way is
known to be safe, no other user can replace what it contains: the next one is checked for good.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path


def check_way(path: Path) -> None:
    """Check that only root and we can replace ``path``, also through the links that lead there.

    Raises:
        OSError: another user can, or there is no such path; the message names the directory.
    """
    _check_closed_to_writers(*_reached(path))


def _reached(path: Path) -> tuple[Path, os.stat_result]:
    """Where ``path`` leads and what is there, after a check of all before that, as ``check_way`` does it."""
    place = Path("/")
    names = list(reversed(path.absolute().parts[1:]))
    links = 0
    # The owner of the root directory can replace anything; in a namespace without root it has another id.
    trusted = {0, os.getuid(), place.stat().st_uid}
    while True:
        status = place.lstat()
        _check_owner(place, status, trusted)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > 40:
                raise OSError(f"{path} leads through too many symbolic links")
            target = place.readlink()
            names += reversed(target.parts)
            place = place.parent
        elif not names:
            return place, status
        else:
            _check_closed_to_writers(place, status)
        name = names.pop()
        place = place.parent if name == ".." else place / name


def check_own(path: Path) -> None:
    """Check that ``path`` is a directory that belongs to us and is closed to others."""
    _check_closed(path, path.lstat())


def open_own(path: Path) -> int:
    """A descriptor of a directory, checked as by ``check_own``; it stays valid whatever takes its place."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        _check_closed(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def private(path: Path) -> Path:
    """A directory that only we can change, made if it is missing, with all that is missing above it.

    One of ours that was open to others is closed. If they could write to it, it is emptied: it is unknown who
    has put there what it holds.

    Raises:
        OSError: another user can change it or replace it, or it cannot be made; the message states where.
    """
    path = path.absolute()
    missing = [place for place in (path, *path.parents) if not os.path.lexists(place)]
    if missing:
        check_way(missing[-1].parent)
    for place in reversed(missing):
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
    place, status = _reached(path)
    _check_ours(place, status)
    if status.st_mode & 0o077:
        _close(place, status)
    return path


def _close(path: Path, status: os.stat_result) -> None:
    """Close a directory of ours to others; what they could read only, a read-only file system may keep."""
    try:
        path.chmod(0o700)
    except OSError:
        if status.st_mode & 0o022:
            raise
    if _others_write(status):
        import shutil  # noqa: PLC0415 - rarely needed, and each start of a rank's program counts

        for inner in path.iterdir():
            if inner.is_dir() and not inner.is_symlink():
                shutil.rmtree(inner)
            else:
                inner.unlink()


def _check_closed(path: Path, status: os.stat_result) -> None:
    _check_ours(path, status)
    if status.st_mode & 0o077:
        raise PermissionError(f"{path} is open to others (mode {stat.S_IMODE(status.st_mode):04o})")


def _check_ours(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{path} is not a directory")
    _check_owner(path, status, {os.getuid()})


def _check_closed_to_writers(path: Path, status: os.stat_result) -> None:
    if _others_write(status) and not status.st_mode & stat.S_ISVTX:
        raise PermissionError(f"{path} can be changed by others (mode {stat.S_IMODE(status.st_mode):04o})")


def _check_owner(path: Path, status: os.stat_result, trusted: set[int]) -> None:
    if status.st_uid not in trusted:
        raise PermissionError(f"{path} belongs to user {status.st_uid}, not to you ({os.getuid()})")


def _others_write(status: os.stat_result) -> bool:
    """Whether others may write to a directory; a group of ours alone, as umask 002 supposes, is no other."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_ours_alone(status.st_gid)


def _is_ours_alone(group: int) -> bool:
    """Whether a group is of this user only, and has its name; never root's, which administrators share."""
    import grp  # noqa: PLC0415 - rarely needed
    import pwd  # noqa: PLC0415

    try:
        user, entry = pwd.getpwuid(os.getuid()), grp.getgrgid(group)
    except KeyError:
        return False
    return (
        user.pw_uid != 0
        and user.pw_gid == group
        and entry.gr_name == user.pw_name
        and set(entry.gr_mem) <= {user.pw_name}
    )
