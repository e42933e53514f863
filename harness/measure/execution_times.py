"""Times of jobs in measured runs, and execution time functions fitted to them, as some policies use."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from coordinator.policies import known
from coordinator.policies.adaptive import RunToCompletion
from coordinator.view import ExecutionTime
from harness.spec.jobs import rebuilt
from harness.store.database import Store
from workloads.validation import InputError
from workloads.work import Work

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Point = tuple[int, float]  # processes, and seconds from start to finish


def fit(points: Sequence[Point]) -> ExecutionTime:
    """Sevcik's function with phi = 1 through measured ``points``, by least squares.

    W, alpha and beta are not negative; relative errors are minimised, so that short runs on
    many processors count as much as long runs on few. Runs on two different numbers of
    processors determine W and alpha, runs on one number only W.
    Source: Anastasiadis and Sevcik 1997, section 1 (Wu 1993).
    """
    if not points or any(processes < 1 or seconds <= 0 for processes, seconds in points):
        raise InputError(
            "points",
            list(points),
            "must be at least one run on at least one process that took some time",
            "measure the program first",
        )
    if len({processes for processes, _ in points}) == 1:
        shares = [1 / (processes * seconds) for processes, seconds in points]
        return ExecutionTime(sum(shares) / sum(share**2 for share in shares), 1.0, 0.0, 0.0)
    import numpy as np  # noqa: PLC0415 - only molded programs take the time to load it

    count = np.array([processes for processes, _ in points], dtype=float)
    seconds = np.array([time for _, time in points])
    columns = np.array([1 / count, np.ones_like(count), count])[: len(set(count.tolist()))] / seconds
    work_s, alpha_s, beta_s = [*not_negative(columns, np.ones_like(seconds)), 0.0, 0.0][:3]
    return ExecutionTime(work_s, 1.0, alpha_s, beta_s)


def not_negative(columns: NDArray[np.float64], target: NDArray[np.float64]) -> list[float]:
    """The factors, none negative, with which these few ``columns`` add up to ``target``, by least squares.

    Those of the columns whose factors are not 0 fit best without any condition, so one of all sets does it.
    """
    import numpy as np  # noqa: PLC0415

    best = [0.0] * len(columns)
    least = float(target @ target)
    for size in range(1, len(columns) + 1):
        for kept in combinations(range(len(columns)), size):
            lengths = np.linalg.norm(columns[list(kept)], axis=1)
            basis = (columns[list(kept)] / lengths[:, None]).T
            factors = np.linalg.lstsq(basis, target)[0]
            left = target - basis @ factors
            if (factors >= 0).all() and left @ left < least:
                least = float(left @ left)
                factors_of = dict(zip(kept, (factors / lengths).tolist(), strict=True))
                best = [factors_of.get(place, 0.0) for place in range(len(columns))]
    return best


class JobTimes:
    """How long jobs of an experiment took in runs of its store: alone, and under some ``policies``."""

    def __init__(self, policies: Collection[str] = ()) -> None:
        self._policies = policies
        self._last = 0  # number of the last run that it has read
        self.points: dict[Work, list[Point]] = {}
        """By program, as the experiment asks for it, also where a policy has moulded it."""

    def read(self, store: Store, digest: str) -> None:
        """Take in the runs of an experiment that it has not read yet."""
        for job in store.times(digest, self._policies, after=self._last):
            self._last = job.run
            self.points.setdefault(rebuilt(job.program), []).append((job.processes, job.seconds))

    def sum_s(self, programs: Sequence[Work]) -> float | None:
        """The sum of the programs' times, of each the median; None unless all are known."""
        times_s = [[seconds for _, seconds in self.points.get(program, ())] for program in programs]
        return sum(map(statistics.median, times_s)) if all(times_s) else None

    def fitted(self) -> dict[Work, ExecutionTime]:
        """The execution time of every program."""
        return {program: fit(points) for program, points in self.points.items()}


def undisturbed() -> JobTimes:
    """The times of jobs alone, or alongside jobs on other processors."""
    return JobTimes([name for name, policy in known().items() if issubclass(policy, RunToCompletion)])
