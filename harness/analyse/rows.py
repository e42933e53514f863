"""Rows: the effect of a scheduler on jobs at a point of the sweep, measured and simulated; their columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from harness.analyse.breakdown import PARTS, STATES, Breakdown, States
from harness.analyse.columns import (
    CI95,
    MEASURED,
    SIMULATED,
    UNKNOWN,
    Column,
    at,
    ends,
    fixed,
    four_digits,
    needed,
    one_digit,
    percent,
)
from harness.analyse.statistics import Estimate
from harness.spec.jobs import rebuilt
from harness.spec.naming import scheduler_name, setting_names, workload_name
from harness.store.records import Schedule
from workloads.work import Work


@dataclass(frozen=True)
class Slowdowns:
    """Slowdowns of the jobs; in bounded ones, times shorter than ``tau_s`` count as ``tau_s``."""

    mean: float
    max: float
    bounded_mean: float
    bounded_max: float
    tau_s: float
    per_job: tuple[float, ...]
    per_job_ci95: tuple[tuple[float, float] | None, ...] = ()


@dataclass(frozen=True)
class Percentiles:
    p50: float
    p99: float


@dataclass(frozen=True)
class Switches:
    """The slot switches of all repeats together; the last two attributes are None on one node."""

    n: int
    mechanism: str
    switch_delay_us: Percentiles
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
    n: int
    mean_ms: float
    p99_ms: float


@dataclass(frozen=True)
class AgainstSpinning:
    """The same for dedicated times of spinning jobs, if those of the experiment are of two-phase waits."""

    dedicated_s: float
    workload_slowdown: Estimate


@dataclass(frozen=True)
class SectionRate:
    """Critical sections of all jobs per second, and over the rate of the jobs one after the other."""

    per_s: float
    relative: float


@dataclass(frozen=True)
class StartUp:
    """From the admission of a job to its first rank's first instruction: median and longest of all jobs."""

    median_ms: float
    max_ms: float


@dataclass(frozen=True)
class Summary:
    """The repeats of a scheduler, measured or simulated (docs/reference); None where nothing is known."""

    workload_slowdown: Estimate
    slowdown: Slowdowns | None = None
    breakdown: Breakdown | None = None
    states: States | None = None
    makespan_s: float | None = None
    dedicated_s: float | None = None
    switches: Switches | None = None
    waits: Mapping[str, WaitMeans] | None = None  # by kind, "barrier" and "read"
    responses: Responses | None = None
    start_up: StartUp | None = None
    failures: int = 0
    against_spinning: AgainstSpinning | None = None
    sections: SectionRate | None = None
    throttled: float | None = None
    cpu_s: tuple[float, ...] | None = None
    dedicated: Estimate | None = (
        None  # with a setting: the sum of the times alone over that of unmodified programs
    )
    exceeded: float | None = None  # a run was stopped after so many times the sum of the times alone
    # The workload slowdowns by repeat; of jobs without processes by replication, or by batch of jobs.
    by_repeat: Mapping[int, float] = field(default_factory=dict)
    # Of jobs without processes; the workload slowdown is then the mean of their bounded slowdowns.
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Verdict:
    """A judgement on the simulation of a row (docs/reference); ``interval`` is of the error."""

    verdict: str
    reason: str = ""
    interval: tuple[float, float] | None = None
    more_repeats: int | None = None

    def __str__(self) -> str:
        return self.verdict + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True)
class JobRow:
    """The arrival of a job, and its program as plain values (``harness.spec.jobs.described``)."""

    arrival_s: float
    program: Mapping[str, Any]

    @property
    def work(self) -> Work:
        return rebuilt(self.program)


@dataclass(frozen=True)
class Withheld:
    """Measured values that cannot be right, and why in words."""

    reason: str
    measured: Summary


