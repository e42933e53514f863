"""The sentences of Zhou, Brent and Qu about their queues, checked."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from harness.papers import Claim, verdict
from harness.papers.zhou97.mixes import LENGTHS, LEVELS, SYSTEMS, Mixes, run_and_count, runs, whole_machine
from harness.papers.zhou97.model import POPULATION, SERVICE, QueueingResults
from harness.predict.replicate import mean_of


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
    """The paper's sentences about arbitrary order; systems are compared in pairs of replications."""
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


def _below(results: Mixes, text: str, lengths: str, value: str, lower: str, upper: str) -> Claim:
    """The claim that a value is smaller under one system than under another."""
    low, high = ([getattr(mix, value) for mix in runs(results, system, lengths)] for system in (lower, upper))
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
        jobs = whole_machine(np.array([minutes * 60.0, 100_000.0]))
        _, preempted = run_and_count(jobs, name, options, same=True)
        text = f"a job of {minutes} minutes is preempted {expected} times ({how})"
        holds = least <= int(preempted[0]) <= int(expected.split()[-1])
        made.append(Claim(text, f"{preempted[0]} times", verdict(holds)))
    return made


CLAIMS = {"3": _ordered, "5": _mixed}
