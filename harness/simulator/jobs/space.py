"""Space sharing: jobs come, get processors of their own, and leave. One loop for all policies of this kind.

The rule decides as in :class:`coordinator.decide.session.Session`, once after all departures and arrivals of
one instant.
"""

from dataclasses import replace

import numpy as np

from coordinator.policies import allocation, predictions
from coordinator.topology import Runs
from harness.simulator.compiled import entry, step
from harness.simulator.interruption import heeding
from harness.simulator.jobs import buddy, conservative, dyn_equi, queue, running
from harness.simulator.jobs.case import (
    MALLEABLE,
    NOW,
    ON_BLOCKS,
    Blocks,
    Case,
    Expected,
    History,
    Reservations,
    Scheme,
)
from harness.simulator.jobs.execution import arrivals, arriving, demanded, follow, next_instant, pop
from harness.simulator.jobs.model import NEVER_NS, Integers, JobLevelOutcome, Jobs, Times


def simulate(jobs: Jobs, processors: int, scheme: Scheme, watched: int | None = None) -> JobLevelOutcome:
    """Simulate ``jobs``, in order of arrival, under a policy of space sharing.

    Stops when the first ``watched`` jobs have ended; if they have not when the last job arrives, the outcome
    is saturated. None simulates all jobs to their ends. Blocks need a power of two of ``processors``.
    """
    case = _new(jobs, processors, scheme, watched)
    saturated = heeding(_run, case)
    size = case.size.astype(float)
    places: dict[int, Runs] | None = None
    if scheme.kind == MALLEABLE:
        places = {}
        size = case.shares.held_ns / np.maximum(1, case.times.finish_ns - case.times.start_ns)
    arrived = replace(jobs, submit_ns=case.arrivals.submit_ns)
    return JobLevelOutcome(arrived, processors, *case.times, size, case.first, bool(saturated), places)


def _new(jobs: Jobs, processors: int, scheme: Scheme, watched: int | None) -> Case:
    n = len(jobs)
    now = np.zeros(1, dtype=NOW).view(np.recarray)
    now.free = processors
    now.unfinished = n if watched is None else watched
    now.current = processors.bit_length() - 1 if scheme.direction < 0 else 0
    ones = np.ones(n, dtype=np.int64)
    none = np.zeros(0)
    demands = allocation.Demands(jobs.max_processes, jobs.max_processes, ones, none, none)
    if not scheme.rigid:
        demands = demanded(jobs, scheme.bound, scheme.share)
    grants, ends_ns, ending, *expected = np.zeros((6, processors + 1), dtype=np.int64)
    by_score = scheme.order.queue not in (allocation.ARRIVAL, allocation.DEMAND)
    uses_estimates = by_score or scheme.backfilling != allocation.NONE
    estimates_ns = ones[:0]
    if uses_estimates:
        true = scheme.estimate == predictions.PERFECT
        estimates_ns = jobs.times_ns(jobs.max_processes) if true else jobs.estimates_ns()
    history = History(*np.zeros((4, 0), dtype=np.int64))
    if uses_estimates and scheme.estimate == predictions.LAST_TWO:
        names = [submitter.user for submitter in jobs.submitters] or [""] * n
        numbers = {name: number for number, name in enumerate(sorted({*names} - {""}))}
        user = np.array([numbers.get(name, -1) for name in names], dtype=np.int64)
        history = History(estimates_ns.copy(), user, *np.full((2, len(numbers)), -1))
    now.steps = now.settled = 1
    plan = Reservations(*np.zeros((3, 0), dtype=np.int64))
    if scheme.backfilling == allocation.CONSERVATIVE:
        plan = conservative.reservations(n, processors)
    dynamic = scheme.order.queue in allocation.DYNAMIC
    blocks = Blocks(*np.zeros((6, 0), dtype=np.int64))
    shares = dyn_equi.shares(0, 0)
    if scheme.kind == ON_BLOCKS:
        blocks = buddy.blocks(jobs, processors)
    elif scheme.kind == MALLEABLE:
        shares = dyn_equi.shares(n, processors)
    return Case(
        scheme,
        allocation.Rule(scheme.rule, scheme.limit, processors),
        n if watched is None else watched,
        watched is not None,
        now,
        jobs.columns,
        demands,
        arrivals(jobs),
        none if dynamic else queue.keys(jobs, scheme.order.queue),
        np.zeros(n if dynamic else 0),
        np.zeros(n, dtype=np.int64),
        grants,
        ends_ns,
        ending,
        Expected(estimates_ns, *expected),
        history,
        plan,
        blocks,
        shares,
        Times.unknown(n),
        np.zeros(n, dtype=np.int64),
        np.full(n, -1),
    )


@step
def _depart(case: Case) -> None:
    """Let the jobs go that end now."""
    now = case.now[0]
    while now.running > 0 and case.ends_ns[0] == now.time_ns:
        job = case.ending[0]
        pop(case.ends_ns, case.ending, now.running)
        now.running -= 1
        now.free += case.size[job]
        now.total -= case.demands.weights[job]
        now.unfinished -= job < case.watched
        case.times.finish_ns[job] = now.time_ns
        follow(case.arrivals, job, now.time_ns)
        if case.scheme.kind == ON_BLOCKS:
            buddy.leave(case, job)
        elif case.scheme.kind == MALLEABLE:
            dyn_equi.leave(case, job)
        elif case.scheme.backfilling != allocation.NONE:
            end_ns = running.forget(case, job)
            if case.scheme.backfilling == allocation.CONSERVATIVE:
                conservative.give_back(case, case.size[job], end_ns)
        if len(case.history.user) > 0:
            running.learn(case, job)


@step
def _arrive(case: Case) -> bool:
    """Let the jobs come that arrive now; False if that stops the simulation."""
    now = case.now[0]
    job = arriving(case.arrivals, now.time_ns)
    while job >= 0:
        if case.until_last and job == len(case.size) - 1:
            return False
        now.total += case.demands.weights[job]
        if len(case.history.user) > 0:
            running.predict(case, job)
        if case.scheme.kind == ON_BLOCKS:
            buddy.enter(case, job)
        else:
            queue.enter(case, job)
        job = arriving(case.arrivals, now.time_ns)
    return True


@step
def _correct(case: Case) -> None:
    """Lengthen the predictions that running jobs have outlived."""
    job = running.correct(case)
    while job >= 0:
        if case.scheme.backfilling == allocation.CONSERVATIVE:
            conservative.hold_on(case, job)
        job = running.correct(case)


@entry
def _run(case: Case, ended: Integers) -> bool:
    """The loop; ``case`` is modified in place. Returns whether the simulation saturated."""
    now = case.now[0]
    correcting = len(case.history.user) > 0 and case.scheme.backfilling != allocation.NONE
    while now.unfinished > 0 and not ended[0]:
        time_ns = next_instant(case.ends_ns, now.running, case.arrivals)
        if correcting and now.first < now.last:
            time_ns = min(time_ns, running.next_correction(case))
        now.time_ns = time_ns
        if now.time_ns == NEVER_NS:
            break
        _depart(case)
        if not _arrive(case):
            return bool(now.unfinished > 0)
        if correcting:
            _correct(case)
        if case.scheme.kind == ON_BLOCKS:
            buddy.start_on_blocks(case)
        elif case.scheme.kind == MALLEABLE:
            dyn_equi.divide_anew(case)
        elif case.scheme.backfilling == allocation.CONSERVATIVE:
            conservative.start_reserved(case)
        else:
            queue.start_in_order(case)
    return False
