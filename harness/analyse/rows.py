"""Rows: the effect of a scheduler on the jobs at a point of the sweep, measured and simulated.

``summary`` makes them from records, ``results_document`` writes them as JSON (docs/formats.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analyse.breakdown import Breakdown
from harness.analyse.states import States
from harness.analyse.statistics import Estimate
from harness.spec.jobs import rebuilt
from harness.spec.naming import scheduler_name, setting_names, short_name, workload_name
from workloads.work import Work


@dataclass(frozen=True)
class Slowdowns:
    """Response time over dedicated time: of each job, mean and maximum; medians over the repeats.

    In bounded slowdowns, times shorter than ``tau_s`` count as ``tau_s``.
    """

    mean: float
    max: float
    bounded_mean: float
    bounded_max: float
    tau_s: float
    per_job: tuple[float, ...]


@dataclass(frozen=True)
class Percentiles:
    """The median and the 99th percentile."""

    p50: float
    p99: float


@dataclass(frozen=True)
class Switches:
    """The slot switches of all repeats together; the last two attributes are None on one node.

    Attributes:
        n: number of switches.
        mechanism: the mechanism that stopped and continued processes.
        lateness_us: from the due time to the end of the switch.
        skew_us: from the first to the last processor.
        between_nodes_us: from the first to the last node, by the run's clock.
        clock_uncertainty_us: largest error that any node's clock may have had.
    """

    n: int
    mechanism: str
    lateness_us: Percentiles
    skew_us: Percentiles
    between_nodes_us: Percentiles | None = None
    clock_uncertainty_us: float | None = None


@dataclass(frozen=True)
class WaitMeans:
    """Numbers of waits that ended while spinning and after blocking, and their mean lengths."""

    spun: int
    blocked: int
    spun_mean_us: float | None
    blocked_mean_us: float | None


@dataclass(frozen=True)
class Responses:
    """Response times of the bursts of interactive jobs."""

    n: int
    mean_ms: float
    p99_ms: float


@dataclass(frozen=True)
class AgainstSpinning:
    """The yardstick that an experiment has not asked for: all jobs alone, spinning.

    Attributes:
        dedicated_s: median of the sum of the dedicated times, spinning.
        workload_slowdown: makespan over that sum.
    """

    dedicated_s: float
    workload_slowdown: Estimate


@dataclass(frozen=True)
class SectionRate:
    """Throughput of critical sections: medians over the repeats.

    Attributes:
        per_s: sections of all jobs per second.
        relative: over the rate of the same jobs alone, one after the other.
    """

    per_s: float
    relative: float


@dataclass(frozen=True)
class StartUp:
    """From the admission of a job to its first rank's first instruction: median and longest of all jobs."""

    median_ms: float
    max_ms: float


@dataclass(frozen=True)
class Summary:
    """The repeats of a scheduler, either measured or simulated; None where nothing is known.

    Attributes:
        workload_slowdown: makespan over the sum of the jobs' dedicated times.
        slowdown: slowdowns of the jobs.
        breakdown: shares of the processors' time; None where commands ran, which record no activities.
        states: shares of the ranks' time where commands ran; else None.
        makespan_s: median makespan.
        dedicated_s: median of the sums of the dedicated times.
        switches: slot switches; None if the policy stops nothing.
        waits: waits of all jobs by kind, "barrier" and "read".
        responses: response times of bursts; None without interactive jobs.
        start_up: start-up of the jobs of all repeats; None if simulated.
        failures: number of failed runs.
        against_spinning: comparison with spinning dedicated runs; None unless the dedicated times are of
            two-phase waits and the spinning times are known, too.
        sections: throughput of critical sections; None unless all jobs are of the pattern LOCK.
    """

    workload_slowdown: Estimate
    slowdown: Slowdowns | None = None
    breakdown: Breakdown | None = None
    states: States | None = None
    makespan_s: float | None = None
    dedicated_s: float | None = None
    switches: Switches | None = None
    waits: Mapping[str, WaitMeans] | None = None
    responses: Responses | None = None
    start_up: StartUp | None = None
    failures: int = 0
    against_spinning: AgainstSpinning | None = None
    sections: SectionRate | None = None


@dataclass(frozen=True)
class Verdict:
    """A judgement on the simulation of one row.

    Attributes:
        verdict: one of the four of ``harness.analyse.verdicts``.
        reason: for a row that is not comparable the field and its two values, for one that is not
            significant the repeats that a verdict needs; else empty.
        interval: 95 % interval of the error; None if unknown.
        more_repeats: repeats that a verdict needs, if they scatter as before; None if it needs none,
            or more than ``verdicts.MOST_REPEATS``.
    """

    verdict: str
    reason: str = ""
    interval: tuple[float, float] | None = None
    more_repeats: int | None = None


@dataclass(frozen=True)
class JobRow:
    """The arrival of a job, and its program as plain values (``harness.spec.jobs.described``)."""

    arrival_s: float
    program: Mapping[str, Any]

    @property
    def work(self) -> Work:
        return rebuilt(self.program)


@dataclass(frozen=True)
class Row:
    """A scheduler at a point of the sweep.

    Attributes:
        jobs: at least one.
        settings: values of the sweep's keys at this point.
        scheduler: the [[schedulers]] table with its defaults filled in.
        measured: None if not requested.
        simulated: None if not requested.
        verdict: judgement on the simulation, if requested.
    """

    jobs: tuple[JobRow, ...]
    settings: Mapping[str, Any]
    scheduler: Mapping[str, Any]
    measured: Summary | None
    simulated: Summary | None
    verdict: Verdict | None = None

    @property
    def program(self) -> Mapping[str, Any]:
        """The program of the first job."""
        return self.jobs[0].program

    @property
    def workload(self) -> str:
        """The programs of all jobs, in words."""
        return workload_name([job.program for job in self.jobs])

    @property
    def name(self) -> str:
        """The scheduler's name."""
        return scheduler_name(self.scheduler)

    @property
    def sides(self) -> Mapping[str, Summary]:
        """The summaries that exist, by "measured" and "simulated"."""
        both = {"measured": self.measured, "simulated": self.simulated}
        return {side: summary for side, summary in both.items() if summary is not None}

    def median(self, side: str) -> float | None:
        """The median workload slowdown of one side; None if unknown."""
        return self.sides[side].workload_slowdown.median if side in self.sides else None

    @property
    def error(self) -> float | None:
        """Simulated over measured workload slowdown, minus 1; None if either is missing."""
        measured, simulated = self.median("measured"), self.median("simulated")
        return None if measured is None or simulated is None else simulated / measured - 1.0


def swept(rows: Sequence[Row]) -> dict[str, str]:
    """The keys whose values differ between the points of the sweep, with their headings."""
    keys = dict.fromkeys(key for row in rows for key in row.settings)
    varied = [key for key in keys if any(row.settings.get(key) != rows[0].settings.get(key) for row in rows)]
    return setting_names(varied)


def different_jobs(rows: Sequence[Row]) -> bool:
    """Whether the jobs differ, but in the same way at all points of the sweep: then each has a column."""
    names = {tuple(short_name(job.program) for job in row.jobs) for row in rows}
    return len(names) == 1 and any(job.program != row.program for row in rows for job in row.jobs)
