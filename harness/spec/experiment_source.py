"""An experiment file as it was written, with overrides put into it; errors name the place of a value."""

import copy
import os
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from harness.spec import other_logs
from harness.spec.overrides import Override, apply
from harness.spec.table_checks import check_depth, check_names
from workloads.validation import InputError, closest

LARGEST = 4 << 20  # the largest size of an experiment file, in bytes

LONG_LINE = 1000

SHORTEST = ("demo", "three-jobs", "mixed")
"""The built-in experiments that a message names; docs/experiments.md lists all."""

FORMER = {"trace": "log"}
"""Built-in experiments by their former names."""

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:"[^"]*"|'[^']*'|[\w-]+)(?:\s*\.\s*(?:"[^"]*"|'[^']*'|[\w-]+))*)\s*=""")
_PART = re.compile(r"""\s*(?:"([^"]*)"|'([^']*)'|([\w-]+))\s*\.?""")


@dataclass
class ExperimentError(InputError):
    """Bad input with its place: file and line, or the override."""

    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {super().__str__()}"


@dataclass(frozen=True)
class Document:
    """The content of an experiment file, and where each part of it was written."""

    file: str  # the file, as messages name it
    data: dict[str, Any]  # its tables, overrides included
    # Line number of each table and key, by keys like ``jobs[0].program.pattern``.
    lines: Mapping[str, int] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()  # the applied overrides, in order
    source: str = field(default="", repr=False)  # its text, without the overrides
    folder: Path = Path()  # where it lies, and files that it names

    def located(self, error: InputError) -> ExperimentError:
        return ExperimentError(error.key, error.value, error.rule, error.remedy, self._place(error.key))

    def overridden(self, overrides: Iterable[Override]) -> "Document":
        data = copy.deepcopy(self.data)
        done = self.overrides
        for override in overrides:
            done = (*done, override)
            try:
                apply(data, override)
            except InputError as error:
                raise Document(self.file, data, {}, (override,)).located(error) from None
        return replace(self, data=data, overrides=done)

    def _place(self, key: str) -> str:
        for override in reversed(self.overrides):
            if override.touches(key):
                return f"{self.file} with {override.origin}"
        for prefix in _prefixes(key):
            if prefix in self.lines:
                return f"{self.file}, line {self.lines[prefix]}"
        return self.file


def built_in() -> dict[str, Any]:
    """The experiment files that come with Lockstep, by name, in order of their names."""
    folder = resources.files("harness") / "experiments"
    files = {item.name.removesuffix(".toml"): item for item in folder.iterdir()}
    return {name: files[name] for name in sorted(files) if files[name].name.endswith(".toml")}


def read(source: str | Mapping[str, Any]) -> Document:
    """The experiment file at the path ``source``, the built-in one of that name, or the tables of one."""
    if isinstance(source, Mapping):
        tables = copy.deepcopy(dict(source))
        check_depth(tables, "EXPERIMENT")
        check_names(tables, "EXPERIMENT")
        return Document("experiment", tables)
    names = built_in()
    path = Path(source)
    if source in names:
        written = parse(names[source].read_text(encoding="utf-8"), f"{source}.toml")
        return replace(written, folder=Path(str(names[source])).parent)
    if "/" not in source and path.suffix != ".toml" and not os.path.isfile(source):  # noqa: PTH113 - never raises
        hint = f"write one of {', '.join(SHORTEST)}, or a path that ends in .toml"
        close = f"did you mean {FORMER[source]!r}?" if source in FORMER else closest(source, names, hint)
        raise InputError(
            "EXPERIMENT", source, f"is neither a file nor one of the {len(names)} built-in experiments", close
        )
    return replace(parse(text_of(source, "EXPERIMENT"), source), folder=path.parent)


def text_of(path: str, key: str) -> str:
    """The text of a file; messages name it as the value of ``key``."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(key, path, f"must be a readable file: {reason}", "check the path") from None
    if key == "EXPERIMENT" and other_logs.begins_log(path, data):
        raise InputError(
            key,
            path,
            "is a job log, not an experiment",
            f"simulate its jobs: lockstep simulate log --log {shlex.quote(path)}",
        )
    if len(data) > LARGEST:
        raise InputError(key, path, f"must be at most {LARGEST >> 20} MiB of text", "give a smaller file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            key, path, f"must be UTF-8 text: byte {error.start} is not", "save the file as UTF-8"
        ) from None


def parse(text: str, file: str) -> Document:
    """The document in ``text``; ``file`` is how messages name it."""
    try:
        data = tomllib.loads(text)
        check_depth(data, "TOML")
        return Document(file, data, _line_numbers(text), source=text)
    except InputError as error:
        raise ExperimentError(error.key, error.value, error.rule, error.remedy, file) from None
    except RecursionError:
        raise ExperimentError("TOML", "...", "must have fewer tables in tables", "nest less", file) from None
    except ValueError as error:  # TOMLDecodeError, and errors of int and datetime
        place = re.search(r"at line (\d+)", str(error))
        lines = text.splitlines() or [""]
        line = int(place[1]) if place else len(lines)
        raise ExperimentError(
            key="TOML",
            value=lines[min(line, len(lines)) - 1].strip(),
            rule=f"must be valid TOML: {error}",
            remedy="correct that line; text needs quotes, tables [brackets]",
            place=f"{file}, line {line}",
        ) from None


def _line_numbers(text: str) -> dict[str, int]:
    """The lines on which tables and keys begin; the parts of a value have the line of its key.

    It scans lines and does not parse: it skips lines too long for a key, and may see keys inside a
    multi-line string. A message about such a key then names a wrong line.
    """
    lines: dict[str, int] = {}
    counts: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LONG_LINE:
            continue
        if header := _HEADER.match(line):
            table, parts = "", _parts(header[2])
            for depth, part in enumerate(parts, 1):
                table = _join(table, part)
                if header[1] == "[[" and depth == len(parts):
                    counts[table] = counts.get(table, 0) + 1
                if table in counts:
                    table += f"[{counts[table] - 1}]"
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            path = table
            for part in _parts(key[1]):
                path = _join(path, part)
            lines.setdefault(path, number)
    return lines


def _parts(dotted: str) -> Sequence[str]:
    return [quoted or single or bare for quoted, single, bare in _PART.findall(dotted)]


def _join(table: str, part: str) -> str:
    name = part if re.fullmatch(r"[\w-]+", part) else f'"{part}"'
    return f"{table}.{name}" if table else name


def _prefixes(key: str) -> Iterator[str]:
    """``key`` and all keys above it, the innermost first."""
    yield key
    while match := re.search(r"""(\."[^"]*"|\.[\w-]+|\[\d+\])$""", key):
        key = key[: match.start()]
        yield key
