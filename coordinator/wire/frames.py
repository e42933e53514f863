"""Frequent messages between driver and agents as packed numbers; all others are lines (``line_format``).

A frame is one byte that names its class, one with its version, the count of its numbers of 64 bits, these,
and numbers of 32 bits, each with the lowest byte first. No line begins like a frame. As with lines, a reader
makes one of the known classes of it, or refuses it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from coordinator.wire.line_format import LineError, LineFormat

_HEAD = struct.Struct("<cBI")


class Framed:
    """A dataclass of whole numbers that travels as a frame; subclasses may hold more than numbers."""

    def numbers(self) -> tuple[Sequence[int], Sequence[int]]:
        """Its numbers of 64 and of 32 bits."""
        return tuple(self.__dict__.values()), ()

    @classmethod
    def of(cls, longs: Sequence[int], shorts: Sequence[int]) -> Self:
        """The inverse of ``numbers``; a ValueError if there is none."""
        if shorts or len(longs) != len(cls.__dataclass_fields__):  # type: ignore[attr-defined]
            raise ValueError(f"not as long: {len(longs)} and {len(shorts)} numbers")
        return cls(*longs)


def rows(numbers: Iterable[int], columns: int) -> tuple[Any, ...]:
    """Numbers in rows of so many; a ValueError if the last row is too short."""
    return tuple(zip(*[iter(numbers)] * columns, strict=True))


class Frames:
    """How to write and read the messages of one connection.

    Args:
        lines: for the classes that have no frame.
        version: the number of the version.
        framed: the other classes, by the byte that names them.
    """

    def __init__(self, lines: LineFormat, version: int, framed: Mapping[bytes, type[Framed]]) -> None:
        self._lines, self._version = lines, version
        self._classes = {name + bytes([version]): each for name, each in framed.items()}
        self._names = {each: name for name, each in framed.items()}

    def encode(self, value: Any) -> bytes:
        if (name := self._names.get(type(value))) is None:
            return self._lines.encode(value)
        longs, shorts = value.numbers()
        head = _HEAD.pack(name, self._version, len(longs))
        return head + struct.pack(f"<{len(longs)}q{len(shorts)}i", *longs, *shorts)

    def decode(self, message: bytes) -> Any:
        """The dataclass of a message; a LineError if it is not exactly one of this version."""
        if (made := self._classes.get(message[:2])) is None:
            return self._lines.decode(message)
        try:
            _, _, count = _HEAD.unpack_from(message)
            rest = len(message) - _HEAD.size - 8 * count
            numbers = struct.unpack(f"<{count}q{rest // 4}i", message[_HEAD.size :])
            return made.of(numbers[:count], numbers[count:])
        except (struct.error, ValueError) as error:
            raise LineError(f"not a {made.__name__}: {error}") from error
