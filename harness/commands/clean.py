"""``lockstep clean``: release whatever runs have left behind, and say what that was."""

from __future__ import annotations

import argparse

from coordinator.host.cleanup import clean
from harness.commands import Answer
from harness.measure.session import Watcher

SCHEMA = 1


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    help_text = "end also the runs that are still in progress"
    parser.add_argument("--all", action="store_true", dest="everything", help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Continue what is stopped, end what is orphaned, remove what is left."""
    done = clean(options.everything)
    return Answer({"schema": SCHEMA, "done": done}, done or ["nothing to clean"])
