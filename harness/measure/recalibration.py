"""The machine constants of a series of runs, measured again as the machine drifts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coordinator.host.launch import LaunchError
from harness.measure import session
from harness.measure.calibrate import Constants
from harness.measure.plan import Task
from harness.measure.session import Site, Watcher

FRESH_S = 300.0
"""How long a calibration holds. On virtual machines the cost of a switch doubles within minutes."""


@dataclass
class Recalibrated:
    """Returns the constants for a task, from a calibration that is fresh when the runs of its cell begin.

    All runs of one cell in one repeat have the same constants, since they are compared with each other.

    Attributes:
        site: where to calibrate.
        working_sets, mechanisms: what to calibrate beside messages, as in ``Site.calibrate``.
        watcher: receives notes, and a warning if a calibration fails after a first one.
        clock: the present time in seconds.
    """

    site: Site
    working_sets: Iterable[int]
    mechanisms: Iterable[str]
    watcher: Watcher
    clock: Callable[[], float] = time.monotonic
    _known: Constants | None = field(default=None, init=False)
    _at_s: float = field(default=0.0, init=False)
    _group: tuple[int, int] | None = field(default=None, init=False)

    def __call__(self, task: Task) -> Constants:
        """The constants for ``task``; it calibrates first if they are due.

        Raises:
            LaunchError: if the first calibration fails.
            StoreError: if the samples cannot be written.
        """
        group = task.cell.index, task.repeat
        if self._known is None:
            self._known = self._measured()
        elif group != self._group and self.clock() - self._at_s >= FRESH_S:
            try:
                self._known = self._measured()
            except LaunchError as error:
                self._at_s = self.clock()
                self.watcher.warn(f"the machine constants are not measured again: {error}")
        self._group = group
        return self._known

    def _measured(self) -> Constants:
        found = session.constants(self.site.calibrate(self.working_sets, self.mechanisms, self.watcher))
        self._at_s = self.clock()
        return found
