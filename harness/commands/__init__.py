"""Subcommands: ``harness.commands.NAME`` for each.

Such a module has ``arguments(parser)``, which adds its arguments, and ``execute(options,
watcher)``, which does the work and returns an :class:`Answer`. It neither prints nor exits,
and it is imported only when its command is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

COMMANDS = {
    "run": "run an experiment for real and compare its schedulers",
    "simulate": "predict the results of an experiment on a simulated machine",
    "reproduce": "simulate the figures and check the claims of a paper",
    "compare": "compare measured with simulated slowdowns, with a verdict for each",
    "report": "show the records of an experiment, as one page or picture",
    "trace": "write the timeline of a run for Perfetto or Chrome",
    "calibrate": "measure the machine constants that waiting rules and simulator use",
    "exec": "run any command with two-phase waits in its MPI programs",
    "waits": "measure which way of waiting suits an MPI program that shares the processors",
    "advise": "say which policy and waiting rule suit a program on this host",
    "policies": "list scheduling policies, waiting rules and mechanisms",
    "agent": "be the agent of a node (internal: started by run on every node)",
    "submit": "run an experiment in an allocation of Slurm",
    "collect": "merge the results of a sweep's parts, and report them",
    "clean": "release the leftovers of runs",
}
"""Every subcommand with its line of help."""

SCHEMA = 1
"""Of the documents that --json prints."""


@dataclass(frozen=True)
class Answer:
    """The answer of a command.

    Attributes:
        document: for --json.
        text: for people: lines, or parts made by ``harness.report``.
        status: exit status: 0, or 1 if something failed.
        notes: sentences for stderr, in both cases.
        verbatim: whether lines of the text must stay whole, however long they are.
    """

    document: Mapping[str, Any]
    text: Iterable[Any]
    status: int = 0
    notes: tuple[str, ...] = ()
    verbatim: bool = False


class Interrupted(KeyboardInterrupt):
    """A command was interrupted and has released everything; the message says what it kept."""
