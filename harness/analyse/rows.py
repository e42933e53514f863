"""Rows: the effect of a scheduler on the jobs of a point of the sweep, measured and simulated.

``summary`` makes them from records, ``results_document`` writes them as JSON (docs/formats.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.analyse.breakdown import Breakdown
from harness.analyse.statistics import Estimate
from harness.spec.naming import scheduler_name


@dataclass(frozen=True)
class Slowdowns:
    """Response times over dedicated times, over the jobs, as medians over the repeats.

    In the bounded ones no time is taken for shorter than ``tau_s``.
    """

    mean: float
    max: float
    bounded_mean: float
    bounded_max: float
    tau_s: float


@dataclass(frozen=True)
class Percentiles:
    """The median and the 99th percentile."""

    p50: float
    p99: float


@dataclass(frozen=True)
class Switches:
    """The changes of slot of all repeats together; the last two are of several nodes only.

    Attributes:
        n: how many.
        mechanism: by which processes were stopped and continued.
        lateness_us: how much later than due they were done.
        skew_us: from the first to the last processor.
        between_nodes_us: from the first to the last node, by the run's clock.
        clock_uncertainty_us: by how much any node's clock may have been wrong.
    """

    n: int
    mechanism: str
    lateness_us: Percentiles
    skew_us: Percentiles
    between_nodes_us: Percentiles | None = None
    clock_uncertainty_us: float | None = None


@dataclass(frozen=True)
class WaitMeans:
    """Waits that ended while spinning and after blocking, and their mean times."""

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
class Summary:
    """The repeats of a scheduler, either measured or simulated; None where nothing is known.

    Attributes:
        workload_slowdown: makespan over the sum of the jobs' dedicated times.
        slowdown: of the jobs.
        breakdown: shares of the processors' time.
        makespan_s, dedicated_s: medians; the latter of the sums of the dedicated times.
        switches: None if the policy holds nothing.
        waits: of all jobs, "barrier" and "read".
        responses: None without interactive jobs.
        failures: how many runs failed.
        against_spinning: where dedicated times are of two-phase waits, and of the same jobs spinning known.
    """

    workload_slowdown: Estimate
    slowdown: Slowdowns | None = None
    breakdown: Breakdown | None = None
    makespan_s: float | None = None
    dedicated_s: float | None = None
    switches: Switches | None = None
    waits: Mapping[str, WaitMeans] | None = None
    responses: Responses | None = None
    failures: int = 0
    against_spinning: AgainstSpinning | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether the simulator is right about one row.

    Attributes:
        verdict: one of ``verdicts.VERDICTS``.
        reason: the field and its two values where rows are not comparable, the repeats that a verdict
            needs where the difference is not significant; else empty.
        interval: of the error, 95 %; None where it is not known.
        more_repeats: how many more repeats are needed for a verdict if they scatter as
            those before; None where none are, or more than ``verdicts.MOST_REPEATS``.
    """

    verdict: str
    reason: str = ""
    interval: tuple[float, float] | None = None
    more_repeats: int | None = None


@dataclass(frozen=True)
class JobRow:
    """The arrival of a job and its program (``harness.spec.jobs.described``)."""

    arrival_s: float
    program: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A scheduler at a point of the sweep.

    Attributes:
        jobs: at least one.
        settings: of the sweep.
        scheduler: the [[schedulers]] table with its defaults filled in.
        measured, simulated: None if not asked for.
        verdict: on the simulation, where one is asked for.
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
    def name(self) -> str:
        """The scheduler in words."""
        return scheduler_name(self.scheduler)

    @property
    def sides(self) -> Mapping[str, Summary]:
        """Those of measured and simulated that there are."""
        both = {"measured": self.measured, "simulated": self.simulated}
        return {side: summary for side, summary in both.items() if summary is not None}

    def median(self, side: str) -> float | None:
        """The measured or simulated workload slowdown; None if it is not known."""
        return self.sides[side].workload_slowdown.median if side in self.sides else None

    @property
    def error(self) -> float | None:
        """Simulated over measured workload slowdown, minus 1; None if either is missing."""
        measured, simulated = self.median("measured"), self.median("simulated")
        return None if measured is None or simulated is None else simulated / measured - 1.0
