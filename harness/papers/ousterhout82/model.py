"""Ousterhout 1982, as the survey tells it: how full the packings of gangs keep a machine.

The survey gives the result (about 80 % of the processors run coscheduled processes under
the matrix algorithm) but not the workload, so several are tried: closed systems with a
constant number of jobs, sizes from three distributions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coordinator import policies
from harness.predict.pool import Progress, compute
from harness.predict.replicate import Mean, mean_of
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.arrivals import in_ns
from harness.simulator.jobs.model import rigid

PROCESSORS = 32
POPULATIONS = (4, 8, 16, 32)
DISTRIBUTIONS = ("uniform, 1 to P", "uniform, 1 to P/2", "powers of two")
SYSTEMS: Mapping[str, dict[str, Any]] = {
    "matrix": {"packing": "matrix"},
    "continuous": {"packing": "continuous"},
    "undivided": {"packing": "undivided"},
    "buddy": {"packing": "buddy"},
    "matrix, holes filled": {"packing": "matrix", "fill": "jobs"},
    "matrix, unified": {"packing": "matrix", "unify": True},
}
FIGURES = {"1": "processors that run coscheduled processes, by packing"}


@dataclass(frozen=True)
class PackingCell:
    """One system under one workload."""

    system: str
    distribution: str
    population: int


Results = Mapping[PackingCell, Mean]
QUICK = "150 jobs a replication instead of 600"


def simulate_figures(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> Results:
    """Simulate all systems."""
    cells = [PackingCell(s, d, n) for s in SYSTEMS for d in DISTRIBUTIONS for n in POPULATIONS]
    work = partial(_busy, count=150 if quick else 600, seed=seed)
    return dict(zip(cells, compute(cells, work, progress), strict=True))


def rows(results: Results, figures: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each cell."""
    return [{**vars(cell), "busy": mean.mean, "half": mean.half} for cell, mean in results.items()]


def sizes(distribution: str, count: int, random: np.random.Generator) -> np.ndarray:
    """Numbers of processes."""
    if distribution == "powers of two":
        return 2 ** random.integers(0, PROCESSORS.bit_length(), count)
    most = PROCESSORS if distribution == "uniform, 1 to P" else PROCESSORS // 2
    return random.integers(1, most + 1, count)


def _busy(cell: PackingCell, count: int, seed: int) -> Mean:
    """Share of the processors that run coscheduled processes, without beginning and end."""
    policy = policies.create("gang", {"quantum_ms": 100.0, **SYSTEMS[cell.system]})
    shares = []
    for repeat in range(3):
        key = (DISTRIBUTIONS.index(cell.distribution), cell.population, repeat)
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        size = sizes(cell.distribution, count, random)
        length = np.maximum(in_ns(random.exponential(10.0, count)), 1)
        jobs = rigid(np.zeros(count, dtype=np.int64), size, length)
        outcome, usage = event_by_event.simulate(jobs, PROCESSORS, policy, population=cell.population)
        # From when the first generation has gone to when the last job arrives.
        begin, end = outcome.jobs.submit_ns[[2 * cell.population, -1]]
        time = np.clip(np.append(usage.time_ns, outcome.finish_ns.max()), begin, end)
        shares.append(float((usage.busy * np.diff(time)).sum() / (end - begin) / PROCESSORS))
    return mean_of(shares)
