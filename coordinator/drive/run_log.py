"""What a driver leaves behind for another one that takes its run over: how it began, and what happened.

Policies are pure, so the same events bring a new conductor to the same decisions. The file lies
in the run directory, where its user alone can write, and is there from the start of the run to
its end; it is read by the same version on the same host. It holds data only: a line becomes one of
the dataclasses below, or is refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Plan, Session
from coordinator.drive.nodes import Contacts
from coordinator.drive.outcome import Part
from coordinator.drive.preflight import Means
from coordinator.policies import Policy, known
from coordinator.view import Job
from coordinator.wire.plain_data import NotPlain, Plain
from coordinator.workload import Switch, Workload

VERSION = 1
"""Of the file."""


@dataclass(frozen=True)
class Beginning:
    """How a run began: what is run with what, by whom on the nodes, since when and until when at most."""

    workload: Workload
    means: Means
    contacts: Contacts
    origin_ns: int
    give_up_ns: int


@dataclass(frozen=True)
class Guarded:
    """The driver has a guardian."""

    pid: int


@dataclass(frozen=True)
class Launched:
    """A job's launcher has been started."""

    job: int
    pid: int


@dataclass(frozen=True)
class Ready:
    """All processes of a job wait at their first line."""

    job: int
    at_ns: int


@dataclass(frozen=True)
class Left:
    """A job has finished or failed; ``records`` are those of its ranks."""

    job: int
    at_ns: int
    failure: str
    records: Mapping[int, Mapping[str, Any]]


@dataclass(frozen=True)
class Lost:
    """A node is lost, with its processors and the jobs that had begun there; others are displaced."""

    node: int
    processors: tuple[int, ...]
    why: str
    at_ns: int
    failed: tuple[int, ...]
    displaced: tuple[int, ...]


@dataclass(frozen=True)
class Advanced:
    """Time has passed, and something foreseeable was due."""

    at_ns: int


@dataclass(frozen=True)
class Switched:
    """Changes of slot have been reported."""

    switches: tuple[Switch, ...]


Event = Guarded | Launched | Ready | Left | Lost | Advanced | Switched

BEGINNING = Plain(Beginning, VERSION, {Policy: known().values()})
EVENT = Plain(Event, VERSION)


def tell(conductor: Conductor, event: Event) -> None:
    """Have the conductor draw the consequences of an event, if it has any for what is decided."""
    match event:
        case Ready(job, at_ns):
            conductor.ready(job, at_ns)
        case Left(job, at_ns):
            conductor.leave(job, at_ns)
        case Lost(_, processors, _, at_ns, failed):
            conductor.lose(processors, at_ns, failed)
        case Advanced(at_ns):
            conductor.advance(at_ns)


class History:
    """The file as its driver writes it. It never fails: without room for it there is none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events: list[Event] = []
        self._file: FileIO | None = None

    def begin(self, beginning: Beginning) -> None:
        """From now on another driver can follow."""
        coming = self._path.with_suffix(".new")
        with suppress(OSError):
            self._file = FileIO(coming, "w", opener=_private)
            self._write(BEGINNING.encode(beginning), *map(EVENT.encode, self._events))
            coming.rename(self._path)
        self._events = []

    def go_on(self, size: int) -> None:
        """Write on where another driver has ended; what it could not write whole is cut off."""
        with suppress(OSError):
            os.truncate(self._path, size)
            self._file = FileIO(self._path, "a")
            self._write(*map(EVENT.encode, self._events))

    def add(self, event: Event) -> None:
        """Note an event before anything is done about it."""
        if self._file is None:
            self._events.append(event)
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
        """From now on nobody can follow."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)  # there are keys in it


def beginning(path: Path) -> Beginning:
    """How a run began.

    Raises:
        OSError: if that cannot be read, for example because the run has not begun or is over, or
            if somebody else may have written it.
    """
    found: Beginning = _past(path, 1)[0]
    return found


def events(path: Path) -> tuple[list[Event], int]:
    """What has happened since the beginning, and the size of the file up to there, in bytes.

    Raises:
        OSError: as ``beginning``.
    """
    _, *found, size = _past(path)
    return found, size


def _past(path: Path, most: int | None = None) -> list[Any]:
    """The first ``most`` whole lines of the file, and their size; at least the beginning."""
    whole = [line for line in _read(path).splitlines(keepends=True) if line.endswith(b"\n")][:most]
    try:
        found = [(EVENT if number else BEGINNING).decode(line) for number, line in enumerate(whole or [b""])]
    except NotPlain as error:
        raise OSError(f"{path} is not the history of a run of this version: {error}") from error
    return [*found, sum(map(len, whole))]


def _read(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise PermissionError(f"{path} is not a file that belongs to you alone")
        return file.read()


class Replay:
    """A run as its driver left it, found without doing anything.

    Attributes:
        conductor: has decided what that driver's has; it needs another crew.
        parts: what is known of each job, but not its launcher.
        guardian: pid of that driver's.
        launchers: pids of the launchers of the jobs that are launched, by job.
        lost: why nodes are lost, by their number.
        switches: reported so far.
    """

    def __init__(
        self,
        session: Session,
        jobs: Sequence[Job],
        lead_ns: int,
        node_of: Sequence[int],
        events: Iterable[Event],
    ) -> None:
        self.parts = {job.number: Part() for job in jobs}
        self.guardian = 0
        self.launchers: dict[int, int] = {}
        self.lost: dict[int, str] = {}
        self.switches: list[Switch] = []
        self.conductor = Conductor(session, jobs, self, lead_ns, node_of)
        self.conductor.prepare()
        for event in events:
            self._take_in(event)
            tell(self.conductor, event)

    def _take_in(self, event: Event) -> None:
        match event:
            case Guarded(pid):
                self.guardian = pid
            case Launched(job, pid):
                self.launchers[job] = pid
            case Ready(job):
                self.parts[job].ready = set(range(self.parts[job].processes))
            case Left(job, _, failure, records):
                self.parts[job].failure, self.parts[job].records = failure, dict(records)
            case Lost(node, _, why, _, failed, displaced):
                self.lost[node] = why
                for job in failed:
                    self.parts[job].failure = why
                for job in displaced:
                    self._forget(job)
            case Switched(switches):
                self.switches += switches

    def _forget(self, job: int) -> None:
        self.parts[job] = Part()
        self.launchers.pop(job, None)

    # As the conductor's crew.

    def launch(self, job: int, placement: tuple[int, ...]) -> None:
        """It was launched, or was about to be."""
        self._forget(job)
        self.parts[job].placement = placement

    def publish(self, plan: Plan, from_ns: int) -> None:
        """The agents know, or will be told."""

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        """It has begun."""
        self.parts[job].placement, self.parts[job].begun = placement, True

    def resize(self, job: int, placement: tuple[int, ...]) -> None:
        """There are no malleable jobs on several nodes."""
