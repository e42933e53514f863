"""What the parts of a driver share: the run, its clock, its log, and whom to tell."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from coordinator.drive.preflight import Means
from coordinator.drive.run_log.events import Event
from coordinator.drive.run_log.writer import Writer
from coordinator.host.rundir import RunDirectory
from coordinator.workload import Switch, Workload

WARNINGS = 20
"""A run keeps so many, the first."""

Progress = Callable[[str], None]


class RunFailed(Exception):  # noqa: N818 - names an outcome, not a mistake
    """The run as a whole cannot go on."""


@dataclass
class RunContext:
    """One run.

    Attributes:
        directory: of the run.
        workload: what to run.
        means: what to run it with.
        progress: hears in words what happens.
        give_up_ns: when the run has failed if it is not over, in CLOCK_MONOTONIC.
        origin_ns: when it began, in CLOCK_MONOTONIC; None before.
        warnings: of the run, in words.
        switches: the changes of slot that agents have reported.
    """

    directory: RunDirectory
    workload: Workload
    means: Means
    progress: Progress
    give_up_ns: int
    origin_ns: int | None = None
    warnings: list[str] = field(default_factory=list)
    switches: list[Switch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log = Writer(self.directory.history)

    @property
    def remote(self) -> bool:
        """Whether the run has nodes; only then another driver can take it over."""
        return bool(self.workload.nodes)

    def warn(self, text: str) -> None:
        """Tell something that does not keep the run from going on, and have the result say it."""
        self.progress(text)
        if text not in self.warnings and len(self.warnings) < WARNINGS:
            self.warnings.append(text)

    def note(self, event: Event) -> None:
        """Write an event to the log, for another driver."""
        if self.remote:
            self.log.add(event)

    def now_ns(self) -> int:
        """The time since the run began; 0 before."""
        return time.monotonic_ns() - self.origin_ns if self.origin_ns is not None else 0
