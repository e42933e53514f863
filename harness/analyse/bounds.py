"""Bounds: what a run takes at least under any schedule, from the dedicated runs of its jobs.

A makespan below its bound cannot be. Then the dedicated runs were disturbed: they took longer than the jobs
take alone.
"""

from collections import defaultdict
from collections.abc import Sequence

from harness.analyse.breakdown import counts, total
from harness.store.records import RunRecord, alone_two_phase
from workloads.work import Command

IN_TURN = ("gang", "batch", "partitioned")
"""Policies under which a processor belongs to one job at a time, until its slot or the job ends."""

BUSY = 0.95  # a command whose ranks want a processor for at least this share of their time spins


def min_ns(run: RunRecord, alone: Sequence[RunRecord]) -> float | None:
    """The smallest makespan of the jobs of ``run``, of which ``alone`` are dedicated runs; None if unknown.

    Jobs that spin make progress only together: if they have their processors in turn, each processor is
    taken for the dedicated time of every job that is placed there. Under other policies they may compute
    while others wait, but never for less than they compute.
    """
    if _in_turn(run) and all(map(_spins, alone)):
        return _longest_ns(run, alone)
    computing = [_computing_ns(record) for record in alone]
    times_ns = [time_ns for time_ns in computing if time_ns is not None]
    return sum(times_ns) / len(run.processors) if len(times_ns) == len(computing) else None


def _in_turn(run: RunRecord) -> bool:
    """Whether no process runs but with all others of its job, and stays on its processor."""
    table = run.scheduler
    if table["policy"] not in IN_TURN or table.get("waiting", "spin") != "spin":
        return False
    alternates = any(table.get(key, "none") != "none" for key in ("fill", "share"))
    return table.get("synchronised", True) and not (alternates or table.get("migrate"))


def _longest_ns(run: RunRecord, alone: Sequence[RunRecord]) -> float:
    taken: dict[int, float] = defaultdict(float)
    for job, record in zip(run.jobs, alone, strict=True):
        for processor in set(job.placement):
            taken[processor] += record.makespan_ns or 0
    return max(taken.values(), default=0.0)


def _spins(alone: RunRecord) -> bool:
    """Whether a job spins for as long as it waits, and waits for nothing but its own processes."""
    work = alone.jobs[0].work
    if alone_two_phase(alone) or work.width > len(alone.processors) or work.malleable:
        return False
    if not isinstance(work, Command):
        return work.kind == "pattern"
    ranks = [count for count in map(counts, alone.ranks) if count is not None]
    whole_ns = sum(time_ns for time_ns, _, _ in ranks)
    wanted_ns = sum(min(time_ns, ran_ns + ready_ns) for time_ns, ran_ns, ready_ns in ranks)
    return len(ranks) == len(alone.ranks) > 0 and wanted_ns >= BUSY * whole_ns


def _computing_ns(alone: RunRecord) -> int | None:
    """The CPU time of a job without its waits: of a command in a run in which it blocks; or None."""
    if not alone.ranks:  # of a command that ran as it was started nothing is known
        return None
    computing_ns = total(rank.computing_ns for rank in alone.ranks)
    blocks = alone_two_phase(alone) or alone.jobs[0].work.waits == "two-phase"
    if computing_ns is None and blocks:
        return total(rank.running_ns for rank in alone.ranks)
    return computing_ns
