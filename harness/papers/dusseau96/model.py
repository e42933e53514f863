"""Dusseau, Arpaci, Culler 1996: implicit scheduling against coscheduling, Figures 2 to 13."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator import policies
from harness.measure.time_left import Guess
from harness.papers import Cell, Paper, PaperFigure, Results, panels
from harness.predict.process_level import guess_s
from harness.predict.replicate import Mean, mean_of
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import CATEGORIES, IDLE, SWITCHING
from harness.simulator.processes.outcome import Outcome
from harness.simulator.processes.simulate import simulate as simulate_processes
from workloads.options import Options
from workloads.program import Program

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

IMMEDIATE = (
    (1.05, 1.01, 0.97, 0.82, 0.93, 0.80),
    (2.29, 1.62, 1.01, 0.83, 0.92, 0.82),
    (2.89, 2.43, 1.07, 0.95, 0.93, 0.81),
    (6.83, 4.70, 1.09, 0.96, 0.94, 0.80),
    (0.96, 0.96, 1.01, 0.88, 0.91, 0.81),
    (3.64, 3.08, 1.11, 0.94, 0.93, 0.79),
    (3.07, 2.93, 1.36, 1.18, 0.93, 0.80),
    (13.1, 10.8, 1.50, 1.27, 0.93, 0.81),
)
"""Figure 4: slowdown of immediate blocking as published, as far as we have it, for BARRIER and NEWS. Rows:
the machines of the table; columns: fine, medium, coarse, each with both imbalances."""

PROCESSORS = 32
JOBS = 3
GANG_QUANTUM_MS = 500.0
DEDICATED_S, QUICK_S = 10.0, 2.0
COARSE_US = 20_000.0
"""From here on a job has few phases and results scatter: more repeats, and jobs are never shortened."""

SHADES = ("#4878a8", "#9cbcd8", "#f2c28b", "#d9802e", "#d0d0d0")
JOB_SHADES = ("#4878a8", "#d9802e")
BLACK, GRAY = 1.15, 0.85
"""Cells beyond these are black (coscheduling is 15 % better) or gray (15 % worse)."""

BASE = Cell(
    pattern="",
    granularity_us=0.0,
    imbalance=0.0,
    context_switch_us=200.0,
    latency_us=10.0,
    policy="implicit",
    blocking="global-adaptive",
    spin_switches=2.0,
    local="svr4",
    timers="independent",
    imbalance_estimate="arrival-spread",
    rivals_us=None,
)
"""One workload on one machine under one scheduler; ``rivals_us`` is the granularity of the two other jobs, if
it differs."""


def coscheduled(cell: Cell) -> Cell:
    """The same workload under coscheduling."""
    workload = ("pattern", "granularity_us", "imbalance", "context_switch_us", "latency_us")
    return BASE.but(**{name: getattr(cell, name) for name in workload}, policy="gang", blocking="spin")


def slowdown(results: Results, cell: Cell) -> Mean:
    """Makespan relative to coscheduling's, from pairs with the same random numbers."""
    pairs = zip(results[cell].makespans_s, results[coscheduled(cell)].makespans_s, strict=True)
    return mean_of([ours / theirs for ours, theirs in pairs])


def guess(cell: Cell, quick: bool) -> Guess:
    """About how long the repeats of a cell take."""
    repeats, dedicated_s = _effort(cell, quick)
    return Guess(repeats * guess_s(_programs(cell, dedicated_s)), f"{cell.policy} {cell.blocking}")


def _effort(cell: Cell, quick: bool) -> tuple[int, float]:
    """How many repeats of a cell there are, and how long each of its jobs takes alone."""
    coarse = cell.granularity_us >= COARSE_US
    return 5 if coarse else 1 if quick else 3, QUICK_S if quick and not coarse else DEDICATED_S


