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
    follows: Decimal = Decimal(-1)
    perhaps: bool = False  # cancelled: it ran only if it took some time


def read(data):
    """The jobs that ran, in order of arrival.

    Raises:
        RefusedError: if the data are no trace, or no job ran.
    """
    if 0 in data:
        raise RefusedError("zero")
    pieces = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = [piece.removesuffix(b"\r").decode("utf-8", errors="replace") for piece in pieces]
    swf = not any(map(_has_names, lines[:50]))
    jobs = [job for job in (_swf(lines) if swf else _sacct(lines)) if job.run >= 0 and job.size > 0]
    jobs = [job for job in jobs if job.submit >= 0]
    if not jobs:
        raise RefusedError("nobody ran")
    jobs.sort(key=lambda job: (job.submit, job.number, job.run, job.size, job.asked))
    if jobs[-1].submit - jobs[0].submit > YEARS_16:
        raise RefusedError("too long")
    numbered = {job.number: job for job in jobs}
    for job in jobs:
        before = [job]
        while before[-1].follows > 0 and before[-1].follows in numbered:
            before.append(numbered[before[-1].follows])
            if before[-1] in before[:-1]:
                raise RefusedError("follows itself")
    return jobs


def _has_names(line):
    """Whether a line names the columns of sacct."""
    line = line.strip(" \t").lower()
    if any(digit in line for digit in "0123456789") or line[:1] in (";", "#"):
        return False
    return any(word in ("jobid", "jobidraw") for word in re.split(r"\W+", line))


def _number(text):
    """A number: sign, digits, point, digits, exponent; none larger or finer than any that is meant."""
    found = re.fullmatch(r"([+-]?([0-9]*)\.?([0-9]*))([eE][+-]?[0-9]{1,2})?", text)
    if not found or not found[2] + found[3] or len(found[1]) > 25:
        raise RefusedError(text)
    return Decimal(text)


def _in(text, most, *, whole):
    value = _number(text)
    if value == -1:
        return value
    if not 0 <= value <= Decimal(most) or (whole and value != int(value)):
        raise RefusedError(text)
    return value


def _fields(line):
    return re.findall(r"[^ \t]+", line)


def _swf(lines):
    jobs = []
    seen = set()
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
        status = _in(words[10], 5, whole=True)
        follows = _in(words[16], 2**53, whole=True)
        _in(words[17], YEARS_16, whole=False)
        if status not in (2, 3, 4) and (status, run) != (5, 0):
            jobs.append(SlowJob(number, submit, run, held if held > 0 else wanted, asked, follows))
    return jobs


NOT_OVER = "PENDING RUNNING SUSPENDED CONFIGURING COMPLETING STOPPED REQUEUE_HOLD REQUEUE_FED UPDATE_DB"
NOT_OVER += (
    " RESV_DEL_HOLD SIGNALING STAGE_OUT POWER_UP_NODE EXPEDITING PD R S CF CG ST RH RFE UD RD SI SO PU EX"
)
RAN = "COMPLETED FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REQUEUED RESIZING TIMEOUT SPECIAL_EXIT"
RAN += " CD F NF OOM PR RQ RS TO SE"
PERHAPS = "CANCELLED BOOT_FAIL DEADLINE REVOKED LAUNCH_FAILED RECONFIG_FAIL CA BF DL RV LF RF"
STATES = RAN.split() + PERHAPS.split() + NOT_OVER.split()


def _sacct(lines):
    jobs = []
    parts = {}
    names = []
    separator = ""
    for line in lines:
        if line.strip(" \t-") == "":
            continue
        if _has_names(line):
            names, separator = _names(line)
            continue
        if not names:
            continue
        words = [word.strip(" \t") for word in line.split(separator)]
        if len(words) != len(names):
            raise RefusedError(line)
        row = dict(zip(names, words, strict=True))
        array, kind, rest = _name(row.get("jobid") or row.get("jobidraw", ""))
        if kind == ".":
            continue
        job = _slurm_job(row, array)
        if kind == "+" and array in parts and rest not in parts[array][1]:
            first, known = parts[array]
            known.add(rest)
            first.number = min(first.number, job.number)
            first.size += job.size
            first.run = Decimal(-1) if min(first.run, job.run) < 0 else max(first.run, job.run)
            first.asked = max(first.asked, job.asked)
            first.perhaps |= job.perhaps
            continue
        if kind == "+":
            parts[array] = job, {rest}
        jobs.append(job)
    for job in jobs:
        if job.perhaps and job.run == 0:
            job.run = Decimal(-1)
    return jobs


