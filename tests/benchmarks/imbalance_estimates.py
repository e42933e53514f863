"""Both estimates of the load imbalance in the figures of Dusseau et al. 1996 that use one: prints a table.

    python -P tests/benchmarks/imbalance_estimates.py [--full] [--figure N ...]

For each figure, pattern and estimate: the mean slowdown, the worst one with its place, the slowdown at
g = 1 ms and v = 2 g, and how often and by how much it is above the oracle's (where the machine is that of
Figure 8). Jobs of 2 s unless --full; about ten minutes on two quiet cores, 40 with --full.

The same on real ranks: lockstep run imbalance-estimates.
"""

import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed

from harness.papers import Results
from harness.papers import dusseau96 as model
from harness.predict.pool import compute
from workloads.waiting_rules import ESTIMATES

CHARTS = ("10", "11")
"""Figures on Figure 8's machine."""

HEADINGS = ("figure", "pattern", "estimate", "mean", "worst", "at g", "v/g", "at 1 ms, 2 g", "above", "most")


def main():
    every = ["10", "11", "13"]
    options = parsed(__doc__, figure={"action": "append", "choices": every}, full=False)
    figures = options.figure or every
    shown = [
        (figure, cell.but(imbalance_estimate=estimate))
        for figure in figures
        for cell in model.PAPER.figures[figure].cells
        for estimate in ESTIMATES
    ]
    oracles = [oracle(cell) for figure, cell in shown if figure in CHARTS]
    wanted = list(dict.fromkeys([cell for _, cell in shown] + oracles))
    wanted += list(dict.fromkeys(map(model.coscheduled, wanted)))
    wanted.sort(key=lambda cell: (cell.granularity_us, cell.pattern != "TRANSPOSE"))
    measured = compute(wanted, partial(model.simulate, quick=not options.full, seed=1), progress)
    results = Results(zip(wanted, measured, strict=True))
    groups = defaultdict(list)
    for figure, cell in shown:
        groups[figure, cell.pattern, cell.imbalance_estimate].append(cell)
    print(("{:>10} " * len(HEADINGS)).format(*HEADINGS))
    for (figure, pattern, estimate), cells in groups.items():
        print(row(figure, pattern, estimate, cells, results))


def oracle(cell):
    return cell.but(waiting="oracle", imbalance_estimate="arrival-spread")


def row(figure, pattern, estimate, points, results):
    slowdowns = {point: model.slowdown(results, point).mean for point in points}
    worst = max(points, key=slowdowns.get)
    knife = [value for p, value in slowdowns.items() if (p.granularity_us, p.imbalance) == (1000, 2)]
    cells = [figure, pattern, estimate, sum(slowdowns.values()) / len(points), slowdowns[worst]]
    cells += [f"{worst.granularity_us:g}", f"{worst.imbalance:g}", *(knife or ["-"])]
    if figure in CHARTS:
        ratios = [value / model.slowdown(results, oracle(p)).mean for p, value in slowdowns.items()]
        cells += [sum(ratio > 1.02 for ratio in ratios), max(ratios)]
    else:
        cells += ["-", "-"]
    return " ".join(f"{cell:10.3f}" if isinstance(cell, float) else f"{cell:>10}" for cell in cells)


def progress(done, total, left_s):
    print(f"\r{done}/{total}", end="" if done < total else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
