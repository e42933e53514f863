"""The context that the parts of a driver share: the run, its clock, its log, its warnings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.drive.preflight import LaunchPlan
from coordinator.drive.run_log import Event, Writer
from coordinator.host.rundir import RunDirectory
from coordinator.workload import Switch, Workload

WARNINGS = 20
"""A run keeps its first warnings, at most so many."""

Progress = Callable[[str], None]


class RunFailed(Exception):  # noqa: N818 - names an outcome, not a mistake
    """The run as a whole cannot continue."""


@dataclass
class RunContext:
    """One run.

    ``progress`` gets a message about each step. ``give_up_ns`` is the deadline of the run, ``origin_ns`` its
    start, None before, both in CLOCK_MONOTONIC. ``switches`` are the slot switches that agents have reported.
    """

    directory: RunDirectory
    workload: Workload
    launch_plan: LaunchPlan
    progress: Progress
    give_up_ns: int
    origin_ns: int | None = None
    warnings: list[str] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = Writer(self.directory.history)

    @property
    def remote(self) -> bool:
        """Whether the run names its nodes; only then can another driver take it over."""
        return bool(self.workload.nodes)

    def warn(self, text: str) -> None:
        """Report a fault that does not end the run, and add it to the result."""
        self.progress(text)
        if text not in self.warnings and len(self.warnings) < WARNINGS:
            self.warnings.append(text)

    def note(self, event: Event) -> None:
        if self.remote:
            self.log.add(event)

    def now_ns(self) -> int:
        """The time since the run began; 0 before."""
        return time.monotonic_ns() - self.origin_ns if self.origin_ns is not None else 0
