"""Jobs of a log under several policies: by their sizes, and policy against policy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from harness.analyse import comparison
from harness.analyse.rows import Row, place_name
from harness.analyse.statistics import estimate
from harness.predict import kept_outcome
from harness.simulator.jobs.metrics import bounded_slowdowns, in_batches
from harness.simulator.jobs.model import Floats, Integers, JobLevelOutcome

SOONER_S = 0.5  # waits that differ by less count as the same: logs have whole seconds


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

    before: str  # the one that it is compared with, in words
    after: str  # the policy, in words
    sooner: float  # share of the jobs that start at least SOONER_S sooner
    later: float  # share that start at least so much later
    wait_s: float  # mean wait of the jobs, minus that before
    ratio: float  # geometric mean of the ratios of the jobs' bounded slowdowns
    # Its 95 % interval by the method of batch means; None for too few jobs.
    interval: tuple[float, float] | None
    verdict: str  # as in ``harness.analyse.comparison``


class Timed(NamedTuple):
    """A row for which it is known when which job ran."""

    name: str
    settings: Mapping[str, Any]  # its point of the sweep
    outcome: JobLevelOutcome


def timed(rows: Sequence[Row]) -> list[Timed]:
    """The rows whose schedules have one outcome, which those of logs have unless they are saturated."""
    known = ((row, row.schedule) for row in rows)
    return [
        Timed(place_name(row), row.settings, kept_outcome.known(schedule.outcome, schedule.processors)[0])
        for row, schedule in known
        if schedule and schedule.outcome
    ]


def by_size(outcome: JobLevelOutcome, warm_up: int, tau_s: float) -> list[SizeClass]:
    """The classes 1, 2, 3-4, 5-8, ... that have jobs which ended; the first ``warm_up`` do not count."""
    counted = outcome.finished & (np.arange(len(outcome.jobs)) >= warm_up)
    asked: Integers = outcome.jobs.max_processes
    class_of = np.ceil(np.log2(np.maximum(asked, 1))).astype(int)
    slowdowns = bounded_slowdowns(outcome, tau_s)
    found = []
    for number in sorted(set(class_of[counted].tolist())):
        here = counted & (class_of == number)
        min_processes, max_processes = (2 ** (number - 1) + 1 if number else 1), 2**number
        wait_s, slowdown = float(outcome.wait_s[here].mean()), float(slowdowns[here].mean())
        found.append(SizeClass(min_processes, max_processes, int(here.sum()), wait_s, slowdown))
    return found


def against_first(known: Sequence[Timed], warm_up: int, tau_s: float) -> list[PolicyComparison]:
    """Every schedule of a log against the first one at its point of the sweep."""
    points = [list(point) for _, point in groupby(known, key=lambda one: one.settings)]
    return [_compared(point[0], other, warm_up, tau_s) for point in points for other in point[1:]]


def _compared(before: Timed, after: Timed, warm_up: int, tau_s: float) -> PolicyComparison:
    first, second = before.outcome, after.outcome
    counted = first.finished & second.finished & (np.arange(len(first.jobs)) >= warm_up)
    wait_s = (second.wait_s - first.wait_s)[counted] if counted.any() else np.zeros(1)
    slowdowns = [bounded_slowdowns(outcome, tau_s)[counted] for outcome in (first, second)]
    logarithms: Floats = np.log(slowdowns[1]) - np.log(slowdowns[0]) if counted.any() else np.zeros(1)
    interval = _batch_means(logarithms)
    return PolicyComparison(
        before=before.name,
        after=after.name,
        sooner=float((wait_s <= -SOONER_S).mean()),
        later=float((wait_s >= SOONER_S).mean()),
        wait_s=float(wait_s.mean()),
        ratio=float(np.exp(logarithms.mean())),
        interval=interval,
        verdict=comparison.verdict(interval),
    )


def _batch_means(logarithms: Floats) -> tuple[float, float] | None:
    """The interval of the geometric mean by batch means; None for too few jobs."""
    means = [float(np.exp(part.mean())) for part in in_batches(logarithms)]
    return estimate(means).ci95 if means else None