def simulate(cell: Cell, quick: bool, seed: int) -> SimpleNamespace:
    """Simulate the repeats of a cell.

    Returns:
        their makespans; the mean response time of each job; and shares of time and of waits.
    """
    repeats, dedicated_s = _effort(cell, quick)
    outcomes = [run(cell, dedicated_s, seed, repeat) for repeat in range(repeats)]
    return SimpleNamespace(
        makespans_s=[(outcome.makespan_ns or 0) / 1e9 for outcome in outcomes],
        responses_s=[
            statistics.fmean((outcome.jobs[job].response_ns or 0) / 1e9 for outcome in outcomes)
            for job in range(JOBS)
        ],
        breakdown={
            part: statistics.fmean(outcome.breakdown[part] for outcome in outcomes)
            for part in outcomes[0].breakdown
        },
        spun_reads=_spun(outcomes, "reads"),
        spun_barriers=_spun(outcomes, "barriers"),
        spun_opening_barriers=_spun(outcomes, "opening_barriers"),
    )


def run(cell: Cell, dedicated_s: float, seed: int, repeat: int) -> Outcome:
    """One simulation: three jobs alike that arrive together (section 3.4)."""
    given = {key: getattr(cell, key) for key in ("context_switch_us", "latency_us", "local", "timers")}
    machine = SimulatedMachine(processors=PROCESSORS, **given)
    options = {"quantum_ms": GANG_QUANTUM_MS} if cell.policy == "gang" else {}
    return simulate_processes(
        [SimulatedJob(number, program) for number, program in enumerate(_programs(cell, dedicated_s))],
        machine,
        policies.create(cell.policy, options),
        Options(cell.blocking, cell.spin_switches, cell.imbalance_estimate),
        seed=seed,
        repeat=repeat,
    )


def _programs(cell: Cell, dedicated_s: float) -> list[Program]:
    grains_us = [cell.granularity_us] + [cell.rivals_us or cell.granularity_us] * (JOBS - 1)
    alike: dict[str, Any] = {"pattern": cell.pattern, "processes": PROCESSORS, "imbalance": cell.imbalance}
    return [Program(granularity_us=grain_us, dedicated_s=dedicated_s, **alike) for grain_us in grains_us]


def _spun(outcomes: Iterable[Outcome], kind: str) -> float:
    waits = [getattr(job, kind) for outcome in outcomes for job in outcome.jobs]
    spun, every = sum(w.spun for w in waits), sum(w.spun + w.blocked for w in waits)
    return spun / every if every else 1.0


