"""Quoting for batch scripts: bash and sbatch read words and values unchanged."""

from __future__ import annotations

import os
import shlex
from enum import Enum
from typing import Final


class _Task(Enum):
    NUMBER = "$SLURM_ARRAY_TASK_ID"


TASK: Final = _Task.NUMBER
"""Stands in a word of a command for the number of the task of a job array."""

Word = str | tuple[str | _Task, ...]
"""A word of a command: text that stays as it is, or parts, among them TASK, which is expanded."""


def word(parts: Word) -> str:
    """The text of one word of bash."""
    if isinstance(parts, str):
        return _quoted(parts)
    return "".join(f'"{part.value}"' if isinstance(part, _Task) else _quoted(part) for part in parts)


def _quoted(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL, which no word of a command can")
    if text.isprintable():
        return shlex.quote(text)
    # sbatch refuses carriage returns, and bytes that are not UTF-8 do not fit into a text.
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def option(value: str) -> str:
    """A value as sbatch reads it from a line of options: quotes, blanks, # and backslashes are special."""
    if not value.isprintable():
        raise ValueError("must be one line of printable characters")
    if not set(value) & set(" '\"#\\"):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def pattern(path: str) -> str:
    """A path as Slurm reads it in the name of a log, where % is special."""
    if not path.isprintable() or "\\" in path:
        raise ValueError("must be printable and without backslashes: Slurm writes its logs there")
    return path.replace("%", "%%")
