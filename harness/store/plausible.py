"""What a record must be for a run, or a calibration, to have made it: readers of stores rely on it."""

import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from coordinator.workload import NodeResult
from harness.spec.jobs import rebuilt
from harness.store.records import (
    ALONE_KINDS,
    BY_JOB,
    KINDS,
    WITH_SCHEDULES,
    Calibration,
    JobRecord,
    RunRecord,
)
from workloads.patterns import BULK_SYNCHRONOUS
from workloads.program import Program
from workloads.work import Work

LEFT_OUT = ("ranks", "jobs", "switches")
"""Fields that are not checked by their types: ranks check themselves, and the others one by one."""


def check_run(record: RunRecord) -> None:
    """Raise ValueError, with the reason in words, for a record that no run can have made."""
    _check_fields(record)
    for place, node in enumerate(record.conditions.nodes_after):
        _check_values(f"conditions.nodes_after[{place}].", NodeResult, node)
    _require(record.kind in KINDS, "kind", record.kind)
    if record.kind == BY_JOB or record.schedule:
        _require(record.kind in WITH_SCHEDULES and record.schedule is not None, "schedule", record.schedule)
    for name in ("cell", "repeat", "wall_s"):
        _require(getattr(record, name) >= 0, name, getattr(record, name))
    processors = record.processors
    good = len({*processors}) == len(processors) and all(one >= 0 for one in processors)
    _require(good and (bool(processors) or not record.jobs), "processors", processors)
    if record.kind in ALONE_KINDS:
        _require(len(record.jobs) == 1, "number of jobs", len(record.jobs))
    works = {}
    for job in record.jobs:
        _check_fields(job)
        works[job.job] = _work(json.dumps(job.program))
        _check_job(job, len(processors))
    numbers_of_switches = {type(value) for switch in record.switches for value in vars(switch).values()}
    _require(numbers_of_switches <= {int}, "switches", record.switches)
    numbers = {job.job for job in record.jobs}
    for rank in record.ranks:
        _require(rank.job in numbers, "job of a rank", rank.job)
        # Of other programs' ranks the processor at the end is known, wherever that is.
        ours = rank.computing_ns is not None
        _require(not ours or rank.processor in processors, "processor of a rank", rank.processor)
    _check_clocks(record, works)


@lru_cache(maxsize=1000)
def _work(table: str) -> Work:
    return rebuilt(json.loads(table))


def _check_clocks(record: RunRecord, works: Mapping[int, Work]) -> None:
    """Ranks that meet at barriers all start before any of them ends, as far as the hosts' clocks agree."""
    nodes = record.conditions.nodes_after
    if any(node.get("steps", 0) for node in nodes):
        return  # a clock has jumped
    slack_ns = 2 * max((node.get("uncertainty_ns", 0) for node in nodes), default=0)
    ends_ns: dict[int, int] = {}
    meeting = [rank for rank in record.ranks if rank.phases and _meet(works[rank.job])]
    for rank in meeting:
        ends_ns[rank.job] = min(rank.finish_ns, ends_ns.get(rank.job, rank.finish_ns))
    for rank in meeting:
        name = "start_ns of a rank, for which the others of its job wait"
        _require(rank.start_ns <= ends_ns[rank.job] + slack_ns, name, rank.start_ns)


def _meet(work: Work) -> bool:
    """Whether the ranks of a job meet at barriers, all of them."""
    return isinstance(work, Program) and work.pattern in BULK_SYNCHRONOUS and work.barriers_per_phase > 0


def _check_job(job: JobRecord, processors: int) -> None:
    _require(job.processes >= 0, "processes", job.processes)
    _require(all(0 <= one < processors for one in job.placement), "placement", job.placement)
    _require(job.arrival_ns >= 0, "arrival_ns", job.arrival_ns)
    if job.finish_ns is None:
        return
    _require(job.finish_ns > job.arrival_ns, "finish_ns", job.finish_ns)
    for name in ("admitted_ns", "start_ns"):
        time_ns = getattr(job, name)
        _require(time_ns is None or time_ns <= job.finish_ns, name, time_ns)


def check_calibration(one: Calibration) -> None:
    """Raise ValueError for a calibration that no probe can have made."""
    _check_fields(one)
    name, *of = one.quantity.split(" ")
    times = [float(words) for words in of if name.endswith("_after_idle_ns")]
    _require(all(map(math.isfinite, times)) and len(of) <= 1, "quantity", one.quantity)
    _require(len(one.samples) > 0, "samples", one.samples)
    _require(name != "migration_ns" or one.working_set_bytes >= 1, "working_set_bytes", one.working_set_bytes)
    _require(datetime.fromisoformat(one.recorded_at).tzinfo is not None, "recorded_at", one.recorded_at)


def _require(holds: bool, name: str, value: Any) -> None:
    if not holds:
        text = repr(value)
        raise ValueError(f"no run has {text if len(text) < 40 else f'{text[:40]}...'} as {name}")


def _check_fields(record: Any, within: str = "") -> None:
    values = {name: getattr(record, name) for name in _hints(record.__class__) if name not in LEFT_OUT}
    _check_values(within, type(record), values)


def _check_values(within: str, kind: Any, values: Mapping[str, Any]) -> None:
    """Refuse values that are none of the declared types of ``kind``, by the names of its fields."""
    hints = _hints(kind)
    for name, value in values.items():
        if is_dataclass(value):
            _check_fields(value, f"{within}{name}.")
        elif name in hints:
            _require(_is(value, hints[name]), f"{within}{name}", value)


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _is(value: Any, hint: Any) -> bool:
    """Whether a value from JSON is one of a declared type; numbers are finite, and fit a store."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_is(value, one) for one in arguments)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_is(one, arguments[1]) for one in value.values())
    if origin in (Sequence, tuple):
        return isinstance(value, list | tuple) and all(_is(one, arguments[0]) for one in value)
    if hint in (int, float):
        kinds = (int,) if hint is int else (int, float)
        return type(value) in kinds and abs(value) < 2**63
    return hint is Any or isinstance(value, hint)