@dataclass(frozen=True)
class Row:
    """A scheduler, as its table with defaults, at a point of the sweep; a side is None if not requested.

    What cannot be right is ``withheld``: then nothing of the measured side is known.
    The row of the jobs of a log or a model has sides with a ``schedule``, and no ``jobs``; without processes
    it has a simulated side only.
    """

    jobs: tuple[JobRow, ...]
    settings: Mapping[str, Any]
    scheduler: Mapping[str, Any]
    measured: Summary | None
    simulated: Summary | None
    verdict: Verdict | None = None
    bound: float | None = None  # no schedule has a smaller workload slowdown; None if that is unknown
    withheld: Withheld | None = None
    by_job: Summary | None = None  # of a log with processes, simulated job by job

    @property
    def program(self) -> Mapping[str, Any]:
        return self.jobs[0].program

    @property
    def schedule(self) -> Schedule | None:
        """Of the first side that has one, or else the one that is withheld: it has the same jobs."""
        sides = [*self.sides.values(), *([self.withheld.measured] if self.withheld else [])]
        return next((side.schedule for side in sides if side.schedule), None)

    @property
    def saturated(self) -> str:
        """Why the scheduler cannot keep up with jobs without processes; empty if it can."""
        return self.schedule.saturated if self.schedule else ""

    @property
    def workload(self) -> str:
        if self.schedule:
            return self.schedule.jobs_name
        return workload_name([job.work for job in self.jobs]) if self.jobs else ""

    @property
    def name(self) -> str:
        return scheduler_name(self.scheduler)

    @property
    def sides(self) -> Mapping[str, Summary]:
        """The summaries that exist, by "measured", "simulated" and "by_job"."""
        every = {"measured": self.measured, "simulated": self.simulated, "by_job": self.by_job}
        return {side: summary for side, summary in every.items() if summary is not None}

    @property
    def first_side(self) -> Summary:
        """The measured side, or else the simulated one; without values if there is none."""
        return next(iter(self.sides.values()), Summary(Estimate(None, None, 0)))

    def median(self, side: str) -> float | None:
        """The median workload slowdown of one side; None if unknown."""
        return self.sides[side].workload_slowdown.median if side in self.sides else None

    @property
    def repeats(self) -> int:
        summary = self.withheld.measured if self.withheld else self.measured
        return summary.workload_slowdown.n if summary else 0

    @property
    def error(self) -> float | None:
        """Simulated over measured workload slowdown, minus 1; None if either is missing, or of other jobs."""
        measured, simulated = self.median("measured"), self.median("simulated")
        if measured is None or simulated is None or not self.same_jobs("simulated"):
            return None
        return simulated / measured - 1.0

    def same_jobs(self, side: str) -> bool:
        """Whether this side and the measured side have the same jobs: those of a log may have failed."""
        ours, theirs = (self.sides[one].schedule if one in self.sides else None for one in (side, "measured"))
        return not (ours and theirs) or ours.source.get("failed") == theirs.source.get("failed")


def place_name(row: Row) -> str:
    """The scheduler and the point of the sweep."""
    return ", ".join([row.name, *(f"{key} = {value}" for key, value in row.settings.items())])


def swept(rows: Sequence[Row]) -> dict[str, str]:
    """The keys whose values differ between the points of the sweep, with their headings."""
    keys = dict.fromkeys(key for row in rows for key in row.settings)
    varied = [key for key in keys if any(row.settings.get(key) != rows[0].settings.get(key) for row in rows)]
    return setting_names(varied)


def different_jobs(rows: Sequence[Row]) -> bool:
    """Whether the jobs differ, but in the same way at all points of the sweep: then each has a column."""
    names = {tuple(job.work.short_name for job in row.jobs) for row in rows}
    return len(names) == 1 and any(job.program != row.program for row in rows for job in row.jobs)


SPINNING = "measured.against_spinning"
TIMES, RESPONSES, BREAKDOWN, RANKS, SLOTS = "times", "responses", "parts", "ranks", "slots"
GROUPS = {
    "": "",
    TIMES: "median over the repeats",
    SPINNING: "makespan / sum of the dedicated times of spinning jobs",
    RESPONSES: "response times of the bursts of interactive jobs: mean and 99th percentile",
    BREAKDOWN: "share of the CPU time",
    RANKS: "share of the ranks' time",
    SLOTS: "of slot switches: median/99th percentile",
}
"""Groups of columns, and what all in a group are; the main table's has no name."""


def _interval(estimate: Estimate) -> str:
    if not estimate.ends:
        return UNKNOWN
    two = " (least to most)" if estimate.kind == "least to most" else ""
    return "{:.2f} to {:.2f}".format(*estimate.ends) + two


def _burst(responses: Responses) -> str:
    return f"{responses.mean_ms:.1f}/{responses.p99_ms:.1f}"


def _late(percentiles: Percentiles) -> str:
    return f"{percentiles.p50:.0f}/{percentiles.p99:.0f}"


_ONE, _TWO, _THREE = "{:.1f}".format, "{:.2f}".format, "{:.3f}".format

