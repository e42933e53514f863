"""Doubts: weaknesses of conditions and results, in numbers, with remedies."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from harness.analyse.rows import Row
from harness.analyse.statistics import estimate
from harness.store.conditions import Moment, of_run
from harness.store.records import DEDICATED, Calibration, RunRecord, quantile

STEAL = 0.01
LOAD = 0.5
OTHERS = 0.05
WIDE = 0.20
UNSTEADY = 0.10
FEW_SLOTS = 10
LATE = 0.10
DETOURS = 0.02
SPREAD = 3
FREQUENCY = 0.05
MESSAGES = ("latency_ns", "switch_ns", "handoff_ns", "wakeup_ns", "send_ns", "receive_ns")
"""Quantities whose samples should be similar."""


def doubts(rows: Sequence[Row], records: Sequence[RunRecord]) -> list[str]:
    """The doubts as sentences, the gravest first."""
    return [*_machine(records), *_dedicated(records), *_intervals(rows), *_slots(rows), *_wakeups(records)]


def of_calibration(before: Moment, after: Moment, found: Iterable[Calibration]) -> list[str]:
    """Disturbances of a calibration between two moments, as sentences with remedies."""
    said = _host(before, after)
    samples: dict[str, list[float]] = {}
    for one in found:
        samples.setdefault(one.quantity, []).extend(one.samples)
    if "detour_gap_ns" in samples:
        lost = statistics.fmean(samples["detour_ns"]) / statistics.fmean(samples["detour_gap_ns"])
        if lost > DETOURS:
            said.append(f"other programs took {lost:.1%} of the processors' time: end them, and repeat")
    unsteady = [
        f"{name.replace('_ns', '')} ({spread:.1f}x)"
        for name in MESSAGES
        if (spread := _spread(samples.get(name, []))) > SPREAD
    ]
    if unsteady:
        said.append(
            f"a tenth of the samples is at least {SPREAD} times the median: {', '.join(unsteady)}; "
            "the medians are valid, but on an idle host the tails are shorter"
        )
    return said


def of_waits(before: Moment, after: Moment, *, complete: bool) -> list[str]:
    """Disturbances of programs that ran between two moments, with remedies.

    Unless all ran to their end (``complete``), their processor time cannot be told from other programs' time.
    """
    others = (of_run({}, before, after)["others"] or 0.0) if complete else 0.0
    took = f"other programs took {others:.0%} of the processors' time: end them, and repeat"
    return [*_host(before, after), *([took] if others > OTHERS else [])]


def _host(before: Moment, after: Moment) -> list[str]:
    said = []
    steal = (after.steal_s - before.steal_s) / max(after.total_s - before.total_s, 1e-9)
    if steal > STEAL:
        said.append(f"the hypervisor took {steal:.1%} of the processors' time: repeat on a quieter host")
    if before.load > LOAD:
        said.append(f"a load average of {before.load:.1f} at the start: repeat on an idle host")
    first_mhz, last_mhz = before.frequency_mhz, after.frequency_mhz
    if first_mhz and last_mhz and max(first_mhz, last_mhz) > (1 + FREQUENCY) * min(first_mhz, last_mhz):
        said.append(
            f"the processors' frequency changed from {first_mhz:.0f} to {last_mhz:.0f} MHz: "
            "fix it (cpupower frequency-set -g performance), and repeat"
        )
    return said


def _spread(samples: Sequence[float]) -> float:
    """The 90th percentile over the median."""
    if not samples:
        return 1.0
    ordered = sorted(samples)
    return quantile(ordered, 0.9) / max(quantile(ordered, 0.5), 1.0)


def _machine(records: Sequence[RunRecord]) -> list[str]:
    found = []
    stolen = [r.conditions["steal"] for r in records if r.conditions.get("steal", 0.0) > STEAL]
    if stolen:
        found.append(
            f"the hypervisor took more than {STEAL:.0%} of the processors' time in {len(stolen)} of "
            f"{len(records)} runs, up to {max(stolen):.1%}: repeat on a quieter host"
        )
    shares = [r.conditions["others"] for r in records if (r.conditions.get("others") or 0.0) > OTHERS]
    if shares:
        found.append(
            f"other programs took more than {OTHERS:.0%} of the processors' time in {len(shares)} of "
            f"{len(records)} runs, up to {max(shares):.0%}: end them, and repeat"
        )
    warned = [r.conditions["warnings"][0] for r in records if r.conditions.get("warnings")]
    if warned:
        found.append(f"{len(warned)} of {len(records)} runs have warnings; the first: {warned[0]}")
    first: dict[str, RunRecord] = {}
    for record in records:
        first.setdefault(record.session, record)
    load = max((record.conditions.get("load_before", 0.0) for record in first.values()), default=0.0)
    if load > LOAD:
        found.append(f"a load average of {load:.1f} at the start: repeat on an idle host")
    return found


def _dedicated(records: Sequence[RunRecord]) -> list[str]:
    """Dedicated runs of one program on the same processors should always take the same time."""
    times: dict[tuple[int, int, str], list[int]] = {}
    for record in records:
        if record.kind == DEDICATED and record.makespan_ns is not None:
            alike = record.cell, record.jobs[0].job, record.scheduler["blocking"]
            times.setdefault(alike, []).append(record.makespan_ns)
    spread = max((max(series) / min(series) - 1 for series in times.values()), default=0.0)
    if spread <= UNSTEADY:
        return []
    return [
        f"dedicated times of one program differ by up to {spread:.0%} between repeats: "
        "something else used the processors; repeat on an idle host"
    ]


def _intervals(rows: Sequence[Row]) -> list[str]:
    wide: dict[str, float] = {}
    single = 0
    for row in rows:
        slowdown = row.measured.workload_slowdown if row.measured else estimate([])
        single += slowdown.n == 1
        if slowdown.ci95 is not None and slowdown.median is not None:
            low, high = slowdown.ci95
            width = (high - low) / slowdown.median
            if width > WIDE:
                wide[row.name] = max(width, wide.get(row.name, 0.0))
    found = []
    if single:
        found.append(
            f"{single} of {len(rows)} rows have no interval, with one repeat each: set repeats = 3 or more"
        )
    if wide:
        names = ", ".join(f"{name} ({width:.0%})" for name, width in wide.items())
        found.append(f"intervals are wider than {WIDE:.0%} of the median: {names}; add repeats with --resume")
    return found


def _slots(rows: Sequence[Row]) -> list[str]:
    found = []
    for row in rows:
        if row.measured is None or row.measured.switches is None:
            continue
        switches = row.measured.switches
        per_run = switches.n / row.measured.workload_slowdown.n
        if per_run < FEW_SLOTS:
            found.append(
                f"{row.name}: only {per_run:.0f} slots in each run; use longer programs (dedicated_s)"
            )
        quantum_us = row.scheduler.get("quantum_ms", 0.0) * 1e3
        late_us = switches.lateness_us.p99
        if quantum_us and late_us > LATE * quantum_us:
            found.append(
                f"{row.name}: one slot in a hundred began at least {late_us / 1e3:.1f} ms late, "
                f"more than {LATE:.0%} of its length"
            )
    return found


def _wakeups(records: Sequence[RunRecord]) -> list[str]:
    ranks = (rank for record in records for rank in record.ranks)
    # In the programs of others MPI moves some messages on without ringing: naps there find what is not lost.
    lost = sum(rank.get("rechecks", 0) for rank in ranks if "asleep_ns" not in rank)
    if not lost:
        return []
    return [f"wake-ups were lost: {lost} sleeps ended by the safety time-out although a message was there"]
