"""Hori et al. 1996: distributed queue trees against batch scheduling, quantum by quantum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.papers import Cell, Paper, PaperFigure, Results, panels, sweep
from harness.predict.time_left import Guess
from harness.simulator.jobs import buddy, tree
from harness.simulator.jobs.arrivals import gaps_s
from harness.simulator.jobs.metrics import fairness
from harness.simulator.jobs.model import Floats, Integers, Jobs, rigid

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

POLICIES = {
    "scan-up": "ScanUp",
    "scan-down": "ScanDown",
    "fcfs-bb": "FCFS-BB",
    "fair-dqt": "Fair-DQT",
    "dqt": "DQT",
}
DIRECTIONS = {"fcfs-bb": 0, "scan-up": 1, "scan-down": -1}
"""The kernel's ``direction`` for each batch policy."""

CELL_S, TREE_S, BATCH_S = 5e-4, 2e-5, 4e-7
"""About how long a cell takes, and each of its tasks in a tree, at full load, or in a batch (guesses)."""

LABELS = {
    "utilisation": "processor utilisation",
    "retr": "mean RETR",
    "most_retr": "maximum RETR",
    "fairness": "correlation",
}
RETR_TOP = 60.0


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


def _quanta(quick: bool) -> int:
    return QUANTA // 10 if quick else QUANTA


def guess(cell: Cell, quick: bool) -> Guess:
    """About how long a cell takes, by the number of its tasks.

    Trees switch each in proportion to the load, and large ones have long queues near saturation.
    """
    sizes, shares = _sizes(cell.distribution, cell.processors)
    count = _quanta(quick) * cell.processors * cell.target / (float(shares @ sizes) * LENGTH)
    queues = cell.processors / max(SIZES) * cell.target**4
    each_s = BATCH_S if cell.policy in DIRECTIONS else TREE_S * cell.target * (1 + queues)
    return Guess(CELL_S + count * each_s, cell.policy)


def simulate(cell: Cell, quick: bool, seed: int) -> SimpleNamespace:
    """Simulate a policy; all of them see the same tasks.

    Returns:
        ``load`` is the actual workload: the work that arrived over the capacity of the machine;
        ``utilisation`` the mean share of the processors in use; ``retr`` and ``most_retr`` the mean and the
        maximum real execution time ratio of the tasks that ended; ``fairness`` the correlation of
        log2(size) with it; ``backlog`` the work that was not done at the end, in machine-quanta, over the
        number of quanta.
    """
    quanta = _quanta(quick)
    key = (list(DISTRIBUTIONS).index(cell.distribution), cell.processors, round(cell.target * 1000))
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    jobs = tasks(cell.distribution, cell.processors, cell.target, quanta, random)
    end_ns = quanta * QUANTUM_NS
    if cell.policy in DIRECTIONS:
        outcome = buddy.simulate(jobs, cell.processors, DIRECTIONS[cell.policy])
        span_ns = np.minimum(outcome.finish_ns, end_ns) - np.minimum(outcome.start_ns, end_ns)
        used = float((span_ns / QUANTUM_NS * outcome.size).sum())
    else:
        outcome, busy = tree.simulate(jobs, cell.processors, cell.policy == "fair-dqt", QUANTUM_NS, quanta)
        used = float(busy.sum())
    whole = outcome.processors * quanta
    jobs = outcome.jobs
    arrived = float(jobs.work_s.sum())
    ended = outcome.finish_ns <= end_ns
    retr = outcome.response_s[ended] / (jobs.work_s / jobs.most)[ended]
    return SimpleNamespace(
        load=arrived / whole,
        utilisation=used / whole,
        retr=float(retr.mean()),
        most_retr=float(retr.max()),
        fairness=fairness(jobs.most[ended].astype(float), retr),
        backlog=(arrived - used) / whole,
    )


def _rows(results: Results, figures: Sequence[str]) -> list[dict[str, Any]]:
    return [
        vars(cell) | {key: value if np.isfinite(value) else None for key, value in vars(outcome).items()}
        for cell, outcome in results.items()
    ]


def _figure(caption: str, by: str, values: Sequence[str], **systems: Sequence[Any]) -> PaperFigure:
    """Values over the load, in a row of panels each; a curve for each value of the parameter ``by``."""
    cells = sweep(distribution=DISTRIBUTIONS, **systems, target=LOADS)
    return PaperFigure(caption, partial(_draw, by, values, systems), cells)


def _draw(by: str, values: Sequence[str], systems: Mapping[str, Sequence[Any]], results: Results) -> Figure:
    picture, rows = panels(len(values), len(DISTRIBUTIONS), 12, 0.5 + 3.5 * len(values), sharey="row")
    shown = results.where(**systems)
    for row, value in zip(rows, values, strict=True):
        for axes, distribution in zip(row, DISTRIBUTIONS, strict=True):
            for curve, mark in zip(systems[by], "os^Dvx", strict=False):
                some = shown.where(distribution=distribution, **{by: curve}).values()
                points = sorted((one.load, getattr(one, value)) for one in some if one.load <= 1)
                name = POLICIES.get(curve, f"P = {curve}")
                axes.plot(*zip(*points, strict=True), marker=mark, markersize=4, label=name)
            axes.set(xlabel="actual workload", ylabel=LABELS[value], xlim=(0, 1))
            if value == "utilisation":
                axes.plot([0, 1], [0, 1], color="grey", linewidth=0.6)
            if value == "retr":
                axes.set_ylim(0, RETR_TOP)
            if value == "most_retr":
                axes.set_yscale("log")
            if value == "fairness":
                axes.axhline(0, color="grey", linewidth=0.6)
    for axes, distribution in zip(rows[0], DISTRIBUTIONS, strict=True):
        axes.set_title(f"{distribution} to task size" if distribution != "uniform" else "uniform")
    rows[0, 0].legend(fontsize=8)
    return picture


BOTH = ("utilisation", "retr")
TREES = ("dqt", "fair-dqt")
PAPER = Paper(
    figures={
        "5": _figure("DQT by size of the system", "processors", BOTH, processors=SIZES, policy=("dqt",)),
        "6": _figure(
            "utilisation of DQT, Fair-DQT, FCFS-BB, ScanUp and ScanDown",
            "policy",
            BOTH,
            processors=(MACHINE,),
            policy=(*TREES, *DIRECTIONS),
        ),
        "7": _figure(
            "mean and maximum RETR of DQT and Fair-DQT",
            "policy",
            ("retr", "most_retr"),
            processors=(MACHINE,),
            policy=TREES,
        ),
        "8": _figure(
            "fairness of DQT, Fair-DQT and ScanUp",
            "policy",
            ("fairness",),
            processors=(MACHINE,),
            policy=(*TREES, "scan-up"),
        ),
    },
    quick=f"{QUANTA // 10} quanta instead of {QUANTA}",
    simulate=simulate,
    rows=_rows,
    guess=guess,
    order=lambda cell: (-cell.processors, list(POLICIES).index(cell.policy)),
)
