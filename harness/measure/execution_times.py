"""Execution time functions fitted to measured runs, for policies that use estimates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from coordinator.policies import known
from coordinator.policies.adaptive import RunToCompletion
from coordinator.view import ExecutionTime
from harness.spec.jobs import described
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
        rule = "must be at least one run on at least one process that took some time"
        raise InputError("points", list(points), rule, "measure the program first")
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

    best, least = [0.0] * len(columns), float(target @ target)
    for size in range(1, len(columns) + 1):
        for kept in combinations(range(len(columns)), size):
            lengths = np.linalg.norm(columns[list(kept)], axis=1)
            basis = (columns[list(kept)] / lengths[:, None]).T
            factors = np.linalg.lstsq(basis, target)[0]
            left = target - basis @ factors
            if (factors >= 0).all() and left @ left < least:
                least, factors_of = (
                    float(left @ left),
                    dict(zip(kept, (factors / lengths).tolist(), strict=True)),
                )
                best = [factors_of.get(place, 0.0) for place in range(len(columns))]
    return best


def key(program: Work | Mapping[str, object]) -> str:
    """A text that is the same for the same program, also if a policy has moulded it."""
    fields = dict(program) if isinstance(program, Mapping) else described(program)
    return json.dumps(fields, sort_keys=True)


class Estimates:
    """Execution times fitted to undisturbed runs: of jobs alone, or alongside jobs on other processors."""

    def __init__(self) -> None:
        self._last = 0  # number of the last run with such a job
        self._undisturbed = [name for name, policy in known().items() if issubclass(policy, RunToCompletion)]
        self._points: dict[str, list[Point]] = {}

    def read(self, store: Store, digest: str) -> None:
        """Learn from the runs of an experiment that it has not read yet."""
        for job in store.times(digest, self._undisturbed, after=self._last):
            self._last = job.run
            self._points.setdefault(key(job.program), []).append((job.processes, job.seconds))

    def fitted(self) -> dict[str, ExecutionTime]:
        """The execution time of every program that has run undisturbed, by ``key``."""
        return {program: fit(measured) for program, measured in self._points.items()}
