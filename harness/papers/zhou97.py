"""Zhou, Brent, Qu 1997: gang scheduling with a service queue and a waiting queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from coordinator import policies
from harness.papers import Claim, Progress, Reproduction, verdict, zhou_mixes
from harness.papers.parallel import compute
from harness.simulator.jobs import exact
from harness.simulator.jobs.model import Outcome

SLOT_S = 5.0
POPULATION = 6
SERVICE = (1, 2, 3, 6)

FIGURES = {
    "3": "turnaround of ordered jobs in the simple two-queue system",
    "5": "short and long jobs in arbitrary order under all queueing systems",
}


def reproduce(figures: Sequence[str], quick: bool, seed: int, progress: Progress) -> Reproduction:
    """Simulate what ``figures`` need; quick mode a fifth of the jobs."""
    claims: list[Claim] = []
    rows: list[dict[str, Any]] = []
    drawings = {}
    from harness.papers import zhou_figures  # noqa: PLC0415 - matplotlib is slow to load

    if "3" in figures:
        found = compute(SERVICE, _ordered, progress)
        claims += _ordered_claims(found)
        for service, (outcome, _) in found.items():
            rows.append({"figure": "3", "service": service, "turnaround_s": float(outcome.response_s.mean())})
        drawings["3"] = partial(zhou_figures.threads, found[3][0])
    if "5" in figures:
        count = 300 if quick else 1_500
        mixes = compute(zhou_mixes.cells(), partial(zhou_mixes.simulate, count=count, seed=seed), progress)
        claims += zhou_mixes.claims(mixes)
        rows += [{"figure": "5", **vars(cell), **vars(mix)} for cell, mix in mixes.items()]
        drawings["5"] = partial(zhou_figures.mixes, mixes)
    note = "quick: 300 jobs a replication instead of 1500" if quick else ""
    return Reproduction("zhou97", list(figures), rows, claims, drawings, note)


def _ordered(service: int) -> tuple[Outcome, np.ndarray]:
    """A closed system of M jobs whose times increase; and what formula (3) says of each."""
    times_s = SLOT_S * np.arange(2, 62, dtype=float)
    policy = policies.create("two-queue", {"service": service, "quantum_ms": SLOT_S * 1000})
    outcome, _ = exact.simulate(zhou_mixes.whole_machine(times_s), 1, policy, population=POPULATION)
    # T(i) = N sum over k < L of T_{i - kN}, for M = L N.
    terms = np.arange(POPULATION // service) * service
    formula = np.full(len(times_s), np.nan)
    for i in range(POPULATION, len(times_s) - POPULATION):
        formula[i] = service * times_s[i - terms].sum()
    return outcome, formula


def _ordered_claims(found: Mapping[int, tuple[Outcome, np.ndarray]]) -> list[Claim]:
    made = []
    means = {}
    for service, (outcome, formula) in found.items():
        counted = ~np.isnan(formula)
        error = np.abs(outcome.response_s[counted] - formula[counted]).max()
        means[service] = float(outcome.response_s[counted].mean())
        text = f"formula (3) gives the turnaround of ordered jobs, N = {service}, M = {POPULATION}"
        words = f"largest difference {error:g} s in {counted.sum()} jobs"
        made.append(Claim("3", text, words, verdict(error < 1e-6)))
    ordered = [means[service] for service in SERVICE]
    words = ", ".join(f"N = {service}: {mean:.0f} s" for service, mean in means.items())
    text = "the throughput falls, that is the mean turnaround rises, as N grows"
    rises = all(a < b for a, b in pairwise(ordered))
    return [*made, Claim("3", text, words, verdict(rises))]
