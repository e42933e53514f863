"""Rows whose simulated slowdown scatters, and the simulations that leave less of it to chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.analyse.statistics import FEWEST
from harness.analyse.summary import simulated_slowdown
from harness.measure import plan
from harness.measure.plan import Key, Task
from harness.predict.missing import Lacking
from harness.spec.experiment import Experiment
from harness.store.records import DEDICATED, RunRecord

PRECISION = 0.1
"""A row whose 95 % interval is wider than this share of its median scatters."""

SCATTERED_REPEATS = 24
"""Simulations of a row that scatters. They cost little, and leave less to chance than three."""

PATIENCE_S = 60.0
"""How long the simulations of one run that scatters may take one after the other."""


def scattered(experiment: Experiment, records: Sequence[RunRecord]) -> Lacking:
    """Further simulations of the rows that scatter, each with a measured run to imitate.

    If the interval of a row's simulated slowdown is wider than PRECISION after as many repeats as the
    experiment has, the row is simulated SCATTERED_REPEATS times, or as often as PATIENCE_S allows.
    """
    done = plan.recorded(records)
    found = []
    for cell in experiment.measured_cells:
        usual = [one for one in records if one.cell == cell.index and one.repeat < experiment.repeats]
        slowdowns = [(one, simulated_slowdown(cell, one.table, usual)) for one in experiment.schedulers]
        wide = [one for one, known in slowdowns if known.n >= FEWEST and known.width > PRECISION]
        for repeat in range(SCATTERED_REPEATS if wide else 0):
            for task in plan.repeat_of(experiment, cell, repeat):
                measured, simulated = _another(task, done), _another(task.counterpart, done)
                concerned = task.kind == DEDICATED or task.scheduler in wide
                if not (concerned and measured and simulated) or task.counterpart.key in done:
                    continue
                if (repeat + 1) * simulated.wall_s <= PATIENCE_S:
                    found.append((task.counterpart, measured))
    return found


def _another(task: Task, done: Mapping[Key, RunRecord]) -> RunRecord | None:
    """One of the usual repeats of ``task``; they take turns. None if there are none."""
    keys = [replace(task, repeat=repeat).key for repeat in range(task.experiment.repeats)]
    known = [done[key] for key in keys if key in done]
    return known[task.repeat % len(known)] if known else None
