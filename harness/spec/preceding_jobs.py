"""Jobs of a log that follow others: fields 17 and 18 of the Standard Workload Format."""

from collections.abc import Callable, Sequence
from graphlib import CycleError, TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from harness.spec.swf_records import NUMBER, PRECEDING, RUN, THINK
from workloads.validation import InputError

ASSUMED = "preceding jobs that are not among these, so that arrivals are as recorded"
"""How results tell of jobs whose preceding job was left out, or is not in the log or the part of it."""

Rows = NDArray[np.float64]


def places(rows: Rows) -> list[int]:
    """The place of the row that each of these follows; -1 for none, and for one that is not here."""
    found = {number: place for place, number in enumerate(rows[:, NUMBER].tolist())}
    return [found.get(number, -1) if number > 0 else -1 for number in rows[:, PRECEDING].tolist()]


def elsewhere(rows: Rows, preceding: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows follow a job that is not among them."""
    missing: NDArray[np.bool_] = (rows[:, PRECEDING] > 0) & (np.array(preceding) < 0)
    return missing


def chains_end_s(
    rows: Rows, preceding: Sequence[int], ends_s: Rows, refuse: Callable[[str], InputError]
) -> float:
    """When the last job would end if none waited; ``ends_s`` are the ends of those that follow no other.

    Raises:
        InputError: what ``refuse`` makes of the reason, if a job follows itself.
    """
    before = {job: [other] for job, other in enumerate(preceding) if other >= 0}
    try:
        order = [*TopologicalSorter(before).static_order()]
    except CycleError as error:
        number = int(rows[min(error.args[1]), NUMBER])
        raise refuse(f"job {number} follows itself (field 17, also by way of other jobs)") from None
    earliest_s = ends_s.tolist()
    for job in order:
        for other in before.get(job, ()):
            run_s = max(1.0, float(rows[job, RUN]))
            earliest_s[job] = earliest_s[other] + max(0.0, float(rows[job, THINK])) + run_s
    return float(max(earliest_s))
