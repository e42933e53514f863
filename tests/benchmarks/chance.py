"""How much chance there is in the runs of a policy, measured and simulated.

    python -P tests/benchmarks/chance.py --results DIR [--policy none] [--times 3]

DIR has one measured experiment, of several repeats. Each measured run is simulated ``--times`` times, with
other random numbers each time. Makespans are compared: of any two measured or simulated runs of one cell;
and the medians over the repeats of a cell, of any two series of simulations. The last line is the error that
chance alone makes if each measured run has one simulation; rows that scatter have further ones.
"""

import itertools
import statistics
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed, stored

from harness.measure.plan import plan, recorded
from harness.predict.process_level import Host, Simulated


def runs_of(results, policy, times):
    """Two lists for each cell: its measured makespans, and the simulated ones series by series."""
    experiment, records = stored(results)
    known = recorded(records)
    cells = {}
    for task in plan(experiment, experiment.cells):
        record = known.get(task.key)
        if record is None or task.scheduler.name != policy:
            continue
        measured, series = cells.setdefault(
            (task.cell.index, task.scheduler), ([], [[] for _ in range(times)])
        )
        measured.append(record.makespan_ns)
        host = Simulated(partial(same, Host.of_run(record)))
        for number, found in enumerate(series):
            other = replace(task.counterpart, repeat=task.repeat + number * experiment.repeats)
            found.append(host.run(other).makespan_ns)
    return list(cells.values())


def same(host, _):
    return host


def difference(values):
    """By how much any two values differ, as shares of the smaller one."""
    return [max(pair) / min(pair) - 1 for pair in itertools.combinations(values, 2)]


def main():
    options = parsed(__doc__, results={"type": Path, "required": True}, policy="none", times=3)
    cells = runs_of(options.results, options.policy, options.times)
    measured = [one for runs, _ in cells for one in difference(runs)]
    simulated = [one for _, series in cells for one in difference(itertools.chain(*series))]
    medians = [one for _, series in cells for one in difference(map(statistics.median, series))]
    print(f"{options.policy}, {len(cells)} cells: difference in the median, and at the 90th percentile")
    for name, found in (
        ("two measured runs of a cell", measured),
        ("two simulated runs of a cell", simulated),
        ("medians of two series of simulations", medians),
    ):
        found.sort()
        print(f"{name:38} {statistics.median(found):6.1%} {found[int(0.9 * len(found))]:6.1%}")


if __name__ == "__main__":
    main()
