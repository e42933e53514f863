"""Zhou, Brent, Qu 1997, sections 3 to 5: short and long jobs in arbitrary order.

The paper argues but simulates nothing, so the workload is ours: jobs that each need the whole
machine, most of them short, most of the work in long ones.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.decide.session import Plan
from harness.predict.time_left import Guess
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.arrivals import gaps_s, in_ns
from harness.simulator.jobs.model import Integers, JobLevelOutcome, Jobs, rigid

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
REPEATS = 5
CROWD, CROWDED = 30, ("round robin", "modified, N = 3")
"""A large number of jobs that are present, and the systems that the paper compares there."""

LENGTHS = ("alike", "exponential")
"""All short jobs alike and all long ones, as in the paper's examples; or exponential, with these means."""


@dataclass(frozen=True)
class MixCell:
    """One replication of a system with jobs of such lengths."""

    system: str
    lengths: str
    repeat: int
    present: int = 0
    """As many jobs are there at all times; 0 if they come at random, at LOAD."""


@dataclass(frozen=True)
class Mix:
    """Mean turnaround in seconds of the short, the long and all jobs, and preemptions a job."""

    short_s: float
    long_s: float
    all_s: float
    preemptions: float


Mixes = Mapping[MixCell, Mix]


def cells() -> list[MixCell]:
    """All cells that Figure 5 needs."""
    open_to_all = [(system, 0) for system in SYSTEMS]
    closed = [(system, CROWD) for system in CROWDED]
    return [
        MixCell(system, lengths, repeat, present)
        for system, present in open_to_all + closed
        for lengths in LENGTHS
        for repeat in range(REPEATS)
    ]


def guess(cell: MixCell) -> Guess:
    """All cells of a system take about as long."""
    return Guess(1.0, f"{cell.system} {cell.present}")


def simulate(cell: MixCell, count: int, seed: int) -> Mix:
    """Simulate ``count`` jobs; all systems see the same ones in a replication."""
    key = (LENGTHS.index(cell.lengths), cell.repeat)
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
    long_ = random.random(count) < LONG_SHARE
    times_s = np.where(long_, LONG_S, SHORT_S)
    if cell.lengths == "exponential":
        times_s = np.maximum(random.exponential(times_s), 0.001)
    mean_s = LONG_SHARE * LONG_S + (1 - LONG_SHARE) * SHORT_S
    submit_ns = in_ns(np.cumsum(gaps_s("exponential", count, mean_s / LOAD, random)))
    jobs = whole_machine(times_s, None if cell.present else submit_ns)
    outcome, preempted = run_and_count(jobs, *SYSTEMS[cell.system], present=cell.present or None)
    response_s = outcome.response_s
    return Mix(
        float(response_s[~long_].mean()),
        float(response_s[long_].mean()),
        float(response_s.mean()),
        preempted.sum() / count,
    )


def mean(results: Mixes, system: str, lengths: str) -> Mix:
    """The mean of the replications."""
    every = runs(results, system, lengths)
    return Mix(*(statistics.fmean(getattr(mix, name) for mix in every) for name in vars(every[0])))


def runs(results: Mixes, system: str, lengths: str, present: int = 0) -> list[Mix]:
    """The replications of a system."""
    wanted = system, lengths, present
    return [mix for cell, mix in results.items() if (cell.system, cell.lengths, cell.present) == wanted]


def whole_machine(times_s: np.ndarray, submit_ns: Integers | None = None) -> Jobs:
    """Jobs that need the whole machine, which is one processor here."""
    none = np.zeros(len(times_s), dtype=np.int64)
    return rigid(none if submit_ns is None else submit_ns, none + 1, in_ns(times_s))


def run_and_count(
    jobs: Jobs, name: str, options: Mapping[str, Any], *, same: bool = False, present: int | None = None
) -> tuple[JobLevelOutcome, Integers]:
    """Simulate on one processor; returns the outcome and how often each job gave way to another.

    With ``same`` every end of a slot counts, even if the same job goes on. If so many are to be ``present``
    at a time, each of the others comes when one leaves.
    """
    order: list[tuple[int, int]] = []
    """(beginning in ns, job) of each slot."""

    def watch(plan: Plan, now_ns: int) -> None:
        begin_ns = plan.start_ns
        while order and order[-1][0] >= now_ns:
            order.pop()
        for slot in plan.decision.slots:
            for job in slot.runs[0]:
                order.append((max(begin_ns, now_ns), job))
            begin_ns += slot.length_ns or 0

    policy = policies.create(name, options)
    outcome, _ = event_by_event.simulate(jobs, 1, policy, watch=watch, population=present)
    preempted = np.zeros(len(jobs), dtype=np.int64)
    for (_, job), (end_ns, following) in pairwise(order):
        if (same or following != job) and outcome.finish_ns[job] > end_ns:
            preempted[job] += 1
    return outcome, preempted
