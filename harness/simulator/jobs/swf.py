"""Traces: the Standard Workload Format 2.2 in and out, the output of `sacct --parsable2`, tables of jobs.

Source: Feitelson, "The Standard Workload Format", version 2.2 (18 fields a job, -1 for
unknown, header comments that begin with a semicolon).
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Integers, JobLevelOutcome, Jobs, rigid
from workloads.validation import InputError

FIELDS = 18
NUMBER, SUBMIT, WAIT, RUN, ALLOCATED, CPU, MEMORY, REQUESTED, REQUESTED_S, USED_MEMORY, STATUS = range(11)
FAILED, COMPLETED, PARTIAL, LAST_PARTIAL, PARTIAL_FAILED, CANCELLED = 0, 1, 2, 3, 4, 5
UNKNOWN = -1

_SACCT_NEEDS = ("JobID", "Submit", "ElapsedRaw", "AllocCPUS")
_SACCT_JOB = re.compile(r"(\d+)(_\d+|_\[.*\]|\+\d+)?")
"""A job, a task of a job array, its tasks that still wait, or a component of a heterogeneous job."""
_SACCT_STEP = re.compile(_SACCT_JOB.pattern + r"\..+")


@dataclass(frozen=True)
class Trace:
    """A trace ready to be simulated.

    Attributes:
        jobs: rigid, in order of arrival, the first at time 0.
        numbers: the numbers of the jobs in the trace.
        processors: of the traced machine, None if the trace does not say.
        header: the comments ``; Key: value``, the first of each key.
        skipped: how many jobs were left out, by reason.
    """

    jobs: Jobs
    numbers: Integers
    processors: int | None
    header: Mapping[str, str]
    skipped: Mapping[str, int]


def read(path: Path, *, cancelled: bool = True) -> Trace:
    """The trace in a file: SWF (``.swf``, ``.swf.gz``) or sacct's text (any other name).

    Run times are the trace's, but at least one second, the resolution of traces. A user's estimate
    is the requested time, or the run time if no requested time, or a shorter one, is given. The
    trace leaves out partial records of swapped jobs (status 2 to 4), jobs that never ran, and jobs
    without a size or a time of submission. Cancelled jobs that ran stay, unless ``cancelled`` is
    False.

    Raises:
        InputError: naming file and line, for anything that cannot be read.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        rule = f"must be a readable trace: {reason.lower()}"
        raise InputError("trace", str(path), rule, "check the path") from None
    if ".swf" in path.suffixes:
        header = _header(lines)
        return _trace(_rows(path, lines), header, cancelled)
    return _trace(_sacct(path, lines), {}, cancelled)


def _header(lines: Iterable[str]) -> dict[str, str]:
    header: dict[str, str] = {}
    for line in lines:
        if match := re.match(r"\s*;\s*(\w+)\s*:\s*(.*?)\s*$", line):
            header.setdefault(match[1], match[2])
    return header


def _rows(path: Path, lines: Iterable[str]) -> np.ndarray:
    rows = []
    for place, line in enumerate(lines, 1):
        words = line.split(";", 1)[0].split()
        if not words:
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            row = []
        if len(row) != FIELDS:
            rule = f"{path}, line {place}: a job has {FIELDS} numbers"
            raise InputError("trace", line.strip()[:80], rule, "correct or remove that line")
        rows.append(row)
    return np.array(rows).reshape(-1, FIELDS)


def _trace(rows: np.ndarray, header: Mapping[str, str], cancelled: bool) -> Trace:
    size = np.where(rows[:, ALLOCATED] > 0, rows[:, ALLOCATED], rows[:, REQUESTED])
    status = rows[:, STATUS]
    reasons = {
        "partial record": np.isin(status, (PARTIAL, LAST_PARTIAL, PARTIAL_FAILED)),
        "never ran": rows[:, RUN] < 0,
        "no size": size <= 0,
        "no time of submission": rows[:, SUBMIT] < 0,
        "cancelled": (status == CANCELLED) & (not cancelled),
    }
    keep = np.ones(len(rows), dtype=bool)
    skipped = {}
    for reason, hit in reasons.items():
        skipped[reason] = int((hit & keep).sum())
        keep &= ~hit
    if not keep.any():
        raise InputError("trace", len(rows), "must hold at least one job that ran", "choose another trace")
    rows, size = rows[keep], size[keep].astype(np.int64)
    order = np.argsort(rows[:, SUBMIT], kind="stable")
    rows, size = rows[order], size[order]
    run_ns = np.rint(np.where(rows[:, RUN] < 1, 1.0, rows[:, RUN]) * WHOLE_NS).astype(np.int64)
    submit_ns = np.rint((rows[:, SUBMIT] - rows[0, SUBMIT]) * WHOLE_NS).astype(np.int64)
    factor = np.maximum(1.0, rows[:, REQUESTED_S] * WHOLE_NS / run_ns)
    known = header.get("MaxProcs") or header.get("MaxNodes") or ""
    processors = int(known) if known.isdigit() else None
    numbers = rows[:, NUMBER].astype(np.int64)
    skipped = {reason: count for reason, count in skipped.items() if count}
    return Trace(rigid(submit_ns, size, run_ns, factor), numbers, processors, header, skipped)


