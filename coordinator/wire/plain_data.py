"""Dataclasses as lines of JSON, which can become these dataclasses again and nothing else.

What a file or a variable holds is data: to read it runs no code but the checks of the classes
that the reader asks for. Each line carries a version; there is one class for each shape, so a
line of another version, or with a field more or less, is refused.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any


class NotPlain(ValueError):  # noqa: N818 - says what it is
    """A line is not what its reader asks for; the message says where."""


class Plain:
    """How to write and read one kind of line.

    Args:
        wanted: the dataclass that a line becomes, or a union of some.
        version: of what is written; nothing else is read.
        kinds: the dataclasses that a field may hold whose type is none itself.
    """

    def __init__(
        self, wanted: Any, version: int, kinds: Mapping[Any, Collection[type[Any]]] | None = None
    ) -> None:
        self._wanted = wanted
        self._version = version
        self._kinds = dict(kinds or {})

    def encode(self, value: Any) -> bytes:
        """A dataclass as a line, newline included."""
        document = {"version": self._version, **_plain(value)}
        return json.dumps(document, separators=(",", ":"), default=_plain).encode() + b"\n"

    def decode(self, line: bytes | str) -> Any:
        """The dataclass of a line.

        Raises:
            NotPlain: for anything else.
        """
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise NotPlain(f"it is no line of JSON: {line[:80]!r}") from error
        version = document.pop("version", None) if isinstance(document, dict) else None
        if version != self._version:
            raise NotPlain(f"it is of version {version!r:.20}, required is {self._version}")
        return self._typed(document, self._wanted, "it")

    def _typed(self, value: Any, hint: Any, where: str) -> Any:
        """``value`` as the type that ``hint`` asks for."""
        arguments = typing.get_args(hint)
        if hint is Any or (value is None and types.NoneType in arguments):
            return value
        if isinstance(value, list):
            return self._array(value, hint, where)
        if isinstance(value, dict):
            return self._object(value, hint, where)
        if typing.get_origin(hint) is types.UnionType:
            return self._typed(value, arguments[0], where)
        if type(value) is {float: int, Path: str}.get(hint):
            return _converted(value, hint, where)
        if type(value) is hint:
            return value
        raise NotPlain(f"{where} is {value!r:.80}")

    def _array(self, value: list[Any], hint: Any, where: str) -> Any:
        origin, kinds = typing.get_origin(hint), typing.get_args(hint)
        if origin is list:
            return [self._typed(item, kinds[0], where) for item in value]
        if kinds[1:] == (...,):
            kinds = kinds[:1] * len(value)
        if origin is not tuple or len(kinds) != len(value):
            raise NotPlain(f"{where} is {value!r:.80}")
        return tuple(self._typed(*pair, where) for pair in zip(value, kinds, strict=True))

    def _object(self, value: dict[str, Any], hint: Any, where: str) -> Any:
        arguments = typing.get_args(hint)
        if typing.get_origin(hint) is Mapping:
            kind, item = arguments
            return {_key(key, kind, where): self._typed(found, item, where) for key, found in value.items()}
        return self._made(value, self._kinds.get(hint, arguments or (hint,)), where)

    def _made(self, values: dict[str, Any], options: Collection[Any], where: str) -> Any:
        """The dataclass with these values, which says which of the ``options`` it is."""
        name = values.pop("class", None)
        known = {option.__name__: option for option in options if dataclasses.is_dataclass(option)}  # type: ignore[union-attr]
        made: Any = known.get(name) if isinstance(name, str) else None
        if made is None:
            raise NotPlain(f"{where} is of the class {name!r:.80}")
        hints = _hints(made)
        if values.keys() != hints.keys():
            wrong = ", ".join(sorted(values.keys() ^ hints.keys()))
            raise NotPlain(f"{where}, a {name}, lacks or does not know: {wrong:.80}")
        typed = {key: self._typed(values[key], hint, f"{name}.{key}") for key, hint in hints.items()}
        try:
            return made(**typed)
        except (ValueError, TypeError) as error:  # a rule of its own
            raise NotPlain(str(error)) from error


@functools.cache
def _hints(made: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(made)
    return {field.name: hints[field.name] for field in dataclasses.fields(made)}


def _plain(value: Any) -> Any:
    """What JSON does not know as something that it does."""
    if isinstance(value, Path):
        return str(value)
    # Not dataclasses.asdict: it copies deeply, which json then does once more.
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {"class": type(value).__name__, **fields}


def _key(key: str, kind: Any, where: str) -> Any:
    """The key of an object, which is a string in JSON, as the type ``kind``."""
    return key if kind is str else _converted(key, kind, where)


def _converted(value: Any, kind: Any, where: str) -> Any:
    try:
        return kind(value)
    except (ValueError, OverflowError) as error:
        raise NotPlain(f"{where} is {value!r:.80}") from error
