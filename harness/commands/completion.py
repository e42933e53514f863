"""``lockstep completion SHELL``: what makes a shell complete commands, options and files."""

import argparse
from importlib import import_module
from pathlib import Path

from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from workloads.validation import InputError

SHELLS = ("bash", "zsh", "tcsh")
FOLDERS = ("DIR", "RESULTS")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell",
        choices=SHELLS,
        metavar="SHELL",
        help=f"write for {', '.join(SHELLS)}, e.g. lockstep completion bash > FILE, which .bashrc sources",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    try:
        shtab = import_module("shtab")
    except ModuleNotFoundError:
        raise InputError(
            "package", "shtab", "is not installed", "pip install 'lockstep-scheduling[shell]'"
        ) from None
    whole, commands = options.whole()
    for command in commands:
        for action in command._actions:  # argparse has no other way to its arguments, and shtab goes it, too
            if action.type is Path or action.metavar == "EXPERIMENT":
                kind = shtab.DIRECTORY if action.metavar in FOLDERS else shtab.FILE
                vars(action)["complete"] = kind
    script = shtab.complete(whole, options.shell)
    document = {"schema": SCHEMA, "shell": options.shell, "script": script}
    return Answer(document, [script], verbatim=True)
