"""Shared by several subcommands: arguments, conditions on rows, and files."""

import errno
import os
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.analyse import verdicts
from harness.analyse.results_document import ResultsDocument
from harness.analyse.summary import TAU_S
from harness.analyse.verdicts import TOLERANCE, Threshold
from harness.commands import Answer
from harness.report import dashboards, tables
from harness.report.dashboards import Metric
from harness.spec import experiment
from harness.spec.experiment import Experiment
from harness.spec.naming import scheduler_name
from harness.spec.overrides import Override
from workloads.validation import InputError, refused, written

OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "experiment": {
        "metavar": "EXPERIMENT",
        "help": "name an experiment file (.toml) or a built-in experiment",
    },
    "--set": {
        **{"dest": "settings", "metavar": "KEY=VALUE", "action": "append", "default": []},
        "help": "override a key of the file, e.g. repeats=3, program.granularity_us=100",
    },
    "--policy": {
        **{"dest": "policies", "metavar": "POLICY", "action": "append", "default": []},
        "help": 'replace the schedulers of the file by a policy with its keys, e.g. "gang quantum_ms=20"',
    },
    "--quick": {"action": "store_true", "help": "make fewer repeats of shorter programs"},
    "--seed": {
        **{"type": int, "metavar": "N"},
        "help": "draw compute times and the order of runs from this seed (default: the file's)",
    },
    "--resume": {"action": "store_true", "help": "skip recorded runs"},
    "--no-simulate": {"dest": "simulate", "action": "store_false", "help": "measure only"},
    "--timeline": {"action": "store_true", "help": "record a timeline of every rank, for trace and report"},
    "results": {"metavar": "RESULTS", "type": Path, "help": "read the records of this directory"},
    "--experiment": {
        "metavar": "NAME",
        "help": "take only the experiment with this name, or with a digest that begins like this",
    },
    "--results": {
        **{"type": Path, "default": Path("lockstep-results"), "metavar": "DIR"},
        "help": "keep records in this directory",
    },
    "--slowdown-bound": {
        **{"type": float, "default": TAU_S, "metavar": "S"},
        "help": "count a shorter time alone as this long in bounded slowdowns",
    },
    "--tolerance": {
        **{"type": float, "default": TOLERANCE, "metavar": "SHARE"},
        "help": "accept this error of the simulated workload slowdown",
    },
    "--env": {
        **{"dest": "environment", "metavar": "NAME=VALUE", "action": "append", "default": []},
        "help": "set a variable for all programs, in addition to those of the shell",
    },
    "--hosts": {
        "metavar": "A:N,B:N",
        "help": "run on these hosts, each with its number of processors",
    },
    "--hostfile": {
        **{"type": Path, "metavar": "FILE"},
        "help": "read the hosts from a file, one on each line",
    },
    "--allocation": {"action": "store_true", "help": "run on the nodes of this Slurm allocation"},
    "--no-wait": {
        "action": "store_true",
        "help": "measure even while another Lockstep uses these processors",
    },
    "--fail-if": {
        **{"action": "append", "default": [], "metavar": "CONDITION"},
        "help": 'exit with status 1 if this holds of a slowdown, e.g. "gang 100 ms > 1.05", "any > 2"',
    },
    "--open": {"action": "store_true", "help": "show the file in a browser"},
    "--junit": {"type": Path, "metavar": "FILE", "help": "write the rows as tests in JUnit's XML"},
    "--export-bmf": {
        **{"type": Path, "metavar": "FILE"},
        "help": "write slowdowns with their intervals in the Bencher Metric Format",
    },
    "--export-github-benchmark": {
        **{"type": Path, "metavar": "FILE"},
        "help": "write slowdowns for github-action-benchmark (customSmallerIsBetter)",
    },
}
"""The arguments of several commands."""

EXPERIMENT = (
    "experiment",
    "--policy",
    "--set",
    "--quick",
    "--seed",
)  # an experiment, and the options that change it

