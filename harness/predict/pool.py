"""Independent parts of a piece of work: by threads or processes here, by MPI ranks in ``mpi_pool``."""

from __future__ import annotations

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

Progress = Callable[[int, int], None]
"""Receives how many parts of how many are done."""


class Pool(Protocol):
    """A function that computes the parts of a piece of work."""

    def __call__(
        self, parts: Sequence[Part], work: Callable[[Part], Value], progress: Progress
    ) -> list[Value]:
        """``work`` of every part, in their order."""


def compute(parts: Sequence[Part], work: Callable[[Part], Value], progress: Progress) -> list[Value]:
    """``work`` of every part, in their order; by threads, since kernels hold no interpreter lock."""
    with interruption.interruptible(), ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return _values(pool, parts, work, progress, interruption.interrupt)


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
) -> list[Value]:
    """``work`` of every part; before any exception leaves, ``end`` makes the workers stop."""
    try:
        tasks = [pool.submit(work, part) for part in parts]
        for done, task in enumerate(as_completed(tasks), 1):
            task.result()
            progress(done, len(parts))
    except BaseException:
        end()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    return [task.result() for task in tasks]


def _end_with(caller: Connection) -> None:
    """End this process when the other end of ``caller`` closes, as it does if the caller's process dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller gets it, too, and closes the pipe

    def wait() -> None:
        caller.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