def _sacct(path: Path, lines: list[str]) -> np.ndarray:
    """Rows of SWF from sacct's table, without job steps.

    Each task of a job array is a job. The components of a heterogeneous job start together, so they are
    one job of all their processors.
    """
    names = lines[0].split("|") if lines else []
    missing = [name for name in _SACCT_NEEDS if name not in names]
    if missing:
        rule = f"{path}: the first line must name the columns; missing are " + ", ".join(missing)
        remedy = "give a .swf file, or sacct --parsable2 --format=" + ",".join(
            [*_SACCT_NEEDS, "JobIDRaw,Start,State,Timelimit"]
        )
        raise InputError("trace", lines[0][:80] if lines else "", rule, remedy)
    rows: list[list[float]] = []
    components: dict[str, dict[str, list[float]]] = {}
    for place, line in enumerate(lines[1:], 2):
        values = dict(zip(names, line.split("|"), strict=False))
        name = values.get("JobID", "")
        if not line.strip() or _SACCT_STEP.fullmatch(name):
            continue
        try:
            row = _sacct_row(values)
        except (ValueError, LookupError):
            rule = f"{path}, line {place}: cannot be read as a job of sacct"
            raise InputError("trace", line[:80], rule, "correct or remove that line") from None
        whole, _, component = name.partition("+")
        known = components.setdefault(whole, {}) if component else {}
        if component in known:  # sacct --duplicates: the job was requeued
            known.clear()
        if known:
            _join(next(iter(known.values())), row)
        else:
            rows.append(row)
        known[component] = row
    return np.array(rows, dtype=float).reshape(-1, FIELDS)


def _join(job: list[float], component: Sequence[float]) -> None:
    """Add a component to the heterogeneous job that it belongs to."""
    job[ALLOCATED] += component[ALLOCATED]
    ended = job[RUN] >= 0 and component[RUN] >= 0
    job[RUN] = max(job[RUN], component[RUN]) if ended else UNKNOWN
    job[REQUESTED_S] = max(job[REQUESTED_S], component[REQUESTED_S])


def _sacct_row(values: Mapping[str, str]) -> list[float]:
    """A job. Its number is JobIDRaw; without that column tasks of an array have their array's number.

    Raises:
        ValueError: if JobID is no job's, or a number or time cannot be read.
        LookupError: if a column is empty or missing.
    """
    row = [float(UNKNOWN)] * FIELDS
    if not (job := _SACCT_JOB.fullmatch(values["JobID"])):
        raise ValueError(values["JobID"])
    submit = _instant(values["Submit"])
    begun = values.get("Start", "")
    state = values.get("State", "COMPLETED").split()[0]
    row[NUMBER], row[SUBMIT] = float(values.get("JobIDRaw", job[1])), submit
    row[RUN], row[ALLOCATED] = float(values["ElapsedRaw"]), float(values["AllocCPUS"])
    row[WAIT] = _instant(begun) - submit if begun and begun[0].isdigit() else UNKNOWN
    row[REQUESTED_S] = _limit_s(values.get("Timelimit", ""))
    row[STATUS] = {"COMPLETED": COMPLETED, "CANCELLED": CANCELLED}.get(state, FAILED)
    if state in ("PENDING", "RUNNING"):
        row[RUN] = UNKNOWN
    return row


