"""From records to rows: what each scheduler did to the jobs, over all repeats."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.workload import ParallelJob
from harness import breakdown
from harness.experiment import Cell, Experiment
from harness.jobs import described
from harness.records import (
    DEDICATED,
    POLICY,
    SIMULATED,
    SIMULATED_DEDICATED,
    RunRecord,
    between_nodes_ns,
    quantile,
    switch_summary,
)
from harness.statistics import bounded_slowdown, estimate, response_times

TAU_S = 1.0
"""Default bound of the bounded slowdown."""


@dataclass(frozen=True)
class _Repeat:
    """One successful run under a policy with the dedicated times of the same repeat, ns."""

    run: RunRecord
    makespan_ns: int
    responses_ns: tuple[int, ...]
    dedicated_ns: tuple[int, ...]

    @property
    def workload_slowdown(self) -> float:
        """Makespan over the sum of the dedicated times."""
        return self.makespan_ns / sum(self.dedicated_ns)

    @property
    def slowdowns(self) -> list[float]:
        """Response time over dedicated time, of each job."""
        pairs = zip(self.responses_ns, self.dedicated_ns, strict=True)
        return [response / alone for response, alone in pairs]

    def bounded(self, tau_s: float) -> list[float]:
        """Bounded slowdown of each job."""
        pairs = zip(self.responses_ns, self.dedicated_ns, strict=True)
        return [bounded_slowdown(response / 1e9, alone / 1e9, tau_s) for response, alone in pairs]


def rows(
    experiment: Experiment,
    records: Sequence[RunRecord],
    tau_s: float = TAU_S,
    cells: Sequence[Cell] | None = None,
) -> list[dict[str, Any]]:
    """One row per cell and scheduler, in the experiment's order (docs/formats.md).

    ``cells`` are by default those that are measured. Of several records of the same run the last
    that did not fail counts.
    """
    of_cell: dict[int, list[RunRecord]] = defaultdict(list)
    for record in records:
        of_cell[record.cell].append(record)
    return [
        _row(cell, scheduler.table, of_cell[cell.index], tau_s)
        for cell in (experiment.measured_cells if cells is None else cells)
        for scheduler in experiment.schedulers
    ]


def _row(cell: Cell, table: dict[str, Any], records: Sequence[RunRecord], tau_s: float) -> dict[str, Any]:
    jobs = cell.jobs()
    programs = [described(job.program) for job in jobs]
    row: dict[str, Any] = {"program": programs[0], "settings": dict(cell.settings), "scheduler": table}
    row["count"] = len(jobs)
    if any(program != programs[0] for program in programs):
        row["jobs"] = [
            {"arrival_s": job.arrival_s, "program": program}
            for job, program in zip(jobs, programs, strict=True)
        ]
    row["measured"] = _side(jobs, table, records, (DEDICATED, POLICY), tau_s)
    row["simulated"] = _side(jobs, table, records, (SIMULATED_DEDICATED, SIMULATED), tau_s)
    if row["simulated"] is None:
        row["measured"] = row["measured"] or _summary([], tau_s) | {"failures": 0}
    return row | {"error": _error(row["measured"], row["simulated"])}


def _side(
    jobs: Sequence[ParallelJob],
    table: Mapping[str, Any],
    records: Sequence[RunRecord],
    kinds: tuple[str, str],
    tau_s: float,
) -> dict[str, Any] | None:
    """The summary of the runs of two kinds, dedicated and under a policy; None without any."""
    ours = [record for record in records if record.kind == kinds[1] and record.scheduler == table]
    if not ours:
        return None
    alone = [record for record in records if record.kind == kinds[0]]
    failures = sum(1 for record in ours if record.makespan_ns is None)
    return _summary(_repeats(jobs, alone, ours), tau_s) | {"failures": failures}


def _error(measured: Mapping[str, Any] | None, simulated: Mapping[str, Any] | None) -> float | None:
    """Simulated over measured workload slowdown, minus 1; None if either is missing."""
    if measured is None or simulated is None:
        return None
    found, predicted = (side["workload_slowdown"]["median"] for side in (measured, simulated))
    return None if found is None or predicted is None else predicted / found - 1.0


def _repeats(
    jobs: Sequence[ParallelJob], dedicated: Sequence[RunRecord], ours: Sequence[RunRecord]
) -> list[_Repeat]:
    """The successful runs for which every job's dedicated time of the same repeat is known."""
    alone = {
        (record.repeat, _name(record.jobs[0].program)): record.makespan_ns
        for record in dedicated
        if record.makespan_ns is not None
    }
    found = []
    for repeat, record in {
        record.repeat: record for record in ours if record.makespan_ns is not None
    }.items():
        times = [alone.get((repeat, _name(described(job.program)))) for job in jobs]
        known = tuple(time for time in times if time is not None)
        responses = tuple(job.response_ns for job in record.jobs if job.response_ns is not None)
        if len(known) == len(responses) == len(jobs) and record.makespan_ns is not None:
            found.append(_Repeat(record, record.makespan_ns, responses, known))
    return found


