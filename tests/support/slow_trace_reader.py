"""Traces read again, independently: character by character, with exact numbers, one rule after the other.

It says what the format says, slowly. A trace that it refuses must be refused.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from decimal import Decimal

DIGITS = "0123456789"
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
    if data[:3] == bytes((0xEF, 0xBB, 0xBF)):
        data = data[3:]
    if 0 in data:
        raise RefusedError("zero")
    lines = []
    for piece in data.split(b"\n"):
        end = len(piece) - 1 if piece[-1:] == b"\r" else len(piece)
        lines.append(piece[:end].decode("utf-8", errors="replace"))
    full = [line for line in lines if any(c not in " \t" for c in line)]
    swf = bool(full) and next(c for c in full[0] if c not in " \t") in ";+-." + DIGITS
    jobs = [job for job in (_swf(lines) if swf else _sacct(lines)) if job.run >= 0 and job.size > 0]
    jobs = [job for job in jobs if job.submit >= 0]
    if not jobs:
        raise RefusedError("nobody ran")
    jobs.sort(key=lambda job: job.submit)
    if jobs[-1].submit - jobs[0].submit > YEARS_16:
        raise RefusedError("too long")
    return jobs


def _number(text: str) -> Decimal:
    """A number: sign, digits, point, digits, exponent."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    mantissa, mark, exponent = rest, "", ""
    for letter in "eE":
        if letter in rest:
            mantissa, mark, exponent = rest.partition(letter)
            break
    whole, _, part = mantissa.partition(".")
    power = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    if not whole + part or any(c not in DIGITS for c in whole + part + power) or (mark and not power):
        raise RefusedError(text)
    if len(power) > 2 or len(text.lower().partition("e")[0]) > 25:
        raise RefusedError("larger or finer than any number that is meant")
    return Decimal(text)


def _in(text: str, most: float, *, whole: bool) -> Decimal:
    value = _number(text)
    if value == -1:
        return value
    if not 0 <= value <= Decimal(most) or (whole and value != int(value)):
        raise RefusedError(text)
    return value


def _fields(line: str) -> list[str]:
    found = [""]
    for c in line:
        if c in " \t":
            found.append("")
        else:
            found[-1] += c
    return [word for word in found if word]


def _swf(lines: list[str]) -> list[SlowJob]:
    jobs, seen = [], set()
    for line in lines:
        before, semicolon, comment = line.partition(";")
        key, colon, value = (part.strip(" \t") for part in comment.partition(":"))
        is_key = bool(key) and all(c == "_" or c.isalnum() for c in key)
        if semicolon and not _fields(before) and colon and is_key and key not in seen:
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
        if all(c in " \t" for c in line):
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
    end = next((n for n, c in enumerate(text) if c not in DIGITS), len(text))
    number, rest = text[:end], text[end:]
    if not 0 < len(number) < 19:
        raise RefusedError(text)
    if not rest:
        return number, "", ""
    if rest[0] == "." and len(rest) > 1:
        return number, ".", rest
    task = next((n for n, c in enumerate(rest[1:], 1) if c not in DIGITS), len(rest))
    if rest[0] in "_+" and task > 1 and rest[task:] == "":
        return number, rest[0], rest[1:]
    if rest[0] in "_+" and task > 1 and rest[task] == "." and rest[task + 1 :]:
        return number, ".", rest
    if rest[:2] == "_[" and rest.endswith("]"):
        return number, "_", rest
    if rest[:2] == "_[" and "]." in rest and not rest.endswith("]."):
        return number, ".", rest
    raise RefusedError(text)


def _digits(text: str, form: str) -> list[int]:
    """The numbers in a text with the form of ``form``, whose digits stand for any digits."""
    same = (c in DIGITS if f in DIGITS else c == f for c, f in zip(text, form, strict=False))
    if len(text) != len(form) or not all(same):
        raise RefusedError(text)
    return [int(word) for word in "".join(c if c in DIGITS else " " for c in text).split()]


def _time(text: str) -> Decimal:
    if len(text) == 10 and text[0] == "1" and all(c in DIGITS for c in text):
        return Decimal(text)
    moment, offset = text[:19], text[19:]
    year, month, day, hour, minute, second = _digits(moment.replace("T", " ", 1), "0000-00-00 00:00:00")
    in_month = (31, 28 + (calendar.isleap(year) if year else 0), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    if not (year and 1 <= month <= 12 and 1 <= day <= in_month[month - 1]):
        raise RefusedError(text)
    if hour > 23 or minute > 59 or second > 59:
        raise RefusedError(text)
    found = calendar.timegm((year, month, day, hour, minute, second))
    if offset not in ("", "Z"):
        hours, minutes = _digits(offset[1:].replace(":", "", 1)[:2] + ":" + offset[-2:], "00:00")
        if offset[0] not in "+-" or len(offset) != (6 if offset[3:4] == ":" else 5):
            raise RefusedError(text)
        if hours > 23 or minutes > 59:
            raise RefusedError(text)
        found -= (1 if offset[0] == "+" else -1) * (hours * 3600 + minutes * 60)
    return Decimal(found)


def _limit(text: str) -> Decimal:
    if text in ("", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None"):
        return Decimal(-1)
    days, _, clock = text.rpartition("-")
    if "-" in text and not (0 < len(days) < 6 and all(c in DIGITS for c in days)):
        raise RefusedError(text)
    hours, minutes, seconds = _digits(clock, "00:00:00")
    if minutes > 59 or seconds > 59:
        raise RefusedError(text)
    return _in(str(((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + seconds), YEARS_16, whole=False)
