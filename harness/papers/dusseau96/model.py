"""Dusseau, Arpaci, Culler 1996: implicit scheduling against coscheduling, Figures 2 to 13."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from coordinator import policies
from harness.analyse.statistics import half_width
from harness.papers.dusseau96.published import IMMEDIATE
from harness.predict.pool import Progress, compute
from harness.predict.process_level import guess_s
from harness.predict.time_left import Guess
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.outcome import Outcome
from harness.simulator.processes.simulate import simulate
from workloads.program import Program

FIGURES = {
    "2": "Execution characteristics when coscheduled",
    "3": "Local scheduling with immediate blocking",
    "4": "Impact of workload and system parameters on immediate blocking",
    "5": "Fixed spin equal to the context-switch cost",
    "6": "Varying the fixed spin",
    "7": "Maintaining dynamic coordination",
    "8": "Adaptive two-phase blocking with known load imbalance",
    "9": "Local approximation of the load imbalance",
    "10": "Global approximation of the load imbalance",
    "11": "Coordination of timer expiration",
    "12": "Round-robin local scheduler",
    "13": "Implicit scheduling versus coscheduling",
}

PATTERNS = ("BARRIER", "NEWS", "TRANSPOSE")
WIDE_US = (500_000.0, 50_000.0, 5_000.0, 1_000.0, 400.0, 100.0)
FINE_US = (5_000.0, 1_000.0, 400.0, 200.0, 100.0)
"""Granularities of the bar charts: from 500 ms down, in Figure 6 alone from 5 ms down."""

IMBALANCES = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
TABLE_US = (100.0, 5_000.0, 500_000.0)
"""Fine, medium and coarse. The captions print 500 us for medium; see docs/decisions.md."""

TABLE_IMBALANCES = (0.25, 1.5)
TABLE_MACHINES = ((50.0, 100.0), (50.0, 10.0), (200.0, 100.0), (200.0, 10.0))
"""Context-switch cost and latency of the tables' rows, from the top."""

PROCESSORS = 32
JOBS = 3
GANG_QUANTUM_MS = 500.0
DEDICATED_S, QUICK_S = 10.0, 2.0
COARSE_US = 20_000.0
"""From here on a job has few phases and results scatter: more repeats, and jobs are never shortened."""

QUICK = (
    f"jobs of {QUICK_S:g} s instead of {DEDICATED_S:g} s up to a granularity of {COARSE_US / 1e3:g} ms, "
    "and one repeat of them instead of three"
)


@dataclass(frozen=True)
class Point:
    """One workload on one machine under one scheduler."""

    pattern: str
    granularity_us: float
    imbalance: float
    context_switch_us: float = 200.0
    latency_us: float = 10.0
    policy: str = "implicit"
    blocking: str = "global-adaptive"
    spin_switches: float = 2.0
    local: str = "svr4"
    timers: str = "independent"
    imbalance_estimate: str = "arrival-spread"
    rivals_us: float | None = None
    """The granularity of the two other jobs, if it differs."""

    def coscheduled(self) -> Point:
        """The same workload under coscheduling."""
        return Point(
            self.pattern,
            self.granularity_us,
            self.imbalance,
            self.context_switch_us,
            self.latency_us,
            policy="gang",
            blocking="spin",
        )


@dataclass(frozen=True)
class PointOutcome:
    """The repeats of a point: makespans, and shares of time and of waits.

    ``responses_s`` is the mean response time of each of its jobs.
    """

    makespans_s: tuple[float, ...]
    responses_s: tuple[float, ...]
    breakdown: Mapping[str, float]
    spun_reads: float
    spun_barriers: float
    spun_opening_barriers: float


@dataclass(frozen=True)
class Slowdown:
    """Makespan over coscheduling's; ``half`` is the half-width of its 95 % interval, None if unknown."""

    value: float
    half: float | None

    def differs(self, other: float) -> bool:
        """Whether it is significantly different from ``other``."""
        return self.half is None or abs(self.value - other) > self.half


