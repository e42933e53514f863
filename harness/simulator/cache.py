"""The directory that keeps the kernels' machine code between runs.

Numba compiles a function again if the function's own file changes, but not if another file
changes whose functions it contains. It would then simulate an old waiting rule. So the name of
the directory is a digest of all compiled sources and of the compilers' versions: the directory
never holds code from other sources.
"""

import errno
import hashlib
import os
import platform
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

from coordinator import policies, view
from coordinator.host.directories import DirectoryGuardian
from workloads import machine, options, waiting_rules
from workloads.locks import lock_program
from workloads.own_directories import open_own, private

COMPILERS = ("numba", "llvmlite", "numpy")

ROOM_BYTES = 8 << 20  # more than all kernels take

_opened: dict[tuple[int, int], int] = {}
"""Descriptors of directories that were checked, by device and inode; code is loaded through them."""

_guardians: list[DirectoryGuardian] = []


def directory() -> Path:
    """A writable directory for code compiled from the present sources; no other user can write to it.

    It lies in $NUMBA_CACHE_DIR, else in the user's cache directory. If neither can have one, it is
    a temporary directory, which goes with this process. The path leads through an open
    descriptor: what another user puts in the place of the directory later is not found.
    """
    return _found()[0]


def refusal() -> str:
    """Why compiled code is not kept for later runs, in a sentence; empty if it is."""
    reason = _found()[1]
    return (
        f"compiled code is not kept: {reason}; set XDG_CACHE_HOME to a directory of your own"
        if reason
        else ""
    )


def _found() -> tuple[Path, str]:
    """The directory, and why it is a temporary one; empty if it is not."""
    name = f"kernels-{digest()[:24]}"
    whys = list[str]()
    for base, ours in _bases():
        try:
            path = private((private(base) if ours else base) / name)
            with tempfile.TemporaryFile(dir=path):
                _check_room(path)
                return _held(open_own(path)), ""
        except OSError as error:
            whys.append(str(error))
    return _temporary(), "; ".join(whys) or "there is no home directory"


def _check_room(path: Path) -> None:
    """Refuse a directory that holds nothing yet, and has no room for it."""
    room = os.statvfs(path)
    if room.f_bavail * room.f_frsize < ROOM_BYTES and not any(path.glob("*/*.nbc")):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def holds(function: str) -> bool:
    """Whether the directory holds ``function`` ("file.name"), compiled from the present sources."""
    return any(directory().glob(f"*/{function}-*.nbc"))


def _bases() -> list[tuple[Path, bool]]:
    """Directories that may hold ours, and whether they are Lockstep's own."""
    places = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "lockstep", "HOME": ".cache/lockstep"}
    named = ((os.environ.get(name, ""), below) for name, below in places.items())
    return [(Path(place) / below, bool(below)) for place, below in named if place]


@cache
def _temporary() -> Path:
    """A directory that goes with this process, however it ends."""
    path = Path(tempfile.mkdtemp(prefix="lockstep-kernels-")) / "kernels"
    _guardians.append(DirectoryGuardian(path))  # it also removes the one above
    path.mkdir(mode=0o700)
    held = _held(open_own(path))
    if any(held.iterdir()):  # where others may change the directory of temporary files, this is another one
        raise PermissionError(f"{path} was exchanged: set TMPDIR to a directory that others cannot change")
    return held


def _held(descriptor: int) -> Path:
    """The path of a directory through its descriptor, of which one stays open."""
    status = os.fstat(descriptor)
    kept = _opened.setdefault((status.st_dev, status.st_ino), descriptor)
    if kept != descriptor:
        os.close(descriptor)
    return Path(f"/proc/self/fd/{kept}")


def digest() -> str:
    """SHA-256 of all compiled sources, the compilers' versions and Python's."""
    rooms = (Path(__file__).parent, Path(policies.__file__).parent)
    digest = hashlib.sha256()
    leaves = (Path(str(module.__file__)) for module in (waiting_rules, view, lock_program, machine, options))
    for source in (*(file for room in rooms for file in sorted(room.rglob("*.py"))), *leaves):
        digest.update(source.name.encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    versions = [f"{name} {version(name)}" for name in COMPILERS]
    digest.update(" ".join([platform.python_version(), *versions]).encode())
    return digest.hexdigest()
