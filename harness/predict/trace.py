"""A recorded trace as jobs to simulate: from the Standard Workload Format, or from the text of sacct.

Source: Feitelson, "The Standard Workload Format", version 2.2 (18 fields a job, -1 for
unknown, header comments that begin with a semicolon); ``sacct --parsable2`` of Slurm.
"""

import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import numpy as np

from harness.simulator.jobs.model import WHOLE_NS, Integers, Jobs, rigid
from harness.spec import trace_text
from harness.spec.trace_text import PLAIN, UNKNOWN, number, refusal
from workloads.bounds import BOUNDS, TRACE_S
from workloads.validation import InputError


@dataclass(frozen=True)
class Trace:
    """A trace ready to be simulated."""

    jobs: Jobs  # rigid, in order of arrival, the first at time 0
    numbers: Integers  # the numbers of the jobs in the trace
    processors: int | None  # of the traced machine, None if the trace does not say
    header: Mapping[str, str]  # the comments ``; Key: value``, the first of each key
    skipped: Mapping[str, int]  # how many jobs were left out, by reason
    assumed: Mapping[str, int]  # how many jobs have values that the trace does not give, by reason

    @property
    def span_s(self) -> float:
        return float(self.jobs.submit_ns[-1] - self.jobs.submit_ns[0]) / WHOLE_NS

    def check(self, processors: int, lost: int) -> None:
        """Refuse jobs that can never run, and more work than the simulated clock has room for."""
        sizes, left = self.jobs.most, processors - lost
        large = np.flatnonzero(sizes > left)
        if len(large):
            named = f"job {self.numbers[large[0]]} of the trace asks for {sizes[large[0]]} processors"
            rule = f"{named}, and machine.lost leaves {left}" if lost else f"{named}"
            more = f"{rule} ({len(large)} of {len(sizes)} jobs ask for more than there are)"
            remedy = f"--set processors={sizes.max() + lost}, or remove these jobs from the trace"
            raise InputError("processors", processors, more, remedy)
        if self.jobs.work_s.sum() / processors > TRACE_S:
            rule = f"the jobs of the trace would keep the machine busy for more than {TRACE_S:g} s"
            raise InputError("processors", processors, rule, "give more processors, or a part of the trace")

    def stretched(self, load: float | None, processors: int) -> Self:
        """The trace with its times between arrivals stretched to an offered load, if there is one."""
        if load is None:
            return self
        if not self.span_s:
            rule = "all jobs of the trace arrive at once, so that no load can be offered"
            raise InputError("load", load, rule, "leave load out")
        factor = float(self.jobs.work_s.sum()) / ((self.processors or processors) * self.span_s) / load
        if self.span_s * factor > TRACE_S:
            rule = f"the jobs of the trace would arrive over more than {TRACE_S:g} s"
            raise InputError("load", load, rule, "give a greater load")
        submit_ns = np.rint(self.jobs.submit_ns * factor).astype(np.int64)
        return replace(self, jobs=replace(self.jobs, submit_ns=submit_ns))


def read(path: Path) -> Trace:
    """The trace in a file or pipe: in the Standard Workload Format, or sacct's text.

    Run times are the trace's, but at least one second, the resolution of traces. A user's estimate
    is the requested time, or the run time if no requested time, or a shorter one, is given. The
    trace leaves out partial records of swapped jobs (status 2 to 4), jobs that never ran, and jobs
    without a size or a time of submission. Cancelled jobs that ran stay.
    """
    lines = trace_text.lines(path)
    first = next((text for line in lines if (text := line.strip(" \t"))), "")
    is_swf = ".swf" in path.name.lower() or first[:1] in tuple(";-+.0123456789")
    records = _of_swf(path, lines) if is_swf else _of_sacct(path, lines)
    rows, skipped = _usable(path, records.rows)
    rows = rows[np.argsort(rows[:, SUBMIT], kind="stable")]
    allocated, run_s, asked_s = (rows[:, field] for field in (ALLOCATED, RUN, REQUESTED_S))
    since_s = rows[:, SUBMIT] - rows[0, SUBMIT]
    if since_s[-1] > TRACE_S:
        first_job, last_job = (int(rows[place, NUMBER]) for place in (0, -1))
        rule = f"{path}: job {last_job} arrives more than {TRACE_S:g} s after job {first_job}"
        raise InputError("trace", since_s[-1], rule, "correct their times, or give a part of the trace")
    run_ns = np.rint(np.maximum(run_s, 1) * WHOLE_NS).astype(np.int64)
    size = np.where(allocated > 0, allocated, rows[:, REQUESTED]).astype(np.int64)
    factor = np.maximum(1.0, asked_s * WHOLE_NS / run_ns)
    assumed = {
        "sizes as requested, for want of those allocated": allocated <= 0,
        "run times below a second, taken for a second": run_s < 1,
        "estimates missing, taken for the run times": asked_s < 0,
        "estimates below the run times, raised to them": (asked_s >= 0) & (asked_s * WHOLE_NS < run_ns),
    }
    return Trace(
        rigid(np.rint(since_s * WHOLE_NS).astype(np.int64), size, run_ns, factor),
        rows[:, NUMBER].astype(np.int64),
        records.processors,
        records.header,
        skipped,
        {reason: int(hit.sum()) for reason, hit in assumed.items() if hit.any()},
    )