def _name(program: Mapping[str, Any]) -> tuple[Any, ...]:
    # Stored tuples come back as lists.
    return tuple(sorted((key, tuple(v) if isinstance(v, list) else v) for key, v in program.items()))


def _summary(repeats: Sequence[_Repeat], tau_s: float) -> dict[str, Any]:
    if not repeats:
        unknown = ("slowdown", "breakdown", "makespan_s", "dedicated_s", "switches", "waits", "responses")
        nothing = dict.fromkeys(unknown)
        return {"workload_slowdown": {"median": None, "ci95": None, "n": 0}} | nothing
    return {
        "workload_slowdown": dataclasses.asdict(estimate([one.workload_slowdown for one in repeats])),
        "slowdown": {
            "mean": statistics.median(statistics.fmean(one.slowdowns) for one in repeats),
            "max": statistics.median(max(one.slowdowns) for one in repeats),
            "bounded_mean": statistics.median(statistics.fmean(one.bounded(tau_s)) for one in repeats),
            "bounded_max": statistics.median(max(one.bounded(tau_s)) for one in repeats),
            "tau_s": tau_s,
        },
        "breakdown": _breakdown(repeats),
        "makespan_s": statistics.median(one.makespan_ns for one in repeats) / 1e9,
        "dedicated_s": statistics.median(sum(one.dedicated_ns) for one in repeats) / 1e9,
        "switches": _switches([one.run for one in repeats]),
        "waits": {kind: _waits([one.run for one in repeats], kind) for kind in ("barrier", "read")},
        "responses": _responses([one.run for one in repeats]),
    }


def _breakdown(repeats: Sequence[_Repeat]) -> dict[str, Any] | None:
    """The mean over the repeats; None where some program has recorded nothing."""
    parts = [
        breakdown.of_run(
            one.run.ranks, one.run.processors, one.makespan_ns, one.run.constants.get("handoff_us", 0.0) * 1e3
        )
        for one in repeats
    ]
    known = [part for part in parts if part is not None]
    return dataclasses.asdict(breakdown.mean(known)) if len(known) == len(parts) else None


def _responses(runs: Sequence[RunRecord]) -> dict[str, Any] | None:
    """Response times of the bursts of interactive jobs in all repeats; None without any."""
    ranks = [rank for run in runs for rank in run.ranks]
    return response_times([time_ns for rank in ranks for time_ns in rank.get("responses_ns", ())])


def _switches(runs: Sequence[RunRecord]) -> dict[str, Any] | None:
    """Lateness and skew of the changes of slot of all repeats together; None without any."""
    every = switch_summary([switch for run in runs for switch in run.switches])
    if every is None:
        return None
    return {
        "n": every.count,
        "mechanism": runs[-1].mechanism,
        "lateness_us": {"p50": every.lateness_p50_ns / 1e3, "p99": every.lateness_p99_ns / 1e3},
        "skew_us": {"p50": every.skew_p50_ns / 1e3, "p99": every.skew_p99_ns / 1e3},
    } | _between_nodes(runs)


def _between_nodes(runs: Sequence[RunRecord]) -> dict[str, Any]:
    """How far apart several nodes switched, and how far their clocks may have been wrong."""
    apart = sorted(time for run in runs for time in between_nodes_ns(run.switches))
    if not apart:
        return {}
    doubts = [node["uncertainty_ns"] for run in runs for node in run.conditions.get("nodes_after", ())]
    return {
        "between_nodes_us": {"p50": quantile(apart, 0.5) / 1e3, "p99": quantile(apart, 0.99) / 1e3},
        "clock_uncertainty_us": max(doubts, default=0) / 1e3,
    }


def _waits(runs: Sequence[RunRecord], kind: str) -> dict[str, Any]:
    """How many waits ended while spinning and how many after blocking, and their mean times."""
    waits = [rank["waits"][kind] for run in runs for rank in run.ranks if "waits" in rank]
    total = {key: sum(wait[key] for wait in waits) for key in ("spun", "blocked", "spun_ns", "blocked_ns")}
    return {
        "spun": total["spun"],
        "blocked": total["blocked"],
        "spun_mean_us": total["spun_ns"] / total["spun"] / 1e3 if total["spun"] else None,
        "blocked_mean_us": total["blocked_ns"] / total["blocked"] / 1e3 if total["blocked"] else None,
    }
