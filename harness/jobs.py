"""The jobs of an experiment: what the [[jobs]] tables say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.tables import as_table, build
from workloads.program import Program
from workloads.validation import InputError, number, whole


@dataclass(frozen=True)
class JobGroup:
    """``count`` jobs alike: their program and time of arrival."""

    program: Program
    count: int = 1
    arrival_s: float = 0.0

    def __post_init__(self) -> None:
        whole("count", self.count, least=1)
        number("arrival_s", self.arrival_s, least=0)


def job_group(job: Any, key: str, swept: Mapping[str, Any]) -> JobGroup:
    """The jobs that a [[jobs]] table describes; ``swept`` are fields of its program that a sweep sets.

    Raises:
        InputError: below ``key``, for whatever is wrong with it.
    """
    job = as_table(job, key)
    if "program" not in job:
        remedy = 'write program = { pattern = "NEWS", processes = 2, dedicated_s = 2.0 }'
        raise InputError(f"{key}.program", None, "every [[jobs]] table needs a program", remedy)
    program = build(Program, {**as_table(job["program"], f"{key}.program"), **swept}, f"{key}.program")
    return build(JobGroup, {**job, "program": program}, key)
