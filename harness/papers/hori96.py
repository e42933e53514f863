"""Hori et al. 1996: distributed queue trees against batch scheduling, quantum by quantum."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np

from coordinator import policies
from harness import papers
from harness.measure.time_left import Guess
from harness.papers import Cell, Finding, Paper, PaperFigure, Picture, Results, panels, sweep, verdict
from harness.simulator.jobs import tree
from harness.simulator.jobs.arrivals import gaps_s
from harness.simulator.jobs.metrics import fairness
from harness.simulator.jobs.model import Floats, Integers, Jobs, rigid
from harness.simulator.jobs.simulate import simulate as simulate_jobs

QUANTUM_NS = 1_000_000_000
QUANTA = 1_000_000
"""The paper's digits are illegible; docs/hori96.md says where this number is too small."""

LENGTH = 1_000
LOADS = (0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.97, 0.99)
SIZES = (128, 256, 512, 1024, 2048, 4096)
MACHINE = 1024  # processors in Figures 6 to 8
DISTRIBUTIONS = {"proportional": 1, "uniform": 0, "inverse": -1}
"""Exponent of the probability of a task size."""

POLICIES = {
    "scan-up": "ScanUp",
    "scan-down": "ScanDown",
    "fcfs-bb": "FCFS-BB",
    "fair-dqt": "Fair-DQT",
    "dqt": "DQT",
}
BATCH = ("fcfs-bb", "scan-up", "scan-down")
"""Those that run to completion."""

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
    sizes = 2 ** np.arange(processors.bit_length() - 1)
    weights = sizes.astype(float) ** DISTRIBUTIONS[distribution]
    return sizes, weights / weights.sum()


def _quanta(quick: bool) -> int:
    return QUANTA // 10 if quick else QUANTA


def guess(cell: Cell, quick: bool) -> Guess:
    """How long a cell takes: trees switch tasks in proportion to the load, large ones with long queues."""
    sizes, shares = _sizes(cell.distribution, cell.processors)
    count = _quanta(quick) * cell.processors * cell.target / (float(shares @ sizes) * LENGTH)
    queues = cell.processors / max(SIZES) * cell.target**4
    each_s = BATCH_S if cell.policy in BATCH else TREE_S * cell.target * (1 + queues)
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
    if cell.policy in BATCH:
        outcome = simulate_jobs(jobs, cell.processors, policies.create(cell.policy, {}))
        span_ns = np.minimum(outcome.finish_ns, end_ns) - np.minimum(outcome.start_ns, end_ns)
        used = float((span_ns / QUANTUM_NS * outcome.size).sum())
    else:
        busy = np.zeros(quanta, dtype=np.int64)
        outcome = tree.simulate(jobs, cell.processors, cell.policy == "fair-dqt", QUANTUM_NS, busy)
        used = float(busy.sum())
    whole = outcome.processors * quanta
    jobs = outcome.jobs
    arrived = float(jobs.work_s.sum())
    ended = outcome.finish_ns <= end_ns
    retr = outcome.response_s[ended] / (jobs.work_s / jobs.max_processes)[ended]
    return SimpleNamespace(
        load=arrived / whole,
        utilisation=used / whole,
        retr=float(retr.mean()),
        most_retr=float(retr.max()),
        fairness=fairness(jobs.max_processes[ended].astype(float), retr),
        backlog=(arrived - used) / whole,
    )


def _rows(results: Results, figures: Sequence[str]) -> list[dict[str, Any]]:
    return [
        vars(cell) | {key: value if np.isfinite(value) else None for key, value in vars(outcome).items()}
        for cell, outcome in results.items()
    ]


def _figure(
    caption: str, values: Sequence[str], policies: Sequence[str], sizes: Sequence[int] = (MACHINE,)
) -> PaperFigure:
    """Values over the load, in a row of panels each; a curve for each policy, or for each size of one."""
    cells = sweep(distribution=DISTRIBUTIONS, processors=sizes, policy=policies, target=LOADS)
    return PaperFigure(caption, partial(_draw, values, policies, sizes), cells)


