"""Which setting suits programs that share their processors: from rows whose schedulers are settings."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.analyse.rows import Row
from harness.analyse.statistics import Estimate, apart, estimate
from harness.measure.disturbance import that_stand
from harness.spec.settings import AS_IT_IS, Setting
from harness.store.records import DEDICATED, RunRecord


@dataclass(frozen=True)
class Tuned:
    """The setting that was fastest, and those whose intervals overlap with its own."""

    fastest: Row
    as_good: tuple[str, ...]

    @property
    def best(self) -> str | None:
        """The name of the fastest setting, if it is so beyond noise."""
        return None if self.as_good else self.fastest.name


def tuned(rows: Sequence[Row]) -> Tuned | None:
    """None if no setting has a known time, or what was measured of any is withheld, which may be the best."""
    ranking = sorted((row for row in rows if row.median("measured")), key=_median)
    if not ranking or any(row.withheld for row in rows):
        return None
    fastest, *others = ranking
    alike = [row.name for row in others if not apart(_slowdown(fastest), _slowdown(row))]
    return Tuned(fastest, tuple(alike))


def _median(row: Row) -> float:
    return row.median("measured") or math.inf


def _slowdown(row: Row) -> Estimate:
    assert row.measured
    return row.measured.workload_slowdown


def both(settings: Sequence[Setting], rows: Sequence[Row]) -> Setting | None:
    """The fastest setting of MPI with the fastest of threads; None unless both beat no setting."""
    medians = {row.name: _median(row) for row in rows}
    faster = [one for one in settings if medians[one.setting] < medians[AS_IT_IS]]
    faster.sort(key=lambda one: medians[one.setting])
    mpi = next((one for one in faster if one.of_mpi), None)
    threads = next((one for one in faster if not one.of_mpi), None)
    return mpi.beside(threads) if mpi and threads else None


def dedicated_s(records: Sequence[RunRecord]) -> Estimate:
    """The time of each unmodified program alone, once, in seconds: the sum, by the repeats that have all."""
    sums: dict[int, dict[int, float]] = {}
    for record in that_stand([one for one in records if one.kind == DEDICATED]):
        if record.makespan_ns is not None:
            sums.setdefault(record.repeat, {})[record.jobs[0].job] = record.makespan_ns / 1e9
    programs = {job for times in sums.values() for job in times}
    return estimate([sum(times.values()) for times in sums.values() if times.keys() == programs])
