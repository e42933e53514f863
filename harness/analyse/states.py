"""The time of commands' ranks, split by what the kernel knows of them: running, ready, asleep.

Commands record no activities, so their processors' time has no breakdown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

STATES = ("running", "ready", "asleep")


@dataclass(frozen=True)
class States:
    """Shares of the ranks' time; those of STATES sum to 1.

    Attributes:
        running: on a processor: computing, or spinning in a wait, which the kernel cannot tell apart.
        ready: waiting for a processor that another process has.
        asleep: blocked in the kernel, or stopped in slots of other jobs.
        in_waits: in waits of MPI, in whatever state; None unless all ranks wait two-phase.
    """

    running: float
    ready: float
    asleep: float
    in_waits: float | None


def of_ranks(ranks: Iterable[Mapping[str, Any]]) -> States | None:
    """The states of all ranks together; None without commands, or if the kernel did not count for some rank.

    Several threads of a rank count as one: running as long as their sum, but at most all the time, and
    ready for the rest of it at most.
    """
    ranks = list(ranks)
    counts = [_counts(rank) for rank in ranks]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(ranks) or not any("running_ns" in rank for rank in ranks):
        return None
    whole_ns = sum(time_ns for time_ns, _, _ in known)
    running_ns = sum(min(ran_ns, time_ns) for time_ns, ran_ns, _ in known)
    ready_ns = sum(max(0, min(ready_ns, time_ns - ran_ns)) for time_ns, ran_ns, ready_ns in known)
    running, ready = running_ns / whole_ns, ready_ns / whole_ns
    return States(running, ready, max(0.0, 1.0 - running - ready), _in_waits(ranks))


def _counts(rank: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """How long the kernel counted for a rank, and how long it ran and was ready in that time."""
    if rank.get("looked_ns"):
        return rank["looked_ns"], rank["running_ns"], rank["ready_ns"]
    if "computing_ns" in rank and rank["finish_ns"] > rank["start_ns"]:
        return rank["finish_ns"] - rank["start_ns"], rank["cpu_ns"], rank["run_queue_ns"]
    return None


def _in_waits(ranks: Iterable[Mapping[str, Any]]) -> float | None:
    waited_ns = whole_ns = 0
    for rank in ranks:
        if "waits" not in rank:
            return None
        waited_ns += sum(wait["spun_ns"] + wait["blocked_ns"] for wait in rank["waits"].values())
        whole_ns += rank["finish_ns"] - rank["start_ns"]
    return min(1.0, waited_ns / whole_ns) if whole_ns else None
