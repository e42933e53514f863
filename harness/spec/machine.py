"""The simulated machine of an experiment: what the [machine] table says."""

from __future__ import annotations

import dataclasses
import errno
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.spec.table_checks import build
from workloads.machine import COLUMNS, LOCAL_SCHEDULERS, TICKS_PER_S, check_values
from workloads.validation import InputError, one_of

NUMBER = re.compile("[0-9]{1,9}")


@dataclasses.dataclass(frozen=True)
class MachineSpec:
    """The machine to simulate; None leaves a value to the calibration, else to the paper's machine.

    The fields mean what they mean in ``harness.simulator.processes.machine.SimulatedMachine``.
    """

    context_switch_us: float | None = None
    latency_us: float | None = None
    local: str | None = None
    timers: str | None = None
    quantum_ms: float | None = None
    dispatch_table: Sequence[Sequence[int]] | None = None
    send_us: float | None = None
    receive_us: float | None = None
    serve_us: float | None = None
    poll_us: float | None = None
    reads_served_by: str | None = None

    def __post_init__(self) -> None:
        if self.local is not None:
            one_of("local", self.local, LOCAL_SCHEDULERS)
        check_values(self.given())
        if self.dispatch_table is not None and self.local not in (None, "svr4"):
            rule = f"is the table of svr4, and local is {self.local!r}"
            raise InputError("dispatch_table", self.dispatch_table, rule, 'write local = "svr4"')

    def given(self) -> dict[str, Any]:
        """The values that are not left open."""
        return {key: value for key, value in vars(self).items() if value is not None}


def machine_spec(table: Mapping[str, Any], folder: Path) -> MachineSpec:
    """What a [machine] table describes; a dispatch table's file is looked for in ``folder``.

    Raises:
        InputError: below ``machine``, for whatever is wrong with it.
    """
    values = dict(table)
    if isinstance(values.get("dispatch_table"), str):
        try:
            values["dispatch_table"] = read_table(folder / values["dispatch_table"])
        except InputError as error:
            raise error.under("machine") from None
    return build(MachineSpec, values, "machine")


def read_table(path: Path) -> list[list[int]]:
    """The dispatch table in a file as ``dispadmin -c TS -g`` of Solaris prints it.

    A row for each priority, the lowest first: quantum, tqexp, slpret, maxwait, lwait. ``#`` begins
    a comment. ``RES=N`` before them says that quanta are in 1/N s; without it they are in ticks.

    Raises:
        InputError: if it cannot be read, or a line is something else.
    """
    try:
        if not path.is_file():
            raise FileNotFoundError(errno.ENOENT, "no such file")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path that cannot be one
        rule = f"must be a readable file: {getattr(error, 'strerror', None) or 'no text'}"
        raise InputError("dispatch_table", str(path), rule, "check the path") from None
    per_s, rows = TICKS_PER_S, []
    for place, line in enumerate(lines, 1):
        text = line.split("#")[0].strip()
        name, _, value = text.partition("=")
        words = text.replace(",", " ").split()
        if name.strip() == "RES" and NUMBER.fullmatch(value.strip()) and int(value) > 0:
            per_s = int(value)
        elif len(words) == len(COLUMNS) and all(map(NUMBER.fullmatch, words)):
            quantum, *others = map(int, words)
            rows.append([max(1, round(quantum * TICKS_PER_S / per_s)), *others])
        elif text:
            rule = f"line {place} of {path} is neither a row of {', '.join(COLUMNS)} nor RES=N"
            raise InputError("dispatch_table", text, rule, "give five whole numbers for each priority")
    return rows
