"""Frequent messages between driver and agents as packed numbers; all others are lines (``line_format``).

A frame is one byte that names its class, one with its version, and 64-bit numbers, the lowest byte first. No
line begins like a frame. As with lines, a reader makes one of the known classes of it, or refuses it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from coordinator.wire.line_format import LineError, LineFormat

HEAD_BYTES = 2


class Fields:
    """A class whose fields are whole numbers (q) and floating-point numbers (d), in order of ``fields``."""

    def __init__(self, made: type[Any], **fields: str) -> None:
        self.made = made
        self._struct = struct.Struct("<" + "".join(fields.values()))
        self._values = attrgetter(*fields)
        self._finite = "d" in fields.values()

    def pack(self, value: Any) -> bytes:
        return self._struct.pack(*self._values(value))

    def unpack(self, packed: memoryview) -> Any:
        values = self._struct.unpack(packed)
        if self._finite and not all(map(math.isfinite, values)):
            raise LineError(f"{self.made.__name__} has a number that is not finite")
        return self.made(*values)


class Rows:
    """A class whose only field has rows of ``columns`` whole numbers, at most ``most`` rows."""

    def __init__(self, made: type[Any], field: str, columns: int, most: int) -> None:
        self.made = made
        self._row = struct.Struct(f"<{columns}q")
        self._rows = attrgetter(field)
        self._most = most

    def pack(self, value: Any) -> bytes:
        return b"".join(self._row.pack(*row) for row in self._rows(value))

    def unpack(self, packed: memoryview) -> Any:
        if len(packed) > self._most * self._row.size:
            raise LineError(f"{self.made.__name__} has more than {self._most} rows")
        return self.made(tuple(self._row.iter_unpack(packed)))


class Frames:
    """How to write and read the messages of one connection.

    Args:
        lines: for the classes that have no frame.
        version: the first byte after the name.
        frames: the other classes, by the byte that names them.
    """

    def __init__(self, lines: LineFormat, version: int, frames: Mapping[bytes, Fields | Rows]) -> None:
        self._lines = lines
        heads = {name + bytes([version]): form for name, form in frames.items()}
        self._by_head = heads
        self._by_class = {form.made: (head, form) for head, form in heads.items()}

    def encode(self, value: Any) -> bytes:
        if found := self._by_class.get(type(value)):
            head, form = found
            return head + form.pack(value)
        return self._lines.encode(value)

    def decode(self, message: bytes) -> Any:
        """The dataclass of a message.

        Raises:
            LineError: if it is not exactly a message of this version.
        """
        if (form := self._by_head.get(message[:HEAD_BYTES])) is None:
            return self._lines.decode(message)
        try:
            return form.unpack(memoryview(message)[HEAD_BYTES:])
        except struct.error as error:
            raise LineError(f"not as long as {form.made.__name__}: {len(message)} bytes") from error
