"""The run directory ``<runtime directory>/lockstep-<uid>/<run id>``: sockets, journal, temporary files.

The driver holds a lock on it to its end, which distinguishes a run in progress from a leftover without
trusting a pid. The journal has a line of JSON for each thing to undo, written before the thing is done. Only
its user can read and write it; readers check every line nevertheless.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.host import directories, identity
from coordinator.host.directories import ReleasingShell, home, locked, remove_home
from coordinator.host.processes import DIRECTORY, KEEPER, RUN
from workloads.own_directories import check_own, check_way
from workloads.validation import InputError

MOST_BYTES = 1 << 24  # readers of a journal stop here; the largest run writes a fraction of this


HEAD_START_S = 30.0  # how much earlier than the agent of their node ranks may start
RUN_ID = re.compile("[0-9a-f]{8}")  # the ids of runs

SHARED_MEMORY = Path("/dev/shm")

SOCKET_PATH_BYTES = 107  # the longest path of a UNIX socket (sun_path without its final zero)


def this_host() -> str:
    return f"{socket.gethostname()} {identity.boot()}"


class JobLogs(NamedTuple):
    """The files with what a job's launcher prints."""

    out: Path
    err: Path


class OtherHostError(OSError):
    """Another host, which shares this host's files, made the run directory."""


