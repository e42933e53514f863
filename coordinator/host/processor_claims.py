"""Claims: public notices of the processors that runs, and series of runs, use on a host.

A claim is a socket in the abstract namespace that nobody connects to: its name holds the claim, and
/proc/net/unix shows the names of all users' sockets. The kernel removes the socket with its process, so
a kill leaves nothing behind. Anybody can make such a name, so a claim justifies a warning, or a wait that the
user can end. Claims in other network namespaces are invisible.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from coordinator.topology import ranges, runs

SOCKETS = Path("/proc/net/unix")

NAME = re.compile(rb"@lockstep-([a-z]{1,16})/(\d{1,10})/([0-9a-f.]{1,16})/([0-9,-]{1,64})")
"""Kind of the claim, user, holder, and some of the processors, in ranges."""

RUN, SERIES = "processors", "series"
"""Kinds of claims. The holder of a run is the run's id, the holder of a series PID.RANDOM."""

RANGES = 8
"""Most ranges in one name, which has room for 107 bytes."""

HIGHEST = 1 << 16

_DISTURBED = "so the runs disturb each other"


class ProcessorClaim:
    """A claim of a run, or of a series of runs, on processors, until it is closed or its process ends."""

    def __init__(self, holder: str, processors: Iterable[int], kind: str = RUN) -> None:
        self._holder = holder
        self._processors = frozenset(processors)
        self._sockets: list[socket.socket] = []
        found = runs(self._processors)
        for place in range(0, len(found), RANGES):
            some = found[place : place + RANGES]
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
    wanted = frozenset(processors)
    found: dict[tuple[int, str], set[int]] = {}
    for user, holder, claimed in _claims(kind):
        if shared := wanted & claimed:
            found.setdefault((user, holder), set()).update(shared)
    return found


def _claims(kind: str) -> Iterator[tuple[int, str, frozenset[int]]]:
    """User, holder and processors of all claims of this kind on this host."""
    try:
        lines = SOCKETS.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        if found := NAME.fullmatch(line.rpartition(b" ")[2]):
            found_kind, user, holder, claimed = (part.decode() for part in found.groups())
            if found_kind == kind:
                yield int(user), holder, frozenset(_numbers(claimed))


def _numbers(text: str) -> Iterator[int]:
    """The numbers in ranges; the text may be anything."""
    for part in text.split(","):
        first, _, last = part.partition("-")
        with suppress(ValueError):
            yield from range(int(first), min(int(last or first) + 1, HIGHEST))
