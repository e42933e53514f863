"""The directory of all runs of a user: its lock and its guardian.

All users share the directory for temporary files, and any of them can take a name first. So before
we read or lock anything, we check each directory on the path (``workloads.own_directories``). The lock
protects a run that is being made: no process takes it for a leftover, and the directory does not vanish
meanwhile.
"""

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from coordinator.host.environment import PYTHON, Variables, forwarded
from workloads.own_directories import check_own, check_way
from workloads.validation import InputError

_WAIT = "read -r word && exit\n"  # the word of a maker that lives

_REMOVE = """exec 9< "$1" && rm -rf -- "$0" && flock -n 9 && [ "$1" -ef /dev/fd/9 ] && rmdir -- "$1"
"""
# A run that begins now holds the lock of the parent directory. flock gets the parent as a descriptor: given
# a name, flock would make a file if the directory had vanished meanwhile.


class DirectoryGuardian:
    """Removes the directory if its maker, this process, ends before it calls ``dismiss``.

    It is a shell that waits for a word. It starts before the directory and its parent exist, within a
    millisecond.
    """

    def __init__(self, path: Path) -> None:
        self._start(_REMOVE, [str(path), str(path.parent)], {"PATH": "/usr/bin:/bin"})

    def _start(self, then: str, words: Sequence[str], variables: Variables) -> None:
        reading_end, self._word = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _WAIT + then, *words],
                env=dict(variables),
                cwd="/",
                stdin=reading_end,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self._word)
            raise
        finally:
            os.close(reading_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.dismiss()

    def dismiss(self) -> None:
        """Terminate the directory guardian: another process takes over the directory, or it is gone."""
        with suppress(OSError):  # it has been killed
            os.write(self._word, b"go\n")
        os.close(self._word)
        self._shell.wait()


class ReleasingShell(DirectoryGuardian):
    """Releases the whole run of a directory in that case (``python -m coordinator.host.release DIRECTORY``).

    It is there also where no guardian is yet, and where the guardian was killed or stopped.
    """

    def __init__(self, path: Path) -> None:
        words = [*PYTHON, "-S", "-m", "coordinator.host.release", str(path)]
        self._start('exec "$0" "$@"\n', words, forwarded({}))


LOCK_S = 20.0
"""How long another process may lock the directory of all runs; none needs more than milliseconds."""


def home() -> Path:
    """The directory of all runs of this user; it may not exist yet."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not (runtime and Path(runtime).is_dir() and os.access(runtime, os.W_OK)):
        import tempfile  # noqa: PLC0415 - guardians and agents rarely need it, and their start counts

        try:
            runtime = tempfile.gettempdir()
        except FileNotFoundError as error:
            raise InputError(
                "TMPDIR", os.environ.get("TMPDIR"), str(error), "name a directory that you can write to"
            ) from error
    return Path(runtime) / f"lockstep-{os.getuid()}"


def check_name() -> None:
    """Refuse a directory of all runs whose name is not UTF-8: the driver's address for its agent is in it."""
    place = str(home().parent)
    if any("\udc80" <= letter <= "\udcff" for letter in place):
        name = "XDG_RUNTIME_DIR" if place == os.environ.get("XDG_RUNTIME_DIR") else "TMPDIR"
        raise InputError(name, place, "must be UTF-8", "name another directory")


def remove_home(parent: Path) -> None:
    """Remove the directory of all runs if it is empty and no run is being made."""
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
    """A context in which no other process creates runs; yields the directory of all runs."""
    parent = home()
    with ExitStack() as stack:
        with as_input(parent):
            stack.enter_context(locked(parent))
        yield parent


@contextmanager
def locked(parent: Path) -> Iterator[None]:
    while True:
        check_way(parent.parent)
        with suppress(FileExistsError):
            parent.mkdir(mode=0o700)
        try:
            check_own(parent)
            descriptor = os.open(parent, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        except FileNotFoundError:  # another process has removed it after its last run
            continue
        try:
            _lock(descriptor, parent)
            if parent.exists() and os.path.samestat(os.fstat(descriptor), parent.stat()):
                try:
                    yield
                finally:
                    with suppress(OSError):  # it contains a run
                        parent.rmdir()
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, parent: Path) -> None:
    """Wait at most ``LOCK_S`` for the lock of ``parent``: its holder may be stopped."""
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
            f"process {', '.join(holders) or 'of another container'} has locked {parent} for more than "
            f"{LOCK_S:g} s, and may be stopped: continue that process (kill -CONT) or end it"
        )


@contextmanager
def as_input(parent: Path) -> Iterator[None]:
    """Turn an OSError about the directory of all runs into an InputError that names the variable to set."""
    try:
        yield
    except OSError as error:
        raise InputError(
            "XDG_RUNTIME_DIR",
            str(parent.parent),
            f"cannot hold run directories: {error}",
            "set XDG_RUNTIME_DIR or TMPDIR to a directory of your own",
        ) from error