def _instant(text: str) -> float:
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _limit_s(text: str) -> float:
    """Slurm's ``[days-]hours:minutes:seconds`` in seconds, UNKNOWN for anything else."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if not match:
        return UNKNOWN
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def write(path: Path, outcome: JobLevelOutcome, *, policy: str, numbers: Integers | None = None) -> None:
    """Write an outcome as SWF 2.2, times in seconds; gzipped if ``path`` ends in .gz.

    The same outcome gives the same bytes.
    """
    jobs = outcome.jobs
    numbers = np.arange(1, len(jobs) + 1) if numbers is None else numbers
    lines = [
        "; Version: 2.2",
        "; Computer: simulated by Lockstep",
        f"; Note: scheduled by {policy}",
        f"; MaxJobs: {len(jobs)}",
        f"; MaxProcs: {outcome.processors}",
    ]
    asked_s = jobs.estimates_ns() / WHOLE_NS
    for i in range(len(jobs)):
        begun, ended = outcome.start_ns[i] < NEVER_NS, outcome.finish_ns[i] < NEVER_NS
        wait = (outcome.start_ns[i] - jobs.submit_ns[i]) / WHOLE_NS if begun else UNKNOWN
        run = (outcome.finish_ns[i] - outcome.start_ns[i]) / WHOLE_NS if ended else UNKNOWN
        size = round(outcome.size[i]) if begun else UNKNOWN
        fields: list[float | int] = [int(numbers[i]), jobs.submit_ns[i] / WHOLE_NS, wait, run, size, run, -1]
        fields += [int(jobs.most[i]), asked_s[i], -1, COMPLETED if ended else FAILED, *[-1] * 7]
        lines.append(" ".join(f"{field:.10g}" for field in fields))
    text = "\n".join(lines) + "\n"
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


PLACEMENT_VERSION = 1

COLUMNS = (
    *(
        "job_id",
        "workload_name",
        "submission_time",
        "requested_number_of_resources",
        "requested_time",
        "success",
    ),
    *("starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time", "stretch"),
    "allocated_resources",
)
"""Of a table of jobs."""


def write_placement(path: Path, outcome: JobLevelOutcome) -> None:
    """Write the processors of each job: a line ``job start_s finish_s processors``, in order of start.

    Processors are ranges such as ``0-3,8``.
    """
    lines = [f"# placement {PLACEMENT_VERSION}: job start_s finish_s processors"]
    for job, place in placements(outcome):
        finish_s = outcome.finish_ns[job] / WHOLE_NS if outcome.finish_ns[job] < NEVER_NS else -1
        lines.append(f"{job} {outcome.start_ns[job] / WHOLE_NS:.10g} {finish_s:.10g} {ranges(place)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def placements(outcome: JobLevelOutcome) -> Iterator[tuple[int, Sequence[int]]]:
    """The jobs that ran with their processors, ascending, in order of start; nothing if places change.

    If the policy takes any free processors, a job gets the lowest ones that are free.
    """
    if outcome.places == {}:
        return
    begun = np.flatnonzero(outcome.start_ns < NEVER_NS)
    held: dict[int, Sequence[int]] = {}
    free: Sequence[int] = list(range(outcome.processors))
    ends = sorted((int(outcome.finish_ns[i]), int(i)) for i in begun)
    gone = 0
    for job in sorted(begun.tolist(), key=lambda i: (outcome.start_ns[i], i)):
        start_ns = int(outcome.start_ns[job])
        while gone < len(ends) and ends[gone][0] <= start_ns:
            if ends[gone][1] in held:
                free = sorted([*free, *held.pop(ends[gone][1])])
            gone += 1
        size = round(outcome.size[job])
        first = int(outcome.first[job])
        if outcome.places is not None:
            yield job, outcome.places[job]
        elif first >= 0:
            yield job, range(first, first + size)
        else:
            held[job], free = free[:size], free[size:]
            yield job, held[job]


def write_jobs(path: Path, outcome: JobLevelOutcome, numbers: Integers | None = None) -> None:
    """Write a line for each job as comma-separated values, with the columns of Batsim, which evalys reads.

    Times are in seconds, -1 for what did not happen; processors are ranges such as ``0-3 8``, empty where
    they change.

    Source: Batsim, "Output files: jobs"; evalys, ``JobSet.columns``.
    """
    jobs, places = outcome.jobs, dict(placements(outcome))
    alone_s = jobs.times_s(np.minimum(jobs.most, outcome.processors))
    asked_s = jobs.estimates_ns() / WHOLE_NS
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for i in range(len(jobs)):
            begun, ended = outcome.start_ns[i] < NEVER_NS, outcome.finish_ns[i] < NEVER_NS
            submit_s, start_s, finish_s = (
                times[i] / WHOLE_NS for times in (jobs.submit_ns, outcome.start_ns, outcome.finish_ns)
            )
            spent_s = finish_s - submit_s if ended else UNKNOWN
            times_s = [
                start_s if begun else UNKNOWN,
                finish_s - start_s if ended else UNKNOWN,
                finish_s if ended else UNKNOWN,
                start_s - submit_s if begun else UNKNOWN,
                spent_s,
                spent_s / max(alone_s[i], 1 / WHOLE_NS) if ended else UNKNOWN,
            ]
            number = i + 1 if numbers is None else int(numbers[i])
            asked = [int(jobs.most[i]), f"{asked_s[i]:.10g}", int(ended)]
            place = ranges(places.get(i, ())).replace(",", " ")
            writer.writerow(
                [number, "lockstep", f"{submit_s:.10g}", *asked, *(f"{t:.10g}" for t in times_s), place]
            )


def ranges(processors: Iterable[int]) -> str:
    """``0-3,8`` for 0, 1, 2, 3, 8."""
    parts: list[list[int]] = []
    for p in processors:
        if parts and parts[-1][1] == p - 1:
            parts[-1][1] = p
        else:
            parts.append([p, p])
    return ",".join(f"{a}-{b}" if a < b else str(a) for a, b in parts)
