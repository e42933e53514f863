"""The [machine] table of an experiment: values of the machine to simulate."""

import errno
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workloads.machine import COLUMNS, KEYS, TICKS_PER_S, check_dispatch_row, check_values
from workloads.validation import InputError, known_keys, shown, under

NUMBER = re.compile("[0-9]{1,9}")


def machine_values(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The values of a [machine] table, by ``workloads.machine.KEYS``, checked; files lie in ``folder``."""
    known_keys(table, KEYS, "machine")
    values = dict(table)
    with under("machine"):
        if isinstance(values.get("dispatch_table"), str):
            values["dispatch_table"] = read_table(folder / values["dispatch_table"])
        check_values(values)
        if "dispatch_table" in values and values.get("local", "svr4") != "svr4":
            raise InputError(
                "dispatch_table",
                values["dispatch_table"],
                f"needs local = 'svr4', and local is {values['local']!r}",
                'write local = "svr4"',
            )
    return values


def check_real(values: Mapping[str, Any]) -> None:
    if values.get("lost"):
        raise InputError(
            "machine.lost",
            values["lost"],
            "cannot be in real runs, which use all processors",
            "use lockstep simulate, or leave lost out",
        )


def read_table(path: Path) -> list[list[int]]:
    """The dispatch table in a file as ``dispadmin -c TS -g`` of Solaris prints it.

    A row for each priority, the lowest first: quantum, tqexp, slpret, maxwait, lwait. ``#`` begins
    a comment. ``RES=N`` before them says that quanta are in 1/N s; without it they are in ticks.
    """
    try:
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no such file")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path that cannot be one
        raise InputError(
            "dispatch_table",
            str(path),
            f"must be a readable file: {getattr(error, 'strerror', None) or 'no text'}",
            "check the path",
        ) from None
    per_s = TICKS_PER_S
    rows: list[list[int]] = []
    origins: list[tuple[int, str]] = []
    for place, line in enumerate(lines, 1):
        text = line.split("#")[0].strip()
        name, _, value = text.partition("=")
        words = text.replace(",", " ").split()
        if name.strip() == "RES" and NUMBER.fullmatch(value.strip()) and int(value) > 0:
            per_s = int(value)
        elif len(words) == len(COLUMNS) and all(map(NUMBER.fullmatch, words)):
            quantum, *others = map(int, words)
            rows.append([max(1, round(quantum * TICKS_PER_S / per_s)), *others])
            origins.append((place, text))
        elif text:
            raise InputError(
                "dispatch_table",
                str(path),
                f"line {place} must be {', '.join(COLUMNS)}, or RES=N ({shown(text)})",
                "write five whole numbers for each priority",
            )
    if not rows:
        raise InputError("dispatch_table", str(path), "must have a row", "write a row for each priority")
    for row, (place, text) in zip(rows, origins, strict=True):
        try:
            check_dispatch_row(row, len(rows))
        except InputError as error:
            raise InputError(
                "dispatch_table",
                str(path),
                f"line {place}: {error.key} {error.rule} ({shown(text)})",
                error.remedy,
            ) from None
    return rows
