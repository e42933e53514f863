"""The sentences of Zhou, Brent and Qu about their queues, checked."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from harness.papers import Claim, verdict
from harness.papers.zhou97.mixes import (
    CROWD,
    LENGTHS,
    LEVELS,
    SYSTEMS,
    Mixes,
    run_and_count,
    runs,
    whole_machine,
)
from harness.papers.zhou97.model import POPULATION, SERVICE, QueueingResults
from harness.predict.replicate import mean_of
from harness.simulator.jobs.arrivals import in_ns
from harness.simulator.jobs.model import JobLevelOutcome


def _ordered(results: QueueingResults) -> list[Claim]:
    made = []
    means = {}
    for service, (outcome, formula) in results.ordered.items():
        counted = ~np.isnan(formula)
        error = np.abs(outcome.response_s[counted] - formula[counted]).max()
        means[service] = float(outcome.response_s[counted].mean())
        text = f"formula (3) gives the turnaround of ordered jobs, N = {service}, M = {POPULATION}"
        words = f"largest difference {error:g} s in {counted.sum()} jobs"
        made.append(Claim(text, words, verdict(error < 1e-6)))
    ordered = [means[service] for service in SERVICE]
    words = ", ".join(f"N = {service}: {mean:.0f} s" for service, mean in means.items())
    text = "the throughput falls, that is the mean turnaround rises, as N grows"
    rises = all(a < b for a, b in pairwise(ordered))
    return [*made, Claim(text, words, verdict(rises))]


def _mixed(results: QueueingResults) -> list[Claim]:
    """The paper's sentences about arbitrary order; each comparison pairs the replications."""
    mixes = results.mixes
    robin, multi, insert = "round robin", "multilevel, N = 4", "multilevel, N = 4, inserting"
    made = []
    for lengths in LENGTHS:
        beats = "the multilevel two-queue system beats round robin where short and long jobs mix, lengths "
        made += [
            _below(mixes, f"{beats}{lengths} (mean turnaround)", lengths, "all_s", multi, robin),
            _below(mixes, f"{beats}{lengths}, inserting", lengths, "all_s", insert, robin),
            _below(
                mixes,
                f"the modified system favours short jobs more than round robin if many are there ({CROWD}), "
                f"lengths {lengths}",
                lengths,
                "short_s",
                "modified, N = 3",
                robin,
                CROWD,
            ),
            _below(
                mixes,
                f"in arbitrary order the simple two-queue system is worse for short jobs, lengths {lengths}",
                lengths,
                "short_s",
                robin,
                "two-queue, N = 3",
            ),
            _below(
                mixes,
                f"inserting new arrivals serves short jobs sooner, lengths {lengths}",
                lengths,
                "short_s",
                insert,
                multi,
            ),
            _below(
                mixes,
                "long jobs get longer slots, so there are fewer context switches than under round robin, "
                f"lengths {lengths}",
                lengths,
                "preemptions",
                multi,
                robin,
            ),
        ]
    return [*made, *_examples()]


def _below(
    results: Mixes, text: str, lengths: str, value: str, lower: str, upper: str, present: int = 0
) -> Claim:
    """The claim that a value is smaller under one system than under another."""
    low, high = (
        [getattr(mix, value) for mix in runs(results, system, lengths, present)] for system in (lower, upper)
    )
    more = mean_of([b - a for a, b in zip(low, high, strict=True)])
    unit = " a job" if value == "preemptions" else " s"
    words = f"{statistics.fmean(low):.1f}{unit} ({lower}) against {statistics.fmean(high):.1f} ({upper})"
    return Claim(text, words, verdict(more.mean > 0, abs(more.mean) > (more.half or 0)))


