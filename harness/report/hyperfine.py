"""The times of commands in the form of hyperfine's ``--export-json``, which other tools read."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from harness.measure.plan import label
from harness.store.records import DEDICATED, MEASURED_KINDS, RunRecord


def exported(records: Iterable[RunRecord]) -> str:
    """A result for each program alone, one if it is also recorded, and one for all under each scheduler.

    ``times`` are seconds from the first arrival to the last finish. ``user`` is the processor time of all
    processes, in user mode or in the kernel, which the kernel counts together; ``system`` is 0.
    """
    runs: dict[str, list[RunRecord]] = {}
    for record in records:
        if record.kind in MEASURED_KINDS and record.makespan_ns is not None:
            runs.setdefault(_command(record), []).append(record)
    return json.dumps({"results": [_result(name, found) for name, found in runs.items()]}, indent=2) + "\n"


def _command(record: RunRecord) -> str:
    programs = " ::: ".join(shlex.join(job.program["argv"]) for job in record.jobs)
    return (
        programs if record.kind == DEDICATED else f"{programs} ({label(record.kind, record.scheduler, {})})"
    )


def _result(command: str, runs: Sequence[RunRecord]) -> dict[str, Any]:
    times = [run.makespan_ns / 1e9 for run in runs if run.makespan_ns is not None]
    used = [sum(rank.get("running_ns", 0) for rank in run.ranks) / 1e9 for run in runs]
    return {
        "command": command,
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": statistics.fmean(used),
        "system": 0.0,
        "min": min(times),
        "max": max(times),
        "times": times,
        "exit_codes": [0] * len(times),
    }
