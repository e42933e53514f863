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

from coordinator.host.mechanisms import Mechanism
from coordinator.host.processes import Process
from coordinator.node.section_mechanism import SectionMechanism
from coordinator.node.section_pages import SectionPages
from workloads.locks.remedies import Remedy


class DoNotPreempt(SectionMechanism):
    """Puts holding off while a process is in a section.

    Args:
        mechanism, pages, pause: as in ``SectionMechanism``.
        remedy: how often a change is put off for one process, and for how long.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        pages: SectionPages,
        remedy: Remedy,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(mechanism, pages, pause)
        self._times, self._pause_s = remedy.deferrals, remedy.deferral_us / 1e6

    def hold(self, process: Process) -> None:
        """Hold the process when it is outside of critical sections, or after the last time."""
        for _ in range(self._times):
            if self._page(process) is None:
                self._mechanism.hold(process)
                if self._page(process) is None:
                    return
                self._mechanism.run(process)  # it has entered in this moment
            self._pause(self._pause_s)
        self._mechanism.hold(process)
