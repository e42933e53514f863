"""Independent parts of a piece of work: by threads or processes here, by MPI ranks in ``mpi_pool``."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing.connection import Connection
from typing import Protocol, TypeVar

from harness.simulator import interruption

Part = TypeVar("Part")
Value = TypeVar("Value")

GOLDEN = (math.sqrt(5) - 1) / 2

Progress = Callable[[int, int], None]
"""Receives how many parts of how many are done."""


def forget(value: object) -> None:
    """Keeps no value."""


class Pool(Protocol):
    """A function that computes the parts of a piece of work."""

    def __call__(
        self,
        parts: Sequence[Part],
        work: Callable[[Part], Value],
        progress: Progress,
        keep: Callable[[Value], None] = forget,
    ) -> list[Value]:
        """``work`` of every part, in their order; ``keep`` receives each value as soon as it is known."""


def compute(
    parts: Sequence[Part],
    work: Callable[[Part], Value],
    progress: Progress,
    keep: Callable[[Value], None] = forget,
) -> list[Value]:
    """``work`` of every part, in their order; by threads, since kernels hold no interpreter lock."""
    with interruption.interruptible(), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return _values(pool, parts, work, progress, interruption.interrupt, keep)


def compute_apart(parts: Sequence[Part], work: Callable[[Part], Value], progress: Progress) -> list[Value]:
    """``work`` of every part, in their order; by processes, for work in Python, which holds the lock.

    ``work``, parts and values must be picklable. No process outlives the call, however it ends.
    """
    workers = min(len(os.sched_getaffinity(0)), len(parts))
    if workers < 2:
        return compute(parts, work, progress)
    fresh = multiprocessing.get_context("spawn")  # threads, such as a progress bar's, do not survive a fork
    ours, theirs = fresh.Pipe()

    def end() -> None:
        ours.close()
        theirs.close()

    try:
        with ProcessPoolExecutor(workers, fresh, _end_with, (theirs,)) as pool:
            return _values(pool, parts, work, progress, end)
    finally:
        end()


def _values(
    pool: Executor,
    parts: Sequence[Part],
    work: Callable[[Part], Value],
    progress: Progress,
    end: Callable[[], None],
    keep: Callable[[Value], None] = forget,
) -> list[Value]:
    """``work`` of every part; before any exception leaves, ``end`` makes the workers stop."""
    try:
        tasks = {number: pool.submit(work, parts[number]) for number in spread(len(parts))}
        for done, task in enumerate(as_completed(tasks.values()), 1):
            keep(task.result())
            progress(done, len(parts))
    except BaseException:
        end()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    return [tasks[number].result() for number in range(len(parts))]


def spread(count: int) -> list[int]:
    """The numbers below ``count`` in an order whose every beginning is spread evenly over all.

    Parts of a sweep cost more at one end than at the other: in this order the time of the first tells
    the time of the rest. Multiples of the golden ratio, modulo 1, fill the unit interval evenly (Knuth,
    The Art of Computer Programming, volume 3, section 6.4).
    """
    return sorted(range(count), key=lambda number: number * GOLDEN % 1)


def _end_with(caller: Connection) -> None:
    """End this process when the other end of ``caller`` closes, as it does if the caller's process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets it, too, and closes the pipe

    def wait() -> None:
        caller.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
