"""Hori et al. 1996: distributed queue trees against batch scheduling, quantum by quantum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from harness.predict.pool import Progress, compute
from harness.predict.time_left import Guess
from harness.simulator.jobs import buddy, tree
from harness.simulator.jobs.arrivals import gaps_s
from harness.simulator.jobs.metrics import fairness
from harness.simulator.jobs.model import Floats, Integers, JobLevelOutcome, Jobs, rigid

QUANTUM_NS = 1_000_000_000
QUANTA = 1_000_000
"""The paper's digits are illegible; docs/hori96.md says where this number is too small."""

LENGTH = 1_000
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.97, 0.99)
SIZES = (128, 256, 512, 1024, 2048, 4096)
MACHINE = 1024
"""Processors in Figures 6 to 8."""

DISTRIBUTIONS = {"proportional": 1, "uniform": 0, "inverse": -1}
"""Exponent of the probability of a task size."""

FIGURES = {
    "5": "DQT by size of the system",
    "6": "utilisation of DQT, Fair-DQT, FCFS-BB, ScanUp and ScanDown",
    "7": "mean and maximum RETR of DQT and Fair-DQT",
    "8": "fairness of DQT, Fair-DQT and ScanUp",
}
SYSTEMS = {
    "5": [(size, "dqt") for size in SIZES],
    "6": [(MACHINE, policy) for policy in ("dqt", "fair-dqt", "fcfs-bb", "scan-up", "scan-down")],
    "7": [(MACHINE, policy) for policy in ("dqt", "fair-dqt")],
    "8": [(MACHINE, policy) for policy in ("dqt", "fair-dqt", "scan-up")],
}
"""Processors and policy of each curve of a figure."""

CELL_S, TREE_S, BATCH_S = 5e-4, 2e-5, 4e-7
"""About how long a cell takes, and each of its tasks in a tree, at full load, or in a batch (guesses)."""

DIRECTIONS = {"fcfs-bb": 0, "scan-up": 1, "scan-down": -1}
"""The kernel's ``direction`` for each batch policy."""


@dataclass(frozen=True)
class TreeCell:
    """One simulation."""

    distribution: str
    processors: int
    policy: str
    target: float


@dataclass(frozen=True)
class TreeOutcome:
    """The result of a simulation.

    Attributes:
        load: actual workload: the work that arrived over the capacity of the machine.
        utilisation: mean share of the processors in use.
        retr: mean real execution time ratio of the tasks that ended.
        most_retr: the maximum.
        fairness: correlation of log2(size) with RETR.
        backlog: work that had arrived and was not done at the end, in machine-quanta, over
            the number of quanta.
    """

    load: float
    utilisation: float
    retr: float
    most_retr: float
    fairness: float
    backlog: float


Results = Mapping[TreeCell, TreeOutcome]
QUICK = f"{QUANTA // 10} quanta instead of {QUANTA}"


def tasks(
    distribution: str, processors: int, target: float, quanta: int, random: np.random.Generator
) -> Jobs:
    """The tasks of one simulation: sizes 1 to P/2, lengths and geometric arrivals in whole quanta."""
    sizes, shares = _sizes(distribution, processors)
    interval = float(shares @ sizes) * LENGTH / (processors * target)
    count = int(quanta / interval * 1.1) + 100
    arrival = np.cumsum(gaps_s("geometric", count, interval, random)).astype(np.int64)
    length = np.maximum(1, np.ceil(random.exponential(LENGTH, count))).astype(np.int64)
    size = random.choice(sizes, count, p=shares)
    here = arrival < quanta
    return rigid(arrival[here] * QUANTUM_NS, size[here], length[here] * QUANTUM_NS)


def _sizes(distribution: str, processors: int) -> tuple[Integers, Floats]:
    """The sizes of tasks, and their probabilities."""
    sizes = 2 ** np.arange(processors.bit_length() - 1)
    weights = sizes.astype(float) ** DISTRIBUTIONS[distribution]
    return sizes, weights / weights.sum()


def guess(cell: TreeCell, quanta: int) -> Guess:
    """About how long a cell takes, by the number of its tasks.

    Trees switch each in proportion to the load, and large ones have long queues near saturation.
    """
    sizes, shares = _sizes(cell.distribution, cell.processors)
    count = quanta * cell.processors * cell.target / (float(shares @ sizes) * LENGTH)
    queues = cell.processors / max(SIZES) * cell.target**4
    each_s = BATCH_S if cell.policy in DIRECTIONS else TREE_S * cell.target * (1 + queues)
    return Guess(CELL_S + count * each_s, cell.policy)


def simulate_figures(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> Results:
    """Simulate what ``figures`` need."""
    wanted = {system for figure in figures for system in SYSTEMS[figure]}
    cells = [
        TreeCell(distribution, processors, policy, target)
        for processors, policy in sorted(wanted, reverse=True)
        for distribution in DISTRIBUTIONS
        for target in LOADS
    ]
    quanta = QUANTA // 10 if quick else QUANTA
    work = partial(_simulate, quanta=quanta, seed=seed)
    points = compute(cells, work, progress, guess=partial(guess, quanta=quanta))
    return dict(zip(cells, points, strict=True))


def rows(results: Results, figures: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each cell."""
    return [_row(cell, point) for cell, point in results.items()]


def _simulate(cell: TreeCell, quanta: int, seed: int) -> TreeOutcome:
    """All policies of a cell see the same tasks."""
    key = (list(DISTRIBUTIONS).index(cell.distribution), cell.processors, round(cell.target * 1000))
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    jobs = tasks(cell.distribution, cell.processors, cell.target, quanta, random)
    if cell.policy in ("dqt", "fair-dqt"):
        outcome, busy = tree.simulate(jobs, cell.processors, cell.policy == "fair-dqt", QUANTUM_NS, quanta)
        used = float(busy.sum())
    else:
        outcome = buddy.simulate(jobs, cell.processors, DIRECTIONS[cell.policy])
        used = _used(outcome, quanta)
    return _point(outcome, used, quanta)


def _used(outcome: JobLevelOutcome, quanta: int) -> float:
    """Processor-quanta in use up to the end."""
    end_ns = quanta * QUANTUM_NS
    span_ns = np.minimum(outcome.finish_ns, end_ns) - np.minimum(outcome.start_ns, end_ns)
    return float((span_ns / QUANTUM_NS * outcome.size).sum())


def _point(outcome: JobLevelOutcome, used: float, quanta: int) -> TreeOutcome:
    jobs = outcome.jobs
    whole = outcome.processors * quanta
    length = jobs.work_s / jobs.most
    arrived = float(jobs.work_s.sum())
    ended = outcome.finish_ns <= quanta * QUANTUM_NS
    retr = outcome.response_s[ended] / length[ended]
    return TreeOutcome(
        load=arrived / whole,
        utilisation=used / whole,
        retr=float(retr.mean()),
        most_retr=float(retr.max()),
        fairness=fairness(jobs.most[ended].astype(float), retr),
        backlog=(arrived - used) / whole,
    )


def _row(cell: TreeCell, point: TreeOutcome) -> dict[str, Any]:
    values = {key: value if np.isfinite(value) else None for key, value in vars(point).items()}
    return {**vars(cell), **values}
