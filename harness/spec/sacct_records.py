"""Jobs as Slurm's accounting has them: the text of ``sacct``, with the columns and separators in use."""

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from harness.spec import other_logs
from harness.spec.other_logs import SACCT
from harness.spec.swf_records import (
    ALLOCATED,
    CANCELLED,
    COMPLETED,
    FAILED,
    GROUP,
    HELD_S,
    NUMBER,
    PARTITION,
    QUEUE,
    REQUESTED,
    REQUESTED_S,
    RUN,
    STATUS,
    STILL_RUNNING,
    SUBMIT,
    USER,
    WAIT,
    Records,
)
from harness.spec.trace_text import UNKNOWN, Faults, number, refusal, refuse
from workloads.parameters import Name
from workloads.validation import InputError, printable

_JOB = re.compile(r"([0-9]{1,18})(_[0-9]+|_\[.*\]|\+[0-9]+)?")
"""A job, a task of a job array, its tasks that still wait, or a component of a heterogeneous job."""
_STEP = re.compile(_JOB.pattern + r"\..+")

_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[-+][0-9]{2}:?[0-9]{2})?", re.ASCII
)
_SINCE_1970 = re.compile("1[0-9]{9}")
"""Seconds from 2001 to 2033. Other digits in a row are a date in some format."""
_CLOCK = re.compile(
    r"(?:(?:([0-9]{1,5})-)?([0-9]{1,5}):)?([0-5]?[0-9]):([0-5][0-9](?:\.[0-9]{1,9})?)", re.ASCII
)
_NOTHING = ("", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None", "N/A")
"""What stands for a time that is not known, or that has not come."""
_THOUSANDS = re.compile(r"([0-9]{1,6})([KM])")
"""A number in sacct's units, which it writes for whole multiples of 1,024."""

_WAITS = UNKNOWN
_STATES: Mapping[str, tuple[str, int]] = {
    "BOOT_FAIL": ("BF", CANCELLED),
    "CANCELLED": ("CA", CANCELLED),
    "COMPLETED": ("CD", COMPLETED),
    "COMPLETING": ("CG", STILL_RUNNING),
    "CONFIGURING": ("CF", _WAITS),
    "DEADLINE": ("DL", CANCELLED),
    "EXPEDITING": ("EX", _WAITS),
    "FAILED": ("F", FAILED),
    "LAUNCH_FAILED": ("LF", CANCELLED),
    "NODE_FAIL": ("NF", FAILED),
    "OUT_OF_MEMORY": ("OOM", FAILED),
    "PENDING": ("PD", _WAITS),
    "POWER_UP_NODE": ("PU", _WAITS),
    "PREEMPTED": ("PR", FAILED),
    "RECONFIG_FAIL": ("RF", CANCELLED),
    "REQUEUED": ("RQ", FAILED),
    "REQUEUE_FED": ("RFE", _WAITS),
    "REQUEUE_HOLD": ("RH", _WAITS),
    "RESIZING": ("RS", FAILED),
    "RESV_DEL_HOLD": ("RD", _WAITS),
    "REVOKED": ("RV", CANCELLED),
    "RUNNING": ("R", STILL_RUNNING),
    "SIGNALING": ("SI", STILL_RUNNING),
    "SPECIAL_EXIT": ("SE", FAILED),
    "STAGE_OUT": ("SO", STILL_RUNNING),
    "STOPPED": ("ST", STILL_RUNNING),
    "SUSPENDED": ("S", STILL_RUNNING),
    "TIMEOUT": ("TO", FAILED),
    "UPDATE_DB": ("UD", STILL_RUNNING),
}
"""All states of Slurm, the short name of each, and its status in the Standard Workload Format.

A job that ended before it could run is ``CANCELLED``, which counts as such if it ran for no time.
"""
_NAMED = {USER: "user", GROUP: "account", QUEUE: "qos", PARTITION: "partition"}
"""The columns with names, by the fields that hold them in the Standard Workload Format."""

_STATUS = {name: status for full, (short, status) in _STATES.items() for name in (full, short)}


@dataclass(frozen=True)
class _Columns:
    """How the lines below a header are cut, and what their columns are called."""

    names: tuple[str, ...]  # without capitals
    cut: Callable[[str], list[str]]

    def values(self, path: Path, place: int, line: str) -> dict[str, str]:
        values = self.cut(line)
        if len(values) != len(self.names):
            raise refusal(
                path,
                place,
                "a job",
                line,
                f"must have {len(self.names)} fields, as the line of names, and has {len(values)}",
                f"if a field holds a separator or a line end, leave its column out: {SACCT}",
            )
        return {name: value.strip(" \t") for name, value in zip(self.names, values, strict=True)}


def read(path: Path, lines: Sequence[str], faults: Faults = refuse) -> Records:
    """The jobs in the ``lines`` of the file ``path``, without steps; ``faults`` gets broken ones.

    Each task of a job array is a job. The components of a heterogeneous job start together, so they are
    one job of all their processors.
    """
    rows: list[list[float]] = []
    components: dict[str, dict[str, list[float]]] = {}
    numbers: dict[int, dict[str, int]] = {column: {} for column in _NAMED}
    columns: _Columns | None = None
    for place, line in enumerate(lines, 1):
        if not line.strip(" \t-"):  # also the line of dashes below the names
            continue
        if other_logs.names_jobs(line):  # again, where texts were put together
            columns = _columns(path, place, line, lines[place] if place < len(lines) else "")
        elif columns:
            try:
                values = columns.values(path, place, line)
                name = values.get("jobid") or values.get("jobidraw", "")
                row = _row(path, place, name, values)
            except InputError as fault:
                faults(fault)
                continue
            if row:
                for column, heading in _NAMED.items():
                    if name_there := printable(values.get(heading, ""))[: Name.LONGEST]:
                        known = numbers[column]
                        row[column] = known.setdefault(name_there, len(known))
                _enter(row, name, rows, components)
    table = np.array(rows, dtype=float).reshape(-1, HELD_S + 1)
    names = {column: {number: name for name, number in of.items()} for column, of in numbers.items()}
    return Records(table, None, {}, names)


def _columns(path: Path, place: int, line: str, below: str) -> _Columns:
    """The columns that ``line`` names; those of a table are as wide as the dashes ``below`` them."""
    separator = next((one for one in "|\t;," if one in line), None)
    cut: Callable[[str], list[str]]
    if separator:
        cut = partial(_separated, separator)
    elif widths := [match.span() for match in re.finditer("-+", below) if not below.strip(" \t-")]:
        cut = partial(_cut, widths)
    elif other := other_logs.known(line):
        raise refusal(path, place, "the file", line.strip(" \t"), f"seems to be {other.name}", other.remedy)
    else:
        raise refusal(
            path,
            place,
            "a table",
            line,
            "has columns without separators, and no line of dashes below their names",
            f"ask for separators: {SACCT}",
        )
    columns = _Columns(tuple(name.strip(" \t").lower() for name in cut(line)), cut)
    missing = [
        " or ".join(names)
        for names in (("JobID", "JobIDRaw"), ("Submit",), _ELAPSED, _PROCESSORS)
        if not any(name.lower() in columns.names for name in names)
    ]
    if missing:
        raise refusal(
            path,
            place,
            "the line of names",
            line,
            f"must name the columns of sacct; missing are {', '.join(missing)}",
            f"ask again: {SACCT}",
        )
    return columns


def _separated(separator: str, line: str) -> list[str]:
    if '"' not in line:
        return line.split(separator)
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a field that is longer than any that is meant
        return [line]


def _cut(widths: Sequence[tuple[int, int]], line: str) -> list[str]:
    return [line[first:last] for first, last in widths]


def _enter(
    row: list[float], name: str, rows: list[list[float]], components: dict[str, dict[str, list[float]]]
) -> None:
    """Append a job to ``rows``, or join a component to the heterogeneous job that it belongs to."""
    whole, _, component = name.partition("+")
    jobs_of = components.setdefault(whole, {}) if component else {}
    if component in jobs_of:  # sacct --duplicates: the job was requeued
        jobs_of.clear()
    if jobs_of:
        job = next(iter(jobs_of.values()))
        job[NUMBER] = min(job[NUMBER], row[NUMBER])
        job[ALLOCATED] += row[ALLOCATED]
        job[RUN] = max(job[RUN], row[RUN]) if job[RUN] >= 0 and row[RUN] >= 0 else UNKNOWN
        job[REQUESTED_S] = max(job[REQUESTED_S], row[REQUESTED_S])
        job[STATUS] = max(job[STATUS], row[STATUS])
    else:
        rows.append(row)
    jobs_of[component] = row


def _row(path: Path, place: int, name: str, values: Mapping[str, str]) -> list[float] | None:
    """A job, None for a step. Its number is JobIDRaw, or without that column the number of its array."""
    if _STEP.fullmatch(name):
        return None
    if not (job := _JOB.fullmatch(name)):
        raise refusal(
            path,
            place,
            "JobID",
            name,
            "must be a job, as 12, 12_3 or 12+0",
            f"if it is cut short, ask again: {SACCT}",
        )
    row = [float(UNKNOWN)] * (HELD_S + 1)
    row[NUMBER] = number(path, place, "JobIDRaw", values.get("jobidraw", job[1]), "trace.number")
    submit_s = _instant(path, place, "Submit", values["submit"])
    eligible_s = _instant(path, place, "Eligible", values.get("eligible", ""))
    with suppress(InputError):
        if UNKNOWN < _instant(path, place, "Start", values.get("start", "")) < eligible_s:
            eligible_s = UNKNOWN  # it was held again after it had run
    row[SUBMIT] = submit_s if submit_s == UNKNOWN else max(submit_s, eligible_s)
    row[HELD_S] = UNKNOWN if UNKNOWN in (submit_s, eligible_s) else row[SUBMIT] - submit_s
    row[STATUS] = _status(path, place, values.get("state", "COMPLETED"))
    row[ALLOCATED] = _count(path, place, _PROCESSORS, values)
    row[REQUESTED] = _count(path, place, ("ReqCPUS",), values)
    row[RUN] = _elapsed_s(path, place, values)
    row[REQUESTED_S] = _limit_s(path, place, values)
    with suppress(InputError):  # a start that is no time leaves the wait unknown
        start_s = _instant(path, place, "Start", values.get("start", ""))
        row[WAIT] = max(0.0, start_s - row[SUBMIT]) if UNKNOWN not in (start_s, row[SUBMIT]) else UNKNOWN
    if row[STATUS] in (_WAITS, STILL_RUNNING) or values.get("start", "begun") in _NOTHING:
        row[RUN] = UNKNOWN
    return row


def _status(path: Path, place: int, text: str) -> int:
    """The status of a state, which may be short, cut to the width of a column, or name who cancelled it."""
    state = text.partition(" ")[0].upper()
    if state.endswith("+"):
        states = [name for name in _STATES if name.startswith(state[:-1])]
        state = states[0] if len(states) == 1 else state
    if state not in _STATUS:
        raise refusal(path, place, "State", text, f"must be one of {', '.join(_STATES)}")
    return _STATUS[state]


_ELAPSED = ("ElapsedRaw", "Elapsed", "End")
_PROCESSORS = ("AllocCPUS", "NCPUS")


def _elapsed_s(path: Path, place: int, values: Mapping[str, str]) -> float:
    """For how long a job ran: the recorded time, or from its start to its end."""
    if "elapsedraw" in values:
        text = values["elapsedraw"]
        return UNKNOWN if text in _NOTHING else number(path, place, "ElapsedRaw", text, "trace.time_s")
    if "elapsed" in values:
        return _clock_s(path, place, "Elapsed", values["elapsed"])
    start_s = _instant(path, place, "Start", values.get("start", ""))
    end_s = _instant(path, place, "End", values["end"])
    return UNKNOWN if UNKNOWN in (start_s, end_s) else max(0.0, end_s - start_s)


def _limit_s(path: Path, place: int, values: Mapping[str, str]) -> float:
    """The limit of a job's time, UNKNOWN without one; TimelimitRaw is in minutes."""
    if "timelimitraw" not in values:
        return _clock_s(path, place, "Timelimit", values.get("timelimit", ""))
    if (text := values["timelimitraw"]) in _NOTHING:
        return UNKNOWN
    minutes = number(path, place, "TimelimitRaw", text, "trace.time_s")
    if minutes == UNKNOWN:
        return UNKNOWN
    return number(path, place, "TimelimitRaw", f"{minutes * 60:.9g}", "trace.time_s")


def _count(path: Path, place: int, names: Sequence[str], values: Mapping[str, str]) -> float:
    name = next((name for name in names if name.lower() in values), None)
    if name is None or (text := values[name.lower()]) in _NOTHING:
        return UNKNOWN
    if match := _THOUSANDS.fullmatch(text):
        text = str(int(match[1]) * 1024 ** (1 + (match[2] == "M")))
    return number(path, place, name, text, "simulated.processors")


def _instant(path: Path, place: int, name: str, text: str) -> float:
    """A time in seconds since 1970; without an offset it counts as UTC."""
    if text in _NOTHING:
        return UNKNOWN
    if _SINCE_1970.fullmatch(text):
        return float(text)
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError(text)
        when = datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise refusal(
            path,
            place,
            name,
            text,
            "must be a time as 2024-12-31T23:59:59, or the seconds since 1970",
            f"ask again with SLURM_TIME_FORMAT=standard: SLURM_TIME_FORMAT=standard {SACCT}",
        ) from None


def _clock_s(path: Path, place: int, name: str, text: str) -> float:
    """Slurm's ``[[days-]hours:]minutes:seconds`` in seconds."""
    if text in _NOTHING:
        return UNKNOWN
    if not (match := _CLOCK.fullmatch(text)):
        raise refusal(path, place, name, text, "must be [[DAYS-]HOURS:]MINUTES:SECONDS or UNLIMITED")
    days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
    time_s = ((days * 24 + hours) * 60 + minutes) * 60 + float(match[4])
    return number(path, place, name, f"{time_s:.17g}", "trace.time_s")
