"""Checks that no other user can change a path.

All users share the directory for temporary files, and any of them can take a name first. So before
we read or lock anything, we check each directory on the path, as ssh does for its keys.

The directory guardian removes a run directory if its maker is killed before another process takes over.

A shell that waits for a word. It starts before the directory and its parent exist, within a millisecond.
"""

from __future__ import annotations

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self


def check_way(path: Path) -> None:
    """Check that only root and we can replace ``path``.

    It follows symbolic links and checks every directory that they lead through.
    """
    place, names, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    # The owner of the root directory can replace anything; in a namespace without root it has another id.
    trusted = {0, os.getuid(), place.stat().st_uid}
    while True:
        found = place.lstat()
        _check_owner(place, found, trusted)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > 40:
                raise OSError(f"{path} leads through too many symbolic links")
            target = place.readlink()
            names += reversed(target.parts)
            place = place.parent
        elif found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
            mode = stat.S_IMODE(found.st_mode)
            raise PermissionError(f"{place} can be changed by others (mode {mode:04o})")
        if not names:
            return
        name = names.pop()
        place = place.parent if name == ".." else place / name


def check_own(path: Path) -> None:
    """Check that ``path`` is a directory that belongs to us and is closed to others."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{path} is not a directory")
    _check_owner(path, found, {os.getuid()})
    if found.st_mode & 0o077:
        raise PermissionError(f"{path} is open to others (mode {stat.S_IMODE(found.st_mode):04o})")


def _check_owner(path: Path, found: os.stat_result, trusted: set[int]) -> None:
    if found.st_uid not in trusted:
        raise PermissionError(f"{path} belongs to user {found.st_uid}, not to you ({os.getuid()})")


_SCRIPT = """read -r word && exit
exec 9< "$1" && rm -rf -- "$0" && flock -n 9 && [ "$1" -ef /dev/fd/9 ] && rmdir -- "$1"
"""
# A run that begins now holds the lock of the parent directory. flock gets the parent as a descriptor: given
# a name, flock would make a file if the directory had vanished meanwhile.


class DirectoryGuardian:
    """Removes the directory if this process ends before it calls ``dismiss``."""

    def __init__(self, path: Path) -> None:
        heard, self._word = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, str(path), str(path.parent)],
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                stdin=heard,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self._word)
            raise
        finally:
            os.close(heard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.dismiss()

    def dismiss(self) -> None:
        """End the directory guardian: another process takes over the directory, or it is gone."""
        with suppress(OSError):  # somebody has killed it
            os.write(self._word, b"go\n")
        os.close(self._word)
        self._shell.wait()