def _usable(path: Path, rows: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
    """The rows of jobs that can be simulated, and how many were left out, by reason."""
    size = np.where(rows[:, ALLOCATED] > 0, rows[:, ALLOCATED], rows[:, REQUESTED])
    status = rows[:, STATUS]
    reasons = {
        "partial record": np.isin(status, (PARTIAL, LAST_PARTIAL, PARTIAL_FAILED)),
        "never ran": rows[:, RUN] < 0,
        "no size": size <= 0,
        "no time of submission": rows[:, SUBMIT] < 0,
    }
    keep = np.ones(len(rows), dtype=bool)
    skipped = {}
    for reason, hit in reasons.items():
        if count := int((hit & keep).sum()):
            skipped[reason] = count
        keep &= ~hit
    if not keep.any():
        left_out = ", ".join(f"{count} {reason}" for reason, count in skipped.items()) or "it has no jobs"
        rule = f"must hold at least one job that ran: {left_out}"
        raise InputError("trace", str(path), rule, "choose another trace")
    return rows[keep], skipped


_OTHER = "trace.other"
FIELDS = {
    "job number": "trace.number",
    "submit time": "trace.submit_s",
    "wait time": _OTHER,
    "run time": "trace.time_s",
    "allocated processors": "simulated.processors",
    "average CPU time": _OTHER,
    "used memory": _OTHER,
    "requested processors": "simulated.processors",
    "requested time": "trace.time_s",
    "requested memory": _OTHER,
    "status": "trace.status",
    **dict.fromkeys(("user", "group", "executable", "queue", "partition"), _OTHER),
    **dict.fromkeys(("preceding job", "think time"), _OTHER),
}
"""The fields of a job, and the bounds of each."""

NUMBER, SUBMIT, RUN, ALLOCATED, REQUESTED, REQUESTED_S, STATUS = 0, 1, 3, 4, 7, 8, 10
FAILED, COMPLETED, PARTIAL, LAST_PARTIAL, PARTIAL_FAILED, CANCELLED = range(6)

_COMMENT = re.compile(r"[ \t]*;[ \t]*(\w+)[ \t]*:[ \t]*(.*?)[ \t]*")
_NUMBERS = re.compile(rf"(?:[ \t]*+{PLAIN}(?![^ \t]))*+[ \t]*+")


@dataclass(frozen=True)
class Records:
    """The jobs of a trace, as they are recorded."""

    rows: np.ndarray  # a row with the fields of the Standard Workload Format for each job
    processors: int | None  # of the traced machine, None if the trace does not say
    header: Mapping[str, str]  # the comments ``; Key: value``, the first of each key


def _of_swf(path: Path, lines: Sequence[str]) -> Records:
    header: dict[str, str] = {}
    processors: dict[str, float] = {}
    for place, line in enumerate(lines, 1):
        if ";" in line and (match := _COMMENT.fullmatch(line)) and match[1] not in header:
            key, value = match.groups()
            header[key] = value
            if key in ("MaxProcs", "MaxNodes") and value:
                processors[key] = number(path, place, key, value, "simulated.processors")
    known = [processors[key] for key in ("MaxProcs", "MaxNodes") if processors.get(key, UNKNOWN) > 0]
    return Records(_rows(path, lines), int(known[0]) if known else None, header)


def _rows(path: Path, lines: Sequence[str]) -> np.ndarray:
    found = array("d")  # smaller and sooner made than lists of a row each
    places: list[int] = []
    for place, line in enumerate(lines, 1):
        text = line.partition(";")[0]
        words = text.split()
        if not _NUMBERS.fullmatch(text) or len(words) not in (0, len(FIELDS)):
            _refuse(path, place, text)
        if words:
            try:
                found.extend(map(float, words))
            except ValueError:
                _refuse(path, place, text)
            places.append(place)
    rows = np.array(found).reshape(-1, len(FIELDS))
    sound = rows == UNKNOWN
    for field, bound in enumerate(FIELDS.values()):
        column, (least, most, whole) = rows[:, field], BOUNDS[bound]
        inside = (column >= least) & (column <= most)  # a NaN is not
        sound[:, field] |= inside & (np.rint(column) == column) if whole else inside
    for faulty in np.flatnonzero(~sound.all(axis=1)):
        _refuse(path, places[faulty], lines[places[faulty] - 1].partition(";")[0])
    return rows


def _refuse(path: Path, place: int, text: str) -> None:
    """Raises InputError for the first fault in a line."""
    words = re.findall(r"[^ \t]+", text)
    if len(words) != len(FIELDS):
        rule = f"has {len(FIELDS)} numbers, and this line has {len(words)}"
        raise refusal(path, place, "a job", text.strip(" \t"), rule)
    for place_in_line, (word, (name, bound)) in enumerate(zip(words, FIELDS.items(), strict=True), 1):
        number(path, place, f"field {place_in_line} ({name})", word, bound)


NEEDED = ("JobID", "Submit", "ElapsedRaw", "AllocCPUS")
COLUMNS = (*NEEDED, "JobIDRaw", "State", "Timelimit")  # the columns that are used
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
    "CANCELLED": CANCELLED,
    "COMPLETED": COMPLETED,
}
"""The status of each state; UNKNOWN as long as the job is not over."""


def _of_sacct(path: Path, lines: Sequence[str]) -> Records:
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
    row[NUMBER] = number(path, place, "JobIDRaw", values.get("JobIDRaw", job[1]), "trace.number")
    row[SUBMIT] = _instant(path, place, values["Submit"])
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