SLOWDOWN = Column(
    "measured.workload_slowdown.median",
    "workload\nslowdown",
    fixed,
    csv="measured",
    frame="slowdown",
    page="measured",
    on_page=_THREE,
    meaning="makespan / sum of the dedicated times, median over the repeats",
)
PREDICTED = replace(
    SLOWDOWN.of(SIMULATED), heading="simu-\nlated", csv=SIMULATED, frame="", page=SIMULATED, needs=SIMULATED
)
INTERVAL = Column(
    "measured.workload_slowdown", CI95, ends, page="interval", on_page=_interval, meaning="its interval"
)
ERROR = Column(
    "error",
    "error\n%",
    lambda share: percent(share, 0, "+"),
    csv="error",
    frame="error",
    page="error",
    on_page=lambda share: f"{percent(share, 1, '+')} %",
    needs=SIMULATED,
    meaning="simulated / measured slowdown, minus 1",
)
PART_HEADINGS = "comp\n%", "comm\n%", "sync\n%", "switch\n%", "idle\n%"  # of all but others
STATE_HEADINGS = "run\n%", "ready\n%", "asleep\n%"
COLUMNS = [  # path, heading, shown, csv, frame, page, unit, group, meaning
    SLOWDOWN,
    Column("measured.workload_slowdown.ends.0", csv="low", frame="low", meaning="where the interval begins"),
    Column("measured.workload_slowdown.ends.1", csv="high", frame="high", meaning="where it ends"),
    Column(
        "measured.workload_slowdown.kind", words=True, csv="interval", frame="interval", meaning="its kind"
    ),
    INTERVAL,
    Column("measured.workload_slowdown.n", csv="repeats", frame="n", page="n", meaning="number of repeats"),
    PREDICTED,
    ERROR,
    Column(
        *("measured.throttled", "throttled\n%", percent, "throttled", "throttled", "throttled", "%"),
        needs="measured.throttled",
        meaning="share of the CPU time in which a CPU quota stopped the processes",
    ),
    Column(
        "simulated.throttled", csv="simulated_throttled", needs="simulated.throttled", meaning="by simulation"
    ),
    Column(
        *("measured.dedicated.median", "dedicated\nover as it is", fixed, "", "", "dedicated"),
        needs="measured.dedicated",
        meaning="with a setting: the times alone over those as it is, median over the repeats",
    ),
    Column(
        *("measured.exceeded", "stopped\nafter", "{:g}".format, "", "", "stopped after"),
        needs="measured.exceeded",
        meaning="a run was stopped after so many times the sum of the times alone",
    ),
    Column("measured.slowdown.mean", "job\nmean", fixed, frame="job_mean", meaning="of the jobs' slowdowns"),
    Column("measured.slowdown.max", "job\nmax", fixed, frame="job_max", meaning="of the jobs' slowdowns"),
    Column("measured.makespan_s", "", _TWO, "", "makespan_s", "makespan", "s", TIMES),
    Column("measured.dedicated_s", "", _TWO, "", "dedicated_s", "one after the other", "s", TIMES),
    Column(
        SPINNING + ".workload_slowdown.median", "against\nspinning", fixed, group=SPINNING, needs=SPINNING
    ),
    Column("measured.responses", "burst\nms", _burst, group=RESPONSES, needs="measured.responses"),
    Column(
        "simulated.responses", "burst ms\nsimulated", _burst, group=RESPONSES, needs="simulated.responses"
    ),
    Column("measured.responses.n", page="bursts", group=RESPONSES),
    Column("measured.responses.mean_ms", "", _ONE, "response_mean_ms", "", "mean", "ms", RESPONSES),
    Column("measured.responses.p99_ms", "", _ONE, "response_p99_ms", "", "99th percentile", "ms", RESPONSES),
    Column("simulated.responses.mean_ms", csv="simulated_response_mean_ms", group=RESPONSES),
    Column("simulated.responses.p99_ms", csv="simulated_response_p99_ms", group=RESPONSES),
    Column("verdict.verdict", csv="verdict", page="verdict", words=True, needs=SIMULATED, meaning="on it"),
    Column("verdict.reason", csv="reason", words=True, meaning="why"),
    Column(
        *("withheld.reason", "", str, "withheld"),
        words=True,
        needs="withheld",
        meaning="why nothing measured is shown, where it cannot be right",
    ),
    *(
        Column(f"measured.breakdown.{part}", heading, percent, f"measured_{part}", part, part, "%", BREAKDOWN)
        for part, heading in zip(PARTS, PART_HEADINGS, strict=False)
    ),
    Column(
        *("measured.breakdown.others", "other\n%", percent, "measured_others", "", "others", "%", BREAKDOWN),
        needs="measured.breakdown.others",
        meaning="of programs that are not of the run",
    ),
    *(Column(f"simulated.breakdown.{part}", csv=f"simulated_{part}", group=BREAKDOWN) for part in PARTS[:-1]),
    *(
        Column(f"measured.states.{state}", heading, percent, f"measured_{state}", "", state, "%", RANKS)
        for state, heading in zip(STATES, STATE_HEADINGS, strict=True)
    ),
    replace(
        Column(
            "measured.states.in_waits", "", percent, "measured_in_waits", "", "in waits of MPI", "%", RANKS
        ),
        unknown="not known",
    ),
    Column("measured.switches.switch_delay_us", "switch delay\nus", _late, group=SLOTS, unknown=""),
    Column("measured.switches.skew_us", "skew\nus", _late, group=SLOTS, unknown=""),
]
"""The columns of results, in the order of files and pages."""

