"""The do-not-preempt bit: no change of slot stops a process in a critical section, within bounds.

A rank of a LOCK job marks in the page of its job's locks that it is about to enter a section, is in one, or
spins for one. When the agent is about to hold it, it looks at the mark first. If it is up, the agent lets
the rank run on for a moment and looks again, a limited number of times: a rank that leaves the mark up gains
no more than that.

Sources: Edler, Lipkis, Schonberg, "Process Management for Highly Parallel UNIX Systems", 1988 (Symunix);
Zahorjan, Lazowska, Eager, "The Effect of Scheduling Discipline on Spin Overhead in Shared Memory Parallel
Systems", 1991.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from coordinator.host.mechanisms import Mechanism
from coordinator.host.processes import Process
from coordinator.node.section_pages import SectionPages


class DoNotPreempt:
    """Holds and runs processes by a ``Mechanism``, but puts holding off while a process is in a section.

    Args:
        mechanism: holds and runs processes.
        pages: of the jobs' locks.
        times: how often at most one change is put off for one process.
        pause_s: for how long each time.
        pause: waits for so long; the processes run meanwhile.
    """

    privilege: ClassVar[str] = ""
    harm: ClassVar[str] = ""

    def __init__(
        self,
        mechanism: Mechanism,
        pages: SectionPages,
        times: int,
        pause_s: float,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._mechanism = mechanism
        self._pages = pages
        self._times, self._pause_s, self._pause = times, pause_s, pause
        self._names: dict[Process, tuple[int, int]] = {}

    @staticmethod
    def unavailable() -> str:
        """Empty: it can be used wherever its mechanism can."""
        return ""

    def adopt(self, process: Process, job: int, rank: int) -> None:
        """As the mechanism does; a job that starts again has a new page."""
        self._names[process] = job, rank
        self._pages.forget(job)
        self._mechanism.adopt(process, job, rank)

    def run(self, process: Process) -> None:
        """As the mechanism does."""
        self._mechanism.run(process)

    def free(self, process: Process) -> None:
        """As the mechanism does."""
        self._mechanism.free(process)

    def order(self, process: Process, run: bool) -> None:
        """None: whether a process is in a section must be looked up each time."""

    def hold(self, process: Process) -> None:
        """Hold the process when it is outside of critical sections, or after the last time."""
        for _ in range(self._times):
            if not self._inside(process):
                self._mechanism.hold(process)
                if not self._inside(process):
                    return
                self._mechanism.run(process)  # it has entered in this moment
            self._pause(self._pause_s)
        self._mechanism.hold(process)

    def _inside(self, process: Process) -> bool:
        job, rank = self._names[process]
        page = self._pages.of(job)
        return page is not None and page.inside(rank)
