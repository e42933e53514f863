"""The files of a schedule of a log, beside the store: written by ``simulate -o``, read by reports."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from coordinator.topology import Runs
from harness.simulator.jobs import swf
from harness.simulator.jobs.metrics import measure
from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Floats, Integers, JobLevelOutcome, rigid
from harness.simulator.jobs.swf import COLUMNS
from harness.spec.naming import scheduler_name
from harness.store.records import RunRecord, Schedule
from workloads.validation import InputError

SAME_S = 1e-3  # mean waits that differ by less are the same: tables have ten digits


def stem(policy: str, schedule: Schedule) -> str:
    """How the names of the files begin that hold a schedule of a log."""
    return f"{schedule.source['place']:02d}-{policy}"


def write(folder: Path, record: RunRecord) -> Iterator[Path]:
    """Write the schedule of a log, if the record has one in memory; yields the paths of its files.

    They are SWF, a table of the jobs and, if each job has its processors to the end, the placement.
    """
    schedule = record.schedule
    if schedule is None or schedule.outcome is None:
        return
    outcome, numbers = schedule.outcome, schedule.numbers
    first = stem(record.scheduler["policy"], schedule)
    path, jobs, placement = (folder / f"{first}{suffix}" for suffix in (".swf.gz", ".csv", ".placement"))
    swf.write(path, outcome, policy=scheduler_name(record.scheduler), numbers=numbers)
    swf.write_jobs(jobs, outcome, numbers)
    yield from (path, jobs)
    if outcome.places != {}:
        swf.write_placement(placement, outcome, numbers)
        yield placement


def outcome_of(folder: Path, policy: str, schedule: Schedule) -> JobLevelOutcome | None:
    """When which job ran, by the table in ``folder``; None for a schedule without one.

    A table counts only if its jobs have the recorded mean wait: a later simulation may have replaced it.

    Raises:
        LookupError: with the reason, if the table should be there and does not count.
    """
    source = schedule.source
    if "log" not in source or schedule.saturated or "place" not in source:
        return None
    path = folder / f"{stem(policy, schedule)}.csv"
    try:
        outcome = read_jobs(path, schedule.processors)
        wait_s = measure(outcome, warm_up=source["warm_up"], tau_s=source["tau_s"]).wait_s
    except FileNotFoundError:
        raise LookupError(f"{path} is not there") from None
    except (OSError, ValueError, OverflowError, InputError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise LookupError(f"{path}: {reason}") from None
    recorded_s = schedule.metrics.get("wait_s")
    if recorded_s is None or not math.isclose(wait_s, recorded_s, rel_tol=1e-6, abs_tol=SAME_S):
        raise LookupError(f"{path} is of another simulation than the one that is shown")
    return outcome


def read_jobs(path: Path, processors: int) -> JobLevelOutcome:
    """The schedule that ``swf.write_jobs`` wrote; a job that did not end has its estimated time.

    OSError for a file that cannot be read, ValueError for no such table.
    """
    import pandas  # noqa: PLC0415 - takes longer to import than all the rest together

    texts = {"allocated_resources": str, "workload_name": str}
    found = pandas.read_csv(path, dtype=texts, keep_default_na=False, index_col=False)
    if tuple(found.columns) != COLUMNS or not len(found):
        raise ValueError("it has other columns, or no jobs")

    def numbers(name: str) -> Floats:
        column: Floats = found[name].to_numpy(dtype=float)
        return column

    size = numbers("requested_number_of_resources")
    if not (size >= 1).all() or not (size <= processors).all():
        raise ValueError("its jobs ask for processors that there are not")
    submit_ns, start_ns, finish_ns = (
        _nanoseconds(numbers(f"{name}_time")) for name in ("submission", "starting", "finish")
    )
    texts_of_places = enumerate(found["allocated_resources"])
    places = {job: _places(str(text), processors) for job, text in texts_of_places if text}
    stretch = numbers("stretch")
    known = stretch > 0
    spent_s = numbers("turnaround_time")
    alone_s = np.where(known, spent_s / np.where(known, stretch, 1.0), numbers("requested_time"))
    jobs = rigid(submit_ns, size.astype(np.int64), _nanoseconds(alone_s))
    return JobLevelOutcome(
        jobs, processors, start_ns, finish_ns, size, np.full(len(found), -1), places=places
    )


def _nanoseconds(times_s: Floats) -> Integers:
    """Times in nanoseconds; NEVER_NS for those that are unknown."""
    known = (times_s >= 0) & (times_s < NEVER_NS / WHOLE_NS)
    return np.where(known, np.rint(np.where(known, times_s, 0.0) * WHOLE_NS), NEVER_NS).astype(np.int64)


def _places(text: str, processors: int) -> Runs:
    """The processors in ranges such as ``0-3 8``; ValueError for anything else, and for others."""
    parts = []
    for part in text.split():
        first, _, last = part.partition("-")
        parts.append((int(first), int(last or first)))
        if not 0 <= parts[-1][0] <= parts[-1][1] < processors:
            raise ValueError(f"there are no processors {part[:20]}")
    return parts