class PointResults:
    """The results of the simulated points, and their seed."""

    def __init__(self, measured: Mapping[Point, PointOutcome], seed: int) -> None:
        self._measured = measured
        self.seed = seed

    def at(self, point: Point) -> PointOutcome:
        """The repeats of a point."""
        return self._measured[point]

    def slowdown(self, point: Point) -> Slowdown:
        """Relative to coscheduling, from pairs with the same random numbers."""
        pairs = zip(self.at(point).makespans_s, self.at(point.coscheduled()).makespans_s, strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        return Slowdown(statistics.fmean(ratios), half_width(ratios))


def bars(figure: str) -> list[Point]:
    """The bars of a bar chart, group by group."""
    patterns, grains, variants = CHARTS[figure]
    return [
        replace(variant, pattern=pattern, granularity_us=grain, imbalance=imbalance)
        for variant in variants
        for pattern in patterns
        for grain in grains
        for imbalance in IMBALANCES
    ]


def table(figure: str) -> list[Point]:
    """The cells of a table, row by row."""
    blocking = "immediate" if figure == "4" else "global-adaptive"
    return [
        Point(pattern, grain, imbalance, switch_us, latency_us, blocking=blocking)
        for pattern in PATTERNS
        for switch_us, latency_us in TABLE_MACHINES
        for grain in TABLE_US
        for imbalance in TABLE_IMBALANCES
    ]


_BASE = Point("", 0.0, 0.0)
CHARTS: Mapping[str, tuple[Sequence[str], Sequence[float], Sequence[Point]]] = {
    "2": (PATTERNS, WIDE_US, (_BASE.coscheduled(),)),
    "3": (PATTERNS, WIDE_US, (replace(_BASE, blocking="immediate"),)),
    "5": (PATTERNS, WIDE_US, (replace(_BASE, blocking="fixed", spin_switches=1.0),)),
    "6": (
        ("NEWS",),
        FINE_US,
        tuple(replace(_BASE, blocking="fixed", spin_switches=k) for k in (2.0, 4.0, 8.0)),
    ),
    "8": (PATTERNS, WIDE_US, (replace(_BASE, blocking="oracle"),)),
    "9": (PATTERNS, WIDE_US, (replace(_BASE, blocking="local-adaptive"),)),
    "10": (PATTERNS, WIDE_US, (_BASE,)),
    "11": (PATTERNS, WIDE_US, (replace(_BASE, timers="synchronised"),)),
    "12": (PATTERNS, WIDE_US, (replace(_BASE, local="round-robin"),)),
}
TABLES = ("4", "13")
COMPARED = {"5": ("3",), "9": ("8",), "10": ("8",), "11": ("10",), "12": ("10",)}
"""Figures that a claim about a figure compares it with."""

LONG_SWITCHES = (10.0, 20.0, 40.0)
LONG_SPINS = [
    Point(pattern, 5_000.0, imbalance, blocking="fixed", spin_switches=switches)
    for pattern in PATTERNS
    for imbalance in IMBALANCES[2:]
    for switches in LONG_SWITCHES
]
"""Spins of 10 switches and more, for imbalances beyond 10 switches (section 6.1)."""

UNLIKE = [Point(pattern, 100.0, 0.25, rivals_us=50_000.0) for pattern in PATTERNS]
"""A fine-grained job beside coarse-grained ones (section 8)."""

BESIDES = {"8": LONG_SPINS, "13": UNLIKE}
"""Points that no figure shows, but claims about a figure need."""


def points(figure: str) -> list[Point]:
    """All points of a figure."""
    if figure in TABLES:
        return table(figure)
    return bars(figure) if figure in CHARTS else []


def simulate_figures(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> PointResults:
    """Simulate the points of ``figures`` and of the claims about them."""
    shown = [point for figure in figures for point in points(figure)]
    compared = [point for figure in figures for other in COMPARED.get(figure, ()) for point in points(other)]
    compared += [point for figure in figures for point in BESIDES.get(figure, ())]
    wanted = dict.fromkeys([*shown, *compared, *(point.coscheduled() for point in (*shown, *compared))])
    ordered = list(wanted)
    work = partial(measure, quick=quick, seed=seed)
    measured = compute(ordered, work, progress, guess=partial(guess, quick=quick))
    return PointResults(dict(zip(ordered, measured, strict=True)), seed)


def guess(point: Point, quick: bool) -> Guess:
    """About how long the repeats of a point take."""
    repeats, dedicated_s = _effort(point, quick)
    return Guess(repeats * guess_s(_programs(point, dedicated_s)), f"{point.policy} {point.blocking}")


def _effort(point: Point, quick: bool) -> tuple[int, float]:
    """How many repeats of a point there are, and how long each of its jobs takes alone."""
    coarse = point.granularity_us >= COARSE_US
    return 5 if coarse else 1 if quick else 3, QUICK_S if quick and not coarse else DEDICATED_S


def measure(point: Point, quick: bool, seed: int) -> PointOutcome:
    """Simulate the repeats of a point."""
    repeats, dedicated_s = _effort(point, quick)
    outcomes = [run(point, dedicated_s, seed, repeat) for repeat in range(repeats)]
    return PointOutcome(
        makespans_s=tuple((outcome.makespan_ns or 0) / 1e9 for outcome in outcomes),
        responses_s=tuple(
            statistics.fmean((outcome.jobs[job].response_ns or 0) / 1e9 for outcome in outcomes)
            for job in range(JOBS)
        ),
        breakdown={
            part: statistics.fmean(outcome.breakdown[part] for outcome in outcomes)
            for part in outcomes[0].breakdown
        },
        spun_reads=_spun(outcomes, "reads"),
        spun_barriers=_spun(outcomes, "barriers"),
        spun_opening_barriers=_spun(outcomes, "opening_barriers"),
    )


def run(point: Point, dedicated_s: float, seed: int, repeat: int) -> Outcome:
    """One simulation: three jobs alike that arrive together (section 3.4)."""
    machine = SimulatedMachine(
        processors=PROCESSORS,
        context_switch_us=point.context_switch_us,
        latency_us=point.latency_us,
        local=point.local,
        timers=point.timers,
    )
    options = {"quantum_ms": GANG_QUANTUM_MS} if point.policy == "gang" else {}
    return simulate(
        [SimulatedJob(number, program) for number, program in enumerate(_programs(point, dedicated_s))],
        machine,
        policies.create(point.policy, options),
        blocking=point.blocking,
        spin_switches=point.spin_switches,
        imbalance_estimate=point.imbalance_estimate,
        seed=seed,
        repeat=repeat,
    )


def _programs(point: Point, dedicated_s: float) -> list[Program]:
    grains_us = [point.granularity_us] + [point.rivals_us or point.granularity_us] * (JOBS - 1)
    return [
        Program(
            pattern=point.pattern,
            processes=PROCESSORS,
            granularity_us=grain_us,
            imbalance=point.imbalance,
            dedicated_s=dedicated_s,
        )
        for grain_us in grains_us
    ]


def _spun(outcomes: Iterable[Outcome], kind: str) -> float:
    waits = [getattr(job, kind) for outcome in outcomes for job in outcome.jobs]
    spun, every = sum(w.spun for w in waits), sum(w.spun + w.blocked for w in waits)
    return spun / every if every else 1.0


def rows(results: PointResults, figures: Sequence[str]) -> Iterable[dict[str, Any]]:
    """A row for each point of each figure."""
    for figure in figures:
        for point in points(figure):
            measured, slowdown = results.at(point), results.slowdown(point)
            published = IMMEDIATE.get(point.pattern) if figure == "4" else None
            yield {
                "figure": figure,
                **vars(point),
                "simulated": slowdown.value,
                "simulated_half": slowdown.half,
                "paper": None if published is None else float(published[table_place(point)]),
                "breakdown": dict(measured.breakdown),
                "spun_reads": measured.spun_reads,
                "spun_barriers": measured.spun_barriers,
            }


def table_place(point: Point) -> tuple[int, int]:
    """Row and column of a point in its pattern's table."""
    row = TABLE_MACHINES.index((point.context_switch_us, point.latency_us))
    column = TABLE_US.index(point.granularity_us) * len(TABLE_IMBALANCES)
    return row, column + TABLE_IMBALANCES.index(point.imbalance)
