"""What a job log holds: its jobs, their load, sizes, users, waits and estimates, and what it lacks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from harness.analyse.job_classes import size_name
from harness.predict import recorded_waits, trace
from harness.predict.recorded_waits import WaitComparison
from harness.spec import recorded_jobs
from harness.spec.scheduler import Scheduler
from harness.spec.swf_records import (
    REQUESTED_S,
    RUN,
    SUBMIT,
    USER,
    WAIT,
    Records,
    sizes_of,
)
from harness.spec.trace_text import UNKNOWN
from workloads.validation import InputError

HOUR_S, DAY_HOURS = 3600.0, 24
EPOCH_S = 1e9  # a greater time of submission, in 2001, counts from 1970

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Values of ``jobs`` jobs: their median, 90th percentile and maximum."""

    jobs: int
    median: float
    p90: float
    max: float


@dataclass(frozen=True)
class Part:
    """Jobs of one kind: how many there are, and their share of the work of all jobs."""

    name: str
    jobs: int
    work_share: float


@dataclass(frozen=True)
class Hour:
    """The jobs that arrive in an hour, and their work divided by what the machine does in an hour."""

    jobs: float
    load: float


@dataclass(frozen=True)
class Day:
    """The 24 hours with most work: when they begin, in hours after the first job, and what arrives."""

    from_hour: int
    jobs: int
    load: float


@dataclass(frozen=True)
class JobLog:
    """The description of a job log."""

    jobs: int  # those that a simulation takes
    skipped: Mapping[str, int]  # how many are left out, by reason
    assumed: Mapping[str, int]  # how many have values that the log does not give, by reason
    faults: tuple[str, ...]  # of lines that cannot be read
    processors: int  # of the machine, or the largest job's if the log does not say
    begins: str | None  # ISO 8601: when the first job arrives; None if the log does not say
    span_s: float  # between the first and the last arrival
    load: float | None  # work of all jobs over what the machine does in that time; None if all arrive at once
    hours: tuple[Hour, ...]  # from the first arrival on
    hours_of_day: tuple[Hour, ...]  # means by the log's clock, or after the first job if it has none
    busiest: Day
    sizes: tuple[Part, ...]  # by processors: 1, 2, 3-4, 5-8, ...
    users: tuple[Part, ...]  # those with most work first; empty if unknown
    run_s: Spread
    wait_s: Spread | None  # as recorded
    estimate_factor: Spread | None  # requested time over run time
    lacks: tuple[str, ...]  # sentences
    recorded_waits: WaitComparison | None = None  # and simulated ones, if the site's scheduler is given


def describe(path: Path, processors: int | None = None, scheduler: Scheduler | None = None) -> JobLog:
    """The description of the log in a file or pipe; ``processors`` replaces the number in the log.

    With the ``scheduler`` of the site it has the recorded waits and simulated ones. Lines that
    cannot be read are left out, and listed.

    Raises:
        InputError: for a file that is no job log, or without a job that ran; for a scheduler without a
            number of processors, or for which it is too small.
    """
    faults: list[InputError] = []
    records = recorded_jobs.records_of(path, faults.append)
    if faults and not len(records.rows):
        raise faults[0]
    jobs = trace.of_records(path, records)
    rows, skipped = recorded_jobs.usable(path, records.rows)
    rows = rows[np.argsort(rows[:, SUBMIT], kind="stable")]
    sizes = sizes_of(rows)
    machine = processors or records.processors or int(sizes.max())
    work_s = sizes * np.maximum(rows[:, RUN], 1)
    since_s = rows[:, SUBMIT] - rows[0, SUBMIT]
    hours = _hours(since_s, work_s, machine)
    begins = _begin(records.header, float(rows[0, SUBMIT]))
    past_s = 60 * begins.minute + begins.second if begins else 0  # the full hour
    clock_hours = _hours(since_s + past_s, work_s, machine)
    users = _users(rows, work_s, records)
    waits, asked = rows[:, WAIT], rows[:, REQUESTED_S]
    return JobLog(
        jobs=len(rows),
        skipped=skipped,
        assumed=jobs.assumed,
        faults=tuple(one.rule for one in faults),
        processors=machine,
        begins=begins.isoformat() if begins else None,
        span_s=jobs.span_s,
        load=float(work_s.sum()) / (machine * jobs.span_s) if jobs.span_s else None,
        hours=hours,
        hours_of_day=tuple(_by_clock(clock_hours, begins.hour if begins else 0)),
        busiest=_busiest(hours),
        sizes=tuple(_of_sizes(sizes, work_s)),
        users=users,
        run_s=_spread(rows[:, RUN]),
        wait_s=_spread(waits[waits >= 0]) if (waits >= 0).any() else None,
        estimate_factor=_estimates(rows[:, RUN], asked),
        lacks=tuple(_lacks(rows, records, processors)),
        recorded_waits=_waits(jobs, processors or records.processors, scheduler) if scheduler else None,
    )


