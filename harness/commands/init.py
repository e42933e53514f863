"""``lockstep init FILE``: write an experiment file to start from, with comments."""

import argparse
from importlib import resources
from pathlib import Path

from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from workloads.validation import InputError, written


def arguments(parser: argparse.ArgumentParser) -> None:
    default = Path("experiment.toml")
    help_text = "write this file"
    parser.add_argument("file", metavar="FILE", type=Path, nargs="?", default=default, help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    text = (resources.files("harness.spec") / "template.toml").read_text(encoding="utf-8")
    with written("FILE", options.file, "cannot be written", "give a file in a directory of yours"):
        try:
            with options.file.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            raise InputError(
                "FILE", str(options.file), "must be a new file, and it exists", "give another name"
            ) from None
    lines = [f"{options.file} written; edit it, then: lockstep run {options.file}"]
    return Answer({"schema": SCHEMA, "file": str(options.file)}, lines)
