"""Jobs of a log under several policies: by their sizes, and policy against policy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.analyse import comparison
from harness.analyse.comparison import Comparison
from harness.analyse.rows import Row, place_name
from harness.predict import kept_outcome
from harness.simulator.jobs.metrics import bounded_slowdowns, measure
from harness.simulator.jobs.model import Integers, JobLevelOutcome
from harness.store.records import Schedule

SOONER_S = 0.5  # waits that differ by less count as the same: logs have whole seconds

OF_TIMES = ("response_s", "wait_s", "slowdown", "bounded_slowdown")
"""Means that the times of jobs decide, by which an outcome belongs to its schedule."""


@dataclass(frozen=True)
class SizeClass:
    """The jobs that ask for this number of processors: their number, mean wait and bounded slowdown."""

    min_processes: int
    max_processes: int
    jobs: int
    wait_s: float
    bounded_slowdown: float

    @property
    def name(self) -> str:
        few, many = self.min_processes, self.max_processes
        return str(few) if few == many else f"{few}-{many}"


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
    def counted(self) -> NDArray[np.bool_]:
        """Which jobs count: those that ended, but not the first ones."""
        warm_up: int = self.schedule.source["warm_up"]
        return self.outcome.finished & (np.arange(len(self.outcome.jobs)) >= warm_up)


def timed(rows: Sequence[Row]) -> list[Timed]:
    """The rows whose schedules have one outcome, which those of logs have unless they are saturated.

    Raises:
        ValueError: for an outcome that is damaged.
    """
    pairs = ((row, row.schedule) for row in rows)
    return [
        Timed(row, schedule, _outcome(schedule)) for row, schedule in pairs if schedule and schedule.outcome
    ]


def _outcome(schedule: Schedule) -> JobLevelOutcome:
    outcome, _ = kept_outcome.known(schedule.outcome, schedule.processors)
    source = schedule.source
    if len(outcome.jobs) != source["count"]:
        raise ValueError(f"outcome has {len(outcome.jobs)} of {source['count']} jobs")
    means = measure(outcome, warm_up=source["warm_up"], tau_s=source["tau_s"]).row()
    its, recorded = (
        np.array([values[name] for name in OF_TIMES], dtype=float) for values in (means, schedule.metrics)
    )
    if not np.allclose(its, recorded, rtol=1e-9, atol=0, equal_nan=True):
        raise ValueError("outcome is of another schedule: its jobs have other means")
    return outcome


def by_size(timed_row: Timed) -> list[SizeClass]:
    """The classes 1, 2, 3-4, 5-8, ... that have jobs which count."""
    outcome, counted = timed_row.outcome, timed_row.counted
    requests: Integers = outcome.jobs.max_processes
    class_of = np.ceil(np.log2(np.maximum(requests, 1))).astype(int)
    slowdowns = bounded_slowdowns(outcome, timed_row.schedule.source["tau_s"])
    classes = []
    for number in sorted(set(class_of[counted].tolist())):
        here = counted & (class_of == number)
        min_processes, max_processes = (2 ** (number - 1) + 1 if number else 1), 2**number
        wait_s, slowdown = float(outcome.wait_s[here].mean()), float(slowdowns[here].mean())
        classes.append(SizeClass(min_processes, max_processes, int(here.sum()), wait_s, slowdown))
    return classes


def against_first(timed_rows: Sequence[Timed]) -> list[PolicyComparison]:
    """Every schedule of a log against the first one at its point of the sweep."""
    points = [list(point) for _, point in groupby(timed_rows, key=lambda one: one.row.settings)]
    return [_compared(point[0], other) for point in points for other in point[1:]]


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
