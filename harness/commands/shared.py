"""Shared by several subcommands: arguments of experiments, and progress in counts."""

from __future__ import annotations

import argparse
import time

from harness.measure.session import Progress, Watcher
from harness.simulator import cache

COMPILING = "compiling the simulator, once for this version"


def experiment_arguments(parser: argparse.ArgumentParser) -> None:
    """Add EXPERIMENT and the options that change it."""
    add = parser.add_argument
    add("experiment", metavar="EXPERIMENT", help="experiment file (.toml), or name of a built-in experiment")
    add(
        "--set",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="override a key of the file (repeatable), e.g. repeats=3, program.granularity_us=100",
    )
    add("--quick", action="store_true", help="fewer repeats of shorter programs")
    add("--seed", type=int, help="seed of compute times and of the order of runs")


class Counted:
    """Reports to a watcher the number of completed parts and the time left."""

    def __init__(self, watcher: Watcher, label: str) -> None:
        self._watcher, self._label, self._begin_s = watcher, label, time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` parts are complete."""
        elapsed_s = time.monotonic() - self._begin_s
        left_s = elapsed_s / max(done, 1) * (total - done)
        self._watcher.progress(Progress(self._label, done, total, elapsed_s, left_s))


def announce_compiler(watcher: Watcher) -> None:
    """Report if the simulator's event loop must be compiled first, which takes up to a minute."""
    if not cache.holds("kernel.advance"):
        watcher.progress(Progress(COMPILING, 0, 1, 0.0, 0.0))
