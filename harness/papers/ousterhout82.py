"""Ousterhout 1982, after a survey: how full and how balanced the packings of gangs keep a machine.

The survey gives the result (about 80 % of the processors run coscheduled processes under
the matrix algorithm) but not the workload, so we try several: closed systems with a
constant number of jobs, sizes from three distributions.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.policies import packing
from harness import papers
from harness.measure.time_left import Guess
from harness.papers import Cell, Finding, Paper, PaperFigure, Results, panels, sweep, verdict
from harness.predict.replicate import mean_of
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.arrivals import in_ns
from harness.simulator.jobs.model import rigid

PROCESSORS = 32
POPULATIONS = (4, 8, 16, 32)
DISTRIBUTIONS = ("uniform, 1 to P", "uniform, 1 to P/2", "powers of two")
SYSTEMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "matrix": ("gang", {"packing": "matrix"}),
    "continuous": ("gang", {"packing": "continuous"}),
    "undivided": ("gang", {"packing": "undivided"}),
    "buddy blocks in rows": ("gang", {"packing": "buddy"}),
    "hierarchical control": ("dhc", {}),
    "matrix, holes filled": ("gang", {"packing": "matrix", "fill": "jobs"}),
    "matrix, unified": ("gang", {"packing": "matrix", "unify": True}),
}


def idle(sizes: Sequence[int], processors: int) -> float:
    """Share of the matrix's slots that is empty after gangs of these sizes arrive and none leaves."""
    taken: set[int] = set()
    for size in sizes:
        taken |= set(packing.seat("matrix", taken, size, processors) or ())
    return 1 - len(taken) / ((max(taken) // processors + 1) * processors)


def most_idle(processors: int, jobs: int) -> tuple[float, tuple[int, ...]]:
    """The largest such share over all sequences of up to ``jobs`` gangs, and a shortest sequence with it."""
    every = (sizes for n in range(2, jobs + 1) for sizes in product(range(1, processors + 1), repeat=n))
    # Gangs that fit into one row do not count: nobody could use the rest of that row.
    several = (sizes for sizes in every if sum(sizes) > processors)
    return max(((idle(sizes, processors), sizes) for sizes in several), key=lambda found: found[0])


def _sizes(distribution: str, count: int, random: np.random.Generator) -> np.ndarray:
    if distribution == "powers of two":
        return 2 ** random.integers(0, PROCESSORS.bit_length(), count)
    most = PROCESSORS if distribution == "uniform, 1 to P" else PROCESSORS // 2
    return random.integers(1, most + 1, count)


def simulate(cell: Cell, quick: bool, seed: int) -> SimpleNamespace:
    """Simulate three replications of a system under a workload, without the beginning and the end of each.

    Returns:
        ``busy`` is the mean share of the processors that run coscheduled processes, ``lowest`` the lowest
        such share between two decisions; ``spread`` the mean difference in processes between the processors
        with most and with fewest.
    """
    count = 150 if quick else 600
    name, options = SYSTEMS[cell.system]
    policy = policies.create(name, {"quantum_ms": 100.0, **options})
    shares, spreads, lowest = [], [], 1.0
    for repeat in range(3):
        key = (DISTRIBUTIONS.index(cell.distribution), cell.population, repeat)
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        size = _sizes(cell.distribution, count, random)
        length = np.maximum(in_ns(random.exponential(10.0, count)), 1)
        jobs = rigid(np.zeros(count, dtype=np.int64), size, length)
        watched: list[tuple[int, int]] = []

        def watch(plan: Plan, now_ns: int, watched: list[tuple[int, int]] = watched) -> None:
            processes = np.zeros(PROCESSORS, dtype=np.int64)
            for place in plan.decision.placements.values():
                processes[list(place)] += 1
            watched.append((now_ns, int(np.ptp(processes))))

        outcome, usage = event_by_event.simulate(
            jobs, PROCESSORS, policy, population=cell.population, watch=watch
        )
        # From the time when the first jobs have left to the arrival of the last job.
        begin, end = outcome.jobs.submit_ns[[2 * cell.population, -1]]
        last = outcome.finish_ns.max()
        share, low = _over_time(usage.time_ns, usage.busy / PROCESSORS, begin, end, last)
        times, values = np.array(watched).T
        spread, _ = _over_time(times, values, begin, end, last)
        shares.append(share)
        spreads.append(spread)
        lowest = min(lowest, low)
    return SimpleNamespace(busy=mean_of(shares), lowest=lowest, spread=mean_of(spreads))


def _over_time(times: np.ndarray, values: np.ndarray, begin: int, end: int, last: int) -> tuple[float, float]:
    """Mean and least of ``values``, each from its time to the next, the last one to ``last``."""
    lengths = np.diff(np.clip(np.append(times, last), begin, end))
    return float((values * lengths).sum() / (end - begin)), float(values[lengths > 0].min())


def _rows(results: Results, figures: Sequence[str]) -> list[dict[str, Any]]:
    return [
        vars(cell)
        | {"busy": found.busy.mean, "half": found.busy.half, "lowest": found.lowest}
        | {"spread": found.spread.mean, "spread_half": found.spread.half}
        for cell, found in results.items()
    ]


def _draw(results: Results) -> papers.Picture:
    """Processors that run coscheduled processes, and the spread of processes, by packing, sizes and jobs."""
    picture, rows = panels(2, len(DISTRIBUTIONS), 12, 7.5, sharey="row")
    for row, value in zip(rows, ("busy", "spread"), strict=True):
        for axes, distribution in zip(row, DISTRIBUTIONS, strict=True):
            some = {system: results.where(system=system, distribution=distribution) for system in SYSTEMS}
            heights = {system: [mean.mean for mean in found.column(value)] for system, found in some.items()}
            papers.grouped_bars(axes, list(map(str, POPULATIONS)), heights)
    for axes, distribution in zip(rows[0], DISTRIBUTIONS, strict=True):
        axes.set(title=distribution, ylim=(0, 1))
        axes.axhline(0.8, color="grey", linewidth=0.6)
    for axes in rows[1]:
        axes.set_xlabel("jobs in the system")
    rows[0, 0].set_ylabel("processors that run coscheduled processes")
    rows[1, 0].set_ylabel("processes per processor, most minus fewest")
    handles, labels = rows[0, 0].get_legend_handles_labels()
    picture.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return picture


CAPTION = "processors that run coscheduled processes, and how even their load is, by packing"
CELLS = sweep(system=SYSTEMS, distribution=DISTRIBUTIONS, population=POPULATIONS)
PAPER = Paper(
    figures={"1": PaperFigure(CAPTION, _draw, CELLS)},
    quick="150 jobs a replication instead of 600",
    simulate=simulate,
    rows=_rows,
    guess=lambda cell, quick: Guess(cell.population, cell.system),  # the more jobs, the longer decisions take
    apart=True,
)


ABOUT = 0.05  # the survey's "about 80 %" and "about half" are whole tenths


def _busy(results: Results, system: str) -> list[float]:
    return [busy.mean for busy in results.where(system=system).column("busy")]


def _mean(results: Results, system: str) -> float:
    return float(np.mean(_busy(results, system)))


@PAPER.claim(
    "1", "under the matrix algorithm about 80 % of the processors run coscheduled processes on average"
)
def _full(results: Results) -> Finding:
    busy, matrix = _busy(results, "matrix"), _mean(results, "matrix")
    halves = [one.half or 0.0 for one in results.where(system="matrix").column("busy")]
    half = float(np.linalg.norm(halves)) / len(halves)
    words = f"{matrix:.1%} +- {half:.1%} on average, {min(busy):.0%} to {max(busy):.0%} by workload"
    apart = abs(matrix - 0.8)
    return words, verdict(apart <= ABOUT, abs(apart - ABOUT) > half)


@PAPER.claim(
    "1",
    "in the worst case the matrix algorithm leaves about half of the processors idle, as jobs come",
    "in the worst case the matrix algorithm leaves about half of them idle, as jobs come and leave",
)
def _worst(results: Results) -> Iterator[Finding]:
    """The survey's example has jobs of 4 and 5 on 8 processors: 7 of 16 slots are empty."""
    example = idle((4, 5), 8)
    most, sizes = most_idle(8, 4)
    words = f"{example:.0%} in the survey's example; at most {most:.0%} with up to 4 jobs "
    words += f"({' and '.join(map(str, sizes))}; P = 8)"
    yield words, example == 7 / 16 and abs(most - 0.5) <= 0.5 / 8
    most = 1 - min(results.where(system="matrix").column("lowest"))
    yield f"up to {most:.0%} between two decisions", most <= 0.5 + ABOUT


@PAPER.claim(
    "1",
    "the continuous algorithm packs better than the matrix algorithm",
    "the undivided algorithm reduces the fragmentation that arises in the continuous one",
)
def _packings(results: Results) -> Iterator[Finding]:
    matrix, continuous, undivided = (_mean(results, name) for name in ("matrix", "continuous", "undivided"))
    pairs = list(zip(_busy(results, "continuous"), _busy(results, "matrix"), strict=True))
    better = sum(ours >= theirs - 0.005 for ours, theirs in pairs)
    words = f"{continuous:.0%} against {matrix:.0%}; not worse in {better} of {len(pairs)} workloads"
    yield words, verdict(continuous > matrix, abs(continuous - matrix) > 0.005)
    words = f"{undivided:.0%} against {continuous:.0%}"
    yield words, verdict(undivided > continuous, abs(undivided - continuous) > 0.005)


@PAPER.claim("1", "where sizes are powers of two, hierarchical control balances the load across processors")
def _balance(results: Results) -> Finding:
    """Processes per processor: the difference between the most and the fewest."""
    ours, theirs = (
        results.where(system=system, distribution="powers of two").column("spread")
        for system in ("hierarchical control", "matrix")
    )
    pairs = list(zip(ours, theirs, strict=True))
    words = ", ".join(
        f"{a.mean:.2f} against {b.mean:.2f} ({n} jobs)" for n, (a, b) in zip(POPULATIONS, pairs, strict=True)
    )
    apart = [abs(b.mean - a.mean) > (a.half or 0) + (b.half or 0) for a, b in pairs]
    worse = any(far and a.mean >= b.mean for far, (a, b) in zip(apart, pairs, strict=True))
    words = f"processes per processor, most minus fewest, against the matrix: {words}"
    return words, verdict(not worse, worse or any(apart))


@PAPER.claim("1", "filling holes with other jobs and unifying slots use more of the machine")
def _more(results: Results) -> Finding:
    filled, unified = (_mean(results, f"matrix, {how}") for how in ("holes filled", "unified"))
    matrix = _mean(results, "matrix")
    return f"{filled:.0%} and {unified:.0%} against {matrix:.0%}", min(filled, unified) > matrix