def _draw(values: Sequence[str], policies: Sequence[str], sizes: Sequence[int], results: Results) -> Picture:
    picture, rows = panels(len(values), len(DISTRIBUTIONS), 12, 0.5 + 3.5 * len(values), sharey="row")
    for row, value in zip(rows, values, strict=True):
        for axes, distribution in zip(row, DISTRIBUTIONS, strict=True):
            for (policy, size), mark in zip(product(policies, sizes), "os^Dvx", strict=False):
                some = results.where(distribution=distribution, processors=size, policy=policy).values()
                points = sorted((one.load, getattr(one, value)) for one in some if one.load <= 1)
                name = POLICIES[policy] if len(sizes) == 1 else f"P = {size}"
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
        "5": _figure("DQT by size of the system", BOTH, ("dqt",), SIZES),
        "6": _figure("utilisation of DQT, Fair-DQT, FCFS-BB, ScanUp and ScanDown", BOTH, (*TREES, *BATCH)),
        "7": _figure("mean and maximum RETR of DQT and Fair-DQT", ("retr", "most_retr"), TREES),
        "8": _figure("fairness of DQT, Fair-DQT and ScanUp", ("fairness",), (*TREES, "scan-up")),
    },
    quick=f"{QUANTA // 10} quanta instead of {QUANTA}",
    simulate=simulate,
    rows=_rows,
    guess=guess,
    order=lambda cell: (-cell.processors, list(POLICIES).index(cell.policy)),
)


LINEAR = 0.03  # the tolerance for "utilisation equals the load" and for "utilisation equals DQT's"
SMALL = 0.05  # a degradation of utilisation up to this is small
COMPARED_LOAD = 0.9  # the actual load at which systems of different sizes are compared
MOST = 2 / 3  # a claim about "most" cases needs more than this share of them

LOW_LOADS = (0.2, 0.4)
HIGH_LOADS = (0.9, 0.95, 0.97, 0.99)
SIGNIFICANT_LOADS = (0.8, 0.9, 0.95, 0.97, 0.99)


def _of(results: Results, policy: str, distribution: Any = tuple(DISTRIBUTIONS), **more: Any) -> Results:
    """A policy's points, but for those at which more work arrived than the machine can do."""
    chosen = results.where(policy=policy, distribution=distribution, **({"processors": MACHINE} | more))
    return Results((cell, one) for cell, one in chosen.items() if one.load <= 1)


def _pairs(results: Results, policy: str, other: str = "dqt", **more: Any) -> Iterator[tuple[Any, Any, Any]]:
    """The outcomes of two policies for the same tasks, and these tasks."""
    theirs = _of(results, other)
    for cell, ours in _of(results, policy, **more).items():
        if cell.but(policy=other) in theirs:
            yield cell, ours, theirs[cell.but(policy=other)]


@PAPER.claim(
    "5", "DQT's utilisation is linear in the load to 0.99, P = 128 to 4096, {} sizes", each=DISTRIBUTIONS
)
def _linear(results: Results, distribution: str) -> Finding:
    points = _of(results, "dqt", distribution, processors=SIZES)
    cell, worst = max(points.items(), key=lambda point: point[1].load - point[1].utilisation)
    gap = worst.load - worst.utilisation
    return f"at most {gap:.3f} below the load (P = {cell.processors}, load {worst.load:.2f})", gap <= LINEAR


@PAPER.claim("5", "DQT's utilisation is somewhat poorer with uniform sizes than with the others")
def _worst_sizes(results: Results) -> Finding:
    """Mean shortfall of utilisation below loads of 0.9 and more, over all sizes of the system."""
    gaps = {}
    for name in DISTRIBUTIONS:
        points = _of(results, "dqt", name, processors=SIZES, target=HIGH_LOADS).values()
        gaps[name] = float(np.mean([point.load - point.utilisation for point in points]))
    worst = max(gaps, key=lambda name: gaps[name])
    return f"mean shortfall at loads of 0.9 and more: {papers.words('{} {:.3f}', gaps)}", worst == "uniform"


