"""Zhou, Brent, Qu 1997: gang scheduling with a service queue and a waiting queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.session import Plan
from harness.papers import Claim, Progress, Reproduction, verdict
from harness.papers.parallel import compute
from harness.simulator.jobs import exact
from harness.simulator.jobs.arrivals import gaps_s, in_ns
from harness.simulator.jobs.model import Integers, Jobs, Outcome, rigid

SECOND_NS = 1_000_000_000
SLOT_S = 5.0
POPULATION = 6
SERVICE = (1, 2, 3, 6)

FIGURES = {
    "3": "turnaround of ordered jobs in the simple two-queue system",
    "5": "short and long jobs in arbitrary order under all queueing systems",
}

LEVELS = {"slots": (1, 8, 7), "quanta_ms": (5_000.0, 15_000.0, 25_000.0)}
"""The paper's example: f_0 = 1, q_0 = 5 s; f_1 = 8, q_1 = 15 s; f_2 = 7, q_2 = 25 s."""

SYSTEMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "round robin": ("two-queue", {"service": 0, "quantum_ms": 5_000.0}),
    "two-queue, N = 3": ("two-queue", {"service": 3, "quantum_ms": 5_000.0}),
    "modified, N = 3": (
        "modified-two-queue",
        {"service": 3, "quantum_ms": 5_000.0, "long_quantum_ms": 15_000.0},
    ),
    "multilevel, N = 4": ("multilevel-two-queue", {"service": 4, **LEVELS}),
    "multilevel, N = 4, inserting": ("multilevel-two-queue", {"service": 4, "insert": True, **LEVELS}),
    "batch": ("two-queue", {"service": 1, "quantum_ms": 5_000.0}),
}
SHORT_S, LONG_S, LONG_SHARE, LOAD = 4.0, 300.0, 0.125, 0.8


@dataclass(frozen=True)
class Mix:
    """Mean turnaround in seconds of the short, the long and all jobs, and preemptions a job."""

    short_s: float
    long_s: float
    all_s: float
    preemptions: float


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
        mixes = compute(list(SYSTEMS), partial(_mixed, count=300 if quick else 1_500, seed=seed), progress)
        claims += _mixed_claims(mixes)
        rows += [{"figure": "5", "system": name, **vars(mix)} for name, mix in mixes.items()]
        drawings["5"] = partial(zhou_figures.mixes, mixes)
    note = "quick: 300 jobs instead of 1500" if quick else ""
    return Reproduction("zhou97", list(figures), rows, claims, drawings, note)


def _jobs(times_s: np.ndarray, submit_ns: Integers | None = None) -> Jobs:
    """Jobs that need the whole machine, which is one processor here."""
    none = np.zeros(len(times_s), dtype=np.int64)
    return rigid(none if submit_ns is None else submit_ns, none + 1, in_ns(times_s))


def _ordered(service: int) -> tuple[Outcome, np.ndarray]:
    """A closed system of M jobs whose times increase; and what formula (3) says of each."""
    times_s = SLOT_S * np.arange(2, 62, dtype=float)
    policy = policies.create("two-queue", {"service": service, "quantum_ms": SLOT_S * 1000})
    outcome, _ = exact.simulate(_jobs(times_s), 1, policy, population=POPULATION)
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


def _mixed(system: str, count: int, seed: int) -> Mix:
    random = np.random.default_rng(seed)
    long_ = random.random(count) < LONG_SHARE
    times_s = random.exponential(np.where(long_, LONG_S, SHORT_S))
    mean_s = LONG_SHARE * LONG_S + (1 - LONG_SHARE) * SHORT_S
    submit_ns = in_ns(np.cumsum(gaps_s("exponential", count, mean_s / LOAD, random)))
    name, options = SYSTEMS[system]
    outcome, preempted = run_and_count(_jobs(np.maximum(times_s, 0.001), submit_ns), name, options)
    response_s = outcome.response_s
    return Mix(
        float(response_s[~long_].mean()),
        float(response_s[long_].mean()),
        float(response_s.mean()),
        preempted.sum() / count,
    )


def run_and_count(
    jobs: Jobs, name: str, options: Mapping[str, Any], *, same: bool = False
) -> tuple[Outcome, Integers]:
    """Simulate on one processor; also how often each job had to give way to another one.

    ``same``: count every end of a slot, also those after which the same job goes on.
    """
    order: list[tuple[int, int]] = []
    """Which job runs from when on."""

    def watch(plan: Plan, now_ns: int) -> None:
        begin_ns = plan.start_ns
        while order and order[-1][0] >= now_ns:
            order.pop()
        for slot in plan.decision.slots:
            for job in slot.runs[0]:
                order.append((max(begin_ns, now_ns), job))
            begin_ns += slot.length_ns or 0

    outcome, _ = exact.simulate(jobs, 1, policies.create(name, options), watch=watch)
    preempted = np.zeros(len(jobs), dtype=np.int64)
    for (_, job), (end_ns, following) in pairwise(order):
        if (same or following != job) and outcome.finish_ns[job] > end_ns:
            preempted[job] += 1
    return outcome, preempted


def _mixed_claims(mixes: Mapping[str, Mix]) -> list[Claim]:
    robin, multi = mixes["round robin"], mixes["multilevel, N = 4"]
    made = [
        Claim(
            "5",
            "the multilevel two-queue system beats round robin where short and long jobs mix",
            f"mean turnaround {multi.all_s:.0f} s against {robin.all_s:.0f} s",
            verdict(multi.all_s < robin.all_s),
        ),
        Claim(
            "5",
            "in arbitrary order the simple two-queue system can be worse for short jobs than round robin",
            f"{mixes['two-queue, N = 3'].short_s:.0f} s against {robin.short_s:.0f} s",
            verdict(mixes["two-queue, N = 3"].short_s > robin.short_s),
        ),
        Claim(
            "5",
            "inserting new arrivals serves short jobs sooner",
            f"{mixes['multilevel, N = 4, inserting'].short_s:.1f} s against {multi.short_s:.1f} s",
            verdict(mixes["multilevel, N = 4, inserting"].short_s < multi.short_s),
        ),
        Claim(
            "5",
            "long jobs get longer slots, so there are fewer context switches than under round robin",
            f"{multi.preemptions:.1f} a job against {robin.preemptions:.1f}",
            verdict(multi.preemptions < robin.preemptions),
        ),
    ]
    for minutes, name, options, expected in (
        (5, "multilevel-two-queue", {"service": 2, **LEVELS}, 15),
        (2, "two-queue", {"service": 0, "quantum_ms": 5_000.0}, 24),
    ):
        jobs = _jobs(np.array([minutes * 60.0, 100_000.0]))
        _, preempted = run_and_count(jobs, name, options, same=True)
        kind = "multilevel" if minutes == 5 else "fixed slots of 5 s"
        up_to = "" if minutes == 5 else "up to "
        made.append(
            Claim(
                "5",
                f"a job of {minutes} minutes is preempted {up_to}{expected} times ({kind})",
                f"{preempted[0]} times",
                verdict(bool(abs(preempted[0] - expected) <= (0 if minutes == 5 else 1))),
            )
        )
    return made
