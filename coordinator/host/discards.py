"""Ending the processes of single jobs while the run continues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator

from coordinator.host import processes
from coordinator.host.processes import Evidence, Process
from coordinator.host.rundir import RunDirectory


class Discards:
    """Ends jobs' processes on this host in steps that never wait, and warns of those that do not end.

    The kernel may take seconds to end a process. A driver that waited so long would exceed its
    agents' lease.
    """

    def __init__(self, directory: RunDirectory, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self._warn = warn
        self._steps: dict[int, Generator[tuple[Process, float], None, tuple[int, int]]] = {}
        self._dues_ns: dict[int, int] = {}
        self._then: dict[int, Callable[[], None]] = {}

    def begin(self, job: int, now_ns: int) -> None:
        """Send SIGKILL to all processes of a job, and repeat until none is left."""
        if job not in self._steps:
            evidence = Evidence.of(self._directory.notes())
            self._steps[job] = processes.ending(self._directory.run, job, grace_s=0, evidence=evidence)
            self._dues_ns[job] = now_ns
        self.go_on(now_ns)

    def then(self, job: int, do: Callable[[], None]) -> None:
        """Call ``do`` when all processes of the job have ended; new ones would be killed until then."""
        if job in self._steps:
            self._then[job] = do
        else:
            do()

    def dues_ns(self) -> Collection[int]:
        """The times at which ``go_on`` must be called."""
        return self._dues_ns.values()

    def go_on(self, now_ns: int) -> None:
        for job in [job for job, due_ns in self._dues_ns.items() if due_ns <= now_ns]:
            try:
                _, wait_s = next(self._steps[job])
                self._dues_ns[job] = now_ns + round(wait_s * 1e9)
            except StopIteration as end:
                _, left = end.value
                del self._steps[job], self._dues_ns[job]
                if left:
                    self._warn(f"job {job}: the kernel does not end {left} of its processes")
                self._then.pop(job, lambda: None)()