def _examples() -> Sequence[Claim]:
    """The paper's two jobs, each beside a very long one."""
    made = []
    for minutes, (name, options), expected, least, how in (
        (5, ("multilevel-two-queue", {"service": 2, **LEVELS}), "15", 15, "multilevel"),
        (2, SYSTEMS["round robin"], "up to 24", 23, "fixed slots of 5 s"),
    ):
        preempted = _slots(minutes * 60.0, name, options)
        text = f"a job of {minutes} minutes is preempted {expected} times ({how})"
        holds = least <= preempted <= int(expected.split()[-1])
        made.append(Claim(text, f"{preempted} times", verdict(holds)))
    return made


def _slots(time_s: float, name: str, options: Mapping[str, Any]) -> int:
    """How many slots of a job end before the job does, beside a very long job."""
    _, preempted = run_and_count(whole_machine(np.array([time_s, 5 * time_s])), name, options, same=True)
    return int(preempted[0])


def _arithmetic() -> list[Claim]:
    """The numbers of the introduction, and of section 4 for N = 6, from simulations of just these jobs."""
    slots_s = {seconds: {"service": 0, "quantum_ms": 1000.0 * seconds} for seconds in (30, 3)}
    ten = np.full(10, 600.0)
    ten[-1] = 10.0
    behind = float(_alone(ten, "two-queue", slots_s[30]).response_s[-1])
    switches = {seconds: _slots(180.0, "two-queue", options) + 1 for seconds, options in slots_s.items()}
    five = np.full(10, 300.0)
    alike = _alone(five, "two-queue", slots_s[30]).response_s
    batch = _alone(five, "two-queue", {"service": 1, "quantum_ms": 30_000.0}).response_s
    waits = {insert: _first_service(insert) for insert in (False, True)}
    return [
        Claim(
            "with slots of 30 s a job of 10 s beside nine others takes about 300 s",
            f"{behind:.0f} s, the last of ten",
            verdict(abs(behind / 300 - 1) <= 0.1),
        ),
        Claim(
            "a job of 3 minutes has 6 slots of 30 s, or 60 of 3 s",
            f"{switches[30]} and {switches[3]}",
            verdict(switches == {30: 6, 3: 60}),
        ),
        Claim(
            "ten jobs of 5 minutes take about 50 minutes each in round robin",
            f"{alike.min() / 60:.1f} to {alike.max() / 60:.1f} minutes",
            verdict(alike.min() >= 45 * 60 and alike.max() <= 50 * 60),
        ),
        Claim(
            "then batch is much more effective",
            f"a mean of {batch.mean() / 60:.1f} minutes against {alike.mean() / 60:.1f}",
            verdict(batch.mean() < 2 / 3 * alike.mean()),
        ),
        Claim(
            "with N = 6 and all places at level 3 or below, a new job may wait for over two minutes",
            f"{waits[False]:.0f} s",
            verdict(waits[False] > 120),
        ),
        Claim(
            "inserting new arrivals alleviates this",
            f"{waits[True]:.0f} s: at most a slot of 25 s",
            verdict(waits[True] <= 25),
        ),
    ]


def _alone(times_s: np.ndarray, name: str, options: Mapping[str, Any]) -> JobLevelOutcome:
    """The outcome of jobs that all arrive at once."""
    return run_and_count(whole_machine(times_s), name, options)[0]


def _first_service(insert: bool) -> float:
    """Seconds that a new job waits for its first slot, just after a round of six old jobs has begun."""
    options = {"service": 6, "insert": insert, **LEVELS}
    old = 6
    # Up to level 3 each old job gets 5 + 8 x 15 + 7 x 25 s; rounds of six slots of 25 s follow.
    begun_s = old * (5 + 8 * 15 + 7 * 25) + old * 25
    times_s = np.append(np.full(old, 1000.0), 1.0)
    submit_ns = in_ns(np.append(np.zeros(old), begun_s + 1.0))
    outcome, _ = run_and_count(whole_machine(times_s, submit_ns), "multilevel-two-queue", options)
    return float(outcome.wait_s[-1])


CLAIMS = {"3": lambda results: [*_ordered(results), *_arithmetic()], "5": _mixed}
