"""How precise the rows of an experiment are by now, and which runs they still need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from harness.analyse import summary
from harness.analyse.statistics import Estimate
from harness.measure.plan import Task, label
from harness.measure.session import Standing
from harness.spec.experiment import Cell, Experiment
from harness.spec.scheduler import Scheduler
from harness.store.records import MEASURED_KINDS, POLICY, RunRecord

Row = tuple[int, Scheduler]
"""The index of a cell, and a scheduler."""


class RowPrecision:
    """The measured slowdowns of an experiment so far.

    A row needs runs until it has had the least number of repeats, and the 95 % interval of its workload
    slowdown is at most ``precision`` of its median wide; or until it has had the most.
    """

    def __init__(self, experiment: Experiment, records: Iterable[RunRecord] = ()) -> None:
        self._experiment = experiment
        self._records: dict[int, list[RunRecord]] = {cell.index: [] for cell in experiment.measured_cells}
        self._known: dict[Row, Estimate] = {}
        self._told: dict[Row, int] = {}
        for record in records:
            self.add(record)

    def add(self, record: RunRecord) -> None:
        """Take in a run of the experiment."""
        if record.kind in MEASURED_KINDS and record.cell in self._records:
            self._records[record.cell].append(record)
            self._known = {row: known for row, known in self._known.items() if row[0] != record.cell}

    def needs(self, task: Task) -> bool:
        """Whether a row needs this run; a dedicated run is one of every row of its cell."""
        if task.repeat < self._experiment.least_repeats:
            return True
        if task.kind == POLICY:
            return not self._is_precise(task.cell, task.scheduler)
        return not all(self._is_precise(task.cell, scheduler) for scheduler in self._experiment.schedulers)

    def unknown(self) -> Iterator[Standing]:
        """The rows that have no value yet."""
        for cell in self._experiment.measured_cells:
            for scheduler in self._experiment.schedulers:
                if not self.estimate(cell, scheduler).n:
                    yield Standing(label(POLICY, scheduler.table, cell.settings), None, None, 0)

    def news(self, record: RunRecord) -> Iterator[Standing]:
        """The rows that have a new value since ``record``, the last run that was taken in."""
        least, most = self._experiment.least_repeats, self._experiment.repeats
        for cell in self._experiment.measured_cells:
            for scheduler in self._experiment.schedulers if cell.index == record.cell else ():
                known, row = self.estimate(cell, scheduler), (cell.index, scheduler)
                if known.n and known.n != self._told.get(row):
                    self._told[row] = known.n
                    final = known.n >= most or (known.n >= least and self._is_precise(cell, scheduler))
                    name = label(POLICY, scheduler.table, cell.settings)
                    yield Standing(name, known.median, known.ends, known.n, final)

    def wide(self) -> Iterator[tuple[str, float]]:
        """The rows whose intervals are wider than the experiment asks, with the widths over the medians."""
        for cell in self._experiment.measured_cells:
            for scheduler in self._experiment.schedulers:
                known = self.estimate(cell, scheduler)
                if known.ci95 and not self._is_precise(cell, scheduler):
                    yield label(POLICY, scheduler.table, cell.settings), known.width

    def estimate(self, cell: Cell, scheduler: Scheduler) -> Estimate:
        """The measured workload slowdown of a row."""
        row = cell.index, scheduler
        if row not in self._known:
            self._known[row] = summary.measured_slowdown(cell, scheduler.table, self._records[cell.index])
        return self._known[row]

    def _is_precise(self, cell: Cell, scheduler: Scheduler) -> bool:
        return self.estimate(cell, scheduler).width <= self._experiment.precision