@PAPER.claim("5", "DQT behaves almost independently of the size of the system")
def _independent(results: Results) -> Finding:
    """What 32 times as many processors change of RETR at one actual load, by the trend over all sizes.

    It must be less than what uniform sizes of tasks change in the same graphs: that is "somewhat" to the
    paper, and therefore more than "almost" nothing.
    """
    changes = {}
    means = {}
    for name in DISTRIBUTIONS:
        curves = {size: _of(results, "dqt", name, processors=size) for size in SIZES}
        reaching = {
            size: np.log(_retr_at(COMPARED_LOAD, curve))
            for size, curve in curves.items()
            if max(curve.column("load"), default=0) >= COMPARED_LOAD
        }
        if len(reaching) > 1:
            slope = np.polyfit(np.log(list(reaching)), list(reaching.values()), 1)[0]
            changes[name] = float(np.exp(slope * np.log(SIZES[-1] / SIZES[0])))
            means[name] = float(np.exp(np.mean(list(reaching.values()))))
    words = (
        f"RETR at an actual load of {COMPARED_LOAD} changes from P = {SIZES[0]} to {SIZES[-1]} by factors of "
    )
    words += papers.words("{1:.2f} ({0})", changes) or "unknown"
    if len(changes) < len(DISTRIBUTIONS):
        return words, verdict(False, False)
    somewhat = means.pop("uniform") / float(np.mean(list(means.values())))
    words += f"; uniform sizes change it by {somewhat:.2f}"
    return words, all(1 / somewhat <= change <= somewhat for change in changes.values())


def _retr_at(load: float, curve: Results) -> float:
    """Mean RETR at an actual load, interpolated between neighbouring points by its inverse."""
    loads, retrs = np.array(sorted((point.load, point.retr) for point in curve.values())).T
    return float(1 / np.interp(load, loads, 1 / retrs))


def _limit(results: Results, policy: str, distribution: str) -> float:
    return max(_of(results, policy, distribution).column("utilisation"), default=np.nan)


def _gap(results: Results, policy: str, *distributions: str) -> float:
    """The largest distance of a policy's utilisation below DQT's."""
    pairs = _pairs(results, policy, distribution=distributions)
    return float(max(dqt.utilisation - ours.utilisation for _, ours, dqt in pairs))


@PAPER.claim("6", "FCFS-BB saturates first, {} sizes (highest utilisation reached)", each=DISTRIBUTIONS)
def _saturates_first(results: Results, distribution: str) -> Finding:
    limits = {name: _limit(results, name, distribution) for name in ("fcfs-bb", "scan-up", "fair-dqt", "dqt")}
    return papers.words("{} {:.2f}", limits), min(limits, key=lambda name: limits[name]) == "fcfs-bb"


@PAPER.claim("6", "FCFS-BB's utilisation depends strongly on the distribution of sizes")
def _external(results: Results) -> Finding:
    limits = {
        policy: [_limit(results, policy, name) for name in DISTRIBUTIONS] for policy in ("fcfs-bb", "dqt")
    }
    words = ", ".join(f"{name} reaches {min(some):.2f} to {max(some):.2f}" for name, some in limits.items())
    batch, dqt = (max(some) - min(some) for some in limits.values())
    return words, batch > SMALL and batch > 2 * dqt


@PAPER.claim("6", "ScanUp always does better than ScanDown")
def _upwards(results: Results) -> Finding:
    """ScanUp against ScanDown on the same tasks: mean RETR and utilisation (section 2.1)."""
    pairs = list(_pairs(results, "scan-up", "scan-down"))
    ratios = [down.retr / up.retr for _, up, down in pairs]
    gaps = [up.utilisation - down.utilisation for _, up, down in pairs]
    words = f"ScanDown's mean RETR is {min(ratios):.2f} to {max(ratios):.2f} times ScanUp's, longer in "
    words += f"{sum(ratio > 1 for ratio in ratios)} of {len(pairs)} points; its utilisation is "
    words += f"{min(gaps):.3f} to {max(gaps):.3f} lower"
    return words, min(ratios) >= 1 and min(gaps) >= 0


