"""Independent parts of a piece of work, done at once: by threads here, by MPI ranks in ``mpi_pool``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Protocol, TypeVar

from harness.simulator import interruption

Part = TypeVar("Part")
Value = TypeVar("Value")

Progress = Callable[[int, int], None]
"""Receives how many parts of how many are done."""


class Pool(Protocol):
    """What a pool does."""

    def __call__(
        self, parts: Sequence[Part], work: Callable[[Part], Value], progress: Progress
    ) -> list[Value]:
        """``work`` of every part, in their order."""


def compute(parts: Sequence[Part], work: Callable[[Part], Value], progress: Progress) -> list[Value]:
    """``work`` of every part, in their order; by threads, since kernels hold no interpreter lock."""
    with interruption.interruptible(), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        try:
            tasks = [pool.submit(work, part) for part in parts]
            for done, task in enumerate(as_completed(tasks), 1):
                task.result()
                progress(done, len(parts))
        except BaseException:
            interruption.interrupt()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [task.result() for task in tasks]
