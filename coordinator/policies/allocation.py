"""The inner steps of space sharing: how many processors each waiting job gets when it starts.

Leaf functions over numbers and arrays: policies call them plain, the job-level simulator
compiles the same text, so they call no other functions. ``line`` has the waiting jobs in the order in which
they start, and ``grants[i]`` is the number of processors for ``line[i]``. ``bound`` and ``weight`` are what
is known of a job, as the bound and the share of its processors.
"""

from typing import Any, NamedTuple

FIXED, SHARE_FREE, TARGET_WAITING, TARGET_ALL, IN_PROPORTION, LEAST_SUM, LEAST_LONGEST = range(7)
"""Rules: see ``grant``, and ``divide`` for the last three."""


class Rule(NamedTuple):
    """How processors are divided among jobs that start."""

    kind: int
    """One of the rules."""
    limit: int
    """The most processors of a job that can run on fewer, for FIXED."""
    processors: int
    """All that the machine has."""


class Demands(NamedTuple):
    """What is known of each job; arrays that are indexed by job."""

    min_processes: Any
    """The fewest processors with which it starts."""
    max_processes: Any
    """The most that it is given."""
    weights: Any
    work_s: Any
    """phi W."""
    beta_s: Any


def grant(rule: Rule, free: int, total: int, line: Any, demands: Demands, grants: Any) -> int:
    """The number of waiting jobs that start now; ``grants`` is modified in place.

    No job overtakes another: jobs behind the first one that does not fit wait. A job gets
    between ``min_processes`` and ``max_processes`` processors, and within these bounds:

    * FIXED: up to the limit (SDF, SDF-Max, static equipartition, FCFS);
    * SHARE_FREE: the free processors divided as equally as possible (ASP);
    * TARGET_WAITING: up to all processors over the number of waiting jobs (AP1);
    * TARGET_ALL: up to its share of all processors, where ``total`` is the weight of all waiting and
      running jobs (AEP: all weights are 1);
    * the others: as many jobs as possible start. Together they get up to the same share, and ``divide``
      says how many each has of it.

    Targets are rounded up, so that equal parts leave no processor over while jobs wait.
    Source: Anastasiadis and Sevcik 1997, sections 3.2 and 3.3.
    """
    waiting = len(line)
    if waiting == 0 or free == 0:
        return 0
    one_by_one = rule.kind == SHARE_FREE or rule.kind >= IN_PROPORTION
    target = rule.limit
    if one_by_one:
        target = 1
    elif rule.kind == TARGET_WAITING:
        target = (rule.processors + waiting - 1) // waiting
    elif rule.kind == TARGET_ALL:
        target = (rule.processors + total - 1) // total
    started = 0
    granted = 0
    together = 0
    while started < waiting and free > 0:
        job = line[started]
        size = max(demands.min_processes[job], min(demands.max_processes[job], target, free))
        if size > free:
            break
        grants[started] = size
        granted += size
        together += demands.weights[job]
        free -= size
        started += 1
    if rule.kind >= IN_PROPORTION:
        # A whole number is not rounded up for its last bits.
        free = min(free, int(rule.processors * (together / total) + 1.0 - 1e-9) - granted)
    if one_by_one:
        size = 1
        while free > 0 and size > 0:
            size = 0
            for i in range(started):
                if free > 0 and grants[i] < demands.max_processes[line[i]]:
                    grants[i] += 1
                    free -= 1
                    size += 1
    return started


def divide(kind: int, started: int, line: Any, demands: Demands, grants: Any) -> None:
    """Divide the sum of ``grants`` again among the same jobs, by their weights.

    Each job has ``min_processes`` to ``max_processes`` processors. Of all whole numbers p with this sum
    and weights w:

    * IN_PROPORTION: these are nearest to shares in proportion to w. The sum of (p - share)^2 / w is least.
    * LEAST_SUM: the sum of w^2 / p is least. If w is the root of the work, this is the sum of the execution
      times at perfect speedup.
    * LEAST_LONGEST: the greatest w / p is least. If w is the work, this is the longest execution time.

    ``grants`` is modified in place.
    Source: methods of apportionment by divisors (Webster's, Hill's and Adams').
    """
    free = 0
    together = 0.0
    for i in range(started):
        job = line[i]
        free += grants[i] - demands.min_processes[job]
        together += demands.weights[job]
    # At once those that are worth together / free or more, at weight / (p + 1): not more than ``free`` are.
    each = free / together if started > 0 else 0.0
    for i in range(started):
        job = line[i]
        free += demands.min_processes[job]
        grants[i] = max(
            demands.min_processes[job], min(demands.max_processes[job], int(demands.weights[job] * each))
        )
        free -= grants[i]
    while free > 0:
        best = -1
        best_worth = 0.0
        for i in range(started):
            job = line[i]
            if grants[i] < demands.max_processes[job]:
                value = float(demands.weights[job])
                size = float(grants[i])
                worth = value / size
                if kind == IN_PROPORTION:
                    worth = value / (size + 0.5)
                elif kind == LEAST_SUM:
                    worth = value * value / (size * (size + 1.0))
                if worth > best_worth:
                    best = i
                    best_worth = worth
        if best < 0:
            break
        grants[best] += 1
        free -= 1


