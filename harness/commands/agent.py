"""``lockstep agent``: be the agent of this node, as the driver of a run asks."""

import argparse
from pathlib import Path

from coordinator.node import agent
from coordinator.wire import agent_config
from coordinator.wire.line_format import LineError
from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        type=Path,
        help="read the set-up of this node from a driver's file (default: the first line of standard input)",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    try:
        config = agent_config.find(options.file)
    except LineError as error:
        raise InputError(
            "FILE", str(options.file), str(error), "use the same version of Lockstep on all nodes"
        ) from error
    agent.serve(config)
    return Answer({"schema": SCHEMA, "run": Path(config.directory).name}, ["the run is over"])
