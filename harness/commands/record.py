"""``lockstep record -- COMMAND...``: record an MPI program alone, and describe it in the model's terms."""

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.drive.preflight import AS_MPI
from coordinator.host.launch import LaunchError
from coordinator.host.launchers import launched, program_name
from coordinator.host.named_hosts import elsewhere
from harness.analyse import program_profile, result_warnings
from harness.commands import SCHEMA, Answer, shared
from harness.commands.exec import command_of, library, mpicc_argument
from harness.measure import session
from harness.measure.dedicated_recordings import rank_files
from harness.measure.guarded_copies import run_copies
from harness.measure.registrar import Registrar, unheard
from harness.measure.session import Watcher
from harness.report import documents
from harness.spec.experiment import usable_processors
from harness.store import recording
from harness.store.conditions import Moment
from harness.store.recording import Recording, RecordingError
from workloads import native

FEW_COVERED = 0.5
VARIES = 0.25


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write the recording to this file (default: a new file below --results)",
    )
    shared.add(parser, "--results")
    mpicc_argument(parser)
    shared.add(parser, "--no-wait")
    add("program", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="record this command")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    command = command_of(options, "record")
    seen = record_program(options, command, options.output, watcher)
    document = {"schema": SCHEMA, "command": command, "recording": str(seen.path), **seen.profile}
    document["warnings"] = seen.warnings
    return Answer(document, documents.observation(document), status=1 if seen.failure else 0, verbatim=True)


@dataclass(frozen=True)
class RecordedProgram:
    """A program that was recorded alone, in the file ``path``, and its profile in the model's terms."""

    path: Path
    profile: dict[str, Any]
    warnings: list[str]  # why the recording may not stand for the program
    failure: str  # why the command failed; empty if it did not


def record_program(
    options: argparse.Namespace, command: Sequence[str], output: Path | None, watcher: Watcher
) -> RecordedProgram:
    """Run ``command`` alone and record it, in a new file below --results if there is no ``output``."""
    name = f"{program_name(command)}-{time.strftime('%Y%m%d-%H%M%S')}.npz"
    path = output or options.results / recording.FOLDER / name
    compiled = library(options, command, watcher)
    with session.reserved(usable_processors(), watcher, options.no_wait):
        before = Moment.now(usable_processors())
        recordings, failure = _recorded(options, command, compiled, path.absolute().parent, watcher)
        disturbed = result_warnings.of_waits(before, Moment.now(usable_processors()), complete=not failure)
    recording.write(recordings[0], path)
    profile = program_profile.profile(recordings[0])
    warnings = [*_warnings(recordings, failure, profile), *disturbed]
    return RecordedProgram(path, profile, warnings, failure)


def _recorded(
    options: argparse.Namespace,
    command: Sequence[str],
    compiled: native.Library,
    beside: Path,
    watcher: Watcher,
) -> tuple[list[Recording], str]:
    """Run a command; returns what its ranks left, and why it failed."""
    failure = None
    messages = ""
    away = elsewhere([command], os.environ)
    with (
        rank_files("--output", beside) as files,
        Registrar(None, watcher.warn, elsewhere=away) as registrar,
    ):
        try:
            variables = compiled.environment(AS_MPI, files) | registrar.variables
            words, environment = launched(command, variables, compiled.needed)
            messages = run_copies([(words, environment)], None).said
        except LaunchError as error:
            failure = error
        recordings = recording.gather(files, command)
        _check_room(recordings, command)
    if not recordings and failure is not None:
        raise failure
    if not recordings:
        raise unheard(command, compiled, messages, named=bool(options.mpicc))
    return recordings, str(failure or "")


def _warnings(recordings: Sequence[Recording], failure: str, profile: dict[str, Any]) -> Iterator[str]:
    one = recordings[0]
    covered = profile["covered"]
    variation = profile["variation"] or 0
    if failure:
        yield f"the command failed, and the recording ends there: {failure}"
    if len(recordings) > 1:
        yield f"the command ran {len(recordings)} MPI programs, and this is the longest: record each alone"
    if missing := one.processes - len(one.ranks):
        yield f"{missing} of {one.processes} ranks left no recording on this host"
    if full := sum(rank.full for rank in one.ranks):
        yield f"{full} ranks had no room for all operations: name another directory with -o"
    if early := sum(not rank.complete for rank in one.ranks):
        yield f"{early} ranks ended without MPI_Finalize"
    if one.lacks:
        yield one.lacks
    if any(rank.threads > 1 for rank in one.ranks):
        yield "several threads of a rank call MPI, and their operations follow each other in the recording"
    if covered < FEW_COVERED:
        yield f"the recording covers {covered:.1%} of the time; the rest may differ from it"
    if variation > VARIES:
        yield f"its stretches vary by {variation:.0%}: they may not stand for all of the program"


def _check_room(recordings: Sequence[Recording], command: Sequence[str]) -> None:
    """Raises RecordingError if a rank had no room for even one operation."""
    for rank in (rank for program in recordings for rank in program.ranks):
        if rank.full and not len(rank.rows):
            raise RecordingError(
                Path(program_name(command)),
                f"rank {rank.rank} had no room to record what it does",
                "make room where the recording goes, or name another place",
            )
