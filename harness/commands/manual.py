"""``lockstep manual``: the manual page, made from the arguments of all commands."""

import argparse

from harness.commands import SCHEMA, Answer
from harness.commands.completion import optional
from harness.measure.session import Watcher


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command: none, but an example."""
    parser.epilog = "for example: lockstep manual | man -l -"


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    whole, _ = options.whole()
    page = optional("argparse_manpage.manpage").Manpage(whole, format="single-commands-section")
    page.manual, page.description = "Lockstep", "measure and simulate time-shared MPI jobs"
    return Answer({"schema": SCHEMA, "page": str(page)}, [str(page)], verbatim=True)
