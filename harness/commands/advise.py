"""``lockstep advise``: the best policy and waiting rule for a program on this host, by simulation."""

import argparse
from pathlib import Path

from coordinator.host.launch import LaunchError
from harness import application
from harness.analyse import advise, stored_runs
from harness.commands import Answer, shared
from harness.commands.exec import command_of, mpicc_argument
from harness.commands.record import record_program
from harness.measure.session import Watcher
from harness.report import text
from workloads.patterns import BULK_SYNCHRONOUS
from workloads.program import Program
from workloads.validation import InputError


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--like", type=Path, metavar="RESULTS", help="take the jobs of the last experiment in this store")
    add(
        "--recording",
        type=Path,
        metavar="FILE",
        help="take jobs of this program, which lockstep record recorded",
    )
    add(
        "--command",
        dest="program",
        nargs=argparse.REMAINDER,
        metavar="COMMAND ...",
        help="record this MPI program alone first, and take jobs of it; all further words are its own",
    )
    mpicc_argument(parser)
    add(
        "--pattern",
        default="BARRIER",
        help=f"describe the program by its pattern, one of {', '.join(BULK_SYNCHRONOUS)}",
    )
    add(
        "--granularity-us",
        type=float,
        default=1000.0,
        metavar="US",
        help="set the mean compute time of a phase",
    )
    add(
        "--imbalance",
        type=float,
        default=0.25,
        metavar="SHARE",
        help="set the width of the range of compute times, as a share of their mean",
    )
    add("--processes", type=int, default=2, metavar="P", help="give each job this many processes")
    add("--jobs", type=int, default=3, metavar="N", help="take this many jobs")
    shared.add(parser, "--no-wait", "--results")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the candidates with this host's last good calibration; calibrate first if there is none."""
    command = _command(options)
    jobs = options.jobs
    program: Program | Path | None = options.recording
    if options.recording and options.like:
        raise InputError(
            "--like", str(options.like), "cannot be combined with --recording", "give one of them"
        )
    if not command and not options.recording:
        program, jobs = _described(options, watcher)

    def record() -> tuple[Path, list[str]]:
        seen = record_program(options, command or [], None, watcher)
        watcher.note(f"recorded in {seen.path}")
        if seen.failure:
            raise LaunchError(seen.failure)
        return seen.path, seen.warnings

    answer = application.advise(
        program, jobs, options.results, watcher, no_wait=options.no_wait, record=record
    )
    return Answer(answer.document(), text.advice(answer))


def _command(options: argparse.Namespace) -> list[str] | None:
    if options.program is None:
        return None
    for name, value in (("--recording", options.recording), ("--like", options.like)):
        if value:
            raise InputError(name, str(value), "cannot be combined with --command", "give one of them")
    return command_of(options, "advise --command")


def _described(options: argparse.Namespace, watcher: Watcher) -> tuple[Program, int]:
    if options.like:
        experiments = stored_runs.read(options.like, None, watcher)
        last = stored_runs.of_processes(
            experiments, options.like, f"lockstep report {options.like} shows them"
        )[-1].experiment
        return advise.like(options.like, last.cells[0].jobs())
    shape = {name: getattr(options, name) for name in ("pattern", "processes", "granularity_us", "imbalance")}
    return Program(**shape, dedicated_s=advise.LEAST_S), options.jobs
