"""A recorded trace as jobs to simulate: from the Standard Workload Format, or from the text of sacct."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Self

import numpy as np

from harness.predict import sacct_records, swf_records
from harness.predict.swf_records import (
    ALLOCATED,
    CANCELLED,
    LAST_PARTIAL,
    NUMBER,
    PARTIAL,
    PARTIAL_FAILED,
    PRECEDING,
    REQUESTED,
    REQUESTED_S,
    RUN,
    STATUS,
    STILL_RUNNING,
    SUBMIT,
    THINK,
    Records,
)
from harness.simulator.jobs.model import WHOLE_NS, Following, Integers, Jobs, rigid
from harness.spec import trace_text
from harness.spec.other_logs import names_jobs
from harness.spec.trace_text import Faults, refuse
from workloads.bounds import TRACE_S
from workloads.validation import InputError

MOST_ABOVE = 50  # lines of other programs above the names of sacct's columns


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
    def content(self) -> str:
        """SHA-256 over the jobs, in hexadecimal: the same for every file that holds them."""
        digest = hashlib.sha256()
        for column in (self.numbers, *self.jobs.columns, self.jobs.factor, *(self.jobs.following or ())):
            digest.update(column.tobytes())
        return digest.hexdigest()

    @property
    def span_s(self) -> float:
        return float(self.jobs.submit_ns[-1] - self.jobs.submit_ns[0]) / WHOLE_NS

    def check(self, processors: int, lost: int) -> None:
        """Refuse jobs that can never run, and more work than the simulated clock has room for."""
        sizes, left = self.jobs.max_processes, processors - lost
        large = np.flatnonzero(sizes > left)
        if len(large):
            named = f"job {self.numbers[large[0]]} of the log asks for {sizes[large[0]]}"
            rule = f"{named}, and machine.lost leaves {left}" if lost else f"{named}"
            more = f"must be enough for all jobs: {rule} ({len(large)} of {len(sizes)} jobs ask for too many)"
            remedy = f"write --set processors={sizes.max() + lost}, or remove these jobs from the log"
            raise InputError("processors", processors, more, remedy)
        if self.jobs.work_s.sum() / processors > TRACE_S:
            rule = f"cannot do the work of the log within {TRACE_S:g} s"
            raise InputError("processors", processors, rule, "give more processors, or a part of the log")

    def stretched(self, load: float | None, processors: int) -> Self:
        """The trace with its times between arrivals stretched to an offered load, if there is one.

        The load is the work of all jobs over what the simulated machine does in that time. Think times of
        jobs that follow others stay.
        """
        if load is None:
            return self
        if not self.span_s:
            rule = "cannot be offered, since all jobs of the log arrive at once"
            raise InputError("load", load, rule, "leave load out")
        factor = float(self.jobs.work_s.sum()) / (processors * self.span_s) / load
        if self.span_s * factor > TRACE_S:
            rule = f"is so low that the jobs of the log cannot arrive within {TRACE_S:g} s"
            raise InputError("load", load, rule, "give a greater load")
        submit_ns = np.rint(self.jobs.submit_ns * factor).astype(np.int64)
        return replace(self, jobs=replace(self.jobs, submit_ns=submit_ns))


def read(path: Path) -> Trace:
    """The trace in a file or pipe: in the Standard Workload Format, or sacct's text.

    Run times are the trace's, but at least one second, the resolution of traces. A user's estimate
    is the requested time, or the run time if no requested time, or a shorter one, is given. The
    trace leaves out partial records of swapped jobs (status 2 to 4), jobs that never ran or are still
    running, and jobs without a size or a time of submission. Cancelled jobs that ran stay. Jobs that are
    submitted at one time are in order of their numbers, wherever their lines are.
    """
    return of_records(path, records_of(path))


def records_of(path: Path, faults: Faults = refuse) -> Records:
    """The recorded jobs in a file or pipe; ``faults`` gets those that cannot be read."""
    lines = trace_text.lines(path)
    by_sacct = any(map(names_jobs, lines[:MOST_ABOVE]))
    return (sacct_records.read if by_sacct else swf_records.read)(path, lines, faults)


def of_records(path: Path, records: Records) -> Trace:
    """The trace of the recorded jobs, as ``read`` has it."""
    rows, skipped = usable(path, records.rows)
    sizes = np.where(rows[:, ALLOCATED] > 0, rows[:, ALLOCATED], rows[:, REQUESTED])
    # Of these keys the last one comes first.
    rows = rows[np.lexsort((rows[:, REQUESTED_S], sizes, rows[:, RUN], rows[:, NUMBER], rows[:, SUBMIT]))]
    allocated, run_s, asked_s = (rows[:, field] for field in (ALLOCATED, RUN, REQUESTED_S))
    since_s = rows[:, SUBMIT] - rows[0, SUBMIT]
    if since_s[-1] > TRACE_S:
        first_job, last_job = (int(rows[place, NUMBER]) for place in (0, -1))
        apart = f"job {last_job} arrives {since_s[-1]:.3g} s after job {first_job}"
        rule = f"must be shorter than {TRACE_S:g} s: {apart}"
        raise InputError("trace", str(path), rule, "correct their times, or give a part of the log")
    run_ns = np.rint(np.maximum(run_s, 1) * WHOLE_NS).astype(np.int64)
    size = np.where(allocated > 0, allocated, rows[:, REQUESTED]).astype(np.int64)
    factor = np.maximum(1.0, asked_s * WHOLE_NS / run_ns)
    assumed = {
        "sizes as requested, for want of those allocated": allocated <= 0,
        "run times below a second, taken for a second": run_s < 1,
        "estimates missing, taken for the run times": asked_s < 0,
        "estimates below the run times, raised to them": (asked_s >= 0) & (asked_s * WHOLE_NS < run_ns),
    }
    following = _following(rows)
    if following is not None:
        assumed["preceding jobs that are not among these, so that arrivals are as recorded"] = (
            rows[:, PRECEDING] > 0
        ) & (following.preceding < 0)
        _check_chains(path, rows, following, since_s + np.maximum(run_s, 1))
    jobs = rigid(np.rint(since_s * WHOLE_NS).astype(np.int64), size, run_ns, factor)
    return Trace(
        replace(jobs, following=following),
        rows[:, NUMBER].astype(np.int64),
        records.processors,
        records.header,
        skipped,
        {reason: int(hit.sum()) for reason, hit in assumed.items() if hit.any()},
    )


def _following(rows: np.ndarray) -> Following | None:
    """Which jobs follow which; None if no job does."""
    named = rows[:, PRECEDING] > 0
    if not named.any():
        return None
    places = {number: place for place, number in enumerate(rows[:, NUMBER].tolist())}
    preceding = [places.get(number, -1) if number > 0 else -1 for number in rows[:, PRECEDING].tolist()]
    think_ns = np.where(rows[:, THINK] < 0, -1, np.rint(rows[:, THINK] * WHOLE_NS)).astype(np.int64)
    return Following(np.array(preceding, dtype=np.int64), think_ns)


def _check_chains(path: Path, rows: np.ndarray, following: Following, ends_s: np.ndarray) -> None:
    """Refuse jobs that follow themselves, and chains of jobs for which the simulated clock has no room."""
    before = {job: [other] for job, other in enumerate(following.preceding.tolist()) if other >= 0}
    try:
        order = [*TopologicalSorter(before).static_order()]
    except CycleError as error:
        number = int(rows[min(error.args[1]), NUMBER])
        rule = f"cannot be simulated: job {number} follows itself (field 17, also by way of other jobs)"
        raise InputError("trace", str(path), rule, "correct the preceding jobs, or write -1") from None
    earliest_s = ends_s.tolist()
    for job in order:
        for other in before.get(job, ()):
            run_s = max(1.0, float(rows[job, RUN]))
            earliest_s[job] = earliest_s[other] + max(0.0, float(rows[job, THINK])) + run_s
    if (longest_s := max(earliest_s)) > 2 * TRACE_S:
        apart = f"jobs follow each other for {longest_s:.3g} s"
        rule = f"must be shorter than {2 * TRACE_S:g} s: {apart}"
        raise InputError("trace", str(path), rule, "correct their times, or give a part of the log")


def usable(path: Path, rows: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
    """The rows of jobs that can be simulated, and how many were left out, by reason."""
    size = np.where(rows[:, ALLOCATED] > 0, rows[:, ALLOCATED], rows[:, REQUESTED])
    status = rows[:, STATUS]
    reasons = {
        "partial record": np.isin(status, (PARTIAL, LAST_PARTIAL, PARTIAL_FAILED)),
        "still running": status == STILL_RUNNING,
        "never ran": (rows[:, RUN] < 0) | ((status == CANCELLED) & (rows[:, RUN] == 0)),
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
        raise InputError("trace", str(path), rule, "choose another log")
    return rows[keep], skipped