class RunDirectory:
    """The directory of a run. Its name is the run's id."""

    def __init__(self, path: Path, shown: Path | None = None) -> None:
        self.path = path
        self.run = path.name
        self._shown = shown or path
        self._lock: int | None = None
        self._journal = path / "journal"
        self._kept: int | None = None
        self._shell: ReleasingShell | None = None
        self.socket = path / "agent"
        """The agent listens here for ranks."""
        self.hub = path / "hub"
        """The driver listens here for an agent on its own host."""
        self.temporary = path / "tmp"
        self.memory = SHARED_MEMORY / f"lockstep-{self.run}"
        """The directory of the jobs' directories for shared memory, outside of the run directory."""

    def __str__(self) -> str:
        return str(self._shown)

    @classmethod
    def create(cls) -> RunDirectory:
        """A new directory, locked until the caller unlocks it or ends."""
        parent = home()
        directory = cls(parent / os.urandom(4).hex())
        if len(os.fsencode(directory.socket)) > SOCKET_PATH_BYTES:
            raise InputError(
                "XDG_RUNTIME_DIR",
                str(parent.parent),
                f"a socket below it must have a path of at most {SOCKET_PATH_BYTES} bytes",
                "set XDG_RUNTIME_DIR or TMPDIR to a directory with a shorter path",
            )
        with directory._cared_for(ours=True), directories.locked_home(), directories.as_input(parent):
            directory._make(time.time())
        return directory

    @classmethod
    def adopt(cls, path: Path) -> RunDirectory:
        """The directory at ``path``: the driver's, or on another host one that this call makes and locks."""
        directory = cls(path)
        if path.exists():
            with locked(path.parent):
                check_own(path)
                directory._check_host()
                directory.keep()
            return directory
        with directory._cared_for(), locked(path.parent):
            directory._make(time.time() - HEAD_START_S)  # ranks may have started before their agent
        return directory

    @contextmanager
    def _cared_for(self, *, ours: bool = False) -> Iterator[None]:
        """A context with a releasing shell, which stays if no error leaves it; ``ours``: it is new."""
        self._shell = ReleasingShell(self.path)
        try:
            yield
        except BaseException as error:
            if ours and not isinstance(error, Exception):
                with suppress(OSError):
                    self.remove()
            self.unlock()
            raise

    def _make(self, made_s: float) -> None:
        """Make and lock the directory. The caller holds the lock of the directory of all runs."""
        self.path.mkdir(mode=0o700)
        try:
            self._lock = os.open(self.path, os.O_RDONLY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self.note(run=self.run, made_s=made_s, host=this_host())
            self.keep()
            self.temporary.mkdir()
        except OSError:
            with suppress(OSError):
                self.remove()
            raise

    def _check_host(self) -> None:
        (host, *_) = [note["host"] for note in self.notes() if "host" in note] or [this_host()]
        if host != this_host():
            other = str(host).partition(" ")[0]
            raise OtherHostError(
                f"{other} shares the directory {self.path.parent.parent}, where sockets of both hosts "
                "collide: set XDG_RUNTIME_DIR or TMPDIR to a directory that is local to each host"
            )

    def entrust(self) -> None:
        """Dismiss the releasing shell: others will release the run if we are killed."""
        if self._shell is not None:
            self._shell.dismiss()
            self._shell = None

    @property
    def signs(self) -> dict[str, str]:
        """The variables that mark every process of the run."""
        ours = {RUN: self.run, DIRECTORY: str(self.path)}
        keeper = os.environ.get(KEEPER) if self._lock is None else identity.name(os.getpid())
        return ours | ({KEEPER: keeper} if keeper else {})

    @property
    def marks(self) -> dict[str, str]:
        """The variables of processes that Lockstep itself starts for the run: its signs and its TMPDIR."""
        return self.signs | {"TMPDIR": str(self.temporary)}

    def marks_apart(self, name: str) -> dict[str, str]:
        """The marks of one launch here, with its own new TMPDIR: Open MPI up to 4.1 removes one it shares."""
        place = self.temporary / name
        place.mkdir(exist_ok=True)
        return self.signs | {"TMPDIR": str(place)}

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def logs_of(self, job: int) -> JobLogs:
        return JobLogs(self.log(f"job-{job}-out"), self.log(f"job-{job}-err"))

    def remove_job(self, job: int) -> None:
        """Remove the files of a job whose processes on this host have all ended."""
        for log in self.logs_of(job):
            log.unlink(missing_ok=True)
        own = self.path.glob(f"*-{job}")  # records, and what its ranks make there
        for path in (*own, self.temporary / str(job), self.memory / str(job)):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def records(self, job: int) -> Path:
        """The directory for the records of a job's ranks, which the preloaded library writes."""
        return self.path / f"records-{job}"

    def note(self, **entry: Any) -> None:
        """Add a line to the journal, in one write, so that a reader sees all of it or nothing."""
        line = json.dumps(entry).encode() + b"\n"
        with self._opened(os.O_WRONLY | os.O_CREAT) as descriptor:
            if os.write(descriptor, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._journal))

    def note_process(self, pid: int, job: int | None = None, key: str = "process") -> None:
        """Note a process that the run has started or taken over, unless it is gone or the disk is full."""
        with suppress(OSError):
            if name := identity.name(pid):
                self.note(**{key: name}, job=job)

    def note_launcher(self, pid: int) -> None:
        """Note a launcher outside the run: files that it made for a program of the run belong to the run."""
        with suppress(OSError):
            self.note(launcher=identity.name(pid))

    def notes(self) -> list[dict[str, Any]]:
        """The lines of the journal that are JSON objects, of any content; none if it is gone."""
        try:
            with self._opened(os.O_RDONLY) as descriptor:
                regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
                data = os.pread(descriptor, MOST_BYTES, 0) if regular else b""
        except OSError:
            return []
        notes = []
        for line in data.splitlines():
            with suppress(ValueError, RecursionError):
                notes.append(json.loads(line))
        return [entry for entry in notes if isinstance(entry, dict)]

    def keep(self) -> None:
        """Keep the journal open, so that it can be read and written even if the directory vanishes."""
        if self._kept is None:
            self._kept = self._open(os.O_RDWR)

    @contextmanager
    def _opened(self, flags: int) -> Iterator[int]:
        if self._kept is not None:
            yield self._kept
            return
        descriptor = self._open(flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, flags: int) -> int:
        # A link or a pipe may have this name.
        return os.open(self._journal, flags | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)

    def check(self) -> None:
        """Check that this is a run's directory that only we can have made or changed."""
        self._check_name()
        check_way(self.path.parent.parent)
        check_own(self.path.parent)
        self._check_inside()

    def _check_name(self) -> None:
        if not (RUN_ID.fullmatch(self.run) and self.path.parent.name == f"lockstep-{os.getuid()}"):
            raise OSError(f"{self.path} is not the path of a run of yours")

    def _check_inside(self) -> None:
        check_own(self.path)
        if notes := self.notes():
            fits = "made_s" in notes[0] and notes[0].get("run") == self.run
        else:  # its driver did not get further
            fits = {path.name for path in self.path.iterdir()} <= {"journal"}
        if not fits:
            raise OSError(f"{self.path} has no journal of run {self.run}")

    @contextmanager
    def seen_by(self, pid: int) -> Iterator[RunDirectory]:
        """The directory that our process ``pid`` sees at this path, usable inside the context."""
        self._check_name()
        *_, parent, run = self.path.parts
        there = os.open(f"/proc/{pid}/root{self.path.parents[1]}", os.O_PATH | os.O_DIRECTORY)
        try:
            directory = RunDirectory(Path(f"/proc/self/fd/{there}", parent, run), shown=self.path)
            check_own(directory.path.parent)
            directory._check_inside()
            yield directory
        finally:
            os.close(there)

    @property
    def ours(self) -> bool:
        try:
            self.check()
        except OSError:
            return False
        return True

    def in_use(self) -> bool:
        """Whether its driver holds the lock."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return self.path.exists()
        finally:
            os.close(descriptor)
        return False

    def unlock(self) -> None:
        """Give up the lock, the journal and the releasing shell; the directory stays."""
        if self._kept is not None:
            os.close(self._kept)
            self._kept = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        self.entrust()

    def remove(self) -> bool:
        """Remove the directory and its content; return whether it existed."""
        if not self.path.exists():
            remove_home(self.path.parent)
            return False
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():  # a program may have removed permissions of its directories
            for top, inner, _ in os.walk(self.path):
                for path in (Path(top, name) for name in inner):
                    if not path.is_symlink():
                        path.chmod(0o700)
            shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():
            raise OSError(errno.ENOTEMPTY, "cannot delete all of it", str(self))
        remove_home(self.path.parent)
        return True
