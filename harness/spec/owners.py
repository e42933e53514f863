"""The [[owners]] tables of an experiment: when each owner is at which workstations."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from coordinator import policies
from coordinator.owners import Owner
from harness.spec import trace_text
from harness.spec.scheduler import Scheduler
from harness.spec.table_checks import Table, each
from workloads.bounds import within
from workloads.validation import InputError, known_keys, shown

KINDS = ("present_s", "times_s", "trace")
"""The keys that say when an owner is there; a table has one of them."""


def parse(value: Any, folder: Path, schedulers: Sequence[Scheduler] = ()) -> tuple[Owner, ...]:
    """The owners of [[owners]] tables: without ``processors`` one for each. Traces lie in ``folder``.

    The policies of all ``schedulers`` must take notice of them.
    """
    if value == []:
        return ()
    owners = each(value, "owners", "present_s = 600.0", lambda table: _owner(table, folder))
    for index, one in enumerate(schedulers):
        if not one.policy.uses_owner_load:
            heeding = ", ".join(name for name, kind in policies.known().items() if kind.uses_owner_load)
            raise InputError(
                f"schedulers[{index}].policy",
                one.name,
                f"cannot have [[owners]], of whom only {heeding} take notice",
                "choose one of these policies, or leave [[owners]] out",
            )
    return owners


def _owner(table: Table, folder: Path) -> Owner:
    known_keys(table, ("processors", "away_s", "load", *KINDS), "")
    processors = table.get("processors", [])
    if not isinstance(processors, list):
        raise InputError("processors", processors, "must be a list of processors", "write [0, 1]")
    for index, processor in enumerate(processors):
        within("owners.processors", processor, f"processors[{index}]")
    kinds = [key for key in KINDS if key in table]
    if len(kinds) != 1:
        raise InputError(
            kinds[1] if kinds else KINDS[0],
            None,
            f"an owner must have exactly one of {', '.join(KINDS)}",
            "write present_s = 600.0",
        )
    if ("away_s" in table) != ("present_s" in table):
        raise InputError(
            "away_s", table.get("away_s"), "needs present_s, and present_s needs it", "write both, or neither"
        )
    if "trace" in table and "load" in table:
        raise InputError(
            "load", table["load"], "cannot be combined with trace, which has the loads", "leave load out"
        )
    load = table.get("load", 1.0)
    within("owners.load", load)
    owner = Owner(tuple(processors), load=float(load))
    if "trace" in table:
        return replace(owner, loads=_trace(table["trace"], folder))
    if "times_s" in table:
        return replace(owner, loads=_times(table["times_s"], float(load)))
    for key in ("present_s", "away_s"):
        within(f"owners.{key}", table[key])
    return replace(owner, present_s=float(table["present_s"]), away_s=float(table["away_s"]))


def _times(value: Any, load: float) -> tuple[tuple[float, float], ...]:
    """The loads of an owner who is there in these intervals of seconds."""
    rule = "must be a list of [from, to], each after the one before"
    remedy = "write [[10, 20], [30, 35]]"
    if not isinstance(value, list) or not value:
        raise InputError("times_s", value, rule, remedy)
    loads: list[tuple[float, float]] = []
    for index, pair in enumerate(value):
        if not isinstance(pair, list) or len(pair) != 2:
            raise InputError(f"times_s[{index}]", pair, rule, remedy)
        for at_s in pair:
            within("owners.at_s", at_s, f"times_s[{index}]")
        if pair[0] >= pair[1] or (loads and pair[0] < loads[-1][0]):
            raise InputError(f"times_s[{index}]", pair, rule, remedy)
        loads += [(float(pair[0]), load), (float(pair[1]), 0.0)]
    return tuple(loads)


def _trace(value: Any, folder: Path) -> tuple[tuple[float, float], ...]:
    """The loads in a file: a line for each change, with its time in seconds and the load from then on."""
    if not isinstance(value, str):
        raise InputError("trace", value, "must be a path", 'write trace = "load.txt"')
    path = folder / value
    loads: list[tuple[float, float]] = []
    for place, line in enumerate(trace_text.lines(path), 1):
        text = line.partition("#")[0].strip(" \t")
        if not text:
            continue
        try:
            at_s, load = map(trace_text.decimal, re.findall(r"[^ \t]+", text))
        except ValueError:
            raise InputError(
                "trace",
                value,
                f"line {place} must be a time in seconds and a load ({shown(text)})",
                "write 12.5 0.8",
            ) from None
        try:
            within("owners.at_s", at_s, "time")
            within("owners.load", load, "load")
        except InputError as error:
            raise InputError(
                "trace", value, f"line {place}: {error.key} {error.rule} ({shown(text)})", error.remedy
            ) from None
        if loads and at_s <= loads[-1][0]:
            raise InputError(
                "trace",
                value,
                f"line {place} must be later than the line before ({shown(text)})",
                "sort the lines by time",
            )
        loads.append((at_s, load))
    if not loads:
        raise InputError(
            "trace", value, "must have a load", "write a time in seconds and a load on each line"
        )
    return tuple(loads)


def on(owners: Iterable[Owner], processors: int) -> tuple[Owner, ...]:
    """The owners on a machine: a table without processors means one for each."""
    owners_here: list[Owner] = []
    for index, owner in enumerate(owners):
        for processor in owner.processors:
            if processor >= processors:
                raise InputError(
                    f"owners[{index}].processors",
                    processor,
                    f"must be one of {processors} processors, numbered from 0",
                    f"write {processors - 1} or less",
                )
        places = [owner.processors] if owner.processors else [(p,) for p in range(processors)]
        owners_here += [replace(owner, processors=place) for place in places]
    return tuple(owners_here)
