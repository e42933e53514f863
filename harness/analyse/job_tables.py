"""Jobs of a log under several policies: when which one ran, and policy against policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.analyse import comparison
from harness.analyse.comparison import Comparison
from harness.analyse.rows import Row, place_name
from harness.simulator.jobs import kept_outcome
from harness.simulator.jobs.metrics import measure
from harness.simulator.jobs.model import Floats, JobLevelOutcome
from harness.store.records import Schedule

SOONER_S = 0.5  # waits that differ by less count as the same: logs have whole seconds

OF_TIMES = ("response_s", "wait_s", "slowdown", "bounded_slowdown")
"""Means that the times of jobs decide, by which an outcome belongs to its schedule."""


@dataclass(frozen=True)
class PolicyComparison:
    """A policy against another one on the same jobs."""

    name: str
    sooner: float  # share of the jobs that start at least SOONER_S sooner
    later: float  # share that start at least so much later
    wait_s: float  # mean wait of the jobs, minus that before
    slowdowns: Comparison


class Timed(NamedTuple):
    """A row for which it is known when which job ran."""

    row: Row
    schedule: Schedule
    outcome: JobLevelOutcome

    @property
    def name(self) -> str:
        return place_name(self.row)

    @property
    def of_log_s(self) -> Floats:
        """How long each job takes alone, in the time of its log, of which a part may run in a shorter one."""
        window = self.schedule.source.get("window") or {}
        run_s: Floats = self.outcome.asked_s / window.get("run_factor", 1.0)
        return run_s

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Which jobs count: those that ended, but not the first ones."""
        warm_up: int = self.schedule.source["warm_up"]
        return self.outcome.finished & (np.arange(len(self.outcome.jobs)) >= warm_up)


def timed(rows: Sequence[Row]) -> list[Timed]:
    """The rows whose schedules have one outcome, which those of logs have unless they are saturated.

    Raises:
        ValueError: for an outcome that is damaged.
    """
    # All of one side: measured ones if there are some.
    sides = ("measured", "simulated", "by_job")
    side = next(
        (one for one in sides if any(one in row.sides and row.sides[one].schedule for row in rows)), ""
    )
    pairs = ((row, row.sides[side].schedule if side in row.sides else None) for row in rows)
    return [
        Timed(row, schedule, _outcome(schedule)) for row, schedule in pairs if schedule and schedule.outcome
    ]


def _outcome(schedule: Schedule) -> JobLevelOutcome:
    outcome, _ = kept_outcome.known(schedule.outcome, schedule.processors)
    source = schedule.source
    count = source["count"] - len(source.get("failed", ()))
    if len(outcome.jobs) != count:
        raise ValueError(f"outcome has {len(outcome.jobs)} of {count} jobs")
    means = measure(outcome, warm_up=source["warm_up"], tau_s=source["tau_s"]).row()
    its, recorded = (
        np.array([values[name] for name in OF_TIMES], dtype=float) for values in (means, schedule.metrics)
    )
    if not np.allclose(its, recorded, rtol=1e-9, atol=0, equal_nan=True):
        raise ValueError("outcome is of another schedule: its jobs have other means")
    return outcome


def against_first(timed_rows: Sequence[Timed]) -> list[PolicyComparison]:
    """Every schedule of a log against the first one at its point of the sweep that has the same jobs."""
    points = [list(point) for _, point in groupby(timed_rows, key=lambda one: one.row.settings)]
    pairs = ((point[0], other) for point in points for other in point[1:])
    return [
        _compared(first, other)
        for first, other in pairs
        if first.schedule.comparable == other.schedule.comparable
    ]


def _compared(before: Timed, after: Timed) -> PolicyComparison:
    counted = before.counted & after.counted
    wait_s = (after.outcome.wait_s - before.outcome.wait_s)[counted] if counted.any() else np.zeros(1)
    return PolicyComparison(
        name=after.name,
        sooner=float((wait_s <= -SOONER_S).mean()),
        later=float((wait_s >= SOONER_S).mean()),
        wait_s=float(wait_s.mean()),
        slowdowns=comparison.paired(before.row, after.row),
    )
