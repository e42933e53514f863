"""Parameters, each declared once: fields of frozen dataclasses, annotated with the values that they may have.

    @dataclass(frozen=True)
    class Gang(Checked):
        quantum_ms: Annotated[float, Bounds(0.01, 1e8)] = 100.0
        packing: Annotated[str, OneOf(PACKINGS)] = "matrix"
        unify: bool = False

The name carries the unit, the docstring of the class the meaning. :class:`Checked` refuses other values.
"""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from workloads.validation import InputError, flag, known_keys, number, one_of, under, whole

T = TypeVar("T")


class Bounds(NamedTuple):
    """The smallest and the greatest value, and whether the number must be whole, as in fields of type int."""

    minimum: float
    maximum: float
    whole: bool = False

    def check(self, key: str, value: Any) -> None:
        if self.whole:
            whole(key, value, minimum=int(self.minimum), maximum=int(self.maximum))
        else:
            number(key, value, minimum=self.minimum, maximum=self.maximum)


class OrInfinite:
    """A number of at least 0, or infinity."""

    def check(self, key: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise InputError(key, value, "must be a number of at least 0, or inf", "write [0.4, inf]")


class OneOf:
    """The names that a value may have."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def check(self, key: str, value: Any) -> None:
        one_of(key, value, self.names)


class Flag:
    """True or false."""

    def check(self, key: str, value: Any) -> None:
        flag(key, value)


class ListOf(NamedTuple):
    """A list of entries within a rule: at least one of them, or so many."""

    entry: Any
    length: int = 0

    def check(self, key: str, value: Any) -> None:
        if not isinstance(value, list | tuple) or not value or self.length not in (0, len(value)):
            content = f"{self.length} values" if self.length else "at least one value"
            raise InputError(key, value, f"must be a list of {content}", "write [1, 2]")
        for one in value:
            self.entry.check(key, one)


class TableOf(NamedTuple):
    """A table within a table: the keys and values of another dataclass."""

    kind: type[Any]

    def check(self, key: str, value: Any) -> None:
        if not isinstance(value, self.kind | Mapping):
            raise InputError(key, value, "must be a table", "write [NAME] above its keys, or { key = value }")


class Parameter(NamedTuple):
    """A field whose values are limited; ``rule`` is Bounds, OneOf, Flag, TableOf or ListOf."""

    name: str
    rule: Any
    optional: bool


class Checked:
    """A dataclass with the values that its annotations allow; lists become tuples, and tables dataclasses."""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for name, rule, optional in parameters_of(kind):
            value = getattr(self, name)
            if value is None and optional:
                continue
            rule.check(name, value)
            if isinstance(value, list | tuple):
                object.__setattr__(self, name, tuples(value))
            if isinstance(value, Mapping):
                object.__setattr__(self, name, build(rule.kind, value, name))


def tuples(value: Any) -> Any:
    """Lists as tuples, so that equal values are equal wherever they come from."""
    return tuple(map(tuples, value)) if isinstance(value, list | tuple) else value


def build(kind: type[T], table: Mapping[str, Any], key: str) -> T:
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    known_keys(table, [field.name for field in fields], key)
    with under(key):
        for field in fields:
            if field.name not in table and field.default is field.default_factory is dataclasses.MISSING:
                raise InputError(
                    field.name, None, "must be given, since it has no default", f"write {field.name} = ..."
                )
        return kind(**table)


@cache
def parameters_of(kind: Any) -> tuple[Parameter, ...]:
    """The fields of a dataclass whose annotations limit their values, in order."""
    hints = typing.get_type_hints(kind, include_extras=True)
    rules = ((field.name, *_rule(hints[field.name])) for field in dataclasses.fields(kind))
    return tuple(Parameter(name, rule, optional) for name, rule, optional in rules if rule)


def add_options(parser: Any, kind: Any, helps: Mapping[str, str | None]) -> None:
    """Add an option of a command line for each of these numbers and names of ``kind``, with its help."""
    rules = {name: rule for name, rule, _ in parameters_of(kind)}
    for name, text in helps.items():
        rule, default = rules[name], getattr(kind, name)
        how = {"type": int if rule.whole else float} if isinstance(rule, Bounds) else {"choices": rule.names}
        parser.add_argument(f"--{name.replace('_', '-')}", default=default, help=text, **how)


def _rule(hint: Any) -> tuple[Any, bool]:
    """The rule of an annotation, None without one, and whether None is allowed as well."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        one, *none = sorted(arguments, key=lambda each: each is types.NoneType)
        return (_rule(one)[0], True) if none == [types.NoneType] else (None, False)
    if origin is tuple and arguments[1:] == (...,):
        entry = _rule(arguments[0])[0]
        return (ListOf(entry) if entry else None), False
    if origin is typing.Annotated:
        rule = arguments[1]
        return (rule._replace(whole=arguments[0] is int) if isinstance(rule, Bounds) else rule), False
    if isinstance(hint, type) and issubclass(hint, Checked):
        return TableOf(hint), False
    return (Flag() if hint is bool else None), False
