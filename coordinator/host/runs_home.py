"""The directory of all runs of a user: where it is, and its lock.

The lock keeps a run that is being made from being taken for a leftover, and the directory from
vanishing under it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from coordinator.host.ownership import check_own, check_way
from workloads.validation import InputError

LOCK_S = 20.0
"""How long another process may keep the directory of all runs locked; none needs more than milliseconds."""


def home() -> Path:
    """The directory of all runs of this user; it may not exist yet.

    Raises:
        InputError: if there is no directory for temporary files.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not (runtime and Path(runtime).is_dir() and os.access(runtime, os.W_OK)):
        try:
            runtime = tempfile.gettempdir()
        except FileNotFoundError as error:
            raise InputError(
                "TMPDIR", os.environ.get("TMPDIR"), str(error), "name one that you can write to"
            ) from error
    return Path(runtime) / f"lockstep-{os.getuid()}"


def remove_home(parent: Path) -> None:
    """Remove the directory of all runs if there is none in it, and nobody is about to make one."""
    with suppress(OSError):
        descriptor = os.open(parent, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), parent.stat()):
                parent.rmdir()
        finally:
            os.close(descriptor)


@contextmanager
def locked_home() -> Iterator[Path]:
    """Keep others from creating runs, so that a directory just made is not taken for a leftover.

    Raises:
        InputError: if the directory of all runs cannot be made, or is not ours alone.
    """
    parent = home()
    with ExitStack() as stack:
        with as_input(parent):
            stack.enter_context(locked(parent))
        yield parent


@contextmanager
def locked(parent: Path) -> Iterator[None]:
    """As ``locked_home``, for a directory of all runs wherever it is; raises OSErrors."""
    while True:
        check_way(parent.parent)
        with suppress(FileExistsError):
            parent.mkdir(mode=0o700)
        try:
            check_own(parent)
            descriptor = os.open(parent, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        except FileNotFoundError:  # the last run of another process has removed it
            continue
        try:
            _lock(descriptor, parent)
            if parent.exists() and os.path.samestat(os.fstat(descriptor), parent.stat()):
                try:
                    yield
                finally:
                    with suppress(OSError):  # there is a run in it
                        parent.rmdir()
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, parent: Path) -> None:
    """Wait for the lock of ``parent``, but not without end: its holder may be stopped.

    Raises:
        OSError: if the lock is still held after ``LOCK_S``; the message names the holder.
    """
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.002)
                continue
        inode = f":{os.fstat(descriptor).st_ino}"
        locks = map(str.split, Path("/proc/locks").read_text().splitlines())
        holders = [words[4] for words in locks if words[1] == "FLOCK" and words[5].endswith(inode)]
        raise BlockingIOError(
            f"{parent} is locked by process {', '.join(holders) or 'of another container'}, "
            f"which may be stopped, for more than {LOCK_S:g} s: continue that process (kill -CONT) or end it"
        )


@contextmanager
def as_input(parent: Path) -> Iterator[None]:
    """Say of what goes wrong with the directory of all runs which variable can help."""
    try:
        yield
    except OSError as error:
        raise InputError(
            "XDG_RUNTIME_DIR",
            str(parent.parent),
            f"no place for runs: {error}",
            "set XDG_RUNTIME_DIR or TMPDIR to a directory of your own",
        ) from error