HOSTS = ("--hosts", "--hostfile")
"""Options that name the hosts to run on; only one of them may be given."""

MEASURING = ("--resume", "--no-simulate", "--timeline")
EXPORTS = tuple(dashboards.FORMATS)
VERDICTS = ("--fail-if", "--junit", *EXPORTS)
"""Options that make a command fail, report its rows as tests, and write them for dashboards."""


def add(parser: ArgumentParser, *names: str, **changes: Any) -> None:
    for name in names:
        parser.add_argument(name, **{**OPTIONS[name], **changes})


def add_one_of(parser: ArgumentParser, *names: str) -> None:
    """Add options of which only one may be given."""
    group = parser.add_mutually_exclusive_group()
    for name in names:
        group.add_argument(name, **OPTIONS[name])


def output(parser: ArgumentParser, help_text: str, default: Path | None = None) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", default=default, help=help_text)
    add(parser, "--open")


def load(options: Namespace, *settings: str | Override, **how: Any) -> Experiment:
    """The experiment that the options of EXPERIMENT ask for, with more settings; ``how`` as there."""
    all_settings = [*options.settings, *settings]
    how |= {"policies": options.policies, "quick": options.quick, "seed": options.seed}
    return experiment.load(options.experiment, settings=all_settings, **how)


def environment_of(options: Namespace) -> dict[str, str]:
    for word in options.environment:
        if "=" not in word:
            raise InputError("--env", word, "must be NAME=VALUE", f"write --env {word}=VALUE")
    return dict(word.split("=", 1) for word in options.environment)


def thresholds_of(options: Namespace, chosen: Experiment) -> list[Threshold]:
    """The conditions of --fail-if on the schedulers of an experiment, if the files can be written."""
    if options.junit is not None:
        check_writable("--junit", options.junit)
    check_exports(options)
    return verdicts.parse(options.fail_if, [scheduler_name(one.table) for one in chosen.schedulers])


def judged(
    answer: Answer, results: ResultsDocument, options: Namespace, conditions: Sequence[Threshold], side: str
) -> Answer:
    """The answer, with the status and notes of the conditions that rows break; writes the options' files."""
    broken = verdicts.broken(conditions, results.rows, side)
    if options.junit is not None:
        text = tables.junit(results.experiment, results.rows, side, broken, results.failures)
        write("--junit", options.junit, text)
    export(options, dashboards.of_rows(results.experiment, results.rows, side))
    notes = (*answer.notes, *(tables.sentence(threshold, row, side) for threshold, row in broken))
    return replace(answer, status=1 if broken else answer.status, notes=notes)


def exports_of(options: Namespace) -> dict[str, Path]:
    """The files for dashboards that these options ask for, by option."""
    files = {option: getattr(options, option[2:].replace("-", "_")) for option in EXPORTS}
    return {option: path for option, path in files.items() if path is not None}


def check_exports(options: Namespace) -> None:
    for option, path in exports_of(options).items():
        check_writable(option, path)


def export(options: Namespace, metrics: Iterable[Metric]) -> None:
    """Write the files for dashboards."""
    every = list(metrics)
    for option, path in exports_of(options).items():
        write(option, path, dashboards.FORMATS[option](every))


def show(path: Path) -> None:
    if not webbrowser.open(path.resolve().as_uri()):
        raise InputError("--open", str(path), "there is no browser to show it", "open the file by hand")


UNWRITABLE = "cannot be written", "give a file in a directory of yours"


def check_writable(option: str, path: Path) -> None:
    """Refuse a file that cannot be written, unopened: who reads a pipe would take that for its end."""
    with refused(option, path, *UNWRITABLE):
        place = path if path.exists() else path.parent
        place.stat()
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(place, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write(option: str, path: Path, content: str | bytes) -> None:
    with written(option, path, *UNWRITABLE):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
