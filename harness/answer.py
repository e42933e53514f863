"""One document with everything that records say about an experiment (docs/formats.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness import summary
from harness.agreement import agreement
from harness.doubts import doubts
from harness.experiment import Experiment
from harness.plan import label
from harness.records import MEASURED_KINDS, RunRecord

SCHEMA = 1
"""Of the document."""

MACHINE = ("host", "kernel", "cpu_model", "cores", "processors", "launcher")

CONSTANTS = ("switch_us", "handoff_us", "latency_us", "detour_gap_us", "detour_length_us")


def document(
    experiment: Experiment, records: Sequence[RunRecord], tau_s: float, session: str | None = None
) -> dict[str, Any]:
    """Rows, failures and doubts of at least one record.

    ``session`` tells whose failures are listed; by default those of the last record's.
    """
    rows = summary.rows(experiment, records, tau_s)
    measured = [record for record in records if record.kind in MEASURED_KINDS]
    last = (measured or records)[-1]
    session = session or last.session
    machine: dict[str, Any] = {key: last.conditions.get(key) for key in MACHINE}
    machine |= {key: last.constants[key] for key in CONSTANTS if key in last.constants}
    return {
        "schema": SCHEMA,
        "experiment": experiment.name,
        "digest": last.digest,
        "session": session,
        "machine": machine,
        "rows": rows,
        "agreement": agreement(rows),
        "failures": _failures(records, session),
        "doubts": doubts(rows, measured),
    }


def _failures(records: Sequence[RunRecord], session: str) -> list[str]:
    labels = [(label(r.kind, r.scheduler, r.settings), r) for r in records if r.session == session]
    return [f"{what}, repeat {r.repeat + 1}: {r.failure}" for what, r in labels if r.failure]
