"""Reservations: one series of runs at a time measures on a processor of a host.

A reservation is a claim of the kind SERIES (``coordinator.host.processor_claims``), which its process holds
from before its first run until after its last. A process that wants one looks for claims of others and makes
its claim while it has the gate: a socket whose name only one process of the host can have. So no two that
share a processor find it free at once. The kernel removes gate and claims with their process: a kill
releases them.
"""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from coordinator.host import identity
from coordinator.host.processor_claims import RUN, SERIES, ProcessorClaim, holders
from coordinator.topology import ranges

GATE = "\0lockstep-gate"

GATE_S = 5.0
"""How long to wait for the gate. Nobody needs it for more than milliseconds; its holder may be stopped."""


@dataclass(frozen=True)
class Rival:
    """Another Lockstep, or a run of one, that uses some processors.

    Attributes:
        name: who it is, in words.
        processors: those that it shares, in ranges.
    """

    name: str
    processors: str


class Reservation:
    """The right of this process to measure on some processors of this host, from ``take`` to ``close``."""

    def __init__(self, processors: Iterable[int]) -> None:
        self._processors = frozenset(processors)
        self._name = f"{os.getpid()}.{os.urandom(3).hex()}"
        self._claim: ProcessorClaim | None = None

    def take(self, *, anyway: bool = False) -> list[Rival]:
        """Reserve the processors if nobody uses any of them, or ``anyway``; returns who uses them."""
        with _gate():
            found = rivals(self._processors, self._name)
            if self._claim is None and (anyway or not found):
                self._claim = ProcessorClaim(self._name, self._processors, SERIES)
        return found

    def close(self) -> None:
        if self._claim:
            self._claim.close()
            self._claim = None


def rivals(processors: Iterable[int], besides: str = "") -> list[Rival]:
    """Who uses some of these processors now: series of runs, or if there is none, single runs.

    The claim of the series ``besides`` does not count.
    """
    wanted = frozenset(processors)
    series = holders(SERIES, wanted)
    series.pop((os.getuid(), besides), None)
    if series:
        found = {_lockstep(*claimant): shared for claimant, shared in sorted(series.items())}
    else:
        runs = sorted(holders(RUN, wanted).items())
        found = {f"run {run} of user {_user(user)}": shared for (user, run), shared in runs}
    return [Rival(name, ranges(shared)) for name, shared in found.items()]


def _lockstep(user: int, holder: str) -> str:
    pid = holder.partition(".")[0]
    process = identity.stat(int(pid)) if pid.isdecimal() else None
    stopped = ", which is stopped" if process and process.state == "T" else ""
    return f"Lockstep of user {_user(user)} (process {pid}{stopped})"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except (KeyError, OverflowError):
        return str(number)


@contextmanager
def _gate() -> Iterator[None]:
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
