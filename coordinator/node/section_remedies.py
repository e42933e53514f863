"""Remedies of the agent against the preemption of processes in critical sections.

A rank of a LOCK job marks in the page of its job's locks that it is about to enter a section, is in one, or
spins for one.

The do-not-preempt bit: when the agent is about to hold a rank whose mark is up, it lets the rank run on for a
moment and looks again, a limited number of times: a rank that leaves the mark up gains no more. Sources:
Edler, Lipkis, Schonberg, "Process Management for Highly Parallel UNIX Systems", 1988 (Symunix); Zahorjan,
Lazowska, Eager, "The Effect of Scheduling Discipline on Spin Overhead in Shared Memory Parallel Systems",
1991.

Scheduler activations: after every change the agent looks at the processes that it holds. If one of them is in
a critical section, or in the queue for one, and another rank of its job runs, then the agent stops that rank,
lets the holder run in its place, and turns both back as soon as the page states that the holder has left, or
after a limited number of looks. Anderson's threads are switched in the process, by its own scheduler; ranks
of MPI are processes, so a visit costs two moves. Source: Anderson, Bershad, Lazowska, Levy, "Scheduler
Activations", 1992.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from coordinator.host.mechanisms import Mechanism, set_cores
from coordinator.host.processes import Process
from workloads.locks import SectionMarks, page_file
from workloads.options import Remedy


class SectionPages:
    """The page of each job that has locks; ``folder`` is the run directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[int, SectionMarks] = {}

    def of(self, job: int) -> SectionMarks | None:
        if job not in self._known:
            try:
                self._known[job] = SectionMarks(page_file(self._folder, job))
            except OSError:
                return None
        return self._known[job]

    def forget(self, job: int) -> None:
        """Look for the page again: a job that starts again has another one."""
        self._known.pop(job, None)

    def announce(self, job: int, rank: int, at_ns: int) -> None:
        """Tell a rank when it is going to be stopped, by CLOCK_MONOTONIC; 0 if that is not known."""
        if page := self.of(job):
            page.stops(rank, at_ns)


class SectionMechanism(Mechanism):
    """Holds and runs processes by ``mechanism``, and knows the page of locks of each.

    Whether a process is in a section must be looked up each time. ``pause`` waits for that many seconds; the
    processes run meanwhile.
    """

    def __init__(
        self, mechanism: Mechanism, pages: SectionPages, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._mechanism = mechanism
        self._pages = pages
        self._pause = pause
        self._names: dict[Process, tuple[int, int]] = {}

    def adopt(self, process: Process, job: int, rank: int) -> None:
        for old in [old for old, name in self._names.items() if name == (job, rank)]:
            self._forget(old)
        self._names[process] = job, rank
        self._pages.forget(job)
        self._mechanism.adopt(process, job, rank)

    def drop(self, process: Process) -> None:
        if process in self._names:
            self._forget(process)
        self._mechanism.drop(process)

    def _forget(self, process: Process) -> None:
        del self._names[process]

    def hold(self, process: Process) -> None:
        self._mechanism.hold(process)

    def run(self, process: Process) -> None:
        self._mechanism.run(process)

    def free(self, process: Process) -> None:
        self._mechanism.free(process)

    def _page(self, process: Process) -> SectionMarks | None:
        """The page in which the process is in a critical section, or waits for one; None if it is outside."""
        job, rank = self._names[process]
        page = self._pages.of(job)
        return page if page is not None and page.inside(rank) else None


class DoNotPreempt(SectionMechanism):
    """Puts holding off while a process is in a section; ``remedy`` says how often, and for how long."""

    def __init__(
        self,
        mechanism: Mechanism,
        pages: SectionPages,
        remedy: Remedy,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(mechanism, pages, pause)
        self._times = remedy.deferrals
        self._pause_s = remedy.deferral_us / 1e6

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


LOOKS, PAUSE_S = 20, 20e-6
"""How often the agent looks at most whether a visitor has left, and how long it waits in between."""


class Activations(SectionMechanism):
    """Lets processes that are held in sections run on; ``move`` binds a process to a core."""

    def __init__(
        self,
        mechanism: Mechanism,
        pages: SectionPages,
        move: Callable[[Process, int], None] = set_cores,
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
