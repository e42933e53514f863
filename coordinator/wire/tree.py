"""The tree of agents: ways to those that report to others, and letters, which survive the loss of a way.

A letter has a number, and is kept until its reader has taken it; each is taken once and in order, whatever
way it comes. Beats, which tell what was written and taken, and echoes are no letters.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import AGENTS_VERSION
from coordinator.wire.zmq_transport import LONGEST_BYTES, Hub

LETTER, PACKET = b"L" + bytes([AGENTS_VERSION]), b"P" + bytes([AGENTS_VERSION])
"""How a letter begins, and how messages that travel together do, each with the number of its node."""

_PART = struct.Struct("<qI")


def pack(head: bytes, parts: Iterable[tuple[int, bytes]]) -> bytes:
    return head + b"".join(_PART.pack(number, len(part)) + part for number, part in parts)


def unpack(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """The inverse of ``pack``; a frame that ends too soon is a LineError."""
    at = len(LETTER)
    while at < len(frame):
        number, size = _PART.unpack_from(frame, at) if at + _PART.size <= len(frame) else (0, len(frame))
        at += _PART.size + size
        if at > len(frame):
            raise LineError(f"shorter than its parts: {len(frame)} bytes")
        yield number, frame[at - size : at]


class Post:
    """One end's letters, which ``send`` passes on; ``taken`` is the number of the other end's last one.

    ``base`` is the number of the last letter that was taken before; None if the first beat will tell it.
    """

    def __init__(self, send: Callable[[bytes], None], base: int | None = None) -> None:
        self._send, self._base, self._due = send, base, 0
        self._kept: deque[bytes] = deque()
        self.taken = self.told = base

    @property
    def written(self) -> int:
        return (self._base or 0) + len(self._kept)

    def write(self, message: bytes) -> None:
        self._kept.append(message)
        if self._base is not None:
            self._send(pack(LETTER, [(self.written, message)]))

    def again(self) -> None:
        for number, message in enumerate(self._kept, 1 + (self._base or 0)):
            self._send(pack(LETTER, [(number, message)]))

    def confirm(self, taken: int) -> None:
        """The other end has taken letters up to this one."""
        if self._base is None:
            self._base = max(0, min(taken, 1 << 62))
            self.again()
        while self._kept and self._base < taken:
            self._kept.popleft()
            self._base += 1

    def check(self, written: int, taken: int) -> bool:
        """Hear from a beat what was written and taken there; returns whether letters to us are missing.

        What it should have had by the beat before has been lost, and goes again.
        """
        self.confirm(taken)
        if taken < self._due:
            self.again()
        self._due = self.written
        self.taken = written if self.taken is None else self.taken
        return written > self.taken

    def take(self, frame: bytes) -> Iterator[bytes]:
        """The messages of letters that come in their turn; all others come again, or have come."""
        for number, message in unpack(frame):
            if self.taken is None or number == self.taken + 1:
                self.taken = number
                yield message


class Packet:
    """Messages of, or to, several nodes that travel together."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send, self._bytes = send, 0
        self._parts: list[tuple[int, bytes]] = []

    def add(self, node: int, frame: bytes) -> None:
        if self._bytes + len(frame) > LONGEST_BYTES // 4:
            self.flush()
        self._parts.append((node, frame))
        self._bytes += len(frame)

    def flush(self) -> None:
        if self._parts:
            self._send(pack(PACKET, self._parts))
            self._parts, self._bytes = [], 0


class Ways:
    """The agents below a hub: each is reached through the neighbour that has passed on its last message."""

    def __init__(self, hub: Hub) -> None:
        self._hub, self._to = hub, -1
        self._through: dict[int, int] = {}
        self._packet = Packet(lambda packet: hub.send(self._to, packet))

    def neighbour(self, node: int) -> int:
        """The agent through which ``node`` is reached: itself, if it reports to us."""
        return self._through.get(node, node)

    def heard(self, node: int) -> bool:
        return node in self._through or self._hub.heard(node)

    def straight(self, node: int) -> None:
        """Reach a node without others from now on, if it has ever spoken to us."""
        if self._hub.heard(node):
            self._through.pop(node, None)

    def send(self, node: int, frame: bytes) -> None:
        if (neighbour := self.neighbour(node)) == node:
            self._hub.send(node, frame)
            return
        if neighbour != self._to:
            self._packet.flush()
            self._to = neighbour
        self._packet.add(node, frame)

    def receive(self) -> list[tuple[int, bytes]]:
        """As ``Hub.receive``, with what neighbours have passed on; sends what waits for company."""
        self._packet.flush()
        arrived = []
        for neighbour, frame in self._hub.receive():
            self._through.pop(neighbour, None)
            passed = [(neighbour, frame)]
            with suppress(LineError):  # its reader refuses it
                if frame.startswith(PACKET):
                    passed = list(unpack(frame))
                    self._through.update((node, neighbour) for node, _ in passed if node != neighbour)
            arrived += passed
        return arrived


def leaders(nodes: Sequence[int], fan_out: int, room: int) -> dict[int, list[int]]:
    """Whom agents lead if at most ``room`` of ``nodes`` report to the driver, ``fan_out`` to others."""
    if len(nodes) <= room:
        return {}
    count, found = min(room, math.ceil(len(nodes) / (fan_out + 1))), dict[int, list[int]]()
    for number in range(count):
        head, *others = nodes[len(nodes) * number // count : len(nodes) * (number + 1) // count]
        below = leaders(others, fan_out, fan_out)
        led = {node for nodes in below.values() for node in nodes}
        found |= {head: [node for node in others if node not in led]} | below
    return found
