"""``lockstep tune -- COMMAND...``: which setting suits programs that share their processors."""

import os
import re
import shlex
from argparse import REMAINDER, ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from coordinator.host.launch import LaunchError
from coordinator.host.quotas import quotas
from harness import application
from harness.analyse import results_document, tuning
from harness.application import RunOptions
from harness.commands import Answer, shared
from harness.commands.exec import call_of, command_of, preload, rule_arguments
from harness.commands.shared import judged, thresholds_of
from harness.measure import session
from harness.measure.guarded_copies import libraries_loaded
from harness.measure.session import Watcher
from harness.report import documents
from harness.spec import settings
from harness.spec.colocate import SEPARATOR
from harness.spec.experiment import Experiment, load, usable_processors
from harness.spec.settings import (
    AS_IT_IS,
    OF_TWO_PHASE,
    TWO_PHASE,
    UNCHANGED,
    Preload,
    Setting,
    exec_line,
)
from workloads.native import NativeError
from workloads.native.settings import LibrarySetting, offered
from workloads.validation import InputError, one_of
from workloads.work import CommandLine, Work

OF_MISSING = ("name", "library", "versions")

Libraries = Mapping[int, Mapping[Path, int]]
"""By numbers of commands, how many processes load each library."""


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--jobs",
        type=int,
        default=3,
        metavar="K",
        help="run this many copies at a time; 1 is the command alone",
    )
    add("--rounds", type=int, default=5, metavar="N", help="measure everything this many times")
    add(
        "--timeout-factor",
        type=float,
        default=10.0,
        metavar="X",
        help="stop a run after X times the sum of the times alone",
    )
    add(
        "--only",
        action="append",
        metavar="SETTING",
        help="measure only this setting, and the unmodified program",
    )
    rule_arguments(parser)
    shared.add(parser, "--results", "--resume", "--no-wait", *shared.VERDICTS)
    parser.add_argument(
        "program",
        nargs=REMAINDER,
        metavar="-- COMMAND ...",
        help="run this command; {copy} in it stands for the number of the copy",
    )


def execute(options: Namespace, watcher: Watcher) -> Answer:
    command = command_of(options, "tune")
    if SEPARATOR in command:
        raise InputError(
            "COMMAND",
            shlex.join(command),
            f"measures copies of one command, and {SEPARATOR} stands between several",
            "write lockstep colocate --settings -- ..., or leave the others out",
        )
    _check_only(options, settings.ORDER)
    for name in options.skip_call:
        call_of(name)
    return measured(options, [command], watcher, copies=options.jobs)


def usual(**values: Any) -> Namespace:
    """The options of a command line that has only these."""
    parser = ArgumentParser()
    arguments(parser)
    return Namespace(**{**vars(parser.parse_args([])), **values})


def measured(
    options: Namespace, commands: Sequence[Sequence[str]], watcher: Watcher, copies: int = 1
) -> Answer:
    """Measure the settings of commands, or of copies of one; then the best of MPI and threads together."""
    with session.reserved(usable_processors(), watcher, options.no_wait):
        # This also reads from the disk what is first read, so that it counts for no run.
        libraries = {n: libraries_loaded(words) for n, words in _different(commands).items()}
        available, missing = _settings(options, commands, copies, libraries, watcher)
    _check_only(options, [one.setting for one in available])
    kept = [one for one in available if one.setting in {AS_IT_IS, *(options.only or [one.setting])}]
    table = {
        "name": "tune",
        "repeats": options.rounds,
        "timeout_factor": options.timeout_factor,
        "jobs": [{"command": [*words], "count": copies} for words in commands],
        "schedulers": [{"setting": AS_IT_IS}],
    }
    experiment = replace(load(table), schedulers=tuple(kept))
    conditions = thresholds_of(options, experiment)
    run = RunOptions(simulate=False, resume=options.resume, no_wait=options.no_wait)
    ran = application.run(experiment, options.results, watcher, run)
    records, records_here = [*ran.resumed, *ran.made], [*ran.made]
    if together := tuning.both(kept, ran.results.rows):
        further = replace(run, first_repeat=experiment.repeats)
        then = application.run(_afterwards(experiment, together), options.results, watcher, further)
        experiment = replace(experiment, schedulers=(*experiment.schedulers, together))
        records, records_here = [*records, *then.made], [*records_here, *then.made]
    failed = [one.failure for one in records_here if one.failure and one.exceeded is None]
    if failed and len(failed) == len(records_here):
        raise LaunchError(failed[0])
    results = results_document.results(experiment, records)
    tuned = tuning.tuned(results.rows)
    content = {
        **({"programs": [*map(list, commands)]} if len(commands) > 1 else {"command": list(commands[0])}),
        "jobs": copies * len(commands),
        "timeout_factor": options.timeout_factor,
        "dedicated_s": asdict(tuning.dedicated_s(records)),
        "unavailable": [{key: getattr(setting, key) for key in OF_MISSING} for setting in missing],
        "best": tuned and tuned.best,
        "fastest": tuned and tuned.fastest.name,
        "as_good": tuned and tuned.as_good,
    }
    text = documents.tune(results, content)
    notes = [f"{len(records_here)} runs recorded in {ran.store}"]
    notes += [f"{len(failed)} of {len(records_here)} runs failed: {failed[0]}"] if failed else []
    status = 1 if failed else 0
    answer = Answer({**results.document(), **content}, text, status, tuple(notes), verbatim=True)
    return judged(answer, results, options, conditions, "measured")


