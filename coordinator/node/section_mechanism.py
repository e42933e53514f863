"""The base of mechanisms that heed critical sections."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from coordinator.host.mechanisms import Mechanism
from coordinator.host.processes import Process
from coordinator.node.section_pages import SectionPages
from workloads.locks import SectionMarks


class SectionMechanism:
    """Holds and runs processes by a ``Mechanism``, and knows the page of locks of each.

    Args:
        mechanism: holds and runs processes.
        pages: of the jobs' locks.
        pause: waits for so many seconds; the processes run meanwhile.
    """

    privilege: ClassVar[str] = ""
    harm: ClassVar[str] = ""

    def __init__(
        self, mechanism: Mechanism, pages: SectionPages, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._mechanism, self._pages, self._pause = mechanism, pages, pause
        self._names: dict[Process, tuple[int, int]] = {}

    @staticmethod
    def unavailable() -> str:
        """Empty: it can be used wherever its mechanism can."""
        return ""

    def adopt(self, process: Process, job: int, rank: int) -> None:
        for old in [old for old, name in self._names.items() if name == (job, rank)]:
            self._forget(old)
        self._names[process] = job, rank
        self._pages.forget(job)
        self._mechanism.adopt(process, job, rank)

    def _forget(self, process: Process) -> None:
        del self._names[process]

    def hold(self, process: Process) -> None:
        self._mechanism.hold(process)

    def run(self, process: Process) -> None:
        self._mechanism.run(process)

    def free(self, process: Process) -> None:
        self._mechanism.free(process)

    def order(self, process: Process, run: bool) -> None:
        """None: whether a process is in a section must be looked up each time."""

    def _page(self, process: Process) -> SectionMarks | None:
        """The page in which the process is in a critical section, or waits for one; None if it is outside."""
        job, rank = self._names[process]
        page = self._pages.of(job)
        return page if page is not None and page.inside(rank) else None
