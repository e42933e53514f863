"""How long a program has run and waited for a processor, as the kernel counts it for each thread."""

import time
from collections.abc import Iterable
from pathlib import Path

from coordinator.host.processes import threads


class CpuTime:
    """The times of a process since now, with its threads and the descendants that the caller names.

    A thread counts up to the last look at it. /proc/PID/task/TID/schedstat has the counts; a kernel without
    them gives no times.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._begin_ns = self._look_ns = time.monotonic_ns()
        self._first = (pid, pid)
        self._before = counts(pid, pid) or (0, 0)
        self._counts: dict[tuple[int, int], tuple[int, int]] = {self._first: self._before}
        self._alone = True

    def look(self, descendants: Iterable[int] = ()) -> None:
        """Read the counts of the process and of these descendants."""
        family = [self._pid, *descendants]
        every = {(pid, thread): counts(pid, thread) for pid in family for thread in threads(pid)}
        running = {thread: counts for thread, counts in every.items() if counts}
        # Counts never fall: smaller ones belong to a later process with this pid.
        if running.get(self._first, (-1, 0)) >= self._counts[self._first]:
            self._counts |= running
            self._look_ns = time.monotonic_ns()
            self._alone = len(family) == 1

    def look_at_end(self) -> None:
        """Read the counts of the process, which has not been reaped yet, if it had no descendants."""
        if self._alone:
            self.look()

    def record(self) -> dict[str, int]:
        """Times in nanoseconds for the record of a rank; empty if there was no look, or no counts.

        ``looked_ns``: from the beginning to the last look; until then ``running_ns`` on a processor and
        ``ready_ns`` in wait of one, summed over all threads.
        """
        if self._look_ns == self._begin_ns or self._before[0] == 0:
            return {}
        ran, waited = (sum(column) for column in zip(*self._counts.values(), strict=True))
        return {
            "looked_ns": self._look_ns - self._begin_ns,
            "running_ns": ran - self._before[0],
            "ready_ns": waited - self._before[1],
        }


def counts(pid: int, thread: int) -> tuple[int, int] | None:
    """How long a thread has run and waited for a processor; None if it is gone."""
    try:
        ran, waited, _ = Path(f"/proc/{pid}/task/{thread}/schedstat").read_bytes().split()
    except (OSError, ValueError):
        return None
    return int(ran), int(waited)