def _different(commands: Sequence[Sequence[str]]) -> dict[int, Sequence[str]]:
    """Each command once, by its number."""
    return {number: words for number, words in enumerate(commands) if commands.index(words) == number}


def _afterwards(experiment: Experiment, together: Setting) -> Experiment:
    """Both settings at a time in as many further repeats, each with its own unmodified programs alone."""
    last = 2 * experiment.repeats
    return replace(experiment, schedulers=(together,), repeats=last, min_repeats=last)


def _settings(
    options: Namespace,
    commands: Sequence[Sequence[str]],
    copies: int,
    libraries: Libraries,
    watcher: Watcher,
) -> tuple[list[Setting], list[LibrarySetting]]:
    """The settings that some program has, and those that none has whose library might."""
    loads = Counter[Path]()
    for words in commands:
        loads.update({path: copies * count for path, count in libraries[commands.index(words)].items()})
    there, missing = _library_settings(libraries, loads)
    of_mpi = [
        commands[n] for n, loaded in libraries.items() if any(one.name.startswith("libmpi") for one in loaded)
    ]
    if not of_mpi and not there:
        raise InputError(
            "COMMAND",
            " ::: ".join(map(shlex.join, commands)),
            "loads no libmpi, OpenMP or OpenBLAS on this host, so which settings it has is unknown",
            "write a command that runs a program with MPI or threads on this host",
        )
    two_phase = _two_phase(options, of_mpi, watcher)
    return [UNCHANGED, *two_phase, *map(settings.of_library, there)], missing


def _library_settings(
    libraries: Libraries, loads: Mapping[Path, int]
) -> tuple[list[LibrarySetting], list[LibrarySetting]]:
    processors, threads_set = (
        len(usable_processors()),
        re.match(r"\s*[0-9]+", os.environ.get("OMP_NUM_THREADS", "")),
    )
    room, threads = (
        int(min([processors, *quotas().values()])),
        int(threads_set[0]) if threads_set else processors,
    )
    offers = [offered({path: loads[path] for path in one}, room, threads) for one in libraries.values()]
    there, missing = ({setting.name: setting for pair in offers for setting in pair[side]} for side in (0, 1))
    return [*there.values()], [setting for name, setting in missing.items() if name not in there]


def _check_only(options: Namespace, names: Iterable[str]) -> None:
    for name in options.only or ():
        one_of("--only", name, list(names))


def _two_phase(options: Namespace, commands: Sequence[Sequence[str]], watcher: Watcher) -> list[Setting]:
    """The setting of two-phase waits; none if it is not asked for, or cannot be made here."""
    if options.only and TWO_PHASE not in options.only:
        return []
    try:
        compiled = {CommandLine(tuple(words)): preload(options, words, watcher) for words in commands}
    except NativeError as error:
        if options.only or options.mpicc:
            raise
        watcher.warn(f"{TWO_PHASE} is left out: {error}")
        return []
    preloads: dict[Work, Preload] = {
        program: Preload(*one, named=bool(options.mpicc)) for program, one in compiled.items()
    }
    rule = replace(UNCHANGED.options, **{name: getattr(options, name) for name in OF_TWO_PHASE})
    more = ["--mpicc", options.mpicc] if options.mpicc else []
    more += [word for call in options.skip_call for word in ("--skip-call", call)]
    lines = tuple(exec_line(vars(options), words, *more) for words in commands)
    setting = replace(UNCHANGED, setting=TWO_PHASE, options=rule, lines=lines, preloads=preloads)
    return [setting] if compiled else []
