"""Claims: public notices of the processors that runs, and series of runs, use on a host.

A claim is a socket in the abstract namespace that no process connects to: its name holds the claim, and
/proc/net/unix shows the names of all users' sockets. The kernel removes the socket with its process. Anybody
can make such a name, so a claim justifies a warning, or a wait that the user can end.

By a reservation one series of runs at a time measures on a processor: a claim of the kind SERIES. A process
that wants one looks for claims of others and makes its claim while it has the gate, a socket whose name only
one process of the host can have: so no two that share a processor find it free at once.
"""

import os
import pwd
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from coordinator.host import identity
from coordinator.topology import ranges, runs

SOCKETS = Path("/proc/net/unix")

NAME = re.compile(rb"@lockstep-([a-z]{1,16})/(\d{1,10})/([0-9a-f.]{1,16})/([0-9,-]{1,64})")
"""Kind of the claim, user, holder, and some of the processors, in ranges."""

RUN, SERIES = "processors", "series"
"""Kinds of claims. The holder of a run is the run's id, the holder of a series PID.RANDOM."""

RANGES = 8  # most ranges in one name, which has room for 107 bytes

HIGHEST = 1 << 16

_DISTURBED = "so the runs disturb each other"


class ProcessorClaim:
    """A claim of a run, or of a series of runs, on processors, until it is closed or its process ends."""

    def __init__(self, holder: str, processors: Iterable[int], kind: str = RUN) -> None:
        self._holder = holder
        self._processors = frozenset(processors)
        self._sockets: list[socket.socket] = []
        all_ranges = runs(self._processors)
        for place in range(0, len(all_ranges), RANGES):
            some = all_ranges[place : place + RANGES]
            part = ranges(processor for first, last in some for processor in range(first, last + 1))
            bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sockets.append(bound)
            with suppress(OSError):  # others then miss it
                bound.bind(f"\0lockstep-{kind}/{os.getuid()}/{holder}/{part}")

    def others(self) -> list[str]:
        """A sentence for each other run on some of these processors."""
        return [
            f"run {run} of user {user} also uses processors {ranges(shared)}, "
            f"{_DISTURBED}: wait for its end, or use other processors"
            for (user, run), shared in sorted(holders(RUN, self._processors).items())
            if run != self._holder
        ]

    def close(self) -> None:
        for bound in self._sockets:
            bound.close()


def tells_of_another_run(sentence: str) -> bool:
    """Whether a sentence, such as a warning in a record, is one of :meth:`ProcessorClaim.others`."""
    return _DISTURBED in sentence


def holders(kind: str, processors: Iterable[int]) -> dict[tuple[int, str], set[int]]:
    """User and holder of each claim of a kind on some of these processors, with those that they share."""
    requested = frozenset(processors)
    shared_by: dict[tuple[int, str], set[int]] = {}
    for user, holder, claimed in _claims(kind):
        if shared := requested & claimed:
            shared_by.setdefault((user, holder), set()).update(shared)
    return shared_by


def _claims(kind: str) -> Iterator[tuple[int, str, frozenset[int]]]:
    """User, holder and processors of all claims of this kind on this host."""
    try:
        lines = SOCKETS.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        if match := NAME.fullmatch(line.rpartition(b" ")[2]):
            found_kind, user, holder, claimed = (part.decode() for part in match.groups())
            if found_kind == kind:
                yield int(user), holder, frozenset(_numbers(claimed))


def _numbers(text: str) -> Iterator[int]:
    """The numbers in ranges; the text may be anything."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        with suppress(ValueError):
            yield from range(int(first), min(int(last or first) + 1, HIGHEST))


GATE = "\0lockstep-gate"

GATE_S = 5.0
"""How long to wait for the gate. It is needed for milliseconds only; its holder may be stopped."""


@dataclass(frozen=True)
class Rival:
    """Another Lockstep, or a run of one, that uses some processors."""

    name: str  # the rival in words
    processors: str  # those that it shares, in ranges


class Reservation:
    """The right of this process to measure on some processors of this host, from ``take`` to ``close``."""

    def __init__(self, processors: Iterable[int]) -> None:
        self._processors = frozenset(processors)
        self._name = f"{os.getpid()}.{os.urandom(3).hex()}"
        self._claim: ProcessorClaim | None = None

    def take(self, *, no_wait: bool = False) -> list[Rival]:
        """Reserve the processors if none of them is in use, or ``no_wait``; returns the rivals there."""
        with gate():
            others = rivals(self._processors, self._name)
            if self._claim is None and (no_wait or not others):
                self._claim = ProcessorClaim(self._name, self._processors, SERIES)
        return others

    def close(self) -> None:
        if self._claim:
            self._claim.close()
            self._claim = None


def rivals(processors: Iterable[int], besides: str = "") -> list[Rival]:
    """The series of runs on these processors now, ``besides`` one, or if there is none, single runs."""
    requested = frozenset(processors)
    series = holders(SERIES, requested)
    series.pop((os.getuid(), besides), None)
    if series:
        by_name = {_lockstep(*claimant): shared for claimant, shared in sorted(series.items())}
    else:
        runs = sorted(holders(RUN, requested).items())
        by_name = {f"run {run} of user {user_name(user)}": shared for (user, run), shared in runs}
    return [Rival(name, ranges(shared)) for name, shared in by_name.items()]


def _lockstep(user: int, holder: str) -> str:
    pid = holder.partition(".")[0]
    process = identity.stat(int(pid)) if pid.isdecimal() else None
    stopped = ", which is stopped" if process and process.state == "T" else ""
    return f"Lockstep of user {user_name(user)} (process {pid}{stopped})"


def user_name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except (KeyError, OverflowError):
        return str(number)


@contextmanager
def gate() -> Iterator[None]:
    """A context in which at most one process of the host is, but for one that stays in it for GATE_S."""
    deadline_s = time.monotonic() + GATE_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as gate:
        while time.monotonic() < deadline_s:
            try:
                gate.bind(GATE)
                break
            except OSError:
                time.sleep(0.002)
        yield
