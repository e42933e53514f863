"""Commands alongside each other, as an experiment: each alone, and all together under some policies."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coordinator.host.launcher_options import UNPLACED, accepted
from coordinator.host.launchers import is_launcher, kinds_of
from harness.spec import overrides
from harness.spec.jobs import LAUNCHER
from harness.spec.scheduler import scheduler_of
from workloads.validation import InputError, refused

SEPARATOR = ":::"
FEWEST = 2
OF_SHELL = re.compile(r"^(&&?|\|\|?|>>?|<)$|;$")  # words that mean something to a shell only
LEASE_S = 10.0  # how long programs continue without their driver: no stall of a busy host must end them

TOGETHER = {"policy": "none", "bind": False}
"""All start at once, and Linux puts their processes on processors, as when several people start them."""


def split(words: Sequence[str]) -> list[list[str]]:
    """The commands between separators; one in a word is split as a shell splits it, unless that is a file.

    If no word is the separator, those within words count: ``./a:::./b``.
    """
    between = SEPARATOR in words
    commands: list[list[str]] = [[]]
    for word in words:
        inside = SEPARATOR in word and word != SEPARATOR and not os.path.isfile(word)  # noqa: PTH113 - as below
        if between and inside and not re.search(r"\s", word):
            raise InputError(
                "COMMAND",
                word,
                f"has {SEPARATOR} within a word, and others stand between words",
                f"write {word.replace(SEPARATOR, f' {SEPARATOR} ').strip()}, "
                "or quote the command that has it",
            )
        for part in re.split(f"({SEPARATOR})", word) if inside and not between else [word]:
            if part == SEPARATOR:
                commands.append([])
            elif part.strip() or part == word:
                commands[-1].append(part)
    return [command_words(command) for command in commands]


def lines(text: str, place: str) -> list[list[str]]:
    """The commands of a file with one on each line; empty lines and comments with # count for nothing.

    InputError with the ``place`` and line of the first that is no command.
    """
    commands = []
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line and not line.startswith("#"):
            try:
                commands.append(command_words([line]))
            except InputError as error:
                raise InputError(f"{place}, line {number}", error.value, error.rule, error.remedy) from None
    return commands


def given(program: Sequence[str], file: Path | None) -> list[list[str]]:
    """The commands in the words of a command line, after --, or in a file."""
    words = program[program[:1] == ["--"] :]
    if file is None:
        return split(words)
    if words:
        raise InputError(
            "--file", str(file), "cannot be combined with commands behind --", "leave one of the two out"
        )
    with refused("--file", file, "cannot be read", "name a file with a command on each line"):
        text = os.fsdecode(file.read_bytes())
    return lines(text, str(file))


def command_words(command: Sequence[str]) -> list[str]:
    """The words of a command that is given by them, or as a line for a shell."""
    if len(command) == 1 and "/" in command[0] and os.path.isfile(command[0]):  # noqa: PTH113 - never raises
        return list(command)  # the path of a program may have blanks and quotation marks
    try:
        words = shlex.split(command[0]) if len(command) == 1 else list(command)
    except ValueError:
        raise InputError("COMMAND", command[0], "must have quotes in pairs", "close the quotation") from None
    if not words:
        raise InputError(
            "COMMAND",
            None,
            f"a command must follow -- and each {SEPARATOR}",
            f"write -- mpiexec -n 2 ./one {SEPARATOR} ./other",
        )
    if of_shell := next((word for word in words if len(command) == 1 and OF_SHELL.search(word)), None):
        raise InputError(
            "COMMAND",
            command[0],
            f"cannot have {of_shell!r}, since no shell reads it",
            f"write sh -c {shlex.quote(command[0])}",
        )
    return words


def table(
    commands: Sequence[Sequence[str]],
    policies: Sequence[str] = (),
    *,
    rounds: int,
    precision: float,
    record: bool = False,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The experiment, as the table of its file; under a policy with two-phase waits all wait so.

    A command that names no launcher runs as one process. There are at most so many ``rounds``, and no more
    for a row whose 95 % interval is at most ``precision`` of its median wide.
    """
    if len(commands) < FEWEST:
        raise InputError(
            "COMMAND",
            shlex.join(commands[0]) if commands else None,
            f"must be {FEWEST} or more commands, which are measured together",
            f"write a second one behind {SEPARATOR}; lockstep tune runs copies of one",
        )
    schedulers = [TOGETHER, *map(overrides.scheduler, policies)]
    two_phase = any(scheduler_of(one).options.waiting != "spin" for one in schedulers)
    common: dict[str, Any] = {"waits": "two-phase"} if two_phase else {}
    common |= {"record": True} if record else {}
    common |= {"environment": environment} if environment else {}
    return {
        "name": "colocate",
        "repeats": {"min": min(rounds, 3), "max": rounds},
        "precision": precision,
        "lease_s": LEASE_S,
        "jobs": [{"command": launched(words), **common} for words in commands],
        "schedulers": schedulers,
    }


def launched(words: Sequence[str]) -> list[str]:
    """The words of a command with its launcher: ours with one process, if it names none."""
    if not is_launcher(words[0]):
        return [LAUNCHER, "-n", "1", *words]
    try:
        accepted(words[1:], kinds_of(words[0]))
    except InputError as error:
        if error.remedy != UNPLACED:
            raise InputError("COMMAND", error.value, error.rule, error.remedy) from None
        raise InputError(
            "COMMAND",
            error.value,
            "cannot place or bind processes, since programs that run together share all processors",
            "leave it out, or write -bind-to none",
        ) from None
    return [*words]