@PAPER.claim("6", "ScanUp is close to DQT in utilisation, {} sizes", each=["proportional", "uniform"])
def _close(results: Results, distribution: str) -> Finding:
    gap = _gap(results, "scan-up", distribution)
    return f"at most {gap:.3f} below", gap <= LINEAR


@PAPER.claim(
    "6",
    "ScanUp has relatively lower utilisation with inverse sizes",
    "the RETR curves of DQT and ScanUp almost overlap, proportional and uniform sizes",
    "Fair-DQT loses only little utilisation against DQT",
)
def _against_dqt(results: Results) -> Iterator[Finding]:
    gap = _gap(results, "scan-up", "inverse")
    others = _gap(results, "scan-up", "proportional", "uniform")
    yield f"up to {gap:.3f} below DQT, {others:.3f} with others", gap > others
    pairs = _pairs(results, "scan-up", distribution=("proportional", "uniform"))
    ratios = [scan.retr / dqt.retr for _, scan, dqt in pairs]
    yield f"ScanUp's is {min(ratios):.1f} to {max(ratios):.1f} times DQT's", max(ratios) < 1.5
    gap = _gap(results, "fair-dqt", *DISTRIBUTIONS)
    yield f"at most {gap:.3f}", gap <= SMALL


@PAPER.claim("7", "DQT always has a shorter {} RETR than Fair-DQT", each=["mean", "maximum"])
def _shorter(results: Results, which: str) -> Finding:
    value = "retr" if which == "mean" else "most_retr"
    ratios = {
        f"{cell.distribution} {cell.target}": getattr(fair, value) / getattr(dqt, value)
        for cell, fair, dqt in _pairs(results, "fair-dqt")
    }
    shorter = [point for point, ratio in ratios.items() if ratio < 1]
    words = f"Fair-DQT's is {min(ratios.values()):.2f} to {max(ratios.values()):.2f} times DQT's"
    return words + (f"; shorter at {', '.join(shorter)}" if shorter else ""), not shorter


@PAPER.claim(
    "8",
    "DQT's correlation of size with RETR is positive in most cases: large tasks wait longer",
    "Fair-DQT is fairer than DQT (loads of 0.8 and more)",
)
def _fairness(results: Results) -> Iterator[Finding]:
    values = _of(results, "dqt").column("fairness")
    positive = sum(value > 0 for value in values)
    yield f"in {positive} of {len(values)}", positive > MOST * len(values)
    pairs = list(_pairs(results, "fair-dqt", target=SIGNIFICANT_LOADS))
    better = sum(abs(fair.fairness) < abs(dqt.fairness) for _, fair, dqt in pairs)
    yield f"in {better} of {len(pairs)} points", better > MOST * len(pairs)


@PAPER.claim(
    "8",
    "DQT's correlation of size with RETR tends to be higher at lower load, {} sizes",
    each=["uniform", "inverse"],
)
def _higher(results: Results, distribution: str) -> Finding:
    """Mean correlations at loads of 0.2 and 0.4, and of 0.9 and more."""
    low, high = (
        np.mean(_of(results, "dqt", distribution, target=loads).column("fairness"))
        for loads in (LOW_LOADS, HIGH_LOADS)
    )
    return f"{low:.2f} at loads of 0.2 and 0.4, {high:.2f} at 0.9 and more", bool(low > high)


@PAPER.claim(
    "8", "with inverse sizes ScanUp is almost fair", "with many large tasks ScanUp favours them at high load"
)
def _scan_up(results: Results) -> Iterator[Finding]:
    worst = max(map(abs, _of(results, "scan-up", "inverse").column("fairness")))
    yield f"correlation at most {worst:.2f} from 0", worst < 0.15
    fairness_values = _of(results, "scan-up", "proportional", target=HIGH_LOADS).column("fairness")
    yield (
        "correlations " + ", ".join(f"{value:.2f}" for value in fairness_values),
        bool(fairness_values) and max(fairness_values) < 0,
    )
