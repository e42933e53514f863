"""Shared by several subcommands: arguments, conditions on rows, and files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.analyse import verdicts
from harness.analyse.results_document import ResultsDocument
from harness.analyse.summary import TAU_S
from harness.analyse.verdicts import TOLERANCE, Threshold
from harness.commands import Answer
from harness.report import tables
from harness.spec.experiment import Experiment
from harness.spec.naming import scheduler_name
from workloads.validation import refused


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


def results_arguments(parser: argparse.ArgumentParser) -> None:
    """Add RESULTS and --experiment, for the commands that read results."""
    parser.add_argument("results", metavar="RESULTS", type=Path, help="directory with records")
    help_text = "only experiments with this name, or with a digest that begins like this"
    parser.add_argument("--experiment", metavar="NAME", help=help_text)


def results_argument(parser: argparse.ArgumentParser, what: str = "directory for the records") -> None:
    """Add --results, for every command that writes records or goes by the last calibration."""
    default, help_text = Path("lockstep-results"), f"{what} (default: %(default)s)"
    parser.add_argument("--results", type=Path, default=default, metavar="DIR", help=help_text)


def tau_argument(parser: argparse.ArgumentParser) -> None:
    """Add --tau."""
    help_text = "bound of the bounded slowdown, seconds (default: %(default)s)"
    parser.add_argument("--tau", type=float, default=TAU_S, metavar="S", help=help_text)


def tolerance_argument(parser: argparse.ArgumentParser) -> None:
    """Add --tolerance."""
    help_text = "accepted error of the simulated workload slowdown (default: %(default)s)"
    parser.add_argument("--tolerance", type=float, default=TOLERANCE, metavar="SHARE", help=help_text)


def anyway_argument(parser: argparse.ArgumentParser, also: str = "") -> None:
    """Add --anyway, for every command that waits for its turn to measure."""
    help_text = "measure even while another Lockstep uses these processors"
    parser.add_argument("--anyway", action="store_true", help=help_text + also)


def verdict_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that make a command fail, and report its rows as tests."""
    add = parser.add_argument
    help_text = (
        'exit with status 1 if this holds of a slowdown, e.g. "gang 100 ms > 1.05", "any > 2" (repeatable)'
    )
    add("--fail-if", action="append", default=[], metavar="CONDITION", help=help_text)
    add("--junit", type=Path, metavar="FILE", help="write the rows as tests in JUnit's XML")


def thresholds_of(options: argparse.Namespace, wanted: Experiment) -> list[Threshold]:
    """The conditions of --fail-if on the schedulers of an experiment."""
    return verdicts.parse(options.fail_if, [scheduler_name(one.table) for one in wanted.schedulers])


def judged(
    answer: Answer,
    found: ResultsDocument,
    options: argparse.Namespace,
    conditions: Sequence[Threshold],
    side: str,
) -> Answer:
    """The answer, with the status and notes of the conditions that rows break; writes the file of --junit."""
    broken = verdicts.broken(conditions, found.rows, side)
    if options.junit is not None:
        text = tables.junit(found.experiment, found.rows, side, broken, found.failures)
        write("--junit", options.junit, text)
    notes = (*answer.notes, *(tables.sentence(threshold, row, side) for threshold, row in broken))
    return replace(answer, status=1 if broken else answer.status, notes=notes)


def write(option: str, path: Path, made: str | bytes) -> None:
    """Write the file that an option names."""
    with refused(option, path, "cannot be written", "give a file in a directory of yours"):
        path.write_bytes(made if isinstance(made, bytes) else made.encode())
