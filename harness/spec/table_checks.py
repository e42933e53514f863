"""Tables of an experiment file: their keys, and the values that they describe."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from workloads.validation import InputError, under

T = TypeVar("T")
Table = Mapping[str, Any]

DEEPEST = 20


def field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind))


def as_table(value: Any, key: str) -> Table:
    if not isinstance(value, dict):
        raise InputError(key, value, "must be a table", "write [NAME] above its keys, or { key = value }")
    return value


def tables(value: Any, key: str, example: str) -> list[Any]:
    """``value`` if it is a list of at least one [[key]] table."""
    if not isinstance(value, list) or not value:
        raise InputError(
            key,
            value,
            f"an experiment needs at least one [[{key}]] table",
            f"write [[{key}]] and below it {example}",
        )
    return value


def each(value: Any, key: str, example: str, make: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
    """The results of ``make`` for all [[key]] tables."""
    entries = []
    for index, table in enumerate(tables(value, key, example)):
        where = f"{key}[{index}]"
        checked = as_table(table, where)
        with under(where):
            entries.append(make(checked))
    return tuple(entries)


def check_depth(value: Any, key: str) -> None:
    """Accept a value in which at most DEEPEST tables or lists nest."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise InputError(
        key,
        "...",
        f"nests more than {DEEPEST} tables or lists",
        "nest less; no key of an experiment needs more than five levels",
    )


def check_names(value: Any, key: str) -> None:
    """Accept tables and lists, which :func:`check_depth` accepts, whose keys are text."""
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise InputError(key, name, "is the key of a table, and must be text", "write it in quotes")
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        check_names(part, key)
