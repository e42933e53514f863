"""How precise the rows of an experiment are by now, and which runs and simulations they still need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING

from harness.analyse import summary
from harness.analyse.statistics import FEWEST, Estimate, more_values
from harness.measure import plan
from harness.measure.plan import Key, Task, label
from harness.measure.session import RowStatus, Watcher
from harness.spec.experiment import Cell, Experiment
from harness.spec.scheduler import Scheduler
from harness.store.records import DEDICATED, FURTHER, MEASURED_KINDS, POLICY, SIMULATED, RunRecord

if TYPE_CHECKING:
    from harness.predict.missing import Lacking


@dataclass
class _Row:
    """A row, by the measured runs so far; what is known of it is computed when it is first read."""

    experiment: Experiment
    cell: Cell
    scheduler: Scheduler
    records: list[RunRecord]  # those of its cell, which all rows there share

    @property
    def name(self) -> str:
        return label(POLICY, self.scheduler.table, self.cell.settings)

    @cached_property
    def measured(self) -> Estimate:
        return summary.slowdown(self.cell, self.scheduler.table, self.records)

    @cached_property
    def is_precise(self) -> bool:
        """Whether more runs are of no use: those of a row that is withheld do not help it."""
        if self.measured.width <= self.experiment.precision:
            return True
        return bool(summary.withheld(self.cell, self.scheduler.table, self.records))

    @cached_property
    def repeats(self) -> int:
        """The repeats after which it is probably precise; at first the geometric mean of the bounds."""
        least = self.experiment.min_repeats
        most = self.experiment.repeats
        wanted = self.experiment.precision
        known = self.measured
        more = 0
        if known.ci95 is None:
            more = max(1, round(math.sqrt(least * most)) - known.n)
        elif known.width > wanted:
            more = more_values(known.n, known.width, wanted, most) or most
        return known.n + more


class RowPrecision:
    """The measured slowdowns of an experiment so far.

    A row needs runs until it has had the smallest number of repeats, and the 95 % interval of its workload
    slowdown is at most ``precision`` of its median wide; or until it has had the most.
    """

    def __init__(self, experiment: Experiment, records: Iterable[RunRecord] = ()) -> None:
        self._experiment = experiment
        self._rows = {cell.index: self._of_cell(cell, []) for cell in experiment.measured_cells}
        self._told: dict[tuple[int, Scheduler, str], int] = {}
        self._exceeded: set[Key] = set()
        for record in records:
            self.add(record)

    def _of_cell(self, cell: Cell, records: list[RunRecord]) -> list[_Row]:
        return [_Row(self._experiment, cell, one, records) for one in self._experiment.schedulers]

    def add(self, record: RunRecord) -> None:
        if record.cell not in self._rows:
            return
        first = self._rows[record.cell][0]
        first.records.append(record)
        if record.exceeded is not None and record.exceeded >= (self._experiment.timeout_factor or 0.0):
            self._exceeded.add(plan.key_of(record).series)
        if record.kind in MEASURED_KINDS:
            self._rows[record.cell] = self._of_cell(first.cell, first.records)

    def heard(self, record: RunRecord, watcher: Watcher) -> None:
        """Take in a run or simulation, and tell the rows that have a new value by it."""
        self.add(record)
        for status in self.news(record):
            watcher.row_status(status)

    def needs(self, task: Task) -> bool:
        """Whether a row needs this run; a dedicated run is one of every row of its cell.

        What was stopped after as long a time as now is not tried again.
        """
        if self._exceeded and task.key.series in self._exceeded:
            return False
        if task.repeat < self._experiment.min_repeats:
            return True
        return not all(row.is_precise for row in self._concerned(task))

    def expects(self, task: Task) -> bool:
        """Whether a row will probably need this run, if its slowdowns go on to scatter as they have."""
        return self.needs(task) and any(task.repeat < row.repeats for row in self._concerned(task))

    def _concerned(self, task: Task) -> Iterator[_Row]:
        alone = task.kind != POLICY
        return (row for row in self._rows[task.cell.index] if alone or row.scheduler == task.scheduler)

    def unknown(self) -> Iterator[RowStatus]:
        for row in chain(*self._rows.values()):
            if not row.measured.n:
                yield RowStatus(row.name, None, None, 0)

    def news(self, record: RunRecord) -> Iterator[RowStatus]:
        """The rows with a new value since ``record``, the last run or simulation that was taken in."""
        least = self._experiment.min_repeats
        most = self._experiment.repeats
        kind = POLICY if record.kind in MEASURED_KINDS else SIMULATED
        for row in self._rows.get(record.cell, ()):
            new = estimate = row.measured
            final = estimate.n >= most or (estimate.n >= least and row.is_precise)
            if kind == SIMULATED:
                new = summary.slowdown(row.cell, row.scheduler.table, row.records, simulated=True)
                final = new.n >= estimate.n
            place = record.cell, row.scheduler, kind
            if new.n and new.n != self._told.get(place):
                self._told[place] = new.n
                predicted = new.median if kind == SIMULATED else None
                yield RowStatus(row.name, estimate.median, estimate.ends, estimate.n, final, predicted)

    def wide(self) -> Iterator[tuple[str, float]]:
        """The rows whose intervals are wider than the experiment asks, with the widths over the medians."""
        for row in chain(*self._rows.values()):
            if row.measured.ci95 and not row.is_precise:
                yield row.name, row.measured.width

    def estimate(self, cell: Cell, scheduler: Scheduler) -> Estimate:
        return next(row.measured for row in self._rows[cell.index] if row.scheduler == scheduler)


PRECISION = 0.1  # a row whose 95 % interval is wider than this share of its median scatters

FURTHER_REPEATS = 21
"""Further simulations of a row that scatters. They cost little, and leave less to chance than three."""

PATIENCE_S = 60.0  # how long the further simulations of one run may take, one after the other


def scattered(experiment: Experiment, records: Sequence[RunRecord]) -> Lacking:
    """Further simulations of the rows that scatter, each with a measured run to imitate.

    A row scatters if the interval of its simulated slowdown is wider than PRECISION. It gets
    FURTHER_REPEATS more simulations, or as many as PATIENCE_S allows, with the dedicated ones for them. They
    imitate in turn the repeats in which all rows of the cell that scatter were measured, but have random
    numbers of their own.
    """
    done = plan.recorded(records)
    lacking: Lacking = []
    for cell in experiment.measured_cells:
        usual = [one for one in records if one.cell == cell.index and one.repeat < FURTHER]
        of = partial(summary.slowdown, records=usual, simulated=True)
        estimates = {scheduler: of(cell, scheduler.table) for scheduler in experiment.schedulers}
        wide = [one for one, value in estimates.items() if value.n >= FEWEST and value.width > PRECISION]
        tasks = plan.repeat_of(experiment, cell, 0) if wide else []
        ours = [(POLICY, one) for one in wide]
        tasks = [one for one in tasks if one.kind == DEDICATED or (one.kind, one.scheduler) in ours]
        # Calibrations differ: dedicated runs and those that are compared with them imitate the same repeat.
        whole = [
            repeat
            for repeat in range(experiment.repeats)
            if all(replace(task, repeat=repeat).key in done for task in tasks)
        ]
        for task in tasks:
            repeats = [replace(task, repeat=repeat) for repeat in whole]
            measured = [done[one.key] for one in repeats]
            simulated = [done[one.counterpart.key] for one in repeats if one.counterpart.key in done]
            # The first simulation of all may have waited for the compiler.
            took_s = min((one.wall_s for one in simulated), default=math.inf)
            for number in range(FURTHER_REPEATS):
                if (number + 1) * took_s > PATIENCE_S:
                    break
                imitated = measured[number % len(measured)]
                more = replace(task.counterpart, repeat=FURTHER + number)
                if more.key not in done or done[more.key].constants != imitated.constants:
                    lacking.append((more, imitated))
    return sorted(lacking, key=lambda each: (each[0].cell.index, each[0].repeat))
