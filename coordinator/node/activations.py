"""Scheduler activations: who is stopped in a section by a change of slot runs on elsewhere until it leaves.

After every change the agent looks at the processes that it holds. If one of them is in a critical section, or
in the queue for one, and another rank of its job runs, then that rank gives its processor to it: the agent
stops that rank, lets the holder run in its place, and turns both back as soon as the page says that the
holder has left. It looks a limited number of times.

Anderson's threads are switched in the process, by its own scheduler; ranks of MPI are processes, so the agent
does it, and a visit costs two moves. In slots that all ranks of a job have in common nobody waits for a
stopped rank, and nothing is done.

Source: Anderson, Bershad, Lazowska, Levy, "Scheduler Activations", 1992.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress

from coordinator.host.mechanisms import Mechanism, set_core
from coordinator.host.processes import Process
from coordinator.node.section_mechanism import SectionMechanism
from coordinator.node.section_pages import SectionPages
from workloads.locks import SectionMarks

LOOKS, PAUSE_S = 20, 20e-6
"""How often the agent looks at most whether a visitor has left, and how long it waits in between."""


class Activations(SectionMechanism):
    """Lets processes that are held in sections run on.

    Args:
        mechanism, pages, pause: as in ``SectionMechanism``.
        move: binds a process to a core.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        pages: SectionPages,
        move: Callable[[Process, int], None] = set_core,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(mechanism, pages, pause)
        self._move = move
        self._held: dict[Process, None] = {}

    def _forget(self, process: Process) -> None:
        super()._forget(process)
        self._held.pop(process, None)

    def run(self, process: Process) -> None:
        self._held.pop(process, None)
        self._mechanism.run(process)

    def free(self, process: Process) -> None:
        self._held.pop(process, None)
        self._mechanism.free(process)

    def hold(self, process: Process) -> None:
        self._held[process] = None
        self._mechanism.hold(process)

    def after_change(self) -> None:
        """A slot has begun: let those that it has stopped in sections run on where their jobs run."""
        for process in self._held:
            page, (job, _) = self._page(process), self._names[process]
            if page is None:
                continue
            for host, (its_job, _) in self._names.items():
                if its_job == job and host not in self._held and not host.wait(0):
                    self._visit(process, host, page)
                    break

    def _visit(self, process: Process, host: Process, page: SectionMarks) -> None:
        """Let the process run in the place of its host until it is outside, or for the last time."""
        _, rank = self._names[process]
        _, host_rank = self._names[host]
        for _ in range(LOOKS):
            self._mechanism.hold(host)
            if not page.holds(host_rank):
                break
            self._mechanism.run(host)  # the other one may wait for it
            self._pause(PAUSE_S)
        else:
            return
        with suppress(OSError):  # one of the two has ended
            own, its = (min(os.sched_getaffinity(one.pid)) for one in (process, host))
            self._move(process, its)
            self._run_on(process, rank, page)
            self._move(process, own)
        self._mechanism.run(host)

    def _run_on(self, process: Process, rank: int, page: SectionMarks) -> None:
        self._mechanism.run(process)
        for _ in range(LOOKS):
            self._pause(PAUSE_S)
            if not page.inside(rank):
                self._mechanism.hold(process)
                if not page.inside(rank):
                    return
                self._mechanism.run(process)  # it has entered the next one in this moment
        self._mechanism.hold(process)
