"""Rows as pandas frames of plain columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas

from harness.analyse.breakdown import PARTS
from harness.analyse.rows import Row, Summary
from harness.spec.naming import program_name, setting_names

VALUES = (
    "slowdown",
    "low",
    "high",
    "interval",
    "n",
    "job_mean",
    "job_max",
    "makespan_s",
    "dedicated_s",
    *PARTS,
    "error",
)
JOBS = ("job", "program", "arrival_s", "slowdown")


def of_rows(rows: Sequence[Row]) -> pandas.DataFrame:
    """A line for each row and side; its columns are described in ``lockstep.Results.rows``."""
    settings = _settings(rows)
    lines = [
        {
            **point,
            "workload": row.workload,
            "jobs": len(row.jobs),
            **_names(row, side),
            **_numbers(row, known),
        }
        for row, point in zip(rows, settings, strict=True)
        for side, known in row.sides.items()
    ]
    words = ("workload", "jobs", "scheduler", "policy", "blocking", "kind")
    return pandas.DataFrame(lines, columns=[*_keys(rows).values(), *words, *VALUES])


def of_jobs(rows: Sequence[Row]) -> pandas.DataFrame:
    """A line for each job in each row and side."""
    lines = [
        {**point, **_names(row, side), **job}
        for row, point in zip(rows, _settings(rows), strict=True)
        for side, known in row.sides.items()
        for job in _jobs(row, known)
    ]
    return pandas.DataFrame(
        lines, columns=[*_keys(rows).values(), "scheduler", "policy", "blocking", "kind", *JOBS]
    )


def _keys(rows: Sequence[Row]) -> dict[str, str]:
    return setting_names(dict.fromkeys(key for row in rows for key in row.settings))


def _settings(rows: Sequence[Row]) -> list[dict[str, Any]]:
    keys = _keys(rows)
    return [{name: row.settings.get(key) for key, name in keys.items()} for row in rows]


def _names(row: Row, side: str) -> dict[str, Any]:
    table = row.scheduler
    return {"scheduler": row.name, "policy": table["policy"], "blocking": table["blocking"], "kind": side}


def _numbers(row: Row, known: Summary) -> dict[str, Any]:
    slowdown, jobs = known.workload_slowdown, known.slowdown
    low, high = slowdown.ends or (None, None)
    return {
        **{"slowdown": slowdown.median, "low": low, "high": high, "interval": slowdown.kind, "n": slowdown.n},
        **{"job_mean": jobs and jobs.mean, "job_max": jobs and jobs.max},
        **{"makespan_s": known.makespan_s, "dedicated_s": known.dedicated_s},
        **{part: getattr(known.breakdown, part, None) for part in PARTS},
        "error": row.error if known is row.simulated else None,
    }


def _jobs(row: Row, known: Summary) -> Iterator[dict[str, Any]]:
    slowdowns = known.slowdown.per_job if known.slowdown else [None] * len(row.jobs)
    for number, (job, slowdown) in enumerate(zip(row.jobs, slowdowns, strict=True)):
        program = program_name(job.program)
        yield {"job": number, "program": program, "arrival_s": job.arrival_s, "slowdown": slowdown}
