"""``lockstep clean``: release and list the leftovers of runs."""

import argparse

from coordinator.host.cleanup import clean
from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--all", action="store_true", dest="everything", help="also stop runs that are still in progress"
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Continue stopped processes, end orphans, remove files and cgroups."""
    done = clean(options.everything)
    return Answer({"schema": SCHEMA, "done": done}, done or ["nothing to clean"])
