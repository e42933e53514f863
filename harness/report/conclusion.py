"""What three ways to share the processors cost, in three sentences that hold for whatever was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.analyse.columns import fixed, percent
from harness.analyse.rows import Row
from harness.analyse.statistics import Estimate, apart
from workloads.work import processes_name

WAYS = {"none": "at the same time", "gang": "taking turns", "implicit": "waiting politely"}
"""The policies that the sentences are about, and what the jobs do under them."""

CHANCE = ", a difference that chance may have made"


def sentences(rows: Sequence[Row]) -> list[str]:
    """Three sentences: the jobs at the same time, what turns and polite waiting change, the simulator."""
    known = {row.scheduler["policy"]: row for row in reversed(rows) if row.scheduler["policy"] in WAYS}
    return [_together(known["none"]), _remedies(known), _simulated([known[policy] for policy in WAYS])]


def _together(row: Row) -> str:
    found, jobs = _measured(row), len(row.jobs)
    what = f"{jobs} jobs of {processes_name(row.jobs[0].work.processes)} each at the same time"
    if found.median is None:
        return f"How long {what} take is not known: no run succeeded."
    sure = found.ci95 and not found.ci95[0] <= 1.0 <= found.ci95[1]
    return f"{what} took {_times(found)} times as long as one after the other{'' if sure else CHANCE}."


def _remedies(known: Mapping[str, Row]) -> str:
    together = _measured(known["none"])
    turns, waiting = (_against(WAYS[one], _measured(known[one]), together) for one in ("gang", "implicit"))
    return f"{turns[0].upper()}{turns[1:]}; {waiting}."


def _against(way: str, found: Estimate, together: Estimate) -> str:
    if found.median is None:
        return f"{way} is not known: no run succeeded"
    said = f"{way} took {_times(found)}"
    if together.median is None:
        return said
    if not apart(found, together):
        return said + CHANCE
    return said + (", which is faster" if found.median < together.median else ", which is slower")


def _simulated(rows: Sequence[Row]) -> str:
    said = [
        f"{fixed(row.median('simulated'))} {WAYS[row.scheduler['policy']]}"
        for row in rows
        if row.median("simulated")
    ]
    if not said:
        return "The simulator says nothing: no simulation succeeded."
    errors = [abs(row.error) for row in rows if row.error is not None]
    off = (
        f": at most {percent(max(errors), 0)} % off"
        if errors
        else ", and there is nothing to compare it with"
    )
    return f"The simulator says {', '.join(said)}{off}."


def _measured(row: Row) -> Estimate:
    return row.measured.workload_slowdown if row.measured else Estimate(None, None, 0)


def _times(found: Estimate) -> str:
    """A slowdown with its interval of 95 %, or with what there is instead."""
    if found.ci95:
        return f"{fixed(found.median)} ({fixed(found.ci95[0])} to {fixed(found.ci95[1])})"
    return f"{fixed(found.median)} ({'one repeat' if found.n == 1 else f'the median of {found.n} repeats'})"
