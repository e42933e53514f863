"""Independent simulations on the ranks of an MPI job, on one node or many."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed

from mpi4py import MPI
from mpi4py.futures import MPIPoolExecutor

from harness.measure.time_left import Guess, TimeLeft, alike
from harness.predict.pool import Part, Progress, Value, forget, needs_workers

SHARES = 16
"""Shares of the work per worker. With more, messages could take longer than short simulations; with
fewer, one worker could end up with the longest parts."""


class MpiPool:
    """The workers: all ranks but the first, as mpi4py.futures makes them."""

    def __init__(self) -> None:
        size = MPI.COMM_WORLD.size
        if size < 2 or MPI.COMM_WORLD.rank > 0:
            raise needs_workers(size)
        self.workers = size - 1
        self.busy_s = self.wall_s = 0.0  # CPU time of simulations, and wall-clock time of that

    def compute(
        self,
        parts: Sequence[Part],
        work: Callable[[Part], Value],
        progress: Progress,
        keep: Callable[[Value], None] = forget,
        guess: Callable[[Part], Guess] = alike,
    ) -> list[Value]:
        """``work`` of every part, in their order; ``work``, parts and values must be picklable."""
        begin_s = time.monotonic()
        results: dict[int, Value] = {}
        shares = min(len(parts), SHARES * self.workers)
        with MPIPoolExecutor() as pool:
            whole = [sum(guess(part).seconds for part in parts[first::shares]) for first in range(shares)]
            time_left = TimeLeft(list(map(Guess, whole)), self.workers)
            tasks = {pool.submit(_timed, work, parts[first::shares]): first for first in time_left.order}
            try:
                for task in as_completed(tasks):
                    values, busy_s = task.result()
                    results |= zip(range(tasks[task], len(parts), shares), values, strict=True)
                    self.busy_s += busy_s
                    for value in values:
                        keep(value)
                    time_left.ended(tasks[task])
                    progress(len(results), len(parts), time_left.left_s())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        self.wall_s += time.monotonic() - begin_s
        return [results[index] for index in range(len(parts))]

    def __str__(self) -> str:
        times = f"{self.busy_s:.1f} s of CPU time in {self.wall_s:.1f} s"
        speed_up = self.busy_s / self.wall_s if self.wall_s else 0.0
        return f"simulated by {self.workers} workers: {times}, speed-up {speed_up:.1f}"


def _timed(work: Callable[[Part], Value], parts: Sequence[Part]) -> tuple[list[Value], float]:
    begin_s = time.process_time()
    values = [work(part) for part in parts]
    return values, time.process_time() - begin_s
