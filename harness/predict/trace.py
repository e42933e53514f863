"""A recorded trace as jobs to simulate: from the Standard Workload Format, or from the text of sacct."""

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from harness.simulator.jobs.model import WHOLE_NS, Floats, Following, Integers, Jobs, rigid
from harness.spec import preceding_jobs
from harness.spec.job_source import ESTIMATES, DrawnEstimates
from harness.spec.recorded_jobs import records_of, submitters, usable
from harness.spec.swf_records import (
    ALLOCATED,
    HELD_S,
    NUMBER,
    PRECEDING,
    REQUESTED_S,
    RUN,
    SUBMIT,
    THINK,
    WAIT,
    Records,
    sizes_of,
)
from harness.spec.trace_text import UNKNOWN
from workloads.bounds import TRACE_S
from workloads.validation import InputError


class Recorded(NamedTuple):
    """What a log says of its jobs besides, one entry per job; -1 for what it does not say."""

    wait_s: Floats  # from the arrival to the start
    asked_s: Floats  # estimated run time
    held_s: Floats  # from the submission to the arrival: held back, or waiting for another job


@dataclass(frozen=True)
class Trace:
    """A trace ready to be simulated."""

    jobs: Jobs  # rigid, in order of arrival, the first at time 0
    numbers: Integers  # the numbers of the jobs in the trace
    processors: int | None  # of the traced machine, None if the trace does not say
    header: Mapping[str, str]  # the comments ``; Key: value``, the first of each key
    skipped: Mapping[str, int]  # how many jobs were left out, by reason
    assumed: Mapping[str, int]  # how many jobs have values that the trace does not give, by reason
    recorded: Recorded

    @property
    def content(self) -> str:
        """SHA-256 over the jobs, in hexadecimal: the same for every file that holds them."""
        digest = hashlib.sha256()
        for column in (self.numbers, *self.jobs.columns, self.jobs.factor, *(self.jobs.following or ())):
            digest.update(column.tobytes())
        digest.update(repr([astuple(one) for one in self.jobs.submitters]).encode())
        return digest.hexdigest()

    @property
    def span_s(self) -> float:
        return float(self.jobs.submit_ns[-1] - self.jobs.submit_ns[0]) / WHOLE_NS

    def check(self, processors: int, lost: int) -> None:
        """Refuse jobs that can never run, and more work than the simulated clock has room for."""
        sizes = self.jobs.max_processes
        left = processors - lost
        large = np.flatnonzero(sizes > left)
        if len(large):
            named = f"job {self.numbers[large[0]]} of the log asks for {sizes[large[0]]}"
            rule = f"{named}, and machine.lost leaves {left}" if lost else f"{named}"
            more = f"must be enough for all jobs: {rule} ({len(large)} of {len(sizes)} jobs ask for too many)"
            raise InputError(
                "processors",
                processors,
                more,
                f"write --set processors={sizes.max() + lost}, or remove these jobs from the log",
            )
        if self.jobs.work_s.sum() / processors > TRACE_S:
            raise InputError(
                "processors",
                processors,
                f"cannot do the work of the log within {TRACE_S:g} s",
                "give more processors, or a part of the log",
            )

    def estimated(self, estimates: str | None, seed: int) -> Self:
        """The trace with estimates drawn in their place (``DrawnEstimates``), if the text is not None."""
        if estimates is None:
            return self
        factor = DrawnEstimates.draw(estimates, len(self.jobs), seed)
        others = {reason: count for reason, count in self.assumed.items() if not reason.startswith(ESTIMATES)}
        drawn = {DrawnEstimates.reason(estimates): len(self.jobs)}
        return replace(self, jobs=replace(self.jobs, factor=factor), assumed=others | drawn)

    def stretched(self, load: float | None, processors: int) -> Self:
        """The trace with its times between arrivals stretched to an offered load, if there is one.

        The load is the work of all jobs over what the simulated machine does in that time. Think times of
        jobs that follow others stay.
        """
        if load is None:
            return self
        if not self.span_s:
            raise InputError(
                "load", load, "cannot be offered, since all jobs of the log arrive at once", "leave load out"
            )
        factor = float(self.jobs.work_s.sum()) / (processors * self.span_s) / load
        if self.span_s * factor > TRACE_S:
            raise InputError(
                "load",
                load,
                f"is so low that the jobs of the log cannot arrive within {TRACE_S:g} s",
                "give a greater load",
            )
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


