"""Batch scripts: rendered from plain values, nothing read and nothing run."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from importlib import resources
from typing import Final


class _Task(Enum):
    NUMBER = "$SLURM_ARRAY_TASK_ID"


TASK: Final = _Task.NUMBER  # stands in a word of a command for the number of the task of a job array

Word = str | tuple[str | _Task, ...]
"""A word of a command: text that stays unchanged, or parts, among them TASK, which is expanded."""


def word(parts: Word) -> str:
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


JOB_PATTERN, TASK_PATTERN = "%j", "%A_%a"
"""Slurm's patterns in names of files for the id of a job, and of a task of an array."""


@dataclass(frozen=True)
class Script:
    """A batch script."""

    name: str
    directory: str  # where logs and exit statuses are written, absolute
    command: Sequence[Word]  # words of the command to run; TASK in a word stands for the task's number
    # ``#SBATCH`` options by Slurm's names without their dashes; a value of True stands for an option
    # without value, False and None for one that is left out.
    options: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    extra: Sequence[str] = ()  # further lines of options, as they stand
    setup: Sequence[str] = ()  # lines of shell to run first, as they stand
    signal_s: int = 60  # seconds before its time limit at which the job gets the signal to end
    requeue: bool = False  # whether a job that reaches its time limit goes back into the queue
    # Whether the first start gets --resume, as every start after a requeue does; None for a command that
    # has no such option.
    resume: bool | None = None
    tasks: int | None = None  # their number in a job array; None for a single job

    def __post_init__(self) -> None:
        pattern(self.directory)

    @property
    def directives(self) -> list[str]:
        """The options of the ``#SBATCH`` lines, in order."""
        file = JOB_PATTERN if self.tasks is None else TASK_PATTERN
        options: dict[str, str | int | bool | None] = {
            "job-name": self.name,
            "output": f"{pattern(self.directory)}/{file}.log",
            "open-mode": "append",
            "signal": f"B:USR1@{self.signal_s}",
            "requeue" if self.requeue else "no-requeue": True,
            "array": None if self.tasks is None else f"1-{self.tasks}",
        }
        chosen = {**options, **self.options}
        lines = [
            f"--{name}" if value is True else f"--{name}={option(str(value))}"
            for name, value in chosen.items()
            if value is not None and value is not False
        ]
        return [*lines, *self.extra]

    @property
    def text(self) -> str:
        import jinja2  # noqa: PLC0415 - most commands write no script

        source = (resources.files("slurm") / "experiment.sbatch.in").read_text(encoding="utf-8")
        environment = jinja2.Environment(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
        )
        return environment.from_string(source).render(
            name=self.name,
            directives=self.directives,
            setup=self.setup,
            directory=word(self.directory),
            command=_lines(self.command),
            requeue=self.requeue,
            resume=self.resume,
        )


def _lines(command: Sequence[Word]) -> str:
    """The words of a command, each option on a new line."""
    text = " ".join(word(first) for first in command[:1])
    for part in command[1:]:
        text += (" \\\n    " if str(part).startswith("--") else " ") + word(part)
    return text


def status_file(directory: str, job: str) -> str:
    """The file for the exit status of a job's or task's command and, at its time's end, ``time-limit``."""
    return f"{directory}/{job}.status"