def _rows(results: Results, figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    for figure in figures:
        for cell in PAPER.figures[figure].cells:
            found, relative = results[cell], slowdown(results, cell)
            yield {
                "figure": figure,
                **vars(cell),
                "simulated": relative.mean,
                "simulated_half": relative.half,
                "paper": PUBLISHED.get(cell) if figure == "4" else None,
                "breakdown": dict(found.breakdown),
                "spun_reads": found.spun_reads,
                "spun_barriers": found.spun_barriers,
            }


def _draw_chart(figure: str, results: Results) -> Figure:
    """Bars as high as the slowdown, divided like the processors' time; a panel for each pattern and spin."""
    shown = groupby(PAPER.figures[figure].cells, key=lambda cell: (cell.pattern, cell.spin_switches))
    charts = [(pattern, spins, list(cells)) for (pattern, spins), cells in shown]
    picture, (row,) = panels(1, len(charts), 5 * len(charts), 4, sharey=True)
    relative = figure != "2"
    for axes, (pattern, spins, cells) in zip(row, charts, strict=True):
        spin = f", spin {spins:g} switches" if cells[0].blocking == "fixed" else ""
        axes.set(title=pattern + spin, xlabel="granularity (in each group v = 0 to 2 g)")
        places = np.array([i + 1.5 * (i // len(IMBALANCES)) for i in range(len(cells))])
        heights = np.array([slowdown(results, cell).mean if relative else 1.0 for cell in cells])
        bottom = np.zeros(len(cells))
        for part, shade in zip(CATEGORIES, SHADES, strict=True):
            shares = heights * [results[cell].breakdown[part] for cell in cells]
            axes.bar(places, shares, 0.9, bottom, color=shade, label=part)
            bottom += shares
        centres = places.reshape(-1, len(IMBALANCES)).mean(axis=1)
        axes.set_xticks(centres, [_grain(cell.granularity_us) for cell in cells[:: len(IMBALANCES)]])
        if relative:
            axes.axhline(1, color="black", linewidth=0.6)
    row[0].set_ylabel("slowdown" if relative else "fraction of execution time")
    picture.legend(*row[-1].get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    picture.suptitle(f"Figure {figure}. {PAPER.figures[figure].caption}")
    return picture


def _grain(grain_us: float) -> str:
    return f"{grain_us / 1e3:g} ms" if grain_us >= 1000 else f"{grain_us:g} us"


def _draw_tables(figure: str, results: Results) -> Figure:
    """Slowdowns, black where coscheduling is 15 % better, gray where it is 15 % worse."""
    picture, panel = panels(len(PATTERNS), 1, 9, 8)
    for axes, pattern in zip(panel[:, 0], PATTERNS, strict=True):
        cells = [cell for cell in PAPER.figures[figure].cells if cell.pattern == pattern]
        values = np.array([slowdown(results, cell).mean for cell in cells])
        shade = np.where(values >= BLACK, 0.0, np.where(values <= GRAY, 0.7, 1.0))
        axes.imshow(shade.reshape(len(TABLE_MACHINES), -1), cmap="gray", vmin=0, vmax=1, aspect="auto")
        for place, (cell, value) in enumerate(zip(cells, values, strict=True)):
            row, column = divmod(place, len(cells) // len(TABLE_MACHINES))
            known = figure == "4" and cell in PUBLISHED
            text = f"{value:.2f}" + (f"\n({PUBLISHED[cell]:.2f})" if known else "")
            color = "white" if value >= BLACK else "black"
            axes.text(column, row, text, ha="center", va="center", color=color, fontsize=8)
        columns = [f"{_grain(g)}\nv = {v:g} g" for g, v in product(TABLE_US, TABLE_IMBALANCES)]
        axes.set_xticks(range(len(columns)), columns, fontsize=8)
        rows = [f"switch {switch:g} us\nlatency {latency:g} us" for switch, latency in TABLE_MACHINES]
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        axes.set_title(pattern, fontsize=10)
    picture.suptitle(f"Figure {figure}. {PAPER.figures[figure].caption} (in brackets: published)")
    return picture


def _draw_coordination(results: Results) -> Figure:
    """Two jobs on four processors: how they get into step after a barrier (section 5.2)."""
    program = Program(pattern="NEWS", processes=4, granularity_us=1000, imbalance=1.5, phases=40)
    outcome = simulate_processes(
        [SimulatedJob(0, program), SimulatedJob(1, program)],
        SimulatedMachine(processors=4),
        policies.create("implicit", {}),
        Options(blocking="fixed"),
        seed=results.seed,
        timeline=True,
    )
    picture, ((axes,),) = panels(1, 1, 10, 3.5)
    axes.set(xlabel="time (ms)", ylabel="processor", yticks=range(4), xlim=(0, 25))
    for p in range(4):
        own = outcome.timeline[outcome.timeline[:, 1] == p]
        ends = np.append(own[1:, 0], outcome.end_ns)
        for (begin_ns, _, process, category), end_ns in zip(own, ends, strict=True):
            if category == IDLE or begin_ns > 25e6:
                continue
            shade = "black" if category == SWITCHING else JOB_SHADES[process // 4]
            faint = 1.0 if category in (0, SWITCHING) else 0.4
            axes.broken_barh(
                [(begin_ns / 1e6, (end_ns - begin_ns) / 1e6)], (p - 0.4, 0.8), color=shade, alpha=faint
            )
    axes.set_title("Two jobs (blue, orange; pale: waiting; black: switching), spin 2 switches", fontsize=10)
    return picture


def _chart(
    figure: str,
    caption: str,
    *variants: Cell,
    patterns: Sequence[str] = PATTERNS,
    grains: Sequence[float] = WIDE_US,
    compared: Sequence[Cell] = (),
    besides: Sequence[Cell] = (),
) -> PaperFigure:
    """Bars of variants of the base; claims compare them with other variants, and need some cells besides."""
    cells, others = (
        [
            variant.but(pattern=pattern, granularity_us=grain, imbalance=imbalance)
            for variant, pattern, grain, imbalance in product(some, patterns, grains, IMBALANCES)
        ]
        for some in (variants, compared)
    )
    return _figure(caption, partial(_draw_chart, figure), cells, [*others, *besides])


def _figure(caption: str, draw: Any, cells: Sequence[Cell], others: Sequence[Cell] = ()) -> PaperFigure:
    """A figure whose slowdowns are relative to coscheduling."""
    return PaperFigure(caption, draw, cells, [*others, *map(coscheduled, [*cells, *others])])


def _table(blocking: str) -> list[Cell]:
    """The cells of a table, row by row."""
    machines = [{"context_switch_us": switch, "latency_us": latency} for switch, latency in TABLE_MACHINES]
    return [
        BASE.but(pattern=pattern, granularity_us=grain, imbalance=imbalance, blocking=blocking, **machine)
        for pattern, machine, grain, imbalance in product(PATTERNS, machines, TABLE_US, TABLE_IMBALANCES)
    ]


PUBLISHED = dict(zip(_table("immediate"), chain(*IMMEDIATE), strict=False))
IMMEDIATELY, ORACLE = BASE.but(blocking="immediate"), BASE.but(blocking="oracle")
FIXED = {
    spins: BASE.but(blocking="fixed", spin_switches=spins) for spins in (1.0, 2.0, 4.0, 8.0, 10.0, 20.0, 40.0)
}

SPINS = [FIXED[spins] for spins in (2.0, 4.0, 8.0)]
LONG_SPINS = [
    FIXED[spins].but(pattern=pattern, granularity_us=5_000.0, imbalance=imbalance)
    for pattern, imbalance, spins in product(PATTERNS, IMBALANCES[2:], (10.0, 20.0, 40.0))
]
"""Spins of 10 switches and more, for imbalances beyond 10 switches (section 6.1)."""

UNLIKE = [
    BASE.but(pattern=pattern, granularity_us=100.0, imbalance=0.25, rivals_us=50_000.0)
    for pattern in PATTERNS
]
"""A fine-grained job beside coarse-grained ones (section 8)."""

PAPER = Paper(
    figures={
        "2": _chart("2", "Execution characteristics when coscheduled", coscheduled(BASE)),
        "3": _chart("3", "Local scheduling with immediate blocking", IMMEDIATELY),
        "4": _figure(
            "Impact of workload and system parameters on immediate blocking",
            partial(_draw_tables, "4"),
            _table("immediate"),
        ),
        "5": _chart("5", "Fixed spin equal to the context-switch cost", FIXED[1.0], compared=[IMMEDIATELY]),
        "6": _chart("6", "Varying the fixed spin", *SPINS, patterns=("NEWS",), grains=FINE_US),
        "7": PaperFigure("Maintaining dynamic coordination", _draw_coordination),
        "8": _chart("8", "Adaptive two-phase blocking with known load imbalance", ORACLE, besides=LONG_SPINS),
        "9": _chart(
            "9",
            "Local approximation of the load imbalance",
            BASE.but(blocking="local-adaptive"),
            compared=[ORACLE],
        ),
        "10": _chart("10", "Global approximation of the load imbalance", BASE, compared=[ORACLE]),
        "11": _chart(
            "11", "Coordination of timer expiration", BASE.but(timers="synchronised"), compared=[BASE]
        ),
        "12": _chart("12", "Round-robin local scheduler", BASE.but(local="round-robin"), compared=[BASE]),
        "13": _figure(
            "Implicit scheduling versus coscheduling",
            partial(_draw_tables, "13"),
            _table(BASE.blocking),
            UNLIKE,
        ),
    },
    quick=(
        f"jobs of {QUICK_S:g} s instead of {DEDICATED_S:g} s up to a granularity of {COARSE_US / 1e3:g} ms, "
        "and one repeat of them instead of three"
    ),
    simulate=simulate,
    rows=_rows,
    guess=guess,
)
