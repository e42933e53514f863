"""Rows whose simulated slowdown scatters, and the simulations that leave less of it to chance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from harness.analyse.statistics import FEWEST
from harness.analyse.summary import simulated_slowdown
from harness.measure import plan
from harness.predict.missing import Lacking
from harness.spec.experiment import Cell, Experiment
from harness.spec.scheduler import Scheduler
from harness.store.records import DEDICATED, FURTHER, RunRecord

PRECISION = 0.1
"""A row whose 95 % interval is wider than this share of its median scatters."""

FURTHER_REPEATS = 21
"""Further simulations of a row that scatters. They cost little, and leave less to chance than three."""

PATIENCE_S = 60.0
"""How long the further simulations of one run may take, one after the other."""


def scattered(experiment: Experiment, records: Sequence[RunRecord]) -> Lacking:
    """Further simulations of the rows that scatter, each with a measured run to imitate.

    A row scatters if the interval of its simulated slowdown is wider than PRECISION. It gets
    FURTHER_REPEATS more simulations, or as many as PATIENCE_S allows, with the dedicated ones for them. They
    imitate in turn the repeats in which all rows of the cell that scatter were measured, but have random
    numbers of their own.
    """
    done = plan.recorded(records)
    found: Lacking = []
    for cell in experiment.measured_cells:
        usual = [one for one in records if one.cell == cell.index and one.repeat < FURTHER]
        wide = [scheduler for scheduler in experiment.schedulers if _scatters(cell, scheduler, usual)]
        tasks = plan.repeat_of(experiment, cell, 0) if wide else []
        tasks = [task for task in tasks if task.kind == DEDICATED or task.scheduler in wide]
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
                    found.append((more, imitated))
    return sorted(found, key=lambda each: (each[0].cell.index, each[0].repeat))


def _scatters(cell: Cell, scheduler: Scheduler, usual: Sequence[RunRecord]) -> bool:
    known = simulated_slowdown(cell, scheduler.table, usual)
    return known.n >= FEWEST and known.width > PRECISION
