"""Traces read again, independently: line by line, with exact numbers, one rule after the other.

It says what the format says, slowly. A trace that it refuses must be refused.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from decimal import Decimal

YEARS_16 = 500_000_000


class RefusedError(Exception):
    """The text is no trace."""


@dataclass
class SlowJob:
    """A job as it is recorded; -1 for what is unknown."""

    number: Decimal
    submit: Decimal
    run: Decimal
    size: Decimal
    asked: Decimal


def read(data: bytes) -> list[SlowJob]:
    """The jobs that ran, in order of arrival.

    Raises:
        RefusedError: if the data are no trace, or no job ran.
    """
    if 0 in data:
        raise RefusedError("zero")
    pieces = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = [piece.removesuffix(b"\r").decode("utf-8", errors="replace") for piece in pieces]
    first = next(filter(None, (line.strip(" \t") for line in lines)), "")
    swf = bool(re.match("[-;+.0-9]", first))
    jobs = [job for job in (_swf(lines) if swf else _sacct(lines)) if job.run >= 0 and job.size > 0]
    jobs = [job for job in jobs if job.submit >= 0]
    if not jobs:
        raise RefusedError("nobody ran")
    jobs.sort(key=lambda job: job.submit)
    if jobs[-1].submit - jobs[0].submit > YEARS_16:
        raise RefusedError("too long")
    return jobs


def _number(text: str) -> Decimal:
    """A number: sign, digits, point, digits, exponent; none larger or finer than any that is meant."""
    found = re.fullmatch(r"([+-]?([0-9]*)\.?([0-9]*))([eE][+-]?[0-9]{1,2})?", text)
    if not found or not found[2] + found[3] or len(found[1]) > 25:
        raise RefusedError(text)
    return Decimal(text)


def _in(text: str, most: float, *, whole: bool) -> Decimal:
    value = _number(text)
    if value == -1:
        return value
    if not 0 <= value <= Decimal(most) or (whole and value != int(value)):
        raise RefusedError(text)
    return value


def _fields(line: str) -> list[str]:
    return re.findall(r"[^ \t]+", line)


def _swf(lines: list[str]) -> list[SlowJob]:
    jobs, seen = [], set()
    for line in lines:
        before, semicolon, comment = line.partition(";")
        key, colon, value = (part.strip(" \t") for part in comment.partition(":"))
        if semicolon and not _fields(before) and colon and re.fullmatch(r"\w+", key) and key not in seen:
            seen.add(key)
            if key in ("MaxProcs", "MaxNodes") and value:
                _in(value, 1_000_000, whole=True)
        words = _fields(before)
        if not words:
            continue
        if len(words) != 18:
            raise RefusedError(line)
        for word in words:
            if abs(_number(word)) > Decimal(10) ** 18:
                raise RefusedError(word)
        number = _in(words[0], 2**53, whole=True)
        submit = _in(words[1], 1e10, whole=False)
        run, asked = (_in(words[n], YEARS_16, whole=False) for n in (3, 8))
        held, wanted = (_in(words[n], 1_000_000, whole=True) for n in (4, 7))
        if _in(words[10], 5, whole=True) not in (2, 3, 4):
            jobs.append(SlowJob(number, submit, run, held if held > 0 else wanted, asked))
    return jobs


NOT_OVER = "PENDING RUNNING SUSPENDED CONFIGURING COMPLETING STOPPED REQUEUE_HOLD REQUEUE_FED"
NOT_OVER += " RESV_DEL_HOLD SIGNALING STAGE_OUT"
OVER = "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REQUEUED RESIZING"
OVER += " REVOKED TIMEOUT LAUNCH_FAILED RECONFIG_FAIL SPECIAL_EXIT"


def _sacct(lines: list[str]) -> list[SlowJob]:
    names = lines[0].split("|")
    if not {"JobID", "Submit", "ElapsedRaw", "AllocCPUS"} <= set(names):
        raise RefusedError("columns")
    jobs: list[SlowJob] = []
    parts: dict[str, tuple[SlowJob, set[str]]] = {}
    for line in lines[1:]:
        if not line.strip(" \t"):
            continue
        words = line.split("|")
        if len(words) != len(names):
            raise RefusedError(line)
        row = dict(zip(names, words, strict=True))
        array, kind, rest = _name(row["JobID"])
        if kind == ".":
            continue
        state = row.get("State", "COMPLETED").split(" ")[0]
        if state not in OVER.split() + NOT_OVER.split():
            raise RefusedError(state)
        job = SlowJob(
            _in(row.get("JobIDRaw", array), 2**53, whole=True),
            _time(row["Submit"]),
            _in(row["ElapsedRaw"], YEARS_16, whole=False),
            _in(row["AllocCPUS"], 1_000_000, whole=True),
            _limit(row.get("Timelimit", "")),
        )
        if state in NOT_OVER.split():
            job.run = Decimal(-1)
        if kind == "+" and array in parts and rest not in parts[array][1]:
            first, known = parts[array]
            known.add(rest)
            first.size += job.size
            first.run = Decimal(-1) if min(first.run, job.run) < 0 else max(first.run, job.run)
            first.asked = max(first.asked, job.asked)
            continue
        if kind == "+":
            parts[array] = job, {rest}
        jobs.append(job)
    return jobs


def _name(text: str) -> tuple[str, str, str]:
    """The number of a job, and ``_``, ``+`` or ``.`` (a step) with what follows."""
    found = re.fullmatch(r"([0-9]{1,18})(([_+])([0-9]+)|(_)\[.*\])?(\..+)?", text, re.DOTALL)
    if not found:
        raise RefusedError(text)
    number, task, mark, _, tasks, step = found.groups(default="")
    if step:
        return number, ".", task + step
    return number, mark or tasks, task[1:]


def _time(text: str) -> Decimal:
    if re.fullmatch("1[0-9]{9}", text):
        return Decimal(text)
    day, clock = "([0-9]{4})-([0-9]{2})-([0-9]{2})", "([0-9]{2}):([0-9]{2}):([0-9]{2})"
    found = re.fullmatch(f"{day}[T ]{clock}(?:Z|([+-])([0-9]{{2}}):?([0-9]{{2}}))?", text)
    if not found:
        raise RefusedError(text)
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    hours, minutes = (int(word or 0) for word in found.groups()[7:])
    in_month = (31, 28 + (calendar.isleap(year) if year else 0), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not (year and 1 <= month <= 12 and 1 <= day <= in_month[month - 1]):
        raise RefusedError(text)
    if max(hour, hours) > 23 or max(minute, second, minutes) > 59:
        raise RefusedError(text)
    ahead = (hours * 3600 + minutes * 60) * (-1 if found[7] == "-" else 1)
    return Decimal(calendar.timegm((year, month, day, hour, minute, second)) - ahead)


def _limit(text: str) -> Decimal:
    if text in ("", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None"):
        return Decimal(-1)
    found = re.fullmatch("(?:([0-9]{1,5})-)?([0-9]{2}):([0-5][0-9]):([0-5][0-9])", text)
    if not found:
        raise RefusedError(text)
    days, hours, minutes, seconds = (int(word or 0) for word in found.groups())
    return _in(str(((days * 24 + hours) * 60 + minutes) * 60 + seconds), YEARS_16, whole=False)
