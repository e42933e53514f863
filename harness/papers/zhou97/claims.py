"""The sentences of Zhou, Brent and Qu about their queues, checked."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from harness.papers import Cell, Claims, Finding, Results, verdict
from harness.papers.zhou97.model import (
    CROWD,
    LENGTHS,
    LEVELS,
    POPULATION,
    SERVICE,
    SYSTEMS,
    run_and_count,
    whole_machine,
)
from harness.predict.replicate import mean_of
from harness.simulator.jobs.arrivals import in_ns

CLAIMS = Claims()


def _ordered(results: Results, service: int) -> tuple[np.ndarray, np.ndarray]:
    """Turnarounds of the jobs of which formula (3) says them, simulated and by the formula."""
    found = results[Cell(service=service)]
    response_s, formula_s = np.array(found.response_s, float), np.array(found.formula_s, float)
    counted = ~np.isnan(formula_s)
    return response_s[counted], formula_s[counted]


@CLAIMS.of(
    "3",
    "formula (3) gives the turnaround of ordered jobs, N = {}, M = {}",
    *((service, POPULATION) for service in SERVICE),
)
def _formula(results: Results, service: int, population: int) -> Finding:
    response_s, formula_s = _ordered(results, service)
    error = np.abs(response_s - formula_s).max()
    return f"largest difference {error:g} s in {len(formula_s)} jobs", bool(error < 1e-6)


@CLAIMS.of("3", "the throughput falls, that is the mean turnaround rises, as N grows")
def _throughput(results: Results) -> Finding:
    means_s = [float(_ordered(results, service)[0].mean()) for service in SERVICE]
    words = ", ".join(f"N = {n}: {mean_s:.0f} s" for n, mean_s in zip(SERVICE, means_s, strict=True))
    return words, all(a < b for a, b in pairwise(means_s))


# The numbers of the introduction, and of section 4 for N = 6, from simulations of just these jobs.


def _slots(seconds: int) -> dict[str, Any]:
    return {"service": 0, "quantum_ms": 1000.0 * seconds}


def _alone(times_s: np.ndarray, options: Mapping[str, Any]) -> np.ndarray:
    """The turnarounds of jobs that all arrive at once."""
    return run_and_count(whole_machine(times_s), "two-queue", options)[0].response_s


def _ended(time_s: float, name: str, options: Mapping[str, Any]) -> int:
    """How many slots of a job end before the job does, beside a very long job."""
    _, preempted = run_and_count(whole_machine(np.array([time_s, 5 * time_s])), name, options, same=True)
    return int(preempted[0])


@CLAIMS.of("3", "with slots of 30 s a job of 10 s beside nine others takes about 300 s")
def _short_job(results: Results) -> Finding:
    behind_s = float(_alone(np.array([600.0] * 9 + [10.0]), _slots(30))[-1])
    return f"{behind_s:.0f} s, the last of ten", abs(behind_s / 300 - 1) <= 0.1


@CLAIMS.of("3", "a job of 3 minutes has 6 slots of 30 s, or 60 of 3 s")
def _switches(results: Results) -> Finding:
    long, short = (_ended(180.0, "two-queue", _slots(seconds)) + 1 for seconds in (30, 3))
    return f"{long} and {short}", (long, short) == (6, 60)


@CLAIMS.of("3", "ten jobs of 5 minutes take about 50 minutes each in round robin")
def _round_robin(results: Results) -> Finding:
    alike = _alone(np.full(10, 300.0), _slots(30)) / 60
    return f"{alike.min():.1f} to {alike.max():.1f} minutes", bool(alike.min() >= 45 and alike.max() <= 50)


@CLAIMS.of("3", "then batch is much more effective")
def _batch(results: Results) -> Finding:
    times_s = np.full(10, 300.0)
    batch, alike = (_alone(times_s, _slots(30) | service).mean() / 60 for service in ({"service": 1}, {}))
    return f"a mean of {batch:.1f} minutes against {alike:.1f}", bool(batch < 2 / 3 * alike)


def _first_service_s(insert: bool) -> float:
    """How long a new job waits for its first slot, just after a round of six old jobs has begun."""
    options = {"service": 6, "insert": insert, **LEVELS}
    old = 6
    # Up to level 3 each old job gets 5 + 8 x 15 + 7 x 25 s; rounds of six slots of 25 s follow.
    begun_s = old * (5 + 8 * 15 + 7 * 25) + old * 25
    times_s = np.append(np.full(old, 1000.0), 1.0)
    submit_ns = in_ns(np.append(np.zeros(old), begun_s + 1.0))
    outcome, _ = run_and_count(whole_machine(times_s, submit_ns), "multilevel-two-queue", options)
    return float(outcome.wait_s[-1])


@CLAIMS.of("3", "with N = 6 and all places at level 3 or below, a new job may wait for over two minutes")
def _long_wait(results: Results) -> Finding:
    wait_s = _first_service_s(insert=False)
    return f"{wait_s:.0f} s", wait_s > 120


@CLAIMS.of("3", "inserting new arrivals alleviates this")
def _inserting(results: Results) -> Finding:
    wait_s = _first_service_s(insert=True)
    return f"{wait_s:.0f} s: at most a slot of 25 s", wait_s <= 25


# Arbitrary order; each comparison pairs the replications.


def _below(results: Results, lengths: str, value: str, lower: str, upper: str, present: int = 0) -> Finding:
    """Whether a value is smaller under one system than under another."""
    low, high = (
        results.where(system=system, lengths=lengths, present=present).column(value)
        for system in (lower, upper)
    )
    more = mean_of([b - a for a, b in zip(low, high, strict=True)])
    unit = " a job" if value == "preemptions" else " s"
    words = f"{statistics.fmean(low):.1f}{unit} ({lower}) against {statistics.fmean(high):.1f} ({upper})"
    return words, verdict(more.mean > 0, abs(more.mean) > (more.half or 0))


ROBIN, MULTI, INSERT = "round robin", "multilevel, N = 4", "multilevel, N = 4, inserting"
BEATS = "the multilevel two-queue system beats round robin where short and long jobs mix, lengths {}"
MANY = "the modified system favours short jobs more than round robin if many are there (30), lengths {}"
WORSE = "in arbitrary order the simple two-queue system is worse for short jobs, lengths {}"
SOONER = "inserting new arrivals serves short jobs sooner, lengths {}"
FEWER = "long jobs get longer slots, so there are fewer context switches than under round robin, lengths {}"
for _lengths in LENGTHS:
    CLAIMS.of("5", f"{BEATS} (mean turnaround)", (_lengths, "all_s", MULTI, ROBIN))(_below)
    CLAIMS.of("5", f"{BEATS}, inserting", (_lengths, "all_s", INSERT, ROBIN))(_below)
    CLAIMS.of("5", MANY, (_lengths, "short_s", "modified, N = 3", ROBIN, CROWD))(_below)
    CLAIMS.of("5", WORSE, (_lengths, "short_s", ROBIN, "two-queue, N = 3"))(_below)
    CLAIMS.of("5", SOONER, (_lengths, "short_s", INSERT, MULTI))(_below)
    CLAIMS.of("5", FEWER, (_lengths, "preemptions", MULTI, ROBIN))(_below)


@CLAIMS.of(
    "5",
    "a job of {} minutes is preempted {} times ({})",
    (5, "15", "multilevel"),
    (2, "up to 24", "fixed slots of 5 s"),
)
def _preempted(results: Results, minutes: int, times: str, how: str) -> Finding:
    """The paper's two jobs, each beside a very long one."""
    multilevel = ("multilevel-two-queue", {"service": 2, **LEVELS})
    preempted = _ended(minutes * 60.0, *(multilevel if how == "multilevel" else SYSTEMS[ROBIN]))
    least, most = (15, 15) if how == "multilevel" else (23, 24)
    return f"{preempted} times", least <= preempted <= most
