"""Traces as `sacct --parsable2` prints them, read: rows as of the Standard Workload Format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from harness.spec import swf
from harness.spec.swf import ALLOCATED, FAILED, FIELDS, REQUESTED_S, RUN, STATUS, Records
from harness.spec.trace_text import UNKNOWN, number, refusal

NEEDED = ("JobID", "Submit", "ElapsedRaw", "AllocCPUS")
COLUMNS = (*NEEDED, "JobIDRaw", "State", "Timelimit")
"""The columns that are used."""

_JOB = re.compile(r"([0-9]{1,18})(_[0-9]+|_\[.*\]|\+[0-9]+)?")
"""A job, a task of a job array, its tasks that still wait, or a component of a heterogeneous job."""
_STEP = re.compile(_JOB.pattern + r"\..+")

_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[-+][0-9]{2}:?[0-9]{2})?", re.ASCII
)
_SINCE_1970 = re.compile("1[0-9]{9}")
"""Seconds from 2001 to 2033. Other digits in a row are a date in some format."""
_LIMIT = re.compile(r"(?:([0-9]{1,5})-)?([0-9]{2}):([0-5][0-9]):([0-5][0-9])")
_NO_LIMIT = ("", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None")

_STATES: Mapping[str, int] = {
    **dict.fromkeys(("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "STOPPED"), UNKNOWN),
    **dict.fromkeys(("REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SIGNALING", "STAGE_OUT"), UNKNOWN),
    **dict.fromkeys(("BOOT_FAIL", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT"), FAILED),
    **dict.fromkeys(("PREEMPTED", "REQUEUED", "RESIZING", "REVOKED", "LAUNCH_FAILED"), FAILED),
    **dict.fromkeys(("RECONFIG_FAIL", "SPECIAL_EXIT"), FAILED),
    "CANCELLED": swf.CANCELLED,
    "COMPLETED": swf.COMPLETED,
}
"""The status of each state; UNKNOWN as long as the job is not over."""


def read(path: Path, lines: Sequence[str]) -> Records:
    """The jobs in the ``lines`` of the file ``path``, without job steps.

    Each task of a job array is a job. The components of a heterogeneous job start together, so they are
    one job of all their processors.
    """
    names = lines[0].split("|")
    if missing := [name for name in NEEDED if name not in names]:
        rule = f"must name the columns of sacct; missing are {', '.join(missing)}"
        remedy = f"give a trace in the Standard Workload Format, or {_command()}"
        raise refusal(path, 1, "the first line", lines[0], rule, remedy)
    rows: list[list[float]] = []
    components: dict[str, dict[str, list[float]]] = {}
    for place, line in enumerate(lines[1:], 2):
        if not line.strip(" \t"):
            continue
        values = line.split("|")
        if len(values) != len(names):
            rule = f"must have {len(names)} fields, as the first line, and has {len(values)}"
            remedy = f"if a field holds a bar or a line end, leave its column out: {_command()}"
            raise refusal(path, place, "a job", line, rule, remedy)
        if row := _row(path, place, dict(zip(names, values, strict=True))):
            _enter(row, values[names.index("JobID")], rows, components)
    return Records(np.array(rows, dtype=float).reshape(-1, len(FIELDS)), None, {})


def _command() -> str:
    return f"sacct --parsable2 --format={','.join(COLUMNS)}"


def _enter(
    row: list[float], name: str, rows: list[list[float]], components: dict[str, dict[str, list[float]]]
) -> None:
    """Append a job to ``rows``, or join a component to the heterogeneous job that it belongs to."""
    whole, _, component = name.partition("+")
    known = components.setdefault(whole, {}) if component else {}
    if component in known:  # sacct --duplicates: the job was requeued
        known.clear()
    if known:
        job = next(iter(known.values()))
        job[ALLOCATED] += row[ALLOCATED]
        job[RUN] = max(job[RUN], row[RUN]) if job[RUN] >= 0 and row[RUN] >= 0 else UNKNOWN
        job[REQUESTED_S] = max(job[REQUESTED_S], row[REQUESTED_S])
    else:
        rows.append(row)
    known[component] = row


def _row(path: Path, place: int, values: Mapping[str, str]) -> list[float] | None:
    """A job, None for a step. Its number is JobIDRaw, or without that column the number of its array."""
    name = values["JobID"]
    if _STEP.fullmatch(name):
        return None
    if not (job := _JOB.fullmatch(name)):
        raise refusal(path, place, "JobID", name, "must be a job, as 12, 12_3 or 12+0")
    state = values.get("State", "COMPLETED").partition(" ")[0]
    if state not in _STATES:
        raise refusal(path, place, "State", state, f"must be one of {', '.join(_STATES)}")
    row = [float(UNKNOWN)] * len(FIELDS)
    row[swf.NUMBER] = number(path, place, "JobIDRaw", values.get("JobIDRaw", job[1]), "trace.number")
    row[swf.SUBMIT] = _instant(path, place, values["Submit"])
    row[RUN] = number(path, place, "ElapsedRaw", values["ElapsedRaw"], "trace.time_s")
    row[ALLOCATED] = number(path, place, "AllocCPUS", values["AllocCPUS"], "simulated.processors")
    row[REQUESTED_S] = _limit_s(path, place, values.get("Timelimit", ""))
    row[STATUS] = _STATES[state]
    if row[STATUS] == UNKNOWN:
        row[RUN] = UNKNOWN
    return row


def _instant(path: Path, place: int, text: str) -> float:
    """A time in seconds since 1970; without an offset it counts as UTC."""
    if _SINCE_1970.fullmatch(text):
        return float(text)
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError(text)
        when = datetime.fromisoformat(text)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        rule = "must be a time as 2024-12-31T23:59:59, or the seconds since 1970"
        remedy = f"ask again with SLURM_TIME_FORMAT=standard: SLURM_TIME_FORMAT=standard {_command()}"
        raise refusal(path, place, "Submit", text, rule, remedy) from None


def _limit_s(path: Path, place: int, text: str) -> float:
    """Slurm's ``[days-]hours:minutes:seconds`` in seconds, UNKNOWN without a limit."""
    if text in _NO_LIMIT:
        return UNKNOWN
    if not (match := _LIMIT.fullmatch(text)):
        raise refusal(path, place, "Timelimit", text, "must be [DAYS-]HOURS:MINUTES:SECONDS or UNLIMITED")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    limit_s = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return number(path, place, "Timelimit", str(limit_s), "trace.time_s")
