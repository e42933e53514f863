"""Zhou, Brent, Qu 1997: gang scheduling with a service queue and a waiting queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coordinator import policies
from harness.papers.zhou97 import mixes
from harness.papers.zhou97.mixes import Mixes
from harness.predict.pool import Progress, compute, compute_apart
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import JobLevelOutcome

SLOT_S = 5.0
POPULATION = 6
SERVICE = (1, 2, 3, 6)

FIGURES = {
    "3": "turnaround of ordered jobs in the simple two-queue system",
    "5": "short and long jobs in arbitrary order under all queueing systems",
}


@dataclass(frozen=True)
class QueueingResults:
    """The simulations.

    Attributes:
        ordered: outcome and turnarounds by formula (3), in s, for each number of jobs in service.
        mixes: short and long jobs in arbitrary order.
    """

    ordered: Mapping[int, tuple[JobLevelOutcome, np.ndarray]]
    mixes: Mixes


QUICK = "300 jobs a replication instead of 1500"


def simulate_figures(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> QueueingResults:
    """Simulate what ``figures`` need."""
    count = 300 if quick else 1_500
    services = SERVICE if "3" in figures else ()
    cells = mixes.cells() if "5" in figures else ()
    ordered = compute(services, _ordered, progress)
    mixed = compute_apart(cells, partial(mixes.simulate, count=count, seed=seed), progress, mixes.guess)
    return QueueingResults(
        dict(zip(services, ordered, strict=True)),
        dict(zip(cells, mixed, strict=True)),
    )


def rows(results: QueueingResults, figures: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each N of Figure 3 and each replication of Figure 5."""
    ordered = [
        {"figure": "3", "service": service, "turnaround_s": float(outcome.response_s.mean())}
        for service, (outcome, _) in results.ordered.items()
    ]
    return ordered + [{"figure": "5", **vars(cell), **vars(mix)} for cell, mix in results.mixes.items()]


def _ordered(service: int) -> tuple[JobLevelOutcome, np.ndarray]:
    """A closed system of M jobs whose times increase, and turnarounds by formula (3), NaN at the ends."""
    times_s = SLOT_S * np.arange(2, 62, dtype=float)
    policy = policies.create("two-queue", {"service": service, "quantum_ms": SLOT_S * 1000})
    outcome, _ = event_by_event.simulate(mixes.whole_machine(times_s), 1, policy, population=POPULATION)
    # T(i) = N sum over k < L of T_{i - kN}, for M = L N.
    terms = np.arange(POPULATION // service) * service
    formula = np.full(len(times_s), np.nan)
    for i in range(POPULATION, len(times_s) - POPULATION):
        formula[i] = service * times_s[i - terms].sum()
    return outcome, formula
