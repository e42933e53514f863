"""What three ways to share the processors cost, in three sentences that hold for whatever was measured."""

from __future__ import annotations

from collections.abc import Sequence

from harness.analyse.columns import fixed, percent
from harness.analyse.rows import Row
from harness.analyse.statistics import Estimate, apart
from workloads.work import processes_name

WAYS = {"none": "at the same time", "gang": "taking turns", "implicit": "waiting politely"}
"""The policies that the sentences are about, and what the jobs do under them."""

CHANCE = ", a difference that chance may have made"
NO_ERROR = ", and there is nothing to compare it with"
UNKNOWN = "not known: no run succeeded"


def sentences(rows: Sequence[Row]) -> list[str]:
    """Three sentences: the jobs at the same time, what turns and polite waiting change, the simulator."""
    known = {row.scheduler["policy"]: row for row in reversed(rows)}
    ways = {way: known[policy] for policy, way in WAYS.items()}
    together, *others = (
        row.measured.workload_slowdown if row.measured else Estimate(None, None, 0) for row in ways.values()
    )
    jobs = known["none"].jobs
    what = f"{len(jobs)} jobs of {processes_name(jobs[0].work.processes)} each {WAYS['none']}"
    first = f"How long {what} take is {UNKNOWN}."
    if together.median is not None:
        chance = "" if together.ci95 and not together.ci95[0] <= 1.0 <= together.ci95[1] else CHANCE
        first = f"{what} took {_times(together)} times as long as one after the other{chance}."
    second = "; ".join(map(_against, [*WAYS.values()][1:], others, [together, together]))
    medians = {way: median for way, row in ways.items() if (median := row.median("simulated"))}
    said = ", ".join(f"{fixed(median)} {way}" for way, median in medians.items())
    errors = [abs(row.error) for row in ways.values() if row.error is not None]
    off = f": at most {percent(max(errors), 0)} % off" if errors else NO_ERROR
    third = said + off if said else "nothing: no simulation succeeded"
    return [first, f"{second[0].upper()}{second[1:]}.", f"The simulator says {third}."]


def _against(way: str, found: Estimate, together: Estimate) -> str:
    if found.median is None:
        return f"{way} is {UNKNOWN}"
    change = ""
    if together.median is not None:
        faster = ", which is faster" if found.median < together.median else ", which is slower"
        change = faster if apart(found, together) else CHANCE
    return f"{way} took {_times(found)}{change}"


def _times(found: Estimate) -> str:
    """A slowdown with its interval of 95 %, or with what there is instead."""
    if found.ci95:
        return f"{fixed(found.median)} ({fixed(found.ci95[0])} to {fixed(found.ci95[1])})"
    return f"{fixed(found.median)} ({'one repeat' if found.n == 1 else f'the median of {found.n} repeats'})"
