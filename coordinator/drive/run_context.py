"""One run, as the parts of the driver share it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.drive.preflight import LaunchPlan
from coordinator.host.rundir import RunDirectory
from coordinator.workload import NO_HISTORY, History, Switch, Workload

WARNINGS = 20  # a run keeps its first warnings, at most so many

Progress = Callable[[str], None]


class RunFailed(Exception):  # noqa: N818 - names an outcome, not a mistake
    """The run as a whole cannot continue."""


@dataclass
class RunContext:
    """One run.

    ``progress`` gets a message about each step. ``give_up_ns`` is the deadline of the run, ``origin_ns`` its
    start, None before, both in CLOCK_MONOTONIC; the rest of a run has the start of the whole.
    ``switches`` are the slot switches that agents have reported.
    """

    directory: RunDirectory
    workload: Workload
    launch_plan: LaunchPlan
    progress: Progress
    give_up_ns: int
    origin_ns: int | None = None
    warnings: list[str] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)
    history: History = NO_HISTORY

    @property
    def remote(self) -> bool:
        """Whether the run names its nodes."""
        return bool(self.workload.nodes)

    def warn(self, text: str) -> None:
        """Report a fault that does not stop the run, and add it to the result."""
        self.progress(text)
        if text not in self.warnings and len(self.warnings) < WARNINGS:
            self.warnings.append(text)

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.origin_ns if self.origin_ns is not None else 0
