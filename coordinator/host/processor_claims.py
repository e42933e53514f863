"""Claims: public notices of the processors that runs use on a host.

A claim is a socket in the abstract namespace that nobody connects to: its name holds the claim, and
/proc/net/unix shows the names of all users' sockets. The kernel removes the socket with its process, so
a kill leaves nothing behind. Anybody can make such a name, so a claim only justifies a warning. Claims in
other network namespaces are invisible.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

SOCKETS = Path("/proc/net/unix")

NAME = re.compile(rb"@lockstep-processors/(\d{1,10})/([0-9a-f]{1,16})/([0-9,-]{1,64})")
"""User, run, and some of the processors, in ranges."""

RANGES = 8
"""Most ranges in one name, which has room for 107 bytes."""

HIGHEST = 1 << 16

_DISTURBED = "so the runs disturb each other"


class ProcessorClaim:
    """A claim of a run on processors, until it is closed or its process ends."""

    def __init__(self, run: str, processors: Iterable[int]) -> None:
        self._run = run
        self._processors = frozenset(processors)
        self._sockets: list[socket.socket] = []
        ranges = list(_ranges(sorted(self._processors)))
        for first in range(0, len(ranges), RANGES):
            part = ",".join(ranges[first : first + RANGES])
            holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._sockets.append(holder)
            with suppress(OSError):  # others then miss a warning
                holder.bind(f"\0lockstep-processors/{os.getuid()}/{run}/{part}")

    def others(self) -> list[str]:
        """A sentence for each other run on some of these processors."""
        found: dict[tuple[int, str], set[int]] = {}
        for user, run, processors in _claims():
            if run != self._run and (shared := self._processors & processors):
                found.setdefault((user, run), set()).update(shared)
        return [
            f"run {run} of user {user} also uses processors {','.join(_ranges(sorted(shared)))}, "
            f"{_DISTURBED}: wait for its end, or use other processors"
            for (user, run), shared in sorted(found.items())
        ]

    def close(self) -> None:
        """Give up the claim."""
        for holder in self._sockets:
            holder.close()


def tells_of_another_run(sentence: str) -> bool:
    """Whether a sentence, such as a warning in a record, is one of :meth:`ProcessorClaim.others`."""
    return _DISTURBED in sentence


def _claims() -> Iterator[tuple[int, str, frozenset[int]]]:
    """User, run and processors of all claims on this host."""
    try:
        lines = SOCKETS.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        if found := NAME.fullmatch(line.rpartition(b" ")[2]):
            user, run, ranges = (part.decode() for part in found.groups())
            yield int(user), run, frozenset(_numbers(ranges))


def _ranges(ascending: Iterable[int]) -> Iterator[str]:
    """Numbers as ranges: 0-3, 8."""
    pairs: list[list[int]] = []
    for number in ascending:
        if pairs and pairs[-1][1] == number - 1:
            pairs[-1][1] = number
        else:
            pairs.append([number, number])
    for first, last in pairs:
        yield str(first) if first == last else f"{first}-{last}"


def _numbers(ranges: str) -> Iterator[int]:
    """The numbers in ranges; the text may be anything."""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        with suppress(ValueError):
            yield from range(int(first), min(int(last or first) + 1, HIGHEST))