def differ(started: int, line: Any, demands: Demands, grants: Any) -> None:
    """Divide the sum of ``grants`` again among the same jobs, where it saves most time.

    Each job starts with ``min_processes``. One processor at a time goes to the job that saves most,
    T(p) - T(p + 1), the first of equals, and to none if none saves time.
    Alpha does not matter. ``grants`` is modified in place.
    Source: differential allocation, Anastasiadis and Sevcik 1997, section 3.4.
    """
    free = 0
    for i in range(started):
        min_processes = demands.min_processes[line[i]]
        free += grants[i] - min_processes
        grants[i] = min_processes
    while free > 0:
        best = -1
        best_s = 0.0
        for i in range(started):
            job = line[i]
            size = grants[i]
            if size < demands.max_processes[job]:
                saved_s = demands.work_s[job] / (size * (size + 1.0)) - demands.beta_s[job]
                if saved_s > best_s:
                    best = i
                    best_s = saved_s
        if best < 0:
            break
        grants[best] += 1
        free -= 1


def share(processors: int, jobs: int, max_processes: Any, parts: Any) -> None:
    """Divide ``processors`` among ``jobs`` as equally as possible; ``parts`` is modified in place.

    No job gets more than ``max_processes``; the first jobs get the remainder. If there are more jobs than
    processors, the last jobs get none.
    Source: dynamic equipartition, Anastasiadis and Sevcik 1997, section 3.1.
    """
    for i in range(jobs):
        parts[i] = 0
    open_jobs = jobs
    while processors > 0 and open_jobs > 0:
        each = max(1, processors // open_jobs)
        open_jobs = 0
        for i in range(jobs):
            if processors > 0 and parts[i] < max_processes[i]:
                more = min(each, max_processes[i] - parts[i], processors)
                parts[i] += more
                processors -= more
                if parts[i] < max_processes[i]:
                    open_jobs += 1


ARRIVAL, DEMAND, SJF, LJF, SMALLEST, WIDEST, F1, F2, F3, F4, WFP3, UNICEP, EXPANSION = range(13)
"""Orders of waiting jobs: by arrival, by their demand T(1), the smallest first, or by ``ordered.score``."""


DYNAMIC = (WFP3, UNICEP, EXPANSION)
"""Orders that change while jobs wait."""


class Order(NamedTuple):
    """In which order waiting jobs start, and whether ``differ`` divides what they get together."""

    queue: int
    differential: bool = False


ORDERS = (Order(ARRIVAL), Order(DEMAND), Order(DEMAND, differential=True))
"""By the parameter ``order`` of policies."""

NONE, EASY, CONSERVATIVE = range(3)
"""Kinds of backfilling; see :mod:`coordinator.policies.ordered`."""

LARGEST, AVERAGE, KNEE, DEVIATION = range(4)
"""Bounds: see ``bound``."""

EQUAL, BY_AVERAGE, BY_ROOT, BY_WORK = range(4)
"""Shares: see ``weight``."""


def bound(
    kind: int,
    min_processes: int,
    max_processes: int,
    average: float,
    work_s: float,
    alpha_s: float,
    beta_s: float,
) -> int:
    """The processors that a job is given at most, a whole number from ``min_processes`` to ``max_processes``.

    These two and ``average`` are its parallelism, and T(p) = work_s / p + alpha_s + beta_s p.

    * LARGEST: ``max_processes``.
    * AVERAGE: ``average``. Speedup and efficiency are then at least half of the best (Eager, Zahorjan,
      Lazowska 1989).
    * KNEE: the whole number with the greatest efficiency over execution time, so the least p T(p)^2; the
      processor working set (Ghosal, Serazzi, Tripathi 1991).
    * DEVIATION: ``average`` plus the standard deviation. The parallelism of a job that can use either 1
      or m = ``max_processes`` processors, and A = ``average`` on average, has the variance (m - A) (A - 1).
    """
    limit = float(max_processes)
    if kind == AVERAGE:
        limit = average
    elif kind == KNEE:
        # The derivative of p T(p)^2 is 0 where W = alpha p + 3 beta p^2, and only there.
        root = (alpha_s * alpha_s + 12.0 * beta_s * work_s) ** 0.5
        if (alpha_s + root) * max_processes > 2.0 * work_s:
            limit = max(1.0, float(int(2.0 * work_s / (alpha_s + root))))
            more = limit + 1.0
            time_s = work_s / limit + alpha_s + beta_s * limit
            more_s = work_s / more + alpha_s + beta_s * more
            if more * more_s * more_s < limit * time_s * time_s:
                limit = more
    elif kind == DEVIATION:
        limit = average + max(0.0, (max_processes - average) * (average - 1.0)) ** 0.5
    return max(min_processes, min(max_processes, int(limit + 0.5)))


def weight(kind: int, average: float, work_s: float) -> int:
    """The weight by which a job shares the processors with others, at least 1.

    * EQUAL: all weights are 1.
    * BY_AVERAGE: in proportion to ``average``, its average parallelism.
    * BY_ROOT: to the square root of its work. The sum of the execution times is then least if all jobs
      have perfect speedup.
    * BY_WORK: to its work. Execution times are then equal if all jobs have perfect speedup.
    """
    if kind == EQUAL:
        return 1
    value = average
    if kind == BY_ROOT:
        value = work_s**0.5
    elif kind == BY_WORK:
        value = work_s
    # Whole millionths: sums of whole numbers do not depend on the order in which jobs come and leave.
    return max(1, int(1e6 * min(value, 1e9) + 0.5))