def _names(line):
    """The columns of sacct, and what separates them."""
    separator = next((mark for mark in "|\t;," if mark in line), None)
    if separator is None:
        raise RefusedError("a table without dashes")
    names = [name.strip(" \t").lower() for name in line.split(separator)]
    for some in ({"jobid", "jobidraw"}, {"submit"}, {"elapsedraw", "elapsed", "end"}, {"alloccpus", "ncpus"}):
        if not some & set(names):
            raise RefusedError("columns")
    return names, separator


def _slurm_job(row, array):
    full = row.get("state", "COMPLETED").split(" ")[0].upper()
    begun = [name for name in STATES if name.startswith(full[:-1])] if full.endswith("+") else [full]
    if len(begun) != 1 or begun[0] not in STATES:
        raise RefusedError(full)
    job = SlowJob(
        _in(row.get("jobidraw", array), 2**53, whole=True),
        _time(row["submit"]),
        _run(row),
        _size(row["alloccpus"] if "alloccpus" in row else row["ncpus"]),
        _asked(row),
        perhaps=begun[0] in PERHAPS.split(),
    )
    wanted = _size(row.get("reqcpus", ""))
    if job.size <= 0:
        job.size = wanted
    if begun[0] in NOT_OVER.split() or row.get("start", "-") in NOTHING:
        job.run = Decimal(-1)
    return job


def _name(text):
    """The number of a job, and ``_``, ``+`` or ``.`` (a step) with what follows."""
    found = re.fullmatch(r"([0-9]{1,18})(([_+])([0-9]+)|(_)\[.*\])?(\..+)?", text, re.DOTALL)
    if not found:
        raise RefusedError(text)
    number, task, mark, _, tasks, step = found.groups(default="")
    if step:
        return number, ".", task + step
    return number, mark or tasks, task[1:]


NOTHING = ("", "UNLIMITED", "Partition_Limit", "INVALID", "Unknown", "None", "N/A")


def _run(row):
    if "elapsedraw" in row:
        return Decimal(-1) if row["elapsedraw"] in NOTHING else _in(row["elapsedraw"], YEARS_16, whole=False)
    if "elapsed" in row:
        return _limit(row["elapsed"])
    first = _time(row.get("start", ""))
    last = _time(row["end"])
    return max(Decimal(0), last - first) if first >= 0 and last >= 0 else Decimal(-1)


def _size(text):
    if text in NOTHING:
        return Decimal(-1)
    if re.fullmatch("[0-9]{1,6}[KM]", text):
        text = str(int(text[:-1]) * (1024 if text.endswith("K") else 1024 * 1024))
    return _in(text, 1_000_000, whole=True)


def _asked(row):
    if "timelimitraw" not in row:
        return _limit(row.get("timelimit", ""))
    minutes = row["timelimitraw"]
    if minutes in NOTHING or _in(minutes, YEARS_16, whole=False) == -1:
        return Decimal(-1)
    return _in(str(Decimal(minutes) * 60), YEARS_16, whole=False)


def _time(text):
    if text in NOTHING:
        return Decimal(-1)
    if re.fullmatch("1[0-9]{9}", text):
        return Decimal(text)
    day = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
    clock = "([0-9]{2}):([0-9]{2}):([0-9]{2})"
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


def _limit(text):
    if text in NOTHING:
        return Decimal(-1)
    day, _, clock = text.rpartition("-")
    words = clock.split(":")
    if (day or "-" in text) and len(words) != 3:
        raise RefusedError(text)
    sound = [re.fullmatch("[0-9]{1,5}", day or "0")]
    sound += [re.fullmatch("[0-9]{1,5}", hours) for hours in words[:-2]]
    sound += [re.fullmatch("[0-5]?[0-9]", words[-2] if len(words) > 1 else "")]
    sound += [re.fullmatch(r"[0-5][0-9](\.[0-9]{1,9})?", words[-1])]
    if len(words) > 3 or not all(sound) or ("-" in text and not day):
        raise RefusedError(text)
    seconds = Decimal(0)
    for word in ["0", *words][-3:]:
        seconds = seconds * 60 + Decimal(word)
    return _in(str(seconds + 86400 * int(day or 0)), YEARS_16, whole=False)
