"""The run directory: where one run keeps its socket, its journal and its temporary files.

``<runtime directory>/lockstep-<uid>/<run id>/``, readable by its user alone. The driver holds
a lock on it for as long as it lives, which tells a run in progress from a leftover without
trusting a pid. The journal is written ahead: what has to be undone is noted before it is done.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coordinator.processes import DIRECTORY, RUN
from workloads.validation import InputError

HEAD_START_S = 30.0
"""By how much ranks may be ahead of the agent of their node."""

RUN_ID = re.compile("[0-9a-f]{8}")
"""How runs are named."""

SOCKET_PATH_BYTES = 107
"""The longest path of a UNIX socket (sun_path less its final zero)."""


def home() -> Path:
    """The directory of all runs of this user; it may not exist yet."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not (runtime and Path(runtime).is_dir() and os.access(runtime, os.W_OK)):
        runtime = tempfile.gettempdir()
    return Path(runtime) / f"lockstep-{os.getuid()}"


class RunDirectory:
    """One run's directory. Its name is the run's id."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.run = path.name
        self._lock: int | None = None

    @classmethod
    def create(cls) -> RunDirectory:
        """A new directory, locked by the caller until the caller ends or unlocks it.

        Raises:
            InputError: if a UNIX socket in it would have too long a path, or if another
                user owns the place.
        """
        parent = home()
        directory = cls(parent / secrets.token_hex(4))
        if len(os.fsencode(directory.socket)) > SOCKET_PATH_BYTES:
            raise InputError(
                "XDG_RUNTIME_DIR",
                str(parent.parent),
                f"a socket below it must have a path of at most {SOCKET_PATH_BYTES} bytes",
                "set XDG_RUNTIME_DIR or TMPDIR to a directory with a shorter path",
            )
        with locked_home():
            directory.path.mkdir(mode=0o700)
            directory._lock = os.open(directory.path, os.O_RDONLY)
            fcntl.flock(directory._lock, fcntl.LOCK_EX)
        directory.note(run=directory.run, made_s=time.time())
        directory.temporary.mkdir()
        return directory

    @classmethod
    def adopt(cls, path: Path) -> RunDirectory:
        """The directory at ``path``: the driver's, or on another host one made and locked here.

        Raises:
            OSError: if it can be neither used nor made.
        """
        directory = cls(path)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            path.mkdir(mode=0o700)
            directory._lock = os.open(path, os.O_RDONLY)
            fcntl.flock(directory._lock, fcntl.LOCK_EX)
            # Ranks may have come before their agent.
            directory.note(run=directory.run, made_s=time.time() - HEAD_START_S)
            directory.temporary.mkdir()
        return directory

    @property
    def socket(self) -> Path:
        """Where the agent listens for ranks."""
        return self.path / "agent"

    @property
    def hub(self) -> Path:
        """Where the driver listens for an agent on its own host."""
        return self.path / "hub"

    @property
    def history(self) -> Path:
        """What a driver of several nodes leaves for another one (``coordinator.history``)."""
        return self.path / "history"

    @property
    def temporary(self) -> Path:
        """TMPDIR of everything that the run starts."""
        return self.path / "tmp"

    @property
    def marks(self) -> dict[str, str]:
        """Variables that every process of the run carries."""
        return {RUN: self.run, DIRECTORY: str(self.path), "TMPDIR": str(self.temporary)}

    def log(self, name: str) -> Path:
        """Where the output of the part called ``name`` goes."""
        return self.path / f"{name}.log"

    def status(self, job: int) -> Path:
        """Where the exit status of a job's launcher goes, if another driver may want to know it."""
        return self.path / f"job-{job}.status"

    def records(self, job: int) -> Path:
        """Where the program of a job that counts its waits itself leaves a record of each rank."""
        return self.path / f"records-{job}"

    def note(self, **entry: Any) -> None:
        """Add a line to the journal. One write, so that a reader sees all of it or nothing."""
        descriptor = os.open(self.path / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, json.dumps(entry).encode() + b"\n")
        finally:
            os.close(descriptor)

    def notes(self) -> list[dict[str, Any]]:
        """The lines of the journal; none if it is gone."""
        try:
            lines = (self.path / "journal").read_bytes().splitlines()
        except OSError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):
                entries.append(json.loads(line))
        return [entry for entry in entries if isinstance(entry, dict)]

    @property
    def ours(self) -> bool:
        """Whether this is a run's directory, made by this user and open to nobody else."""
        parent = self.path.parent
        if not RUN_ID.fullmatch(self.run) or parent.name != f"lockstep-{os.getuid()}":
            return False
        if not (self.path.is_absolute() and _is_private(parent) and _is_private(self.path)):
            return False
        if notes := self.notes():
            return "made_s" in notes[0] and notes[0].get("run") == self.run
        try:
            names = {path.name for path in self.path.iterdir()}
        except OSError:
            return False
        return names <= {"journal"}  # its driver did not get any further

    def in_use(self) -> bool:
        """Whether the driver of the run is alive."""
        trial = RunDirectory(self.path)
        taken = trial.take()
        trial.unlock()
        return not taken and self.path.exists()

    def take(self) -> bool:
        """Take the lock of a driver that has ended; returns whether nobody had been faster."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def unlock(self) -> None:
        """Give up the lock that ``create`` or ``take`` took."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remove(self) -> bool:
        """Remove the directory with all that is in it; returns whether there was one."""
        there = self.path.exists()
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self.path.parent.rmdir()
        return there


def _is_private(path: Path) -> bool:
    """Whether ``path`` is a directory of this user, and of nobody else."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077


@contextmanager
def locked_home() -> Iterator[Path]:
    """Keep others from creating runs, so that a directory just made is not taken for a leftover.

    Raises:
        InputError: if the directory of all runs is not ours alone.
    """
    parent = home()
    while True:
        parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(parent, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            found = os.fstat(descriptor)
            if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
                raise InputError(
                    "XDG_RUNTIME_DIR",
                    str(parent.parent),
                    f"{parent} must belong to you alone (mode 0700)",
                    "remove it, or set XDG_RUNTIME_DIR or TMPDIR to a directory of your own",
                )
            # The last run of another process may have removed the directory meanwhile.
            if parent.exists() and os.path.samestat(found, parent.stat()):
                yield parent
                return
        finally:
            os.close(descriptor)
