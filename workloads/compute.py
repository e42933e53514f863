"""The compute phase: CPU work, so that a preempted process makes no progress.

Without a working set, a phase lasts until the thread has used its CPU time. With one, it
walks the memory for a calibrated number of steps, so that it takes longer after another
process has displaced the memory from the cache.
"""

from time import thread_time_ns

import numpy as np

STEP_BYTES = 16384  # memory that one step of the walk reads and writes

CALIBRATION_STEPS = 2000


class Compute:
    """Spends compute time; keeps the CPU time at which the last phase began and ended.

    The memory to walk, 0 for none, is rounded up to whole steps; ``memory_step_ns`` is the CPU time of one
    (:func:`measured_step_ns`).
    """

    def __init__(self, working_set_bytes: int = 0, memory_step_ns: float = 0.0) -> None:
        self.began_ns = self.ended_ns = thread_time_ns()
        self._memory_step_ns = memory_step_ns
        self.pieces = _steps(working_set_bytes)
        self._owed = 0.0
        self._next = 0

    @property
    def steps(self) -> int:
        return len(self.pieces)

    def __call__(self, amount_ns: int, began_ns: int | None = None) -> None:
        """Compute for ``amount_ns``, since ``began_ns`` of the thread's CPU time, by default from now on.

        With a working set, for as many steps as take that long, from now on in any case.
        """
        self.began_ns = thread_time_ns() if began_ns is None else began_ns
        if self.pieces:
            self._walk(amount_ns)
            self.ended_ns = thread_time_ns()
        else:
            self.ended_ns = self._spend(self.began_ns + amount_ns)

    def _spend(self, end: int) -> int:
        """Compute until the thread's CPU time is ``end``; returns the CPU time then."""
        now = 0
        while now < end:
            now = thread_time_ns()
        return now

    def _walk(self, amount_ns: int) -> None:
        # Carry the rounding error over, so that the sum over many phases is exact.
        self._owed += amount_ns / self._memory_step_ns
        count = int(self._owed)
        self._owed -= count
        steps = self.pieces
        position = self._next
        for _ in range(count):
            step = steps[position]
            step += 1
            position = position + 1 if position + 1 < len(steps) else 0
        self._next = position


def measured_step_ns(working_set_bytes: int) -> float:
    """Median CPU time of one step through a working set in the cache, in nanoseconds; 0 without one."""
    if not working_set_bytes:
        return 0.0
    walker = Compute(working_set_bytes, 1.0)
    batch = max(100, walker.steps)
    walker(batch)
    samples = []
    for _ in range(max(3, CALIBRATION_STEPS // batch)):
        walker(batch)
        samples.append((walker.ended_ns - walker.began_ns) / batch)
    return float(np.median(samples))


def _steps(working_set_bytes: int) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    count = -(-working_set_bytes // STEP_BYTES)
    memory = np.zeros(count * STEP_BYTES // 8, dtype=np.int64)
    return [memory[i : i + STEP_BYTES // 8] for i in range(0, len(memory), STEP_BYTES // 8)]
