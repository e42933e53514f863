"""Anastasiadis and Sevcik 1997: adaptive space sharing with more and more knowledge of the jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coordinator import policies
from harness.papers.anastasiadis97 import workload
from harness.papers.anastasiadis97.workload import (
    MU,
    SpeedupCurve,
    WaitingRatio,
    curve_rows,
    ratio_rows,
    speedup_curves,
    waiting_ratios,
)
from harness.predict.pool import Progress, compute
from harness.predict.replicate import Mean, Precision, Replications, ratio, replicate
from harness.predict.time_left import Guess
from harness.simulator.jobs.metrics import Metrics, measure
from harness.simulator.jobs.simulate import Watched, simulate

PROCESSORS = 32
LOADS = (0.1, 0.3, 0.5, 0.7, 0.9)
WARM_UP, LAST, GENERATED = 500, 20_000, 30_000
"""Jobs left out, the last job that counts, and jobs generated before a policy is called saturated."""

FIGURES = {
    "1": "W/T of AP1 and AEP against actual load",
    "2": "speedup of the nine types of jobs",
    "3": "SDF with and without a limit",
    "4": "ASP, AP1, AEP",
    "5": "ASP(1), AP1(1), AEP(1)",
    "6": "DYN-EQUI, ASP(2), AP1(2), AEP(2)",
}

Column = tuple[str, str, tuple[tuple[str, int], ...]]
"""A policy as the paper names it, its name here and its parameters."""

REFERENCE: Column = ("DYN-EQUI", "dyn-equi", ())
SHORTEST: tuple[Column, ...] = (
    ("SDF-Max 1", "sdf-max", (("maximum", 1),)),
    ("SDF-Max 2", "sdf-max", (("maximum", 2),)),
    ("SDF-Max 6", "sdf-max", (("maximum", 6),)),
    ("SDF", "sdf", ()),
)


def adaptive(order: int) -> tuple[Column, ...]:
    """ASP, AP1 and AEP with a queue of that order."""
    suffix = f"({order})" if order else ""
    return tuple((f"{name.upper()}{suffix}", name, (("order", order),)) for name in ("asp", "ap1", "aep"))


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "3": SHORTEST,
    "4": adaptive(0),
    "5": (*adaptive(0), *adaptive(1)),
    "6": (*adaptive(1), *adaptive(2)),
}
"""The policies of each figure and its claims, beside the reference."""


@dataclass(frozen=True)
class AdaptiveCell:
    """One policy at one point: workload, load."""

    workload: str
    load: float
    column: Column


class AdaptiveResults:
    """The replications of every cell, the ratios of Figure 1 and the curves of Figure 2."""

    def __init__(
        self,
        cells: Mapping[AdaptiveCell, Replications],
        ratios: Sequence[WaitingRatio] = (),
        curves: Sequence[SpeedupCurve] = (),
    ) -> None:
        self.cells = tuple(cells)
        self.ratios = ratios
        self.curves = curves
        self._cells = {(cell.workload, cell.load, cell.column[0]): runs for cell, runs in cells.items()}

    def __contains__(self, key: tuple[str, float, str]) -> bool:
        return key in self._cells

    def runs(self, workload: str, load: float, policy: str) -> Replications:
        """The replications of a policy, by the paper's name of it."""
        return self._cells[workload, load, policy]

    def ratio(self, workload: str, load: float, policy: str, other: str) -> Mean:
        """Response time over ``other``'s, by the estimate with the narrower interval."""
        return ratio(self.runs(workload, load, policy), self.runs(workload, load, other))


QUICK = "intervals of 10 % where the paper has 5 %, at most 20 replications"


def simulate_figures(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> AdaptiveResults:
    """Simulate the cells of ``figures``; quick mode stops at twice the paper's interval."""
    columns = dict.fromkeys(column for figure in figures for column in COLUMNS.get(figure, ()))
    cells = [
        AdaptiveCell(name, load, column)
        for name in MU
        for load in LOADS
        for column in (REFERENCE, *columns)
        if columns
    ]
    replications = compute(cells, partial(_simulate, quick=quick, seed=seed), progress, guess=_guess)
    results = dict(zip(cells, replications, strict=True))
    return AdaptiveResults(
        results,
        waiting_ratios(LOADS, seed, quick) if "1" in figures else (),
        speedup_curves() if "2" in figures else (),
    )


def rows(results: AdaptiveResults, figures: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each ratio of Figure 1, each point of Figure 2 and each cell of the others."""
    every = (*ratio_rows(results.ratios), *curve_rows(results.curves))
    return [*every, *(_row(results, cell) for cell in results.cells)]


def _guess(cell: AdaptiveCell) -> Guess:
    """Intervals are wider, and there are more replications, the closer the load is to 1."""
    return Guess(1 / (1 - cell.load), cell.column[1])


def _simulate(cell: AdaptiveCell, quick: bool, seed: int) -> Replications:
    policy = policies.create(cell.column[1], dict(cell.column[2]))

    def one(random: np.random.Generator) -> Metrics | None:
        jobs = workload.jobs(cell.workload, cell.load, GENERATED, random)
        outcome = simulate(jobs, PROCESSORS, policy, Watched(LAST))
        if outcome.saturated:
            return None
        return measure(outcome, warm_up=WARM_UP, last=LAST)

    return replicate(one, seed, Precision(0.1, 3, 20) if quick else Precision(0.05, 10, 400))


def _row(results: AdaptiveResults, cell: AdaptiveCell) -> dict[str, Any]:
    runs = results.runs(cell.workload, cell.load, cell.column[0])
    ratio = results.ratio(cell.workload, cell.load, cell.column[0], REFERENCE[0])
    row: dict[str, Any] = {"workload": cell.workload, "load": cell.load, "policy": cell.column[0]}
    row |= {"saturated": runs.stuck, "replications": len(runs.metrics)}
    for name in ("response_s", "wait_s", "processors"):
        mean = runs.mean(name)
        row[name] = None if mean.saturated else mean.mean
    row["response_half_s"] = runs.mean("response_s").half
    row["normalized"] = None if ratio.saturated else ratio.mean
    return row
