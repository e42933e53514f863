"""Independent simulations on the ranks of an MPI job, on one node or many."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from functools import partial
from typing import TypeVar

from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

from harness.papers import Progress
from workloads.validation import InputError

Key = TypeVar("Key")
Value = TypeVar("Value")

START = "mpiexec -n N python -m mpi4py.futures -m harness.cli simulate EXPERIMENT --mpi"


class MpiPool:
    """The workers: all ranks but the first, as ``python -m mpi4py.futures`` makes them.

    Attributes:
        workers: how many.
        busy_s: processor time that their simulations have taken.
        wall_s: how long that took.

    Raises:
        InputError: if there are none.
    """

    def __init__(self) -> None:
        size = MPI.COMM_WORLD.size
        if size < 2 or MPI.COMM_WORLD.rank > 0:
            raise InputError("--mpi", size, "needs ranks that wait for work", f"start it as {START}")
        self.workers = size - 1
        self.busy_s = self.wall_s = 0.0

    def compute(
        self, parts: Sequence[Key], work: Callable[[Key], Value], progress: Progress
    ) -> dict[Key, Value]:
        """``work`` of every part, by part, in their order; ``work`` must be picklable."""
        begin_s = time.monotonic()
        found: dict[Key, Value] = {}
        with MPIPoolExecutor() as pool:
            tasks = {pool.submit(partial(_timed, work), part): part for part in parts}
            try:
                for done, task in enumerate(as_completed(tasks), 1):
                    found[tasks[task]], busy_s = task.result()
                    self.busy_s += busy_s
                    progress(done, len(parts))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self.wall_s += time.monotonic() - begin_s
        return {part: found[part] for part in parts}

    def __str__(self) -> str:
        times = f"{self.busy_s:.1f} s of processor time in {self.wall_s:.1f} s"
        speed_up = self.busy_s / self.wall_s if self.wall_s else 0.0
        return f"simulated by {self.workers} workers: {times}, speed-up {speed_up:.1f}"


def _timed(work: Callable[[Key], Value], part: Key) -> tuple[Value, float]:
    begin_s = time.process_time()
    value = work(part)
    return value, time.process_time() - begin_s
