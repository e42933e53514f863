"""The machine constants of a series of runs, measured again as the machine drifts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from coordinator.host.launch import LaunchError
from harness.measure import session
from harness.measure.calibrate import Constants
from harness.measure.plan import Task
from harness.measure.session import MeasurementSession, Watcher
from harness.store.database import StoreError
from harness.store.records import Calibration

FRESH_S = 300.0
"""How long a calibration holds. On virtual machines the cost of a switch doubles within minutes."""


@dataclass
class Recalibrated:
    """Returns the constants for a task, from a calibration that is fresh when the runs of its cell begin.

    All runs of a cell and repeat that one invocation makes have the same constants: they are compared.

    Attributes:
        working_sets, mechanisms: what to calibrate beside messages, as in ``MeasurementSession.calibrate``.
        load: returns the share of the processors' time that others took during a calibration, if it is too
            much; else 0.
        watcher: receives notes, a warning of such a load, and one if a later calibration fails: then the last
            one stands.
    """

    site: MeasurementSession
    working_sets: Collection[int]
    mechanisms: Collection[str]
    load: Callable[[Sequence[Calibration]], float]
    watcher: Watcher
    clock: Callable[[], float] = time.monotonic
    _known: Constants | None = field(default=None, init=False)
    _until_s: float = field(default=math.inf, init=False)
    _group: tuple[int, int] | None = field(default=None, init=False)

    def __call__(self, task: Task) -> Constants:
        """The constants for ``task``; it calibrates first if the last calibration is too old."""
        group = task.cell.index, task.repeat
        if self._known is None:
            found = self.site.calibrate(self.working_sets, self.mechanisms, self.watcher)
            self._known = self._constants(found)
        elif group != self._group and self.clock() >= self._until_s:
            try:
                # All but the times of steps, so that programs do the same work as before.
                mechanisms, steps_ns = self._known.slots.keys(), self._known.walk_steps_ns
                found = self.site.calibrate(self.working_sets, mechanisms, self.watcher, again=True)
                self._known = replace(self._constants(found), walk_steps_ns=steps_ns)
            except (LaunchError, StoreError) as error:
                self._until_s = self.clock() + FRESH_S
                self.watcher.warn(f"the machine constants are not measured again: {error}")
        self._group = group
        return self._known

    def _constants(self, found: list[Calibration]) -> Constants:
        if taken := self.load(found):
            self.watcher.warn(
                f"others took {taken:.0%} of the processors' time during a calibration, on which simulated "
                "slowdowns rest: end them, and measure again"
            )
        # A host with one processor cannot be calibrated.
        self._until_s = self.clock() + FRESH_S if found else math.inf
        return session.constants(found)
