"""What Zhou, Brent and Qu say of their queues, checked."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from harness.papers import Claim, verdict
from harness.papers.zhou97.mixes import LENGTHS, LEVELS, SYSTEMS, Mixes, run_and_count, runs, whole_machine
from harness.papers.zhou97.model import POPULATION, SERVICE, Results
from harness.predict.replicate import mean_of
from harness.simulator.jobs.model import Outcome


def claims(results: Results, figures: Sequence[str]) -> list[Claim]:
    """The claims about ``figures``, in the order of the paper."""
    made = _ordered_claims(results.ordered) if results.ordered else []
    return made + (_mixed_claims(results.mixes) if results.mixes else [])


def _ordered_claims(results: Mapping[int, tuple[Outcome, np.ndarray]]) -> list[Claim]:
    made = []
    means = {}
    for service, (outcome, formula) in results.items():
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


def _mixed_claims(results: Mixes) -> list[Claim]:
    """What the paper says of arbitrary order; systems are compared in pairs of replications."""
    robin, multi, insert = "round robin", "multilevel, N = 4", "multilevel, N = 4, inserting"
    made = []
    for lengths in LENGTHS:
        beats = "the multilevel two-queue system beats round robin where short and long jobs mix, lengths "
        made += [
            _below(results, f"{beats}{lengths} (mean turnaround)", lengths, "all_s", multi, robin),
            _below(results, f"{beats}{lengths}, inserting", lengths, "all_s", insert, robin),
            _below(
                results,
                f"in arbitrary order the simple two-queue system is worse for short jobs, lengths {lengths}",
                lengths,
                "short_s",
                robin,
                "two-queue, N = 3",
            ),
            _below(
                results,
                f"inserting new arrivals serves short jobs sooner, lengths {lengths}",
                lengths,
                "short_s",
                insert,
                multi,
            ),
            _below(
                results,
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
    """That a value is smaller under one system than under another."""
    low, high = ([getattr(mix, value) for mix in runs(results, system, lengths)] for system in (lower, upper))
    more = mean_of([b - a for a, b in zip(low, high, strict=True)])
    unit = " a job" if value == "preemptions" else " s"
    words = f"{statistics.fmean(low):.1f}{unit} ({lower}) against {statistics.fmean(high):.1f} ({upper})"
    return Claim("5", text, words, verdict(more.mean > 0, abs(more.mean) > (more.half or 0)))


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
        made.append(Claim("5", text, f"{preempted[0]} times", verdict(holds)))
    return made
