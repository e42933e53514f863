"""The log of a run, for a driver that takes over: the beginning of the run, and its events.

Policies are pure, so the same events lead a new conductor to the same decisions. The file exists during the
run, in its directory, where its user alone can write. Only the same version on the same host reads it, and
the reader refuses a line that is none of the dataclasses in ``events``.
"""

import os
import stat
import time
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any

from coordinator.decide.conductor import Conductor
from coordinator.drive.nodes import Contacts
from coordinator.drive.preflight import LaunchPlan
from coordinator.host.launchers import LAUNCHERS, Launcher
from coordinator.host.rundir import RunDirectory
from coordinator.policies import Policy, known
from coordinator.wire.line_format import LineError, LineFormat, by_name
from coordinator.workload import KINDS, Switch, Workload
from workloads.work import Work

VERSION = 2  # version of the file's format


@dataclass(frozen=True)
class Beginning:
    """The beginning of a run: workload, launch plan, contacts of the agents, start, and deadline."""

    workload: Workload
    launch_plan: LaunchPlan
    contacts: Contacts
    origin_ns: int
    give_up_ns: int


@dataclass(frozen=True)
class Guarded:
    """The driver has a guardian."""

    pid: int


@dataclass(frozen=True)
class Launched:
    """A job's launcher has started."""

    job: int
    pid: int


@dataclass(frozen=True)
class Ready:
    """All processes of a job wait at their first line."""

    job: int
    at_ns: int


@dataclass(frozen=True)
class Evolved:
    """A job can use so many processes from now on."""

    job: int
    processes: int


@dataclass(frozen=True)
class Observed:
    """A rank of a job gets messages often from ``peers``, and from no other rank."""

    job: int
    rank: int
    peers: tuple[int, ...]


@dataclass(frozen=True)
class Left:
    """A job has finished or failed; ``records`` are the records of its ranks."""

    job: int
    failure: str
    records: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Lost:
    """A node is lost, with its processors: jobs that had begun there fail, others are displaced."""

    node: int
    processors: tuple[int, ...]
    why: str
    failed: tuple[int, ...]
    displaced: tuple[int, ...]


@dataclass(frozen=True)
class Advanced:
    """The conductor decided about what it had heard by then, and about what was due."""

    at_ns: int


@dataclass(frozen=True)
class Switched:
    """An agent has reported slot switches."""

    switches: tuple[Switch, ...]


Event = Guarded | Launched | Ready | Evolved | Observed | Left | Lost | Advanced | Switched

BEGINNING = LineFormat(
    by_name(Beginning), VERSION, kinds={Policy: known().values(), Work: KINDS, Launcher: LAUNCHERS.values()}
)
EVENT = LineFormat(by_name(*typing.get_args(Event)), VERSION)


def tell(conductor: Conductor, event: Event) -> None:
    match event:
        case Ready(job, at_ns):
            conductor.ready(job, at_ns)
        case Evolved(job, processes):
            conductor.evolve(job, processes)
        case Observed(job, rank, peers):
            conductor.observe(job, rank, peers)
        case Left(job):
            conductor.leave(job)
        case Lost(_, processors, _, failed):
            conductor.lose(processors, failed)
        case Advanced(at_ns):
            conductor.advance(at_ns)


def beginning(path: Path) -> Beginning:
    """The beginning of a run."""
    begun: Beginning = _lines(path, 1)[0]
    return begun


def events(path: Path) -> tuple[list[Event], int]:
    """The events since the beginning, and the size of the complete lines, in bytes."""
    _, *happened, size = _lines(path)
    return happened, size


def _lines(path: Path, most: int | None = None) -> list[Any]:
    """The beginning and the events in the first ``most`` complete lines, then their size in bytes."""
    whole = [line for line in _read(path).splitlines(keepends=True) if line.endswith(b"\n")][:most]
    try:
        first, *others = whole or [b""]
        return [BEGINNING.decode(first), *map(EVENT.decode, others), sum(map(len, whole))]
    except LineError as error:
        raise OSError(f"{path} is not the history of a run of this version: {error}") from error


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(f"{path} is not a file that belongs to you alone")
        return file.read()


class Writer:
    """Writes the log of a run. It never fails: without room, it removes the log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._early: list[Event] = []
        self._file: FileIO | None = None

    def begin(self, beginning: Beginning) -> None:
        """Begin the log; from now on another driver can take over."""
        coming = self._path.with_suffix(".new")
        with suppress(OSError):
            # It holds keys.
            self._file = FileIO(coming, "w", opener=lambda path, flags: os.open(path, flags, 0o600))
            self._write(BEGINNING.encode(beginning), *map(EVENT.encode, self._early))
            coming.rename(self._path)
        self._early = []

    def go_on(self, size: int) -> None:
        """Continue another driver's log after ``size`` bytes, and cut off an incomplete last line."""
        with suppress(OSError):
            os.truncate(self._path, size)
            self._file = FileIO(self._path, "a")
            self._write(*map(EVENT.encode, self._early))

    def add(self, event: Event) -> None:
        """Write an event, before the driver handles it."""
        if self._file is None:
            self._early.append(event)
            return
        try:
            self._write(EVENT.encode(event))
        except OSError:
            self.end()

    def _write(self, *lines: bytes) -> None:
        assert self._file is not None
        text = b"".join(lines)
        if self._file.write(text) < len(text):
            raise OSError("no room for all of it")

    def end(self) -> None:
        """Remove the log; from now on no driver can take over."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


WARNINGS = 20  # a run keeps its first warnings, at most so many

Progress = Callable[[str], None]


class RunFailed(Exception):  # noqa: N818 - names an outcome, not a mistake
    """The run as a whole cannot continue."""


@dataclass
class RunContext:
    """One run.

    ``progress`` gets a message about each step. ``give_up_ns`` is the deadline of the run, ``origin_ns`` its
    start, None before, both in CLOCK_MONOTONIC. ``switches`` are the slot switches that agents have reported.
    """

    directory: RunDirectory
    workload: Workload
    launch_plan: LaunchPlan
    progress: Progress
    give_up_ns: int
    origin_ns: int | None = None
    warnings: list[str] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = Writer(self.directory.history)

    @property
    def remote(self) -> bool:
        """Whether the run names its nodes; only then can another driver take it over."""
        return bool(self.workload.nodes)

    def warn(self, text: str) -> None:
        """Report a fault that does not end the run, and add it to the result."""
        self.progress(text)
        if text not in self.warnings and len(self.warnings) < WARNINGS:
            self.warnings.append(text)

    def note(self, event: Event) -> None:
        if self.remote:
            self.log.add(event)

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.origin_ns if self.origin_ns is not None else 0
