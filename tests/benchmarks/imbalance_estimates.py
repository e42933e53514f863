"""Both estimates of the load imbalance in the figures of Dusseau et al. 1996 that use one: prints a table.

    PYTHONPATH=. python tests/benchmarks/imbalance_estimates.py [--full] [--figure N ...]

For each figure, pattern and estimate: the mean slowdown, the worst one with its place, the slowdown at
g = 1 ms and v = 2 g, and how often and by how much it is above the oracle's (where the machine is that of
Figure 8). Jobs of 2 s unless --full; about ten minutes on two quiet cores, 40 with --full.

The same on real ranks: lockstep run imbalance-estimates.
"""

import argparse
import sys
from collections import defaultdict
from dataclasses import replace
from functools import partial

from harness.papers.dusseau96 import model
from harness.predict.pool import compute
from workloads.blocking import ESTIMATES

HEADINGS = (
    "figure",
    "pattern",
    "estimate",
    "mean",
    "worst",
    "at g",
    "v/g",
    "1 ms, 2 g",
    "over oracle",
    "most",
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--figure", action="append", choices=["10", "11", "13"])
    parser.add_argument("--full", action="store_true")
    options = parser.parse_args()
    figures = options.figure or ["10", "11", "13"]
    shown = [
        (figure, replace(point, imbalance_estimate=estimate))
        for figure in figures
        for point in model.points(figure)
        for estimate in ESTIMATES
    ]
    oracles = [oracle(point) for figure, point in shown if figure in model.CHARTS]
    wanted = list(dict.fromkeys([point for _, point in shown] + oracles))
    wanted += list(dict.fromkeys(point.coscheduled() for point in wanted))
    wanted.sort(key=lambda point: (point.granularity_us, point.pattern != "TRANSPOSE"))
    measured = compute(wanted, partial(model.measure, quick=not options.full, seed=1), progress)
    results = model.PointResults(dict(zip(wanted, measured, strict=True)), 1)
    groups = defaultdict(list)
    for figure, point in shown:
        groups[figure, point.pattern, point.imbalance_estimate].append(point)
    print(("{:>10} " * len(HEADINGS)).format(*HEADINGS))
    for (figure, pattern, estimate), points in groups.items():
        print(row(figure, pattern, estimate, points, results))


def oracle(point):
    return replace(point, blocking="oracle", imbalance_estimate="arrival-spread")


def row(figure, pattern, estimate, points, results):
    slowdowns = {point: results.slowdown(point).value for point in points}
    worst = max(points, key=slowdowns.get)
    knife = [value for p, value in slowdowns.items() if (p.granularity_us, p.imbalance) == (1000, 2)]
    cells = [figure, pattern, estimate, sum(slowdowns.values()) / len(points), slowdowns[worst]]
    cells += [f"{worst.granularity_us:g}", f"{worst.imbalance:g}", *(knife or ["-"])]
    if figure in model.CHARTS:
        ratios = [value / results.slowdown(oracle(p)).value for p, value in slowdowns.items()]
        cells += [sum(ratio > 1.02 for ratio in ratios), max(ratios)]
    else:
        cells += ["-", "-"]
    return " ".join(f"{cell:10.3f}" if isinstance(cell, float) else f"{cell:>10}" for cell in cells)


def progress(done, total, left_s):
    print(f"\r{done}/{total}", end="" if done < total else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
