"""The tree of agents: who reports to whom, and packets of the messages that go through others.

Tables go down and signs of life go up through it: each replaces the one before, and can be lost with an agent
between. Everything else goes straight between an agent and the driver, who stay connected all the time.
"""

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import AGENTS_VERSION
from coordinator.wire.zmq_transport import LONGEST_BYTES

PACKET = b"P" + bytes([AGENTS_VERSION])
"""How messages that travel together begin, each with the number of its node."""

OWN = -1  # stands for the number of the node that sends a packet

_PART = struct.Struct("<qI")


def pack(parts: Iterable[tuple[int, bytes]]) -> bytes:
    return PACKET + b"".join(_PART.pack(number, len(part)) + part for number, part in parts)


def unpack(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """The inverse of ``pack``; a packet that ends too soon is a LineError."""
    at = len(PACKET)
    while at < len(packet):
        number, size = _PART.unpack_from(packet, at) if at + _PART.size <= len(packet) else (0, len(packet))
        at += _PART.size + size
        if at > len(packet):
            raise LineError(f"shorter than its parts: {len(packet)} bytes")
        yield number, packet[at - size : at]


def parts(frame: bytes) -> Iterator[tuple[int, bytes]]:
    """The messages of a packet, or another frame as the only one of its sender."""
    return unpack(frame) if frame.startswith(PACKET) else iter([(OWN, frame)])


def pass_on(
    messages: Iterable[tuple[int, bytes]], through: Mapping[int, int], send: Callable[[int, bytes], None]
) -> None:
    """Send each message for a node to the neighbour ``through`` which it goes, in packets, or drop it."""
    towards, bulk, size = -1, list[tuple[int, bytes]](), 0
    for node, message in messages:
        neighbour = through.get(node, -1)
        if bulk and (neighbour not in (towards, node) or size + len(message) > LONGEST_BYTES // 4):
            send(towards, pack(bulk))
            bulk, size = [], 0
        if neighbour == node:
            send(node, message)
        elif neighbour >= 0:
            towards, size = neighbour, size + len(message)
            bulk.append((node, message))
    if bulk:
        send(towards, pack(bulk))


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
