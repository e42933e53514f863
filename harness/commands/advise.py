"""``lockstep advise``: the best policy and waiting rule for a program on this host, by simulation."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

from coordinator.host.launch import LaunchError
from harness.analyse import advise, caveats, results_document
from harness.analyse.agreement import Errors, by_scheduler, errors_of
from harness.analyse.columns import duration
from harness.analyse.rows import Row, Summary
from harness.commands import SCHEMA, Answer, stored
from harness.commands.exec import command_of, mpicc_argument
from harness.commands.observe import ObservedProgram, observe
from harness.commands.run import real_tools
from harness.commands.shared import Counted, announce_compiler, anyway_argument, results_argument
from harness.measure.calibrate import constants
from harness.measure.session import Site, Watcher
from harness.report import text
from harness.spec.experiment import Experiment, usable_processors
from harness.store import conditions
from harness.store.database import Store
from harness.store.records import Calibration
from workloads.bounds import within
from workloads.patterns import BULK_SYNCHRONOUS
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import Command


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add = parser.add_argument
    add("--like", type=Path, metavar="RESULTS", help="take the jobs of the last experiment in this store")
    add("--recording", type=Path, metavar="FILE", help="jobs of this program, recorded by lockstep observe")
    help_text = "record this MPI program alone first, for jobs of it (all words after this one are its)"
    add("--command", dest="program", nargs=argparse.REMAINDER, metavar="COMMAND", help=help_text)
    mpicc_argument(parser)
    add("--pattern", default="BARRIER", help=f"one of {', '.join(BULK_SYNCHRONOUS)} (default: %(default)s)")
    add("--granularity-us", type=float, default=1000.0, metavar="G", help="mean compute time of a phase")
    add("--imbalance", type=float, default=0.25, metavar="V/G", help="width of its range as a share of G")
    add("--processes", type=int, default=2, metavar="P", help="processes of a job (default: %(default)s)")
    add("--jobs", type=int, default=3, metavar="N", help="number of jobs (default: %(default)s)")
    anyway_argument(parser, ", and go by a calibration that was made under load")
    results_argument(parser)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Simulate the candidates with this host's last calibration; calibrate first if there is none.

    Raises:
        InputError: for a program that does not fit the machine, a store that cannot be read, a
            calibration that was made under load, or a command that leaves no recording.
        NativeError: if the library that records it cannot be made.
        RecordingError: for a recording that cannot be read or written.
        LaunchError: if the calibration or the command fails.
    """
    within("--jobs", options.jobs)
    processors = len(usable_processors())
    command = _command(options)
    # Bad input shows before a calibration.
    known = None if command else _wanted(options, options.recording, processors, watcher)
    calibrated = _calibration(options.results, watcher, anyway=options.anyway)
    age = duration(caveats.calibration_age_s(calibrated)) if calibrated else ""
    if not options.anyway:
        _refuse_load(calibrated, age, options.results)
    doubts = list(caveats.of_use(calibrated, conditions.of_session(usable_processors(), "")))
    recording = options.recording
    if command:
        seen = _observed(options, command, watcher)
        recording, doubts = seen.path, [*doubts, *seen.doubts]
    wanted, program = known or _wanted(options, recording, processors, watcher)
    found = constants(calibrated)
    announce_compiler(watcher)
    rows = advise.predict(wanted, found, Counted(watcher, "simulating"))
    ranges: list[advise.Range] = []
    if isinstance(program, Program):
        asked = [row for row in rows if row.program["granularity_us"] == program.granularity_us]
        ranges = advise.ranges(rows)
    else:
        asked = rows
    asked.sort(key=advise.slowdown)
    compared = _compared(options.results) if recording else []
    overall, errors = errors_of(compared), by_scheduler(compared)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "program": dataclasses.asdict(program),
        "jobs": len(asked[0].jobs),
        "processors": processors,
        "constants": found.of_run("signals"),
        "calibrated_at": max((one.recorded_at for one in calibrated), default=None),
        "doubts": doubts,
        "rows": [_candidate(row, row.simulated, errors.get(row.name)) for row in asked if row.simulated],
        "ranges": [dataclasses.asdict(one) for one in ranges],
        "errors": overall and dataclasses.asdict(overall),
    }
    shown = text.advice(asked, ranges, processors, doubts, age, errors if recording else None)
    return Answer(document, shown)


def _candidate(row: Row, simulated: Summary, errors: Errors | None) -> dict[str, Any]:
    """A row of the document."""
    values = {"scheduler": row.scheduler, **results_document.summary_document(simulated)}
    return values | {"errors": errors and dataclasses.asdict(errors)}


def _refuse_load(calibrated: list[Calibration], age: str, results: Path) -> None:
    """Raise InputError for a calibration that was made under load."""
    if taken := caveats.calibration_load(calibrated):
        rule = (
            f"its last calibration, {age} old, was made under load: others took {taken:.0%} of the processors"
        )
        remedy = f"repeat it on an idle host (lockstep calibrate --results {results}), or add --anyway"
        raise InputError("--results", str(results), rule, remedy)


def _command(options: argparse.Namespace) -> list[str] | None:
    """The words of --command; None without it."""
    if options.program is None:
        return None
    for name, value in (("--recording", options.recording), ("--like", options.like)):
        if value:
            raise InputError(name, str(value), "a command is given, too", "give one of them")
    return command_of(options, "advise --command")


def _observed(options: argparse.Namespace, command: list[str], watcher: Watcher) -> ObservedProgram:
    """The recording of the command to advise on."""
    seen = observe(options, command, None, watcher)
    watcher.note(f"recorded in {seen.path}")
    if seen.failure:
        raise LaunchError(seen.failure)
    return seen


def _wanted(
    options: argparse.Namespace, recording: Path | None, processors: int, watcher: Watcher
) -> tuple[Experiment, Program | Command]:
    """What to simulate, and the program that is asked about."""
    if not recording:
        program, jobs = _described(options, watcher)
        return advise.experiment(program, jobs, processors), program
    if options.like:
        raise InputError("--like", str(options.like), "a recording is given, too", "give one of them")
    wanted = advise.of_recording(recording, options.jobs, processors)
    command = wanted.cells[0].groups[0].program
    assert isinstance(command, Command)
    return wanted, command


def _compared(results: Path) -> list[Row]:
    """The rows of simulated commands that were measured, too."""
    with Store(results, existing=True) as store:
        return advise.compared(store)


def _described(options: argparse.Namespace, watcher: Watcher) -> tuple[Program, int]:
    if options.like:
        last = stored.read(options.like, None, watcher)[-1].experiment
        return advise.like(options.like, last.cells[0].jobs())
    program = Program(
        pattern=options.pattern,
        processes=options.processes,
        granularity_us=options.granularity_us,
        imbalance=options.imbalance,
        dedicated_s=advise.LEAST_S,
    )
    return program, options.jobs


def _calibration(folder: Path, watcher: Watcher, *, anyway: bool) -> list[Calibration]:
    with Store(folder, warn=watcher.warn) as store:
        if calibrated := store.last_calibration():
            return calibrated
        here = Site.here(usable_processors()[:2], real_tools(), store)
        with here.reserved(watcher, anyway=anyway):
            here.warn_of_disturbances(watcher)
            return here.calibrate([0], ["signals"], watcher)