def of_records(path: Path, records: Records) -> Trace:
    """The trace of the recorded jobs, as ``read`` has it."""
    rows, skipped = usable(path, records.rows)
    sizes = sizes_of(rows)
    # Of these keys the last one comes first.
    rows = rows[np.lexsort((rows[:, REQUESTED_S], sizes, rows[:, RUN], rows[:, NUMBER], rows[:, SUBMIT]))]
    allocated, run_s, asked_s = (rows[:, field] for field in (ALLOCATED, RUN, REQUESTED_S))
    since_s = rows[:, SUBMIT] - rows[0, SUBMIT]
    if since_s[-1] > TRACE_S:
        first_job, last_job = (int(rows[place, NUMBER]) for place in (0, -1))
        apart = f"job {last_job} arrives {since_s[-1]:.3g} s after job {first_job}"
        raise InputError(
            "trace",
            str(path),
            f"must be shorter than {TRACE_S:g} s: {apart}",
            "correct their times, or give a part of the log",
        )
    run_ns = np.rint(np.maximum(run_s, 1) * WHOLE_NS).astype(np.int64)
    size = sizes_of(rows).astype(np.int64)
    factor = np.maximum(1.0, asked_s * WHOLE_NS / run_ns)
    assumed = {
        "sizes as requested, for want of those allocated": allocated <= 0,
        "run times below a second, taken for a second": run_s < 1,
        f"{ESTIMATES} missing, taken for the run times": asked_s < 0,
        f"{ESTIMATES} below the run times, raised to them": (asked_s >= 0) & (asked_s * WHOLE_NS < run_ns),
    }
    following = _following(rows)
    if following is not None:
        preceding = following.preceding.tolist()
        assumed[preceding_jobs.ASSUMED] = preceding_jobs.elsewhere(rows, preceding)
        _check_chains(path, rows, preceding, since_s + np.maximum(run_s, 1))
    jobs = rigid(np.rint(since_s * WHOLE_NS).astype(np.int64), size, run_ns, factor)
    return Trace(
        replace(jobs, following=following, submitters=submitters(records, rows)),
        rows[:, NUMBER].astype(np.int64),
        records.processors,
        records.header,
        skipped,
        {reason: int(hit.sum()) for reason, hit in assumed.items() if hit.any()},
        _recorded(rows),
    )


def _recorded(rows: np.ndarray) -> Recorded:
    wait_s = rows[:, WAIT].copy()
    asked_s = rows[:, REQUESTED_S].copy()
    held_s = rows[:, HELD_S].copy() if rows.shape[1] > HELD_S else np.full(len(rows), float(UNKNOWN))
    return Recorded(wait_s, asked_s, held_s)


def _following(rows: np.ndarray) -> Following | None:
    """Which jobs follow which; None if no job does."""
    if not (rows[:, PRECEDING] > 0).any():
        return None
    think_ns = np.where(rows[:, THINK] < 0, -1, np.rint(rows[:, THINK] * WHOLE_NS)).astype(np.int64)
    return Following(np.array(preceding_jobs.places(rows), dtype=np.int64), think_ns)


def _check_chains(path: Path, rows: np.ndarray, preceding: list[int], ends_s: np.ndarray) -> None:
    """Refuse jobs that follow themselves, and chains of jobs for which the simulated clock has no room."""

    def refuse(reason: str) -> InputError:
        remedy = "correct the preceding jobs, or write -1"
        return InputError("trace", str(path), f"cannot be simulated: {reason}", remedy)

    longest_s = preceding_jobs.chains_end_s(rows, preceding, ends_s, refuse)
    if longest_s > 2 * TRACE_S:
        apart = f"jobs follow each other for {longest_s:.3g} s"
        raise InputError(
            "trace",
            str(path),
            f"must be shorter than {2 * TRACE_S:g} s: {apart}",
            "correct their times, or give a part of the log",
        )
