"""Subcommands: ``harness.commands.NAME`` for each.

Such a module has ``arguments(parser)``, which adds its arguments, and ``execute(options,
watcher)``, which does the work and returns an :class:`Answer`. It neither prints nor exits.
``cli`` imports it only when its command runs. ``options.whole()`` gives the whole parser, and that of
each command, with all arguments.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

COMMAND_GROUPS = {
    "measure policies": {
        "demo": "measure three short jobs for a minute, and print the result in three sentences",
        "init": "write an experiment file to start from, or the schema of all",
        "run": "run an experiment on real processes and compare its schedulers",
        "compare": "compare measured with simulated slowdowns, or two directories, with verdicts",
        "report": "write the results of an experiment as a page, picture or table",
        "trace": "write the timeline of a run for Perfetto, Vampir and other viewers",
        "explore": "show the same jobs under three schedulers in slow motion, as a page",
        "list": "list the experiments and runs in a store",
        "policies": "list scheduling policies, waiting rules and mechanisms",
    },
    "my own programs": {
        "colocate": "measure programs alone and together on the same processors, and advise",
        "turns": "let programs, or running jobs, take turns on the processors",
        "exec": "run any command with two-phase waits in its MPI programs",
        "tune": "measure which setting suits a program that shares its processors",
        "record": "record an MPI program alone, and describe it in the terms of the model",
    },
    "on a cluster": {
        "submit": "run an experiment in a Slurm allocation",
        "collect": "merge the results of the parts of a sweep, and report them",
    },
    "predict": {
        "show": "show step by step what a policy decides as jobs come and go",
        "simulate": "simulate an experiment, without running it",
        "log": "describe a job log: jobs, load, sizes, users, and what it lacks",
        "advise": "recommend a policy and a waiting rule for a program on this host",
        "reproduce": "simulate the figures and check the claims of a paper",
    },
    "this host": {
        "doctor": "check what on this host disturbs measurements",
        "calibrate": "measure the machine constants that waiting rules and simulator use",
        "clean": "release the leftovers of killed runs",
        "agent": "act as the agent of a node (internal: lockstep run starts it)",
        "completion": "print a script that completes this command line in a shell",
    },
}
"""Every subcommand with its line of help, by what it is for."""

COMMANDS = {name: line for commands in COMMAND_GROUPS.values() for name, line in commands.items()}

RENAMED = {
    **{"waits": "tune", "beside": "colocate", "observe": "record"},
    **{"--give-up": "--timeout-factor", "--trace": "--log", "--blocking": "--waiting"},
    **{"--anyway": "--no-wait", "--leave": "--skip-call", "--choices": "--settings", "--share": "--report"},
    **{"--aa": "--self-test", "--tau": "--slowdown-bound", "--switch-us": "--context-switch-us"},
}
"""Former words of the command line, and those that replace them."""

SCHEMA = 1  # version of the documents that --json prints


@dataclass(frozen=True)
class Answer:
    """The answer of a command."""

    document: Mapping[str, Any]  # output with --json
    text: Iterable[Any]  # output without --json: lines, or parts from ``harness.report``
    status: int = 0  # exit status: 0, or 1 if something failed
    notes: tuple[str, ...] = ()  # sentences for stderr, with and without --json
    verbatim: bool = False  # whether long lines of the text must not be wrapped
