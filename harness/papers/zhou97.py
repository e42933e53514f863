"""Zhou, Brent, Qu 1997: gang scheduling with a service queue and a waiting queue.

The paper argues but simulates nothing. Figure 3 has its ordered jobs. For arbitrary order (sections 3 to 5)
the jobs are ours: each needs the whole machine, most are short, most of the work is in long ones.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np

from coordinator import policies
from coordinator.decide.session import Plan
from harness.measure.time_left import Guess
from harness.papers import Cell, Finding, Paper, PaperFigure, Picture, Results, panels, sweep, verdict
from harness.predict.replicate import mean_of
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.arrivals import gaps_s, in_ns
from harness.simulator.jobs.model import WHOLE_NS, Integers, JobLevelOutcome, Jobs, rigid

SLOT_S = 5.0
POPULATION = 6
SERVICE = (1, 2, 3, 6)
SHOWN = 24  # jobs in the picture of Figure 3
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

COLORS = {"short_s": "#4878a8", "long_s": "#d9802e", "all_s": "#888888"}


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


def simulate(cell: Cell, quick: bool, seed: int) -> SimpleNamespace:
    """The ordered jobs with that many in service, or short and long ones in arbitrary order."""
    return _ordered(cell) if hasattr(cell, "service") else _mixed(cell, 300 if quick else 1_500, seed)


def _ordered(cell: Cell) -> SimpleNamespace:
    """A closed system of M jobs whose times increase.

    By job its turnaround, and by formula (3), NaN at the ends; of the first SHOWN arrival, start and finish.
    """
    times_s = SLOT_S * np.arange(2, 62, dtype=float)
    options = {"service": cell.service, "quantum_ms": SLOT_S * 1000}
    outcome, _ = run_and_count(whole_machine(times_s), "two-queue", options, present=POPULATION)
    # T(i) = N sum over k < L of T_{i - kN}, for M = L N.
    terms = np.arange(POPULATION // cell.service) * cell.service
    formula = np.full(len(times_s), np.nan)
    for i in range(POPULATION, len(times_s) - POPULATION):
        formula[i] = cell.service * times_s[i - terms].sum()
    lines = np.array([outcome.jobs.submit_ns, outcome.start_ns, outcome.finish_ns]) / WHOLE_NS
    return SimpleNamespace(
        response_s=outcome.response_s.tolist(), formula_s=formula.tolist(), lines_s=lines.T[:SHOWN].tolist()
    )


def _mixed(cell: Cell, count: int, seed: int) -> SimpleNamespace:
    """One replication, with the same jobs for all systems: mean turnarounds, and preemptions a job."""
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
    return SimpleNamespace(
        short_s=float(response_s[~long_].mean()),
        long_s=float(response_s[long_].mean()),
        all_s=float(response_s.mean()),
        preemptions=preempted.sum() / count,
    )


def _rows(results: Results, figures: Sequence[str]) -> Iterator[dict[str, Any]]:
    for cell, value in results.items():
        if hasattr(cell, "service"):
            yield {"figure": "3", **vars(cell), "turnaround_s": float(np.mean(value.response_s))}
        else:
            yield {"figure": "5", **vars(cell), **vars(value)}


def _draw_threads(results: Results) -> Picture:
    """The time of each job in the waiting queue (dashed) and in the service queue (solid)."""
    picture, ((axes,),) = panels(1, 1, 9, 5)
    axes.set(xlabel="time (s)", ylabel="job", title="M = 6 and N = 3")
    for job, (arrival, start, finish) in enumerate(results[Cell(service=3)].lines_s):
        axes.plot([arrival, start], [job, job], "--", color="#4878a8")
        axes.plot([start, finish], [job, job], "-", color="#4878a8")
    axes.invert_yaxis()
    return picture


def _draw_mixes(results: Results) -> Picture:
    picture, rows = panels(len(LENGTHS), 1, 10, 8, sharex=True)
    places = np.arange(len(SYSTEMS))
    for axes, lengths in zip(rows[:, 0], LENGTHS, strict=True):
        axes.set(ylabel="mean turnaround (s)", yscale="log", title=f"lengths {lengths}")
        some = [results.where(system=system, lengths=lengths, present=0) for system in SYSTEMS]
        for shift, (name, color) in enumerate(COLORS.items()):
            values = [np.mean(some_results.column(name)) for some_results in some]
            label = name.removesuffix("_s") + " jobs"
            axes.bar(places + 0.27 * (shift - 1), values, 0.25, color=color, label=label)
        axes.set_xticks(places, [name.replace(", ", ",\n") for name in SYSTEMS], fontsize=8)
        axes.legend()
    return picture


PAPER = Paper(
    figures={
        "3": PaperFigure(
            "turnaround of ordered jobs in the simple two-queue system", _draw_threads, sweep(service=SERVICE)
        ),
        "5": PaperFigure(
            "short and long jobs in arbitrary order under all queueing systems",
            _draw_mixes,
            [
                Cell(system=system, lengths=lengths, repeat=repeat, present=present)
                for system, present in [*product(SYSTEMS, [0]), *product(CROWDED, [CROWD])]
                for lengths in LENGTHS
                for repeat in range(REPEATS)
            ],
        ),
    },
    quick="300 jobs a replication instead of 1500",
    simulate=simulate,
    rows=_rows,
    guess=lambda cell, quick: Guess(1.0, f"{cell.system} {cell.present}" if hasattr(cell, "system") else ""),
    apart=True,
)


def _turnarounds_s(results: Results, service: int) -> tuple[np.ndarray, np.ndarray]:
    """Turnarounds of the jobs of which formula (3) says them, simulated and by the formula."""
    values = results[Cell(service=service)]
    response_s = np.array(values.response_s, float)
    formula_s = np.array(values.formula_s, float)
    mask = ~np.isnan(formula_s)
    return response_s[mask], formula_s[mask]


@PAPER.claim(
    "3",
    "formula (3) gives the turnaround of ordered jobs, N = {}, M = {}",
    each=[(service, POPULATION) for service in SERVICE],
)
def _formula(results: Results, service: int, population: int) -> Finding:
    response_s, formula_s = _turnarounds_s(results, service)
    error = np.abs(response_s - formula_s).max()
    return f"largest difference {error:g} s in {len(formula_s)} jobs", bool(error < 1e-6)


@PAPER.claim("3", "the throughput falls, that is the mean turnaround rises, as N grows")
def _throughput(results: Results) -> Finding:
    means_s = [float(_turnarounds_s(results, service)[0].mean()) for service in SERVICE]
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


@PAPER.claim(
    "3",
    "with slots of 30 s a job of 10 s beside nine others takes about 300 s",
    "a job of 3 minutes has 6 slots of 30 s, or 60 of 3 s",
    "ten jobs of 5 minutes take about 50 minutes each in round robin",
    "then batch is much more effective",
)
def _examples(results: Results) -> Iterator[Finding]:
    behind_s = float(_alone(np.array([600.0] * 9 + [10.0]), _slots(30))[-1])
    yield f"{behind_s:.0f} s, the last of ten", abs(behind_s / 300 - 1) <= 0.1
    long, short = (_ended(180.0, "two-queue", _slots(seconds)) + 1 for seconds in (30, 3))
    yield f"{long} and {short}", (long, short) == (6, 60)
    alike, batch = (_alone(np.full(10, 300.0), _slots(30) | more) / 60 for more in ({}, {"service": 1}))
    words = f"{alike.min():.1f} to {alike.max():.1f} minutes"
    yield words, bool(alike.min() >= 45 and alike.max() <= 50)
    words = f"a mean of {batch.mean():.1f} minutes against {alike.mean():.1f}"
    yield words, bool(batch.mean() < 2 / 3 * alike.mean())


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


@PAPER.claim(
    "3",
    "with N = 6 and all places at level 3 or below, a new job may wait for over two minutes",
    "inserting new arrivals alleviates this",
)
def _new_job(results: Results) -> Iterator[Finding]:
    wait_s = _first_service_s(insert=False)
    inserted_s = _first_service_s(insert=True)
    yield f"{wait_s:.0f} s", wait_s > 120
    yield f"{inserted_s:.0f} s: at most a slot of 25 s", inserted_s <= 25


# Arbitrary order; each comparison pairs the replications.


def _below(results: Results, value: str, lower: str, upper: str, present: int = 0) -> Finding:
    """Whether a value is smaller under one system than under another."""
    low, high = (results.where(system=system, present=present).column(value) for system in (lower, upper))
    more = mean_of([b - a for a, b in zip(low, high, strict=True)])
    unit = " a job" if value == "preemptions" else " s"
    words = f"{statistics.fmean(low):.1f}{unit} ({lower}) against {statistics.fmean(high):.1f} ({upper})"
    return words, verdict(more.mean > 0, more.apart(0))


ROBIN = "round robin"
MULTI = "multilevel, N = 4"
INSERT = "multilevel, N = 4, inserting"


@PAPER.claim(
    "5",
    "the multilevel two-queue system beats round robin where short and long jobs mix, lengths {} "
    "(mean turnaround)",
    "the multilevel two-queue system beats round robin where short and long jobs mix, lengths {}, inserting",
    "the modified system favours short jobs more than round robin if many are there (30), lengths {}",
    "in arbitrary order the simple two-queue system is worse for short jobs, lengths {}",
    "inserting new arrivals serves short jobs sooner, lengths {}",
    "long jobs get longer slots, so there are fewer context switches than under round robin, lengths {}",
    each=LENGTHS,
)
def _mixed_jobs(results: Results, lengths: str) -> Iterator[Finding]:
    some = results.where(lengths=lengths)
    yield _below(some, "all_s", MULTI, ROBIN)
    yield _below(some, "all_s", INSERT, ROBIN)
    yield _below(some, "short_s", "modified, N = 3", ROBIN, CROWD)
    yield _below(some, "short_s", ROBIN, "two-queue, N = 3")
    yield _below(some, "short_s", INSERT, MULTI)
    yield _below(some, "preemptions", MULTI, ROBIN)


@PAPER.claim(
    "5",
    "a job of {} minutes is preempted {} times ({})",
    each=[(5, "15", "multilevel"), (2, "up to 24", "fixed slots of 5 s")],
)
def _preempted(results: Results, minutes: int, times: str, how: str) -> Finding:
    """The paper's two jobs, each beside a very long one."""
    multilevel = ("multilevel-two-queue", {"service": 2, **LEVELS})
    preempted = _ended(minutes * 60.0, *(multilevel if how == "multilevel" else SYSTEMS[ROBIN]))
    least, most = (15, 15) if how == "multilevel" else (23, 24)
    return f"{preempted} times", least <= preempted <= most
