"""The run directory: where one run keeps its socket, its journal and its temporary files.

``<runtime directory>/lockstep-<uid>/<run id>/``, readable by its user alone. The driver holds
a lock on it for as long as it lives, which tells a run in progress from a leftover without
trusting a pid. The journal is written ahead: what has to be undone is noted before it is done.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coordinator.host import identity
from coordinator.host.caretaker import Caretaker
from coordinator.host.journal import Journal
from coordinator.host.ownership import check_own, check_way
from coordinator.host.processes import DIRECTORY, KEEPER, RUN
from coordinator.host.runs_home import as_input, home, locked, locked_home, remove_home
from workloads.validation import InputError

HEAD_START_S = 30.0
"""How much earlier than the agent of their node ranks may start."""

RUN_ID = re.compile("[0-9a-f]{8}")
"""How runs are named."""

SOCKET_PATH_BYTES = 107
"""The longest path of a UNIX socket (sun_path less its final zero)."""


def this_host() -> str:
    """Its name, and the id of its boot, which tells it from others of that name."""
    return f"{socket.gethostname()} {identity.boot()}"


class OtherHostError(OSError):
    """A run directory was made on another host, which sees the same files."""


class RunDirectory:
    """One run's directory. Its name is the run's id."""

    def __init__(self, path: Path, shown: Path | None = None) -> None:
        self.path = path
        self.run = path.name
        self._shown = shown or path
        self._lock: int | None = None
        self._journal = Journal(path / "journal")
        self._caretaker: Caretaker | None = None

    def __str__(self) -> str:
        return str(self._shown)

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
        with locked_home(), as_input(parent):
            directory._make(time.time())
        return directory

    @classmethod
    def adopt(cls, path: Path) -> RunDirectory:
        """The directory at ``path``: the driver's, or on another host one made and locked here.

        Raises:
            OtherHostError: if another host made it, which shares its files with this one.
            OSError: if it can be neither used nor made, or somebody else could change it.
        """
        directory = cls(path)
        with locked(path.parent):
            if path.exists():
                check_own(path)
                directory._check_host()
                directory.keep()
            else:  # and ranks may have come before their agent
                directory._make(time.time() - HEAD_START_S)
        return directory

    def _make(self, made_s: float) -> None:
        """Make it, and lock it. The directory of all runs is locked meanwhile."""
        self._caretaker = Caretaker(self.path)
        try:
            self.path.mkdir(mode=0o700)
        except OSError:
            self.unlock()
            raise
        try:
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.note(run=self.run, made_s=made_s, host=this_host())
            self.keep()
            self.temporary.mkdir()
        except OSError:
            with suppress(OSError):
                self.remove()
            self.unlock()
            raise

    def _check_host(self) -> None:
        (made, *_) = [note["host"] for note in self.notes() if "host" in note] or [this_host()]
        if made != this_host():
            other = str(made).partition(" ")[0]
            raise OtherHostError(
                f"{self.path.parent.parent} is a directory of {other} as well, and sockets "
                "of both would collide: set XDG_RUNTIME_DIR or TMPDIR to one that each host has for itself"
            )

    def entrust(self) -> None:
        """Another process answers for it from now on: it will release the run if we are killed."""
        if self._caretaker is not None:
            self._caretaker.dismiss()
            self._caretaker = None

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
        """The log that a driver of several nodes leaves for another one (``coordinator.drive.run_log``)."""
        return self.path / "history"

    @property
    def temporary(self) -> Path:
        """TMPDIR of everything that the run starts."""
        return self.path / "tmp"

    @property
    def marks(self) -> dict[str, str]:
        """Variables that every process of the run carries."""
        ours = {RUN: self.run, DIRECTORY: str(self.path), "TMPDIR": str(self.temporary)}
        known = os.environ.get(KEEPER) if self._lock is None else identity.name(os.getpid())
        return ours | ({KEEPER: known} if known else {})

    def log(self, name: str) -> Path:
        """Where the output of the part called ``name`` goes."""
        return self.path / f"{name}.log"

    def status(self, job: int) -> Path:
        """Where the exit status of a job's launcher goes, if another driver may want to know it."""
        return self.path / f"job-{job}.status"

    def records(self, job: int) -> Path:
        """Where the library that waits in the programs of a job leaves a record of each rank."""
        return self.path / f"records-{job}"

    def note(self, **entry: Any) -> None:
        """Add a line to the journal.

        Raises:
            OSError: if there is no room for all of it.
        """
        self._journal.add(entry)

    def note_process(self, pid: int, job: int | None = None) -> None:
        """Note a process that has been started or taken over, unless it is gone or there is no room.

        It is found by its mark as well, if that can be read.
        """
        with suppress(OSError):
            if name := identity.name(pid):
                self.note(process=name, job=job)

    def note_launcher(self, pid: int) -> None:
        """Note a launcher outside the run: what it has made for a program of the run belongs to the run."""
        with suppress(OSError):
            self.note(launcher=identity.name(pid))

    def notes(self) -> list[dict[str, Any]]:
        """The lines of the journal, whatever they say; none if it is gone."""
        return self._journal.entries()

    def keep(self) -> None:
        """Hold on to the journal: from now on it can be read and written even if the directory vanishes.

        Raises:
            OSError: if there is none.
        """
        self._journal.keep()

    def check(self) -> None:
        """See to it that this is a run's directory, which nobody but us can have made or changed.

        Raises:
            OSError: if it is not, or not there; the message says why.
        """
        self._check_name()
        check_way(self.path.parent.parent)
        check_own(self.path.parent)
        self._check_inside()

    def _check_name(self) -> None:
        if not (RUN_ID.fullmatch(self.run) and self.path.parent.name == f"lockstep-{os.getuid()}"):
            raise OSError(f"{self.path} is not where a run of yours would be")

    def _check_inside(self) -> None:
        check_own(self.path)
        if notes := self.notes():
            fits = "made_s" in notes[0] and notes[0].get("run") == self.run
        else:  # its driver did not get any further
            fits = {path.name for path in self.path.iterdir()} <= {"journal"}
        if not fits:
            raise OSError(f"{self.path} has no journal of run {self.run}")

    @contextmanager
    def seen_by(self, pid: int) -> Iterator[RunDirectory]:
        """The directory that a process of ours finds at this path, which here may be another one, or none.

        It can be used as long as this lasts, also after the end of the process.

        Raises:
            OSError: as for ``check``; whether somebody could change the way is not looked at.
        """
        self._check_name()
        *_, parent, run = self.path.parts
        there = os.open(f"/proc/{pid}/root{self.path.parents[1]}", os.O_PATH | os.O_DIRECTORY)
        try:
            found = RunDirectory(Path(f"/proc/self/fd/{there}", parent, run), shown=self.path)
            check_own(found.path.parent)
            found._check_inside()
            yield found
        finally:
            os.close(there)

    @property
    def ours(self) -> bool:
        """Whether ``check`` finds nothing."""
        try:
            self.check()
        except OSError:
            return False
        return True

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
        """Give up the lock that ``create`` or ``take`` took, and the journal; it stays as it is if we end."""
        self._journal.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self.entrust()

    def remove(self) -> bool:
        """Remove the directory with all that is in it; returns whether there was one.

        Raises:
            OSError: if a part of it cannot be removed.
        """
        if not self.path.exists():
            remove_home(self.path.parent)
            return False
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():  # a program may have taken its own access to what it has made
            for top, inner, _ in os.walk(self.path):
                for path in (Path(top, name) for name in inner):
                    if not path.is_symlink():
                        path.chmod(0o700)
            shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():
            raise OSError(errno.ENOTEMPTY, "it is still there, or something in it", str(self))
        remove_home(self.path.parent)
        return True
