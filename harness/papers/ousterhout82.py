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
from harness.papers import Claim, Progress, Reproduction, explained, verdict
from harness.papers.parallel import compute
from harness.simulator.jobs import exact
from harness.simulator.jobs.arrivals import in_ns
from harness.simulator.jobs.model import rigid
from harness.simulator.jobs.replicate import Mean, mean_of

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
EXPLANATIONS = "docs/ousterhout82.md"
FIGURES = {"1": "processors that run coscheduled processes, by packing"}


@dataclass(frozen=True)
class Cell:
    """One system under one workload."""

    system: str
    distribution: str
    population: int


Found = Mapping[Cell, Mean]


def reproduce(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Simulate all systems; quick mode 150 jobs a replication instead of 600."""
    cells = [Cell(s, d, n) for s in SYSTEMS for d in DISTRIBUTIONS for n in POPULATIONS]
    found = compute(cells, partial(_busy, count=150 if quick else 600, seed=seed), progress)
    from harness.papers import ousterhout_figures  # noqa: PLC0415 - matplotlib is slow to load

    rows = [{**vars(cell), "busy": mean.mean, "half": mean.half} for cell, mean in found.items()]
    drawings = {"1": partial(ousterhout_figures.draw, found)}
    note = "quick: 150 jobs a replication instead of 600" if quick else ""
    claims = [explained(claim, EXPLANATIONS) for claim in _claims(found)]
    return Reproduction("ousterhout82", list(figures), rows, claims, drawings, note)


def sizes(distribution: str, count: int, random: np.random.Generator) -> np.ndarray:
    """Numbers of processes."""
    if distribution == "powers of two":
        return 2 ** random.integers(0, PROCESSORS.bit_length(), count)
    most = PROCESSORS if distribution == "uniform, 1 to P" else PROCESSORS // 2
    return random.integers(1, most + 1, count)


def _busy(cell: Cell, count: int, seed: int) -> Mean:
    """Share of the processors that run coscheduled processes, without beginning and end."""
    policy = policies.create("gang", {"quantum_ms": 100.0, **SYSTEMS[cell.system]})
    shares = []
    for repeat in range(3):
        key = (DISTRIBUTIONS.index(cell.distribution), cell.population, repeat)
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        size = sizes(cell.distribution, count, random)
        length = np.maximum(in_ns(random.exponential(10.0, count)), 1)
        jobs = rigid(np.zeros(count, dtype=np.int64), size, length)
        outcome, usage = exact.simulate(jobs, PROCESSORS, policy, population=cell.population)
        # From when the first generation has gone to when the last job arrives.
        begin, end = outcome.jobs.submit_ns[[2 * cell.population, -1]]
        time = np.clip(np.append(usage.time_ns, outcome.finish_ns.max()), begin, end)
        shares.append(float((usage.busy * np.diff(time)).sum() / (end - begin) / PROCESSORS))
    return mean_of(shares)


def _claims(found: Found) -> list[Claim]:
    def values(system: str) -> list[float]:
        return [mean.mean for cell, mean in found.items() if cell.system == system]

    def mean(system: str) -> float:
        return float(np.mean(values(system)))

    matrix = mean("matrix")
    span = f"{min(values('matrix')):.0%} to {max(values('matrix')):.0%}"
    better = sum(
        found[Cell("continuous", c.distribution, c.population)].mean >= m.mean - 0.005
        for c, m in found.items()
        if c.system == "matrix"
    )
    cells = len(DISTRIBUTIONS) * len(POPULATIONS)
    buddy = [found[Cell(s, "powers of two", n)].mean for s in ("buddy", "matrix") for n in POPULATIONS]
    return [
        Claim(
            "1",
            "under the matrix algorithm about 80 % of the processors run coscheduled processes on average",
            f"{matrix:.0%} on average, {span} by workload",
            verdict(0.7 <= matrix <= 0.9),
        ),
        Claim(
            "1",
            "in the worst case about half of the processors are idle under the matrix algorithm",
            f"lowest mean {min(values('matrix')):.0%}",
            verdict(min(values("matrix")) >= 0.5),
        ),
        Claim(
            "1",
            "the continuous algorithm packs better than the matrix algorithm",
            f"{mean('continuous'):.0%} against {matrix:.0%}; not worse in {better} of {cells} workloads",
            verdict(mean("continuous") > matrix, abs(mean("continuous") - matrix) > 0.005),
        ),
        Claim(
            "1",
            "the undivided algorithm reduces the fragmentation that arises in the continuous one",
            f"{mean('undivided'):.0%} against {mean('continuous'):.0%}",
            verdict(
                mean("undivided") > mean("continuous"), abs(mean("undivided") - mean("continuous")) > 0.005
            ),
        ),
        Claim(
            "1",
            "where sizes are powers of two, a buddy hierarchy balances the load as well as the matrix",
            f"{np.mean(buddy[:4]):.0%} against {np.mean(buddy[4:]):.0%}",
            verdict(bool(np.mean(buddy[:4]) >= np.mean(buddy[4:]) - 0.02)),
        ),
        Claim(
            "1",
            "filling holes with other jobs and unifying slots use more of the machine",
            f"{mean('matrix, holes filled'):.0%} and {mean('matrix, unified'):.0%} against {matrix:.0%}",
            verdict(min(mean("matrix, holes filled"), mean("matrix, unified")) > matrix),
        ),
    ]