def _waits(jobs: trace.Trace, processors: int | None, scheduler: Scheduler) -> WaitComparison:
    if processors is None:
        busiest = recorded_waits.busiest(jobs) or int(jobs.jobs.max_processes.max())
        raise InputError(
            "processors",
            None,
            f"needed for {scheduler.name}, since the log has no number of processors",
            f"give the machine's, which is at least {busiest}",
        )
    return recorded_waits.compare(jobs, processors, scheduler)


def pooled(hours: Sequence[Hour], count: int) -> list[Hour]:
    """The means of ``count`` hours each; the last ones may be fewer."""
    parts = [hours[first : first + count] for first in range(0, len(hours), count)]
    return [_mean(part, len(part)) for part in parts]


def _mean(hours: Sequence[Hour], count: int) -> Hour:
    return Hour(sum(one.jobs for one in hours) / count, sum(one.load for one in hours) / count)


def _spread(values: Column) -> Spread:
    median, p90 = np.percentile(values, (50, 90))
    return Spread(len(values), float(median), float(p90), float(values.max()))


def _estimates(run_s: Column, asked_s: Column) -> Spread | None:
    given = asked_s >= 0
    return _spread(asked_s[given] / np.maximum(run_s[given], 1)) if given.any() else None


def _hours(since_s: Column, work_s: Column, machine: int) -> tuple[Hour, ...]:
    hour = (since_s // HOUR_S).astype(int)
    counts = np.bincount(hour)
    loads = np.bincount(hour, weights=work_s) / (machine * HOUR_S)
    return tuple(Hour(count, load) for count, load in zip(counts.tolist(), loads.tolist(), strict=True))


def _by_clock(hours: tuple[Hour, ...], first: int) -> Iterator[Hour]:
    """The means of the 24 hours of a day, of which the log begins in the ``first`` one."""
    for hour in range(DAY_HOURS):
        same = hours[(hour - first) % DAY_HOURS :: DAY_HOURS]
        yield _mean(same, max(1, len(same)))


def _busiest(hours: tuple[Hour, ...]) -> Day:
    width = min(DAY_HOURS, len(hours))
    sums = np.convolve([one.load for one in hours], np.ones(width), "valid")
    begin = int(sums.argmax())
    jobs = sum(int(one.jobs) for one in hours[begin : begin + width])
    return Day(begin, jobs, float(sums[begin]) / width)


def _of_sizes(sizes: Column, work_s: Column) -> Iterator[Part]:
    class_of = np.ceil(np.log2(sizes)).astype(int)
    yield from _parts(class_of, work_s, size_name)


def _users(rows: Column, work_s: Column, records: Records) -> tuple[Part, ...]:
    users = rows[:, USER].astype(int)
    if (users == UNKNOWN).all():
        return ()
    parts = _parts(users, work_s, lambda user: records.named(USER, user) or "unknown")
    return tuple(sorted(parts, key=lambda part: -part.work_share))


def _parts(class_of: NDArray[Any], work_s: Column, name: Callable[[int], str]) -> Iterator[Part]:
    """The jobs of each class that has some, by the number of the class of each job."""
    for number in sorted(set(class_of.tolist())):
        here = class_of == number
        yield Part(name(number), int(here.sum()), float(work_s[here].sum() / work_s.sum()))


def _begin(header: Mapping[str, str], submit_s: float) -> datetime | None:
    """When the first job arrives, by the log's time zone; None if its clock is unknown."""
    try:
        epoch_s = 0 if submit_s >= EPOCH_S else int(header["UnixStartTime"])
        return datetime.fromtimestamp(epoch_s + submit_s, UTC).astimezone(_zone(header))
    except (KeyError, ValueError, OverflowError):
        return None


def _zone(header: Mapping[str, str]) -> tzinfo:
    try:
        return ZoneInfo(header.get("TimeZoneString", ""))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return timezone(timedelta(seconds=int(header.get("TimeZone", "0"))))


def _lacks(rows: Column, records: Records, processors: int | None) -> Iterator[str]:
    total, waits, asked = len(rows), rows[:, WAIT] >= 0, rows[:, REQUESTED_S] >= 0
    for known, what, then in (
        (waits, "recorded waits", "simulated waits cannot be compared with recorded ones"),
        (asked, "estimates", "policies that backfill take the run times"),
        (rows[:, USER] >= 0, "users", "jobs cannot be told apart by user"),
    ):
        if not known.any():
            yield f"no {what}: {then}"
        elif not known.all():
            yield f"no {what} of {total - int(known.sum())} of {total} jobs: {then}"
    if waits.all() and not rows[:, WAIT].any():
        yield "all recorded waits are 0: the times of submission may be those of the starts"
    if not records.processors and not processors:
        yield "no number of processors: the largest job's is taken"
