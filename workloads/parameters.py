"""Parameters, each declared once: fields of frozen dataclasses, annotated with the values that they may have.

    @dataclass(frozen=True)
    class Gang(Checked):
        quantum_ms: Annotated[float, Bounds(0.01, 1e8)] = 100.0
        packing: Annotated[str, OneOf(PACKINGS)] = "matrix"
        unify: bool = False

The name carries the unit, the docstring of the class the meaning. :class:`Checked` refuses other values.
A rule has its ``json_schema`` as well: the same in JSON Schema (draft 4), of which editors read no later one.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

from workloads.validation import InputError, flag, known_keys, number, one_of, under, whole

T = TypeVar("T")

Schema = dict[str, Any]
"""A JSON Schema (draft 4)."""


UNPRINTABLE = r"[\u0000-\u001f\u007f-\u00a0\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\u3000\ufeff]"
"""The usual ones of the characters that are in no text of one line."""


def text_schema(without: str) -> Schema:
    """The schema of a text in which no part has the form ``without``."""
    return {"type": "string", "not": {"pattern": without}}


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

    @property
    def json_schema(self) -> Schema:
        ends = {"minimum": self.minimum, "maximum": self.maximum}
        finite = {name: end for name, end in ends.items() if math.isfinite(end)}
        return {"type": "integer" if self.whole else "number", **finite}


class OrInfinite:
    """A number of at least 0, or infinity."""

    def check(self, key: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise InputError(key, value, "must be a number of at least 0, or inf", "write [0.4, inf]")

    json_schema: ClassVar[Schema] = {"type": ["number", "null"], "minimum": 0}  # for taplo, inf is null


class OneOf:
    """The names that a value may have."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)

    def check(self, key: str, value: Any) -> None:
        one_of(key, value, self.names)

    @property
    def json_schema(self) -> Schema:
        return {"enum": list(self.names)}


class Name:
    """Text in one line, at most LONGEST characters; it may be empty."""

    LONGEST = 100

    def check(self, key: str, value: Any) -> None:
        if not isinstance(value, str) or not value.isprintable() or len(value) > self.LONGEST:
            rule = f"must be a name: text in one line, at most {self.LONGEST} characters"
            raise InputError(key, value, rule, f'write {key} = "physics", say')

    json_schema: ClassVar[Schema] = text_schema(UNPRINTABLE) | {"maxLength": 100}


class Flag:
    """True or false."""

    def check(self, key: str, value: Any) -> None:
        flag(key, value)

    json_schema: ClassVar[Schema] = {"type": "boolean"}


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

    @property
    def json_schema(self) -> Schema:
        length = {"minItems": self.length or 1} | ({"maxItems": self.length} if self.length else {})
        return {"type": "array", "items": self.entry.json_schema, **length}


class TableOf(NamedTuple):
    """A table within a table: the keys and values of another dataclass."""

    kind: type[Any]

    def check(self, key: str, value: Any) -> None:
        _check_table(key, value, self.kind)

    def make(self, key: str, table: Mapping[str, Any]) -> Any:
        """The dataclass with the values of the table."""
        return build(self.kind, table, key)

    @property
    def json_schema(self) -> Schema:
        return table_schema(self.kind)


class TableOfKind:
    """A table within a table: the keys and values of the dataclass that its key ``kind`` names."""

    def __init__(self, kinds: Mapping[str, type[Any]], usual: str) -> None:
        """``usual`` is the kind of a table that names none."""
        self.kinds, self.usual = kinds, usual

    def check(self, key: str, value: Any) -> None:
        _check_table(key, value, *self.kinds.values())

    def make(self, key: str, table: Mapping[str, Any]) -> Any:
        """The dataclass of this kind with the other values of the table."""
        kind = table.get("kind", self.usual)
        one_of(f"{key}.kind", kind, self.kinds)
        return build(self.kinds[kind], {name: one for name, one in table.items() if name != "kind"}, key)

    @property
    def json_schema(self) -> Schema:
        return {"anyOf": [self._of_kind(name) for name in self.kinds]}

    def _of_kind(self, name: str) -> Schema:
        table = table_schema(self.kinds[name])
        named = [] if name == self.usual else ["kind"]
        return closed({"kind": {"enum": [name]}} | table["properties"], (*named, *table.get("required", ())))


def _check_table(key: str, value: Any, *kinds: type[Any]) -> None:
    if not isinstance(value, (*kinds, Mapping)):
        raise InputError(key, value, "must be a table", "write [NAME] above its keys, or { key = value }")


class Numbers(tuple[tuple[str, float], ...]):
    """A table of names and numbers as a value: pairs in order of the names."""

    def __repr__(self) -> str:
        return repr(dict(self))


class TableOfNumbers(NamedTuple):
    """A table of names that users choose, each with a number within bounds."""

    bounds: Bounds

    def check(self, key: str, value: Any) -> None:
        if not isinstance(value, Numbers | Mapping):
            raise InputError(key, value, "must be a table of numbers", f"write {key} = {{ physics = 3 }}")
        for name, one in dict(value).items():
            self.bounds.check(f"{key}.{name}", one)

    def make(self, key: str, table: Mapping[str, Any]) -> Numbers:
        """The value of the table."""
        return Numbers(sorted(table.items()))

    @property
    def json_schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.bounds.json_schema}


class Parameter(NamedTuple):
    """A field whose values are limited; ``rule`` is Bounds, OneOf, Flag, ListOf or a kind of TableOf."""

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
            if isinstance(value, list | tuple) and not isinstance(value, Numbers):
                object.__setattr__(self, name, tuples(value))
            if isinstance(value, Mapping):
                object.__setattr__(self, name, rule.make(name, value))


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


def table_schema(kind: Any) -> Schema:
    """The schema of a table with the keys and values of a dataclass, whose defaults it has as well."""
    rules = {name: rule for name, rule, _ in parameters_of(kind)}
    fields = dataclasses.fields(kind)
    properties = {
        field.name: getattr(rules.get(field.name), "json_schema", {}) | _default(field.default)
        for field in fields
    }
    needed = (field.name for field in fields if field.default is field.default_factory is dataclasses.MISSING)
    return closed(properties, needed)


def closed(properties: Mapping[str, Any], needed: Iterable[str] = ()) -> Schema:
    """The schema of a table that has no other keys than these, and at least the ``needed`` ones."""
    required = list(needed)
    table = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return table | ({"required": required} if required else {})


def _default(value: Any) -> Schema:
    """What tells the default of a key, if JSON and TOML have it."""
    finite = not isinstance(value, float) or math.isfinite(value)
    return {"default": value} if isinstance(value, bool | int | float | str) and finite else {}


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
