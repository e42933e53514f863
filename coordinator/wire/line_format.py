"""Dataclasses as lines of JSON or packed numbers, which can become these dataclasses again and nothing else.

Sockets and files hold data only: reading them runs no code but the checks of the classes that the reader
accepts. A line names its class and may carry a version. The reader refuses a line of another version,
and a line with a missing or an unknown field.

Frequent messages between driver and agents are frames: one byte that names the class, one with the version,
the count of the numbers of 64 bits, these, and numbers of 32 bits, each with the lowest byte first. No line
begins like a frame.
"""

import dataclasses
import functools
import json
import math
import reprlib
import struct
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

LARGEST = 1 << 63
"""Whole numbers lie between -LARGEST and LARGEST - 1, so that they fit the 64 bits of a store."""


class LineError(ValueError):
    """A line that its reader refuses; the message states why."""


def by_name(*classes: Any) -> dict[str, Any]:
    return {each.__name__: each for each in classes}


class LineFormat:
    """How to write and read one kind of line.

    Args:
        classes: the dataclasses that a line may become, by their names in lines.
        version: version of the lines written, and the only one read; None if lines carry none.
        tag: the key of the name.
        printable: whether to replace characters in texts that UTF-8 cannot encode.
    """

    def __init__(
        self,
        classes: Mapping[str, type[Any]],
        version: int | None = None,
        *,
        tag: str = "class",
        printable: bool = False,
    ) -> None:
        self._classes = dict(classes)
        self._names = {each: name for name, each in classes.items()}
        self._marks = {} if version is None else {"version": version}
        self._tag = tag
        self._printable = printable

    def encode(self, value: Any) -> bytes:
        document = {self._tag: self._names[type(value)], **self._marks, **_values(value)}
        return _JSON.encode(document).encode() + b"\n"

    def decode(self, line: bytes | str) -> Any:
        """The dataclass of a line."""
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LineError(f"not a line of JSON: {line[:80]!r}") from error
        if not isinstance(document, dict):
            raise LineError(f"not an object: {line[:80]!r}")
        for key, expected in self._marks.items():
            if (mark := document.pop(key, None)) != expected:
                raise LineError(f"the line has {key} {reprlib.repr(mark)}, required {expected}")
        return self._build(document, self._tag, self._classes, "the line")

    def _build(self, values: dict[str, Any], tag: str, classes: Mapping[str, Any], where: str) -> Any:
        """The dataclass with these values; the value of ``tag`` names one of ``classes``."""
        name = values.pop(tag, None)
        kind: Any = classes.get(name) if isinstance(name, str) else None
        if kind is None:
            names = ", ".join(classes)
            raise LineError(f"{where} has the unknown {tag} {reprlib.repr(name)}; known are {names}")
        hints = _hints(kind)
        if values.keys() != hints.keys():
            wrong = reprlib.repr(sorted(values.keys() ^ hints.keys()))
            raise LineError(f"{where}, of {tag} {name}, lacks or does not know {wrong}")
        typed = {key: self._typed(values[key], hint, f"{name}.{key}") for key, hint in hints.items()}
        try:
            value = kind(**typed)
        except (ValueError, TypeError) as error:  # a rule of the class
            raise LineError(str(error)) from error
        if reason := getattr(value, "flaw", str)():  # a class may have a further check
            raise LineError(f"{name} has {reason}")
        return value

    def _typed(self, value: Any, hint: Any, where: str) -> Any:
        if type(value) is hint and _bounded(value):
            return value.encode(errors="replace").decode() if hint is str and self._printable else value
        arguments = typing.get_args(hint)
        if hint is Any or (value is None and types.NoneType in arguments):
            return value
        if isinstance(value, list):
            return self._array(value, hint, where)
        if isinstance(value, dict):
            return self._object(value, hint, where)
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            kind = type(value) if type(value) in arguments else arguments[0]
            return self._typed(value, kind, where)
        if hint is float and type(value) is int and _bounded(value):
            return float(value)
        raise LineError(f"{where} is {reprlib.repr(value)}")

    def _array(self, value: list[Any], hint: Any, where: str) -> Any:
        origin = typing.get_origin(hint)
        kinds = typing.get_args(hint)
        if kinds[1:] == (...,):
            kinds = kinds[:1] * len(value)
        if origin is not tuple or len(kinds) != len(value):
            raise LineError(f"{where} is {reprlib.repr(value)}")
        return tuple(self._typed(*pair, where) for pair in zip(value, kinds, strict=True))

    def _object(self, value: dict[str, Any], hint: Any, where: str) -> Any:
        arguments = typing.get_args(hint)
        if typing.get_origin(hint) is Mapping:
            return {key: self._typed(each, arguments[1], where) for key, each in value.items()}
        options = filter(dataclasses.is_dataclass, arguments or (hint,))
        return self._build(value, "class", by_name(*options), where)


def _bounded(value: Any) -> bool:
    """Whether a number is finite, and no larger than a store can hold."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or -LARGEST <= value < LARGEST


@functools.cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def _values(value: Any) -> dict[str, Any]:
    # Not dataclasses.asdict: it copies deeply, which json then does once more.
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    return {"class": type(value).__name__, **_values(value)}


_JSON = json.JSONEncoder(separators=(",", ":"), default=_plain)


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
    """Numbers in rows of equal length; a ValueError if the last row is too short."""
    return tuple(zip(*[iter(numbers)] * columns, strict=True))


class Frames:
    """How to write and read the messages of one connection: ``framed`` classes by their bytes, or lines."""

    def __init__(self, lines: LineFormat, version: int, framed: Mapping[bytes, type[Framed]]) -> None:
        self._lines = lines
        self._version = version
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
        if (kind := self._classes.get(message[:2])) is None:
            return self._lines.decode(message)
        try:
            _, _, count = _HEAD.unpack_from(message)
            rest = len(message) - _HEAD.size - 8 * count
            numbers = struct.unpack(f"<{count}q{rest // 4}i", message[_HEAD.size :])
            return kind.of(numbers[:count], numbers[count:])
        except (struct.error, ValueError) as error:
            raise LineError(f"not a {kind.__name__}: {error}") from error
