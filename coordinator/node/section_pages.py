"""The pages of the jobs' locks on a node, as the agent sees them."""

from __future__ import annotations

from pathlib import Path

from workloads.locks import SectionMarks, page_file


class SectionPages:
    """The page of each job that has locks; ``folder`` is the run directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[int, SectionMarks] = {}

    def of(self, job: int) -> SectionMarks | None:
        """The page of ``job``; None if it has no locks, or none yet."""
        if job not in self._known:
            try:
                self._known[job] = SectionMarks(page_file(self._folder, job))
            except OSError:
                return None
        return self._known[job]

    def forget(self, job: int) -> None:
        """Look for the page anew: a job that starts again has another one."""
        self._known.pop(job, None)

    def announce(self, job: int, rank: int, at_ns: int) -> None:
        """Tell a rank when it is going to be stopped, by CLOCK_MONOTONIC; 0 if that is not known."""
        if page := self.of(job):
            page.stops(rank, at_ns)