SCHEDULER = Column("name", "scheduler", words=True, csv="scheduler", page="scheduler")


def setting(key: str, heading: str) -> Column:
    """The column of a key of the sweep, which may have dots."""
    return Column(
        lambda row: at(row, "settings").get(key), heading, words=True, unknown="", csv=heading, page=heading
    )


def places(rows: Sequence[Row]) -> list[Column]:
    """Columns that tell rows apart: the keys whose values differ, and the scheduler."""
    return [*(setting(key, heading) for key, heading in swept(rows).items()), SCHEDULER]


def columns(name: str, *groups: str) -> list[Column]:
    """The columns of these groups that have this name: heading, csv, frame or page; "" is the main table."""
    return [column for column in COLUMNS if column.group in groups and getattr(column, name)]


def of_known_side(candidates: Iterable[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns; if nothing was measured, those of measured values with the simulated ones instead."""
    if any(row.measured for row in rows):
        return list(candidates)
    ours = (one for one in candidates if not one.needs and str(one.path).startswith(MEASURED))
    names = ("csv", "page")
    return [
        replace(one.of(SIMULATED), **{key: getattr(one, key).replace(MEASURED, SIMULATED) for key in names})
        for one in ours
    ]


Mean = tuple[float, float | None]  # a mean, and the half-width of its 95 % interval if there is one


def _of_regions(row: Row) -> bool:
    """Whether the policy gives regions (``Fragmentation``)."""
    return row.schedule is not None and "missed" in row.schedule.metrics


def _mean(
    name: str,
    heading: str,
    shown: Callable[[Mean], str] = lambda mean: four_digits(mean[0]),
    needs: str | Callable[[Row], bool] = "",
) -> Column:
    def found(row: Row) -> Mean | None:
        if row.schedule is None or (value := row.schedule.metrics.get(name)) is None:
            return None
        return value, row.schedule.half_width.get(name)

    page = heading.replace("-\n", "").replace("\n", " ")
    return Column(found, heading, shown, page=page, on_page=partial(_with_half, sign="\u00b1"), needs=needs)


def _with_half(mean: Mean, sign: str = "+-") -> str:
    value, half = mean
    return four_digits(value) + (f" {sign}{one_digit(half)}" if half else "")


def saturated_name(row: Row, pattern: str) -> str:
    """The scheduler; if it is saturated, in a ``pattern`` with the reason."""
    return pattern.format(row.name, row.saturated) if row.saturated else row.name


OF_JOBS = [
    _mean("response_s", "response\ns", _with_half),
    _mean("wait_s", "wait\ns"),
    _mean("slowdown", "slowdown\n"),
    _mean("bounded_slowdown", "bounded\nslowdown"),
    _mean("processors", "mean\nsize"),
    _mean("utilisation", "utili-\nsation"),
    _mean("fairness", "fair-\nness"),
    _mean("internal", "inter-\nnal", needs=_of_regions),
    _mean("external", "exter-\nnal", needs=_of_regions),
    _mean("missed", "missed\n", needs=_of_regions),
]
"""The columns of means over jobs."""


def _three(name: str, heading: str) -> list[Column]:
    """The columns of a mean over the jobs of a log: measured, and as the simulators of each level have it."""
    path = f"schedule.metrics.{name}"

    def error(side: str) -> Callable[[Row], float | None]:
        def of(row: Row) -> float | None:
            ours, theirs = at(row, f"{side}.{path}"), at(row, f"measured.{path}")
            return ours / theirs - 1 if ours is not None and theirs and row.same_jobs(side) else None

        return of

    def sign(share: float) -> str:
        return percent(share, 1, "+")

    page = heading.replace("-\n", "").replace("\n", " ")
    return [
        Column(f"measured.{path}", heading, four_digits, page=page, needs=f"measured.{path}"),
        Column(f"simulated.{path}", "simu-\nlated", four_digits, page=f"{page} (simulated)"),
        Column(error(SIMULATED), "error\n%", sign, page="error", unit="%", needs=error(SIMULATED)),
        Column(f"by_job.{path}", "by\njob", four_digits, page=f"{page} (by job)", needs=f"by_job.{path}"),
        Column(error("by_job"), "error\n%", sign, page="error", unit="%", needs=error("by_job")),
    ]


OF_LOGS = [
    *_three("response_s", "response\ns"),
    *_three("bounded_slowdown", "bounded\nslowdown"),
    *_three("wait_s", "wait\ns"),
    *_three("utilisation", "utili-\nsation"),
]
"""The same of the jobs of a log that have processes, if some were measured."""


def of_means(rows: Sequence[Row]) -> list[Column]:
    """The columns of means over the jobs of a log or a model."""
    return needed(OF_LOGS if any(row.measured or row.by_job for row in rows) else OF_JOBS, rows)
