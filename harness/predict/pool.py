"""Independent parts of a piece of work: by threads or processes here, by ranks of MPI in ``mpi_pool``."""

import multiprocessing
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from operator import itemgetter
from typing import Protocol, TypeVar

from coordinator.host import guarded_program
from coordinator.host.environment import PYTHON
from coordinator.host.launchers import LAUNCHERS
from harness.measure.time_left import Guess, TimeLeft, alike
from harness.simulator import interruption
from workloads.validation import InputError

Part = TypeVar("Part")
Value = TypeVar("Value")

Progress = Callable[[int, int, float | None], None]
"""Receives how many parts of how many are done, and the time left in seconds; None if that is unknown."""

REFRESH_S = 1.0  # progress is reported at least so often


class _Part(threading.local):
    report: Callable[[float, float], None] | None = None


_part = _Part()


def advanced(done: float, whole: float) -> None:
    """Tell how many of probably ``whole`` steps this thread's part has done; apart it does nothing."""
    if _part.report:
        _part.report(done, whole)


def forget(value: object) -> None:
    """Keeps no value."""


class Pool(Protocol):
    """A function that computes the parts of a piece of work, as :func:`compute` does."""

    def __call__(
        self,
        parts: Sequence[Part],
        work: Callable[[Part], Value],
        progress: Progress,
        keep: Callable[[Value], None] = forget,
        guess: Callable[[Part], Guess] = alike,
    ) -> list[Value]: ...


def compute(
    parts: Sequence[Part],
    work: Callable[[Part], Value],
    progress: Progress,
    keep: Callable[[Value], None] = forget,
    guess: Callable[[Part], Guess] = alike,
) -> list[Value]:
    """``work`` of every part, in their order; by threads, since kernels hold no interpreter lock.

    ``keep`` receives each value when it becomes known. ``guess`` says how long parts take, where it is
    known; the time left goes by it.
    """
    workers = len(os.sched_getaffinity(0))
    with interruption.interruptible(), ThreadPoolExecutor(workers) as pool:
        time_left = TimeLeft(list(map(guess, parts)), workers)

        def begin(number: int) -> Value:
            _part.report = partial(time_left.advanced, number)
            return work(parts[number])

        return _values(pool, begin, range(len(parts)), progress, interruption.interrupt, time_left, keep)


def compute_apart(
    parts: Sequence[Part],
    work: Callable[[Part], Value],
    progress: Progress,
    keep: Callable[[Value], None] = forget,
    guess: Callable[[Part], Guess] = alike,
) -> list[Value]:
    """``work`` of every part, in their order; by processes, for work in Python, which holds the lock.

    ``work``, parts and values must be picklable. No process outlives the call, however it ends.
    """
    workers = min(len(os.sched_getaffinity(0)), len(parts))
    if workers < 2:
        return compute(parts, work, progress, keep, guess)
    fresh = multiprocessing.get_context("spawn")  # threads, such as a progress bar's, do not survive a fork
    ours, theirs = fresh.Pipe()

    def end() -> None:
        ours.close()
        theirs.close()

    try:
        with ProcessPoolExecutor(workers, fresh, _end_with, (theirs,)) as pool:
            return _values(pool, work, parts, progress, end, TimeLeft(list(map(guess, parts)), workers), keep)
    finally:
        end()


def _values(
    pool: Executor,
    work: Callable[[Part], Value],
    parts: Sequence[Part],
    progress: Progress,
    end: Callable[[], None],
    time_left: TimeLeft,
    keep: Callable[[Value], None] = forget,
) -> list[Value]:
    """``work`` of every part; before any exception leaves, ``end`` makes the workers stop."""
    try:
        ended: queue.SimpleQueue[Future[Value]] = queue.SimpleQueue()
        tasks = {pool.submit(work, parts[number]): number for number in time_left.order}
        for task in tasks:
            task.add_done_callback(ended.put)
        done = 0
        while done < len(parts):
            with suppress(queue.Empty):
                task = ended.get(timeout=REFRESH_S)
                keep(task.result())
                time_left.ended(tasks[task])
                done += 1
            progress(done, len(parts), time_left.left_s())
    except BaseException:
        end()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    return [task.result() for task, _ in sorted(tasks.items(), key=itemgetter(1))]


def _end_with(caller: Connection) -> None:
    """End this process when the other end of ``caller`` closes, as it does if the caller's process dies."""
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):  # of a terminal; the caller gets it, too
        signal.signal(signum, signal.SIG_IGN)

    def wait() -> None:
        caller.poll(None)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


START = "mpiexec -n N lockstep simulate EXPERIMENT --mpi"


def needs_workers(size: int) -> InputError:
    return InputError(
        "--mpi", True, f"needs ranks of mpiexec that wait for work, and has {size - 1}", f"write {START}"
    )


def join_pool() -> None:
    """Make this process a rank of the pool, unless it is one; the guardian starts before MPI."""
    if "mpi4py.futures" in sys.modules:
        return
    if not any(kind.rank in os.environ for kind in LAUNCHERS.values()):
        raise needs_workers(1)
    sys.stdout.flush()
    sys.stderr.flush()
    command = [
        *guarded_program.COMMAND,
        *PYTHON,
        "-m",
        "mpi4py.futures",
        *own_program(sys.orig_argv, len(sys.argv) - 1),
    ]
    os.execv(command[0], command)


def own_program(words: Sequence[str], arguments: int) -> Sequence[str]:
    """A command line that ends in ``arguments`` arguments of its program, without Python and its options."""
    first = len(words) - arguments - 1
    return words[first - 1 :] if words[first - 1] in ("-m", "-c") else words[first:]
