"""``lockstep waits -- COMMAND...``: which way of waiting suits a program that shares its processors."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from coordinator.host import bindings
from coordinator.host.launchers import launched
from harness.analyse.caveats import of_waits
from harness.analyse.comparison import WaitRow, wait_rows, wait_verdict
from harness.analyse.statistics import estimate
from harness.commands import SCHEMA, Answer, shared
from harness.commands.exec import call_of, command_of, preload, rule_arguments, unheard
from harness.measure import turn
from harness.measure.guarded_copies import Spent, libraries_loaded, run_copies
from harness.measure.rank_listener import RankListener
from harness.measure.registrar import Registrar
from harness.measure.session import Watcher
from harness.measure.wait_rounds import ALONE, AS_IT_IS, TWO_PHASE, Round, Runner, WaitChoice, measure
from harness.report import documents
from harness.spec.experiment import usable_processors
from harness.store.conditions import Moment
from workloads.native import Library, NativeError
from workloads.native.knobs import KNOBS, Knob, offered
from workloads.validation import InputError, one_of

BEHIND = "(after the launcher's name)"
DEFAULT_RULE = {"blocking": "global-adaptive", "spin_switches": 2, "switch_us": 10.0, "latency_us": 2.0}


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--jobs", type=int, default=3, metavar="K", help="copies of the command at a time (1: it alone)")
    add(
        "--rounds",
        type=int,
        default=5,
        metavar="N",
        help="how often everything is measured (default: %(default)s)",
    )
    help_text = "stop after X times the sum of the times alone"
    add("--give-up", type=float, default=10.0, metavar="X", help=help_text)
    help_text = "measure only this beside as it is; may be repeated"
    add("--only", action="append", metavar="CHOICE", help=help_text)
    rule_arguments(parser)
    shared.add(parser, "--anyway")
    help_text = "what to run; {copy} in it stands for the number of the copy"
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    command = command_of(options, "waits")
    _check_only(options, [AS_IT_IS, TWO_PHASE, *(knob.name for knob in KNOBS)])
    for name in options.leave:
        call_of(name)
    with turn.reserved(usable_processors(), watcher, options.anyway):
        return _measured(options, command, watcher)


def _measured(options: argparse.Namespace, command: Sequence[str], watcher: Watcher) -> Answer:
    """The answer of a measurement whose turn it is."""
    libraries = libraries_loaded(command)  # also so that what is first read from a disk counts for nobody
    processors, told = len(usable_processors()), re.match(r"\s*[0-9]+", os.environ.get("OMP_NUM_THREADS", ""))
    there, missing = offered(libraries, processors // options.jobs, int(told[0]) if told else processors)
    of_mpi = any(path.name.startswith("libmpi") for path in libraries)  # else its launcher is none
    if not of_mpi and not there:
        rule = "loads no libmpi, OpenMP or OpenBLAS on this host, so nobody knows which settings it has"
        remedy = "write a command that runs a program with MPI or threads on this host"
        raise InputError("COMMAND", shlex.join(command), rule, remedy)
    made, variables = _preload(options, command, watcher) if of_mpi else (None, {})
    choices = [
        WaitChoice(AS_IT_IS),
        *([WaitChoice(TWO_PHASE, variables, (_exec_line(options, command),))] if made else ()),
        *(WaitChoice(knob.name, knob.variables, _lines(knob), knob.of_mpi) for knob in there),
    ]
    _check_only(options, [choice.name for choice in choices])
    kept = [one for one in choices if one.name in {AS_IT_IS, *(options.only or [one.name])}]
    before = Moment.now(usable_processors())
    bound: list[str] = []
    run = _runner(options, command, made, watcher, bound)
    how = options.jobs, options.rounds, options.give_up, run, watcher
    rounds = measure(kept, *how)
    if both := _both(kept, wait_rows([choice.name for choice in kept], options.jobs, rounds)):
        kept.append(both)
        rounds += measure([both], *how)
    complete = all(spent.wall_s is not None for one in rounds for spent in one.values())
    doubts = [*of_waits(before, Moment.now(usable_processors()), complete=complete), *dict.fromkeys(bound)]
    document = _document(options, command, kept, missing, rounds) | {"doubts": doubts}
    return Answer(document, documents.waits(document), verbatim=True)


def _check_only(options: argparse.Namespace, choices: Sequence[str]) -> None:
    for name in options.only or ():
        one_of("--only", name, choices)


def _preload(
    options: argparse.Namespace, command: Sequence[str], watcher: Watcher
) -> tuple[Library | None, dict[str, str]]:
    """As ``exec.preload``; nothing if two-phase waits are not asked for, or cannot be made here."""
    if options.only and TWO_PHASE not in options.only:
        return None, {}
    try:
        return preload(options, command, watcher)
    except NativeError as error:
        if options.only or options.mpicc:
            raise
        watcher.warn(f"{TWO_PHASE} is left out: {error}")
        return None, {}


def _both(choices: Sequence[WaitChoice], rows: Sequence[WaitRow]) -> WaitChoice | None:
    """The fastest choice of MPI with the fastest of threads; None unless both are faster than as it is."""
    seconds = {row.choice: row.together.median or math.inf for row in rows}
    faster = sorted(
        (one for one in choices if seconds[one.name] < seconds[AS_IT_IS]), key=lambda one: seconds[one.name]
    )
    mpi = next((one for one in faster if one.of_mpi), None)
    threads = next((one for one in faster if not one.of_mpi), None)
    if mpi is None or threads is None:
        return None
    name, variables = f"{mpi.name} with {threads.name}", {**mpi.variables, **threads.variables}
    return WaitChoice(name, variables, (*threads.lines, *mpi.lines))


def _exec_line(options: argparse.Namespace, command: Sequence[str]) -> str:
    """The command line of two-phase waits by the same rule."""
    words = [
        word
        for name, default in (*DEFAULT_RULE.items(), ("mpicc", None))
        if (value := getattr(options, name)) != default
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return shlex.join(["lockstep", "exec", *words, "--", *command])


def _lines(knob: Knob) -> tuple[str, ...]:
    return (knob.line(), f"or: {knob.words()} {BEHIND}") if knob.of_mpi else (knob.line(),)


def _runner(
    options: argparse.Namespace,
    command: Sequence[str],
    made: Library | None,
    watcher: Watcher,
    bound: list[str],
) -> Runner:
    """Runs copies of the command, and sees to it that two-phase waits are what it says.

    ``bound`` gets a sentence for copies that share processors while others idle.
    """

    def look(pids: Sequence[int]) -> None:
        jobs = [bindings.job(f"copy {copy}", pid) for copy, pid in enumerate(pids)]
        found = list(bindings.overlaps(jobs, usable_processors()))
        bound.extend(f"{one.sentence}: {one.remedy}" for one in found[:1])

    def run(choice: WaitChoice, copies: int, limit_s: float | None) -> Spent:
        if not choice.name.startswith(TWO_PHASE) or made is None:
            return run_copies(command, copies, choice.variables, limit_s, look)
        with RankListener() as listener, Registrar(None, watcher.warn) as registrar:
            variables = {**choice.variables, **listener.variables, **registrar.variables}
            words, told = launched(command, variables, made.needed)
            spent = run_copies(words, copies, told, limit_s)
        if spent.wall_s is not None and not listener.records:
            raise unheard(options, command, made, spent.said)
        return spent

    return run


def _document(
    options: argparse.Namespace,
    command: Sequence[str],
    choices: Sequence[WaitChoice],
    missing: Sequence[Knob],
    rounds: Sequence[Round],
) -> dict[str, Any]:
    found = wait_rows([choice.name for choice in choices], options.jobs, rounds)
    by_name = {choice.name: choice for choice in choices}
    shown = [
        asdict(row) | {"environment": dict(by_name[row.choice].variables), "lines": by_name[row.choice].lines}
        for row in found
    ]
    decided = wait_verdict(found)
    alone_s = [known for one in rounds if (known := one[ALONE].wall_s)]
    return {
        "schema": SCHEMA,
        "command": list(command),
        "jobs": options.jobs,
        "give_up": options.give_up,
        "alone_s": asdict(estimate(alone_s)),
        "choices": shown,
        "unavailable": [
            {"name": knob.name, "library": knob.library, "versions": knob.versions} for knob in missing
        ],
        "best": decided.best,
        "fastest": decided.fastest,
        "as_good": list(decided.as_good),
    }
