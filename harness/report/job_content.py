"""What reports of simulated schedules of jobs show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.predict.job_level import Schedule
from harness.store.records import ScheduleRecord
from workloads.machine import TAU_S


@dataclass(frozen=True)
class JobContent:
    """What a report of schedules shows.

    Attributes:
        records: the rows of one simulation, at least one, in the order of its schedulers.
        rows: the same, with the schedules of the jobs that are known.
        doubts: what is missing, as sentences without a full stop.
    """

    records: Sequence[ScheduleRecord]
    rows: Sequence[Schedule]
    doubts: Sequence[str] = ()

    @property
    def name(self) -> str:
        """The experiment."""
        return self.records[0].experiment

    @property
    def warm_up(self) -> int:
        """How many jobs at the beginning do not count."""
        return int(self.records[0].source.get("warm_up", 0))

    @property
    def tau_s(self) -> float:
        """The bound of the bounded slowdown."""
        return float(self.records[0].source.get("tau_s", TAU_S))
