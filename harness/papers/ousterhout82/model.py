"""Ousterhout 1982, after a survey: how full and how balanced the packings of gangs keep a machine.

The survey gives the result (about 80 % of the processors run coscheduled processes under
the matrix algorithm) but not the workload, so we try several: closed systems with a
constant number of jobs, sizes from three distributions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.policies import packing
from harness.predict.pool import Progress, compute_apart
from harness.predict.replicate import Mean, mean_of
from harness.predict.time_left import Guess
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
FIGURES = {"1": "processors that run coscheduled processes, and how even their load is, by packing"}


@dataclass(frozen=True)
class PackingCell:
    """One system under one workload."""

    system: str
    distribution: str
    population: int


@dataclass(frozen=True)
class Packed:
    """The results of a system for a workload.

    Attributes:
        busy: mean share of the processors that run coscheduled processes.
        lowest: the lowest such share between two decisions.
        spread: mean difference in processes between the processors with most and with fewest.
    """

    busy: Mean
    lowest: float
    spread: Mean


Results = Mapping[PackingCell, Packed]
QUICK = "150 jobs a replication instead of 600"


def simulate_figures(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> Results:
    """Simulate all systems."""
    cells = [PackingCell(s, d, n) for s in SYSTEMS for d in DISTRIBUTIONS for n in POPULATIONS]
    work = partial(_simulate, count=150 if quick else 600, seed=seed)
    return dict(zip(cells, compute_apart(cells, work, progress, guess), strict=True))


def guess(cell: PackingCell) -> Guess:
    """Decisions take the longer the more jobs there are."""
    return Guess(cell.population, cell.system)


def rows(results: Results, figures: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each cell."""
    return [
        {
            **vars(cell),
            "busy": packed.busy.mean,
            "half": packed.busy.half,
            "lowest": packed.lowest,
            "spread": packed.spread.mean,
            "spread_half": packed.spread.half,
        }
        for cell, packed in results.items()
    ]


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


def sizes(distribution: str, count: int, random: np.random.Generator) -> np.ndarray:
    """``count`` random numbers of processes."""
    if distribution == "powers of two":
        return 2 ** random.integers(0, PROCESSORS.bit_length(), count)
    most = PROCESSORS if distribution == "uniform, 1 to P" else PROCESSORS // 2
    return random.integers(1, most + 1, count)


def _simulate(cell: PackingCell, count: int, seed: int) -> Packed:
    """The means of three replications, without the beginning and the end of each."""
    name, options = SYSTEMS[cell.system]
    policy = policies.create(name, {"quantum_ms": 100.0, **options})
    shares, spreads, lowest = [], [], 1.0
    for repeat in range(3):
        key = (DISTRIBUTIONS.index(cell.distribution), cell.population, repeat)
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        size = sizes(cell.distribution, count, random)
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
    return Packed(mean_of(shares), lowest, mean_of(spreads))


def _over_time(times: np.ndarray, values: np.ndarray, begin: int, end: int, last: int) -> tuple[float, float]:
    """Mean and least of ``values``, each from its time to the next, the last one to ``last``."""
    lengths = np.diff(np.clip(np.append(times, last), begin, end))
    return float((values * lengths).sum() / (end - begin)), float(values[lengths > 0].min())
