"""The constants of a machine, each declared once, here.

Records, calibrations, the simulated machine, the simulator's numbers, the [machine] table and reports follow.
Everything has a constant under its one name: a calibrated quantity and the simulator end it in ``_ns`` in
place of ``_us``. docs/architecture.md, "Where to add", lists what else a new constant needs.
"""
# ruff: noqa: RUF009 - a constant is a field

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, get_type_hints

from workloads.parameters import tuples
from workloads.validation import InputError, number

Samples = Sequence[float]
"""Ten values of a distribution, all equally likely; none where nothing is measured."""

Rows = Sequence[Samples]  # samples for each of ``idle_times_us``


@dataclass(frozen=True)
class Constant:
    """A constant without its value."""

    name: str  # in all records, with its unit
    kind: Any  # float, Samples or Rows
    in_ns: str  # its name in nanoseconds, if it is a time
    meaning: str  # for tables
    quantity: str  # the quantity of a calibration that it comes from
    mean: bool = False  # whether a scalar is the mean of the measured samples, not their median
    of_slots: bool = False  # whether each mechanism that changes slots has its own
    minimum: float = 0.0  # the smallest value
    given: bool = False  # whether an experiment file can give it
    said: str = ""  # its part of a report's sentence


def _constant(meaning: str, default: float | Samples | Rows = 0.0, **options: Any) -> Any:
    return field(default=default, metadata={"meaning": meaning, **options})


@dataclass(frozen=True, kw_only=True)
class MachineConstants:
    """The constants of a machine in one run: 0, or no samples, for what is free or unknown."""

    latency_us: float = _constant(
        "one-way message, both ends spinning", given=True, said="a message {:.1f} us"
    )
    remote_wakeup_us: float = _constant(
        "context switch: additional cost of a message that wakes a process on a busy processor",
        said="{:.1f} us more to a blocked receiver",
    )
    local_switch_us: float = _constant(
        "switch between two processes of one processor", said="a context switch {:.1f} us"
    )
    os_noise_length_us: float = _constant(
        "how long the operating system takes a processor",
        mean=True,
        said="the operating system takes {:.1f} us",
    )
    os_noise_interval_us: float = _constant(
        "time from the begin of one such noise to the next, one sample for each processor",
        mean=True,
        said="every {:.0f} us",
    )
    yield_us: float = _constant("switch to another process of the processor by sched_yield")
    idle_wakeup_us: float = _constant("wake-up of a blocked process on an idle processor")
    send_us: float = _constant("CPU time to send a message", given=True)
    wake_us: float = _constant("CPU time to wake the receiver of a message, if it sleeps", given=True)
    receive_us: float = _constant("CPU time to receive a message", given=True)
    serve_us: float = _constant("CPU time to answer a read, beyond receiving and sending", given=True)
    poll_us: float = _constant("poll that finds no message", given=True)
    tick_us: float = _constant("the kernel's clock tick")
    slice_us: float = _constant("the slice of the default scheduling class")
    queried_slice_us: float = _constant(
        "the time slice of a process that queries its CPU clock, while another one runs"
    )
    rr_interval_us: float = _constant("the time slice of SCHED_RR")
    cache_kb: float = _constant("the largest cache of a processor's own, in KiB", given=True)
    cache_reload_us: float = _constant(
        "time to load all of it after a move", quantity="migration_ns", given=True
    )
    memory_step_ns: float = _constant("one step through the working set")
    switch_deviation_us: Samples = _constant(
        "how much longer or shorter than usual a switch is",
        (),
        quantity="local_switch_pair_ns",
        minimum=-math.inf,
    )
    idle_times_us: Samples = _constant(
        "times for which a process has not run, or not communicated", (), quantity="switch_after_idle_ns"
    )
    switch_after_idle_us: Rows = _constant(
        "switch to a process that waits and has not run for this many us", ()
    )
    send_after_idle_us: Rows = _constant(
        "additional time of the next send of a process that has sent nothing for this many us", ()
    )
    overrun_us: Samples = _constant("by how much longer than asked a computation takes", ())
    tick_delay_us: Samples = _constant("how late slices end after the clock tick", ())
    slot_cost_us: Samples = _constant("time that a processor loses by a slot switch", (), of_slots=True)
    switch_delay_us: Samples = _constant("how late slots change", (), of_slots=True)

    def recorded(self) -> dict[str, Any]:
        """The values for a record: none of an unknown machine, and those of slots where slots change."""
        if not self.known:
            return {}
        values = {one: getattr(self, one.name) for one in CONSTANTS}
        return {one.name: value for one, value in values.items() if value or not one.of_slots}

    @property
    def known(self) -> bool:
        """Whether any of them was measured."""
        return any(getattr(self, one.name) for one in CONSTANTS)

    def __post_init__(self) -> None:
        for one in CONSTANTS:
            if one.kind is not float:
                object.__setattr__(self, one.name, tuples(getattr(self, one.name)))

    def check(self) -> None:
        """Raise InputError for values that no machine has."""
        for index, (last_us, time_us) in enumerate(pairwise((0.0, *self.idle_times_us))):
            number(f"idle_times_us[{index}]", time_us, above=last_us)
        for one in CONSTANTS:
            value = getattr(self, one.name)
            if one.kind == Rows and value:
                self._check_rows(one.name, value)
            for key, part in _numbers(one.name, value):
                number(key, part, minimum=one.minimum)

    def _check_rows(self, key: str, rows: Rows) -> None:
        count = len(self.idle_times_us)
        lengths = {len(row) for row in rows}
        if len(rows) != count or len(lengths) > 1 or 0 in lengths:
            raise InputError(
                key,
                rows,
                f"must have a row for each of the {count} idle times, all of one length above 0",
                "give each of idle_times_us as many values, or give no rows",
            )


def _declared(name: str, kind: Any, options: Mapping[str, Any]) -> Constant:
    in_ns = f"{name[:-3]}_ns" if name.endswith("_us") else name
    return Constant(name, kind, in_ns, **{"quantity": in_ns, **options})


KINDS = get_type_hints(MachineConstants)
CONSTANTS = tuple(_declared(each.name, KINDS[each.name], each.metadata) for each in fields(MachineConstants))
"""The table of all constants."""


def _numbers(key: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The numbers of a value, each with its place in it."""
    if isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _numbers(f"{key}[{index}]", part)
    else:
        yield key, value
