"""The workloads of Anastasiadis and Sevcik 1997, and the waiting ratios of their section 4."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coordinator import policies
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, moldable
from harness.simulator.jobs.model import Jobs
from harness.simulator.jobs.simulate import simulate

PROCESSORS = 32
SHARES, MEANS_S = (0.125, 0.875), (101.0, 1.3)
"""Large and small jobs: their shares, and their mean work in seconds."""

MAXIMA = (4, 16, 64)
MU = {"WK1": (np.inf,), "WK2": (0.4,), "WK3": (0.2,), "WK4": (0.2, 0.4, np.inf)}
"""Exponents of alpha: the smaller, the poorer the speedup."""


def mean_demand_s(workload: str) -> float:
    """E(T(1)) = E(W) + E(alpha) + E(beta), exactly (Table 3 gives rounded values)."""
    work_s = float(np.dot(SHARES, MEANS_S))
    per_maximum = [
        1 + p**-2.0 + np.mean([0.0 if np.isinf(mu) else p ** (-2 * mu) for mu in MU[workload]])
        for p in MAXIMA
    ]
    return work_s * float(np.mean(per_maximum))


def jobs(workload: str, load: float, count: int, random: np.random.Generator) -> Jobs:
    """``count`` jobs of a workload, Poisson arrivals for an offered load (equation 10)."""
    work_s = hyperexponential(count, SHARES, MEANS_S, random)
    most = random.choice(MAXIMA, count)
    mu = random.choice(MU[workload], count)
    between = gaps_s("exponential", count, mean_demand_s(workload) / (PROCESSORS * load), random)
    return moldable(np.cumsum(between), most, work_s, mu)


@dataclass(frozen=True)
class SpeedupCurve:
    """S(p) = T(1) / T(p) for p from 1 to P of one type of job (Figure 2)."""

    mu: float
    maximum: int
    speedups: tuple[float, ...]


def speedup_curves() -> list[SpeedupCurve]:
    """The nine types, from the execution times that their jobs are simulated with (equation 9)."""
    made = []
    for mu in MU["WK4"]:
        for maximum in MAXIMA:
            one = moldable(np.zeros(1), np.array([maximum]), np.ones(1), np.array([mu]))
            times_s = [float(one.times_s(np.array([p]))[0]) for p in range(1, max(PROCESSORS, maximum) + 1)]
            made.append(SpeedupCurve(mu, maximum, tuple(times_s[0] / time_s for time_s in times_s)))
    return made


@dataclass(frozen=True)
class WaitingRatio:
    """W/T found at an actual load, and predicted by equations (3) and (4)."""

    policy: str
    actual_load: float
    found: float
    predicted: float


def waiting_ratios(loads: Iterable[float], seed: int, quick: bool) -> Sequence[WaitingRatio]:
    """W/T of AEP and AP1 for jobs that are all alike (section 4)."""
    ratios = []
    count = 4_000 if quick else 40_000
    for policy in ("aep", "ap1"):
        for load in loads:
            random = np.random.default_rng(seed)
            work_s = np.full(count, 10.0)
            most = np.full(count, 64)
            demand_s = 10.0 * (1 + 64**-2.0)
            between = gaps_s("exponential", count, demand_s / (PROCESSORS * load), random)
            alike = moldable(np.cumsum(between), most, work_s, np.full(count, np.inf))
            outcome = simulate(alike, PROCESSORS, policies.create(policy, {}))
            counted = slice(count // 10, None)
            times_s = alike.times_s(outcome.size.astype(np.int64))[counted]
            rate = 1 / np.diff(alike.submit_ns[counted] / 1e9).mean()
            actual = float(rate * (outcome.size[counted] * times_s).mean() / PROCESSORS)
            predicted = (1 - actual) / actual if policy == "aep" else 1 / actual
            found = float(outcome.wait_s[counted].mean() / times_s.mean())
            ratios.append(WaitingRatio(policy.upper(), actual, found, predicted))
    return ratios


def curve_rows(curves: Iterable[SpeedupCurve]) -> list[dict[str, Any]]:
    """The curves as rows of plain values; mu is None for infinity."""
    return [
        {
            "figure": "2",
            "mu": None if np.isinf(curve.mu) else curve.mu,
            "maximum": curve.maximum,
            "processors": p,
            "speedup": speedup,
        }
        for curve in curves
        for p, speedup in enumerate(curve.speedups[:PROCESSORS], 1)
    ]


def ratio_rows(ratios: Iterable[WaitingRatio]) -> list[dict[str, Any]]:
    """The ratios as rows of plain values."""
    return [{"figure": "1", **vars(ratio)} for ratio in ratios]
