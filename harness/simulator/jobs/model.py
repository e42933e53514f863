"""Jobs and the outcomes of their simulation, as columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.topology import Runs
from coordinator.view import UNKNOWN, After, ExecutionTime, Job, Submitter, execution_time_s
from harness.simulator.jobs.losses import Fragmentation, Relocated
from workloads.bounds import fits
from workloads.validation import InputError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

NEVER_NS = 2**62  # start or finish of a job that did not get so far

WHOLE_NS = 1_000_000_000


class Columns(NamedTuple):
    """The columns of the jobs that kernels read (:class:`Jobs`)."""

    submit_ns: Integers
    min_processes: Integers
    max_processes: Integers
    work_s: Floats
    alpha_s: Floats
    beta_s: Floats


class Times(NamedTuple):
    """The columns that kernels write, one entry per job; NEVER_NS for what has not happened."""

    start_ns: Integers
    finish_ns: Integers

    @classmethod
    def unknown(cls, jobs: int) -> Times:
        return cls(np.full(jobs, NEVER_NS), np.full(jobs, NEVER_NS))


class Following(NamedTuple):
    """Which jobs arrive only after another one has ended; one entry per job.

    A job arrives ``think_ns`` after the end of the job that it follows (``arrival_after_ns``), -1: unknown.
    """

    preceding: Integers  # the job that each follows, -1 for none
    think_ns: Integers

    def of_jobs(self) -> list[After | None]:
        """What each job follows, as policies and sessions have it."""
        pairs = zip(self.preceding.tolist(), self.think_ns.tolist(), strict=True)
        return [After(*pair) if pair[0] >= 0 else None for pair in pairs]


@dataclass(frozen=True)
class Jobs:
    """The jobs of a simulation in order of arrival; every column has one entry per job.

    A job takes T(p) = work_s / p + alpha_s + beta_s p seconds alone on p processors
    (Sevcik's function, phi included in ``work_s``), at least one nanosecond.
    """

    submit_ns: Integers  # arrivals, ascending before a simulation
    min_processes: Integers  # fewest processors a job can start with; ``max_processes`` if it is rigid
    max_processes: Integers  # most processors it can be started with
    work_s: Floats  # phi W
    alpha_s: Floats  # work that every processor repeats
    beta_s: Floats  # communication and congestion per processor
    factor: Floats  # estimated over true execution time
    following: Following | None = None
    """None if all jobs arrive at their times."""
    submitters: tuple[Submitter, ...] = ()
    """Of each job; empty if nothing is known of any."""

    def __post_init__(self) -> None:
        columns = (*self.columns, self.factor, *(self.following or ()), self.submitters or self.factor)
        if len({*map(len, columns)}) != 1:
            raise ValueError("columns of different lengths")

    def __len__(self) -> int:
        return len(self.submit_ns)

    @property
    def columns(self) -> Columns:
        return Columns(*(getattr(self, name) for name in Columns._fields))

    def times_s(self, processors: Integers | Floats) -> Floats:
        """Execution time of each job on its number of ``processors``, in seconds."""
        times_s: Floats = execution_time_s(processors, self.work_s, self.alpha_s, self.beta_s)
        return times_s

    def times_ns(self, processors: Integers) -> Integers:
        """Execution time of each job on its number of ``processors``, in whole nanoseconds."""
        return np.maximum(1, np.rint(self.times_s(processors) * WHOLE_NS)).astype(np.int64)

    def time_ns(self, job: int, processors: int) -> int:
        """Execution time of one job on ``processors``, in whole nanoseconds."""
        columns = (self.work_s, self.alpha_s, self.beta_s)
        time_s = execution_time_s(processors, *(column[job] for column in columns))
        return max(1, int(np.rint(time_s * WHOLE_NS)))

    @property
    def demand_s(self) -> Floats:
        """The users' estimates of the execution times on one processor."""
        return (self.work_s + self.alpha_s + self.beta_s) * self.factor

    def estimates_ns(self) -> Integers:
        """The users' estimates of the execution times on as many processors as each job can use."""
        return np.maximum(1, np.rint(self.times_s(self.max_processes) * self.factor * WHOLE_NS)).astype(
            np.int64
        )

    def views(self, *, malleable: bool = False) -> list[Job]:
        """The jobs as a policy sees them, numbered from 0."""
        submitters = self.submitters or (UNKNOWN,) * len(self)
        true = (self.work_s, self.alpha_s, self.beta_s)
        scaled = (column * self.factor for column in true)
        whole = (self.submit_ns, self.min_processes, self.max_processes)
        columns = (column.tolist() for column in (*whole, *true, *scaled))
        after = self.following.of_jobs() if self.following else [None] * len(self)
        return [
            Job(
                number=number,
                processes=max_processes,
                arrival_ns=submit_ns,
                moldable=min_processes < max_processes,
                malleable=malleable and min_processes < max_processes,
                estimate=ExecutionTime(times_s[3], 1.0, *times_s[4:]),
                execution_time=ExecutionTime(times_s[0], 1.0, *times_s[1:3]),
                submitter=submitter,
                after=follows,
            )
            for number, (follows, submitter, submit_ns, min_processes, max_processes, *times_s) in enumerate(
                zip(after, submitters, *columns, strict=True)
            )
        ]

    def check(self, processors: int, lost: int = 0) -> None:
        """Refuse jobs out of order, and jobs that can never run.

        Raises:
            InputError: naming the first job larger than the machine without its ``lost`` processors.
        """
        if (np.diff(self.submit_ns) < 0).any():
            raise InputError("submit_ns", "unsorted", "jobs must be in order of arrival", "sort them")
        large = np.flatnonzero(self.min_processes > processors - lost)
        if len(large):
            more = f" ({len(large)} of {len(self)} jobs need more)"
            min_processes = int(self.min_processes[large[0]])
            fits(f"jobs[{large[0]}].processes", min_processes, processors, lost=lost, more=more)


def rigid(submit_ns: Integers, sizes: Integers, run_ns: Integers, factor: Floats | None = None) -> Jobs:
    """Jobs that take ``run_ns`` on exactly ``sizes`` processors."""
    none = np.zeros(len(sizes))
    work_s = run_ns.astype(float) * sizes / WHOLE_NS
    return Jobs(submit_ns, sizes, sizes, work_s, none, none, none + 1 if factor is None else factor)


@dataclass(frozen=True)
class JobLevelOutcome:
    """Times, sizes and places of the simulated jobs.

    Attributes:
        jobs: those that were simulated.
        processors: of the machine.
        start_ns: when each first ran, NEVER_NS if it did not.
        finish_ns: when each ended, NEVER_NS if it did not.
        size: processors each had (of a malleable job, the mean over its time).
        first: lowest processor of a job with contiguous processors; else -1: the job has those in
            ``places``, or without ``places`` the lowest ones that were free at its start.
        saturated: whether the policy could not keep up: see ``simulate``.
    """

    jobs: Jobs
    processors: int
    start_ns: Integers
    finish_ns: Integers
    size: Floats
    first: Integers
    saturated: bool = False
    places: Mapping[int, Runs] | None = None
    """The processors of each job, if ``first`` and ``size`` do not determine them; empty if they change."""
    fragmentation: Fragmentation | None = None
    """Of a policy of regions; None for others."""
    relocations: Relocated | None = None
    """Of a policy under which jobs that have begun change processors, or vacate them; None for others."""

    @property
    def finished(self) -> NDArray[np.bool_]:
        return self.finish_ns < NEVER_NS

    @property
    def asked(self) -> Integers:
        """The processors that each job asks for, all at most."""
        return np.minimum(self.jobs.max_processes, self.processors)

    @property
    def asked_s(self) -> Floats:
        """Seconds that each job takes alone on the processors that it asks for."""
        return self.jobs.times_s(self.asked)

    @property
    def alone_s(self) -> Floats:
        """Seconds that each job takes alone on as many processors as it had."""
        return self.jobs.times_s(np.maximum(self.size, 1))

    @property
    def response_s(self) -> Floats:
        """Finish minus arrival of each job, infinite if it did not end."""
        spent = (self.finish_ns - self.jobs.submit_ns) / WHOLE_NS
        return np.where(self.finished, spent, np.inf)

    @property
    def wait_s(self) -> Floats:
        """First start minus arrival of each job, infinite if it did not start."""
        spent = (self.start_ns - self.jobs.submit_ns) / WHOLE_NS
        return np.where(self.start_ns < NEVER_NS, spent, np.inf)
