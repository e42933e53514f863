"""Doubt in numbers: what about the conditions or the results weakens them, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.naming import scheduler_name
from harness.records import DEDICATED, RunRecord

STEAL = 0.01
LOAD = 0.5
WIDE = 0.20
UNSTEADY = 0.10
FEW_SLOTS = 10
LATE = 0.10


def doubts(rows: Sequence[Mapping[str, Any]], records: Sequence[RunRecord]) -> list[str]:
    """Sentences, the gravest first; an empty list if there is nothing to say."""
    return [*_machine(records), *_dedicated(records), *_intervals(rows), *_slots(rows), *_wakeups(records)]


def _machine(records: Sequence[RunRecord]) -> list[str]:
    found = []
    stolen = [r.conditions["steal"] for r in records if r.conditions.get("steal", 0.0) > STEAL]
    if stolen:
        found.append(
            f"the hypervisor took more than {STEAL:.0%} of the processors' time in {len(stolen)} of "
            f"{len(records)} runs, up to {max(stolen):.1%}: repeat on a quieter host"
        )
    first: dict[str, RunRecord] = {}
    for record in records:
        first.setdefault(record.session, record)
    load = max((record.conditions.get("load_before", 0.0) for record in first.values()), default=0.0)
    if load > LOAD:
        found.append(f"other load at the start: a load average of {load:.1f}; repeat on an idle host")
    return found


def _dedicated(records: Sequence[RunRecord]) -> list[str]:
    """The same work alone on the same processors should always take the same time."""
    times: dict[tuple[int, int], list[int]] = {}
    for record in records:
        if record.kind == DEDICATED and record.makespan_ns is not None:
            times.setdefault((record.cell, record.jobs[0].job), []).append(record.makespan_ns)
    spread = max((max(alike) / min(alike) - 1 for alike in times.values()), default=0.0)
    if spread <= UNSTEADY:
        return []
    return [
        f"dedicated times of one program differ by up to {spread:.0%} between repeats: "
        "something else used the processors; repeat on an idle host"
    ]


def _intervals(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    wide: dict[str, float] = {}
    single = 0
    for row in rows:
        slowdown = row["measured"]["workload_slowdown"]
        single += slowdown["n"] == 1
        if slowdown["ci95"] is not None:
            low, high = slowdown["ci95"]
            width = (high - low) / slowdown["median"]
            if width > WIDE:
                name = scheduler_name(row["scheduler"])
                wide[name] = max(width, wide.get(name, 0.0))
    found = []
    if single:
        found.append(f"{single} rows rest on one repeat and have no interval: set repeats = 3 or more")
    if wide:
        names = ", ".join(f"{name} ({width:.0%})" for name, width in wide.items())
        found.append(f"intervals wider than {WIDE:.0%} of the median: {names}; more repeats with --resume")
    return found


def _slots(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for row in rows:
        switches, measured = row["measured"]["switches"], row["measured"]
        if switches is None:
            continue
        name = scheduler_name(row["scheduler"])
        per_run = switches["n"] / measured["workload_slowdown"]["n"]
        if per_run < FEW_SLOTS:
            found.append(
                f"{name}: {per_run:.0f} slots a run are few; longer programs (dedicated_s) average better"
            )
        quantum_us = row["scheduler"].get("quantum_ms", 0.0) * 1e3
        late_us = switches["lateness_us"]["p99"]
        if quantum_us and late_us > LATE * quantum_us:
            found.append(
                f"{name}: one slot in a hundred began {late_us / 1e3:.1f} ms late or later, "
                f"over {LATE:.0%} of its length"
            )
    return found


def _wakeups(records: Sequence[RunRecord]) -> list[str]:
    lost = sum(rank.get("rechecks", 0) for record in records for rank in record.ranks)
    if not lost:
        return []
    return [f"{lost} sleeps ended by the safety time-out with a message there: wake-ups were lost"]
