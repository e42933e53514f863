"""A recorded trace as jobs to simulate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.simulator.jobs.model import WHOLE_NS, Integers, Jobs, rigid
from harness.spec import sacct, swf, trace_text
from workloads.bounds import TRACE_S
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

    def stretched(self, load: float | None, processors: int) -> Trace:
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
    records = swf.read(path, lines) if is_swf else sacct.read(path, lines)
    rows, skipped = _usable(path, records.rows)
    rows = rows[np.argsort(rows[:, swf.SUBMIT], kind="stable")]
    allocated, run_s, asked_s = (rows[:, field] for field in (swf.ALLOCATED, swf.RUN, swf.REQUESTED_S))
    since_s = rows[:, swf.SUBMIT] - rows[0, swf.SUBMIT]
    if since_s[-1] > TRACE_S:
        first_job, last_job = (int(rows[place, swf.NUMBER]) for place in (0, -1))
        rule = f"{path}: job {last_job} arrives more than {TRACE_S:g} s after job {first_job}"
        raise InputError("trace", since_s[-1], rule, "correct their times, or give a part of the trace")
    run_ns = np.rint(np.maximum(run_s, 1) * WHOLE_NS).astype(np.int64)
    size = np.where(allocated > 0, allocated, rows[:, swf.REQUESTED]).astype(np.int64)
    factor = np.maximum(1.0, asked_s * WHOLE_NS / run_ns)
    assumed = {
        "sizes as requested, for want of those allocated": allocated <= 0,
        "run times below a second, taken for a second": run_s < 1,
        "estimates missing, taken for the run times": asked_s < 0,
        "estimates below the run times, raised to them": (asked_s >= 0) & (asked_s * WHOLE_NS < run_ns),
    }
    return Trace(
        rigid(np.rint(since_s * WHOLE_NS).astype(np.int64), size, run_ns, factor),
        rows[:, swf.NUMBER].astype(np.int64),
        records.processors,
        records.header,
        skipped,
        {reason: int(hit.sum()) for reason, hit in assumed.items() if hit.any()},
    )


def _usable(path: Path, rows: np.ndarray) -> tuple[np.ndarray, dict[str, int]]:
    """The rows of jobs that can be simulated, and how many were left out, by reason."""
    size = np.where(rows[:, swf.ALLOCATED] > 0, rows[:, swf.ALLOCATED], rows[:, swf.REQUESTED])
    status = rows[:, swf.STATUS]
    reasons = {
        "partial record": np.isin(status, (swf.PARTIAL, swf.LAST_PARTIAL, swf.PARTIAL_FAILED)),
        "never ran": rows[:, swf.RUN] < 0,
        "no size": size <= 0,
        "no time of submission": rows[:, swf.SUBMIT] < 0,
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
