"""Jobs of a log by class, as schedulers are compared: by size, by length, by user, and interactive ones.

Lengths are classed as in Kettimuthu, Subramani, Srinivasan, Gopalsamy, Panda and Sadayappan 2002, "Selective
preemption strategies for parallel job scheduling", section 4.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coordinator.view import Submitter
from harness.analyse.job_tables import Timed, timed
from harness.analyse.rows import Row
from harness.simulator.jobs.metrics import bounded_slowdowns
from harness.simulator.jobs.model import Integers

MINUTE_S, HOUR_S = 60, 3600
LENGTHS_S = (10 * MINUTE_S, HOUR_S, 8 * HOUR_S)
LENGTHS = ("up to 10 min", "10 min to 1 h", "1 to 8 h", "over 8 h")
SHORT_S = MINUTE_S  # jobs up to this run time stand for interactive ones where a log marks none
INTERACTIVE = "0"  # the name of the queue of interactive jobs in the Standard Workload Format


@dataclass(frozen=True)
class JobClass:
    """Means over the jobs of a class which count."""

    name: str
    jobs: int
    work_share: float  # of the work of all jobs that count
    response_s: float
    wait_s: float
    bounded_slowdown: float


@dataclass(frozen=True)
class Labels:
    """The classes of a kind, and the number of each job's class; -1 for none."""

    names: Sequence[str]
    of_jobs: Integers


def classes(timed_row: Timed) -> dict[str, list[JobClass]]:
    """For each kind of class those that have jobs which count; users are those of most work first."""
    found = {kind: of_labels(timed_row, labels(timed_row)) for kind, labels in KINDS.items()}
    found["users"].sort(key=lambda one: -one.work_share)
    return found


def document(row: Row) -> dict[str, list[dict[str, Any]]] | None:
    """The classes as plain values; None for a row whose schedule is not known, or damaged."""
    try:
        (timed_row,) = timed([row])
    except ValueError:
        return None
    found = classes(timed_row) if timed_row.counted.any() else {}
    return {kind: [asdict(one) for one in found.get(kind, ())] for kind in KINDS}


def of_labels(timed_row: Timed, labels: Labels) -> list[JobClass]:
    """Those of the classes that have jobs which count, in order."""
    outcome, counted = timed_row.outcome, timed_row.counted & (labels.of_jobs >= 0)
    of_jobs, bins = labels.of_jobs[counted], len(labels.names)
    if not bins:
        return []
    slowdowns = bounded_slowdowns(outcome, timed_row.schedule.source["tau_s"])
    work_s = outcome.asked_s * outcome.asked
    columns = (work_s, outcome.response_s, outcome.wait_s, slowdowns)
    jobs = np.bincount(of_jobs, minlength=bins)
    work, *sums = (np.bincount(of_jobs, column[counted], bins) for column in columns)
    work_of_all = float(work_s[timed_row.counted].sum())
    found = []
    for number, name in enumerate(labels.names):
        if many := int(jobs[number]):
            means = (float(total[number]) / many for total in sums)
            found.append(JobClass(name, many, float(work[number]) / work_of_all, *means))
    return found


def sizes(timed_row: Timed) -> Labels:
    """By the processors that jobs ask for: 1, 2, 3-4, 5-8, ..."""
    requests = timed_row.outcome.jobs.max_processes
    of_jobs = np.ceil(np.log2(np.maximum(requests, 1))).astype(np.int64)
    return Labels([*map(size_name, range(int(of_jobs.max()) + 1))], of_jobs)


def size_name(number: int) -> str:
    """The name of the class of up to two to the power of ``number`` processors."""
    fewest, largest = (2 ** (number - 1) + 1 if number else 1), 2**number
    return str(largest) if fewest == largest else f"{fewest}-{largest}"


def lengths(timed_row: Timed) -> Labels:
    """By the run time alone."""
    return Labels(LENGTHS, np.searchsorted(LENGTHS_S, timed_row.of_log_s, side="left").astype(np.int64))


def interactive(timed_row: Timed) -> Labels:
    """Interactive jobs apart: those of such a queue or partition; if no job is, those up to SHORT_S."""
    marks = np.array([*map(_interactive, timed_row.outcome.jobs.submitters)], dtype=np.int64)
    if marks.any():
        return Labels(("interactive", "batch"), 1 - marks)
    names = (f"up to {SHORT_S} s (no job is marked interactive)", f"over {SHORT_S} s")
    return Labels(names, (timed_row.of_log_s > SHORT_S).astype(np.int64))


def _interactive(submitter: Submitter) -> bool:
    words = (re.split("[^a-z]+", name.lower()) for name in (submitter.qos, submitter.partition))
    return submitter.qos == INTERACTIVE or any("interactive" in ours for ours in words)


def users(timed_row: Timed) -> Labels:
    """By user; none if the log knows no users."""
    jobs = timed_row.outcome.jobs
    of_jobs = [submitter.user for submitter in jobs.submitters]
    numbers = {name: number for number, name in enumerate(sorted({*of_jobs} - {""}))}
    if not numbers:
        return Labels((), np.full(len(jobs), -1))
    return Labels([*numbers], np.array([numbers.get(name, -1) for name in of_jobs]))


KINDS: Mapping[str, Callable[[Timed], Labels]] = {
    "sizes": sizes,
    "lengths": lengths,
    "interactive": interactive,
    "users": users,
}


def largest(found: Sequence[JobClass], count: int) -> Iterator[JobClass]:
    """The first ``count`` classes, and all others as one."""
    yield from found[:count]
    if others := found[count:]:
        jobs = np.array([one.jobs for one in others])
        rest = [
            float(np.average([getattr(one, name) for one in others], weights=jobs))
            for name in ("response_s", "wait_s", "bounded_slowdown")
        ]
        share = sum(one.work_share for one in others)
        yield JobClass(f"{len(others)} others", int(jobs.sum()), share, *rest)
