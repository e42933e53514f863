"""``lockstep tune -- COMMAND...``: which way of waiting suits programs that share their processors."""

import math
import os
import re
import shlex
from argparse import REMAINDER, ArgumentParser, Namespace
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coordinator.host import bindings
from coordinator.host.launchers import launched
from coordinator.host.named_hosts import elsewhere
from coordinator.host.quotas import quotas
from harness.analyse.caveats import not_measurable, of_waits
from harness.analyse.comparison import WaitRow, wait_row, wait_verdict
from harness.analyse.statistics import estimate
from harness.commands import SCHEMA, Answer, shared
from harness.commands.exec import call_of, command_of, preload, rule_arguments, unheard
from harness.measure import session
from harness.measure.disturbance import lost_between
from harness.measure.guarded_copies import Spent, Started, libraries_loaded, run_copies
from harness.measure.registrar import RankListener, Registrar
from harness.measure.session import Watcher
from harness.measure.wait_rounds import AS_IT_IS, TWO_PHASE, Round, Runner, WaitChoice, alone_s, measure
from harness.report import documents
from harness.spec.experiment import usable_processors
from harness.store.conditions import Moment
from workloads.native import Library, NativeError
from workloads.native.knobs import KNOBS, Knob, offered
from workloads.validation import InputError, one_of

Preloads = dict[int, tuple[Library, dict[str, str]]]
"""By numbers of commands, the library for two-phase waits of their MPI, and what to set for it."""

OF_MISSING = ("name", "library", "versions")
DEFAULT_RULE = {"blocking": "global-adaptive", "spin_switches": 2, "switch_us": 10.0, "latency_us": 2.0}


def arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--jobs", type=int, default=3, metavar="K", help="copies of the command at a time (1: it alone)")
    help_text = "how often everything is measured (default: %(default)s)"
    add("--rounds", type=int, default=5, metavar="N", help=help_text)
    help_text = "stop after X times the sum of the times alone"
    add("--timeout-factor", type=float, default=10.0, metavar="X", help=help_text)
    help_text = "measure only this beside as it is; may be repeated"
    add("--only", action="append", metavar="CHOICE", help=help_text)
    rule_arguments(parser)
    shared.add(parser, "--anyway")
    help_text = "what to run; {copy} in it stands for the number of the copy"
    parser.add_argument("program", nargs=REMAINDER, metavar="-- COMMAND ...", help=help_text)


def execute(options: Namespace, watcher: Watcher) -> Answer:
    command = command_of(options, "tune")
    _check_only(options, [AS_IT_IS, TWO_PHASE, *(knob.name for knob in KNOBS)])
    for name in options.leave:
        call_of(name)
    return measured(options, [command], watcher, copies=options.jobs)


def usual(**told: Any) -> Namespace:
    """The options of a command line that has only these."""
    parser = ArgumentParser()
    arguments(parser)
    return Namespace(**{**vars(parser.parse_args([])), **told})


def measured(
    options: Namespace, commands: Sequence[Sequence[str]], watcher: Watcher, copies: int = 1
) -> Answer:
    """Measure the choices of commands, or of copies of one, when their turn has come."""
    programs = tuple(map(commands.index, commands)) * copies  # by the numbers of their commands
    with session.reserved(usable_processors(), watcher, options.anyway):
        # This also reads from the disk what is first read, so that it counts for nobody.
        libraries = {number: libraries_loaded(commands[number]) for number in sorted(set(programs))}
        of_mpi = [n for n, known in libraries.items() if any(one.name.startswith("libmpi") for one in known)]
        there, missing = _knobs(libraries, programs)
        if not of_mpi and not there:
            rule = "loads no libmpi, OpenMP or OpenBLAS on this host, so nobody knows which settings it has"
            remedy = "write a command that runs a program with MPI or threads on this host"
            raise InputError("COMMAND", " ::: ".join(map(shlex.join, commands)), rule, remedy)
        made = _preloads(options, {number: commands[number] for number in of_mpi}, watcher)
        preloaded = {key: value for _, variables in made.values() for key, value in variables.items()}
        lines = tuple(_exec_line(options, commands[number]) for number in made)
        choices = [
            WaitChoice(AS_IT_IS),
            *([WaitChoice(TWO_PHASE, preloaded, lines)] if made else ()),
            *(WaitChoice(knob.name, knob.variables, _lines(knob), knob.of_mpi) for knob in there),
        ]
        _check_only(options, [choice.name for choice in choices])
        kept = [one for one in choices if one.name in {AS_IT_IS, *(options.only or [one.name])}]
        before = Moment.now(usable_processors())
        bound: list[str] = []
        shares: list[float] = []
        run = _watched(_runner(options, commands, made, watcher, bound), shares)
        how = programs, options.rounds, options.timeout_factor, run, watcher
        rounds = measure(kept, *how)
        if both := _both(kept, [wait_row(choice.name, programs, rounds) for choice in kept]):
            kept.append(both)
            rounds += measure([both], *how)
        complete = all(spent.wall_s is not None for one in rounds for spent in one.values())
        after = Moment.now(usable_processors())
        doubts = [*of_waits(before, after, complete=complete), *dict.fromkeys(bound)]
    document = _document(options, commands, programs, kept, missing, rounds) | {
        "doubts": doubts,
        "notice": "",
    }
    if notice := not_measurable(shares):
        document |= {"notice": notice, "best": None}
    return Answer(document, documents.tune(document), verbatim=True)


def _knobs(
    libraries: Mapping[int, Mapping[Path, int]], programs: Sequence[int]
) -> tuple[list[Knob], list[Knob]]:
    """The settings that some program has, and those that no program has whose library might."""
    loads = Counter[Path]()
    for number in programs:
        loads.update(libraries[number])
    processors, told = len(usable_processors()), re.match(r"\s*[0-9]+", os.environ.get("OMP_NUM_THREADS", ""))
    room, threads = int(min([processors, *quotas().values()])), int(told[0]) if told else processors
    found = [offered({path: loads[path] for path in one}, room, threads) for one in libraries.values()]
    there, missing = ({knob.name: knob for pair in found for knob in pair[side]} for side in (0, 1))
    return [*there.values()], [knob for name, knob in missing.items() if name not in there]


def _check_only(options: Namespace, choices: Sequence[str]) -> None:
    for name in options.only or ():
        one_of("--only", name, choices)


def _preloads(options: Namespace, commands: Mapping[int, Sequence[str]], watcher: Watcher) -> Preloads:
    """As ``exec.preload``; nothing if two-phase waits are not asked for, or cannot be made here."""
    if options.only and TWO_PHASE not in options.only:
        return {}
    try:
        return {number: preload(options, command, watcher) for number, command in commands.items()}
    except NativeError as error:
        if options.only or options.mpicc:
            raise
        watcher.warn(f"{TWO_PHASE} is left out: {error}")
        return {}


def _both(choices: Sequence[WaitChoice], rows: Sequence[WaitRow]) -> WaitChoice | None:
    """The fastest choice of MPI with the fastest of threads; None unless both are faster than as it is."""
    seconds = {row.choice: row.together.median or math.inf for row in rows}
    faster = [one for one in choices if seconds[one.name] < seconds[AS_IT_IS]]
    faster.sort(key=lambda one: seconds[one.name])
    mpi = next((one for one in faster if one.of_mpi), None)
    threads = next((one for one in faster if not one.of_mpi), None)
    if mpi is None or threads is None:
        return None
    name, variables = f"{mpi.name} with {threads.name}", {**mpi.variables, **threads.variables}
    return WaitChoice(name, variables, (*threads.lines, *mpi.lines))


def _exec_line(options: Namespace, command: Sequence[str]) -> str:
    """The command line of two-phase waits by the same rule."""
    words = [
        word
        for name, default in (*DEFAULT_RULE.items(), ("mpicc", None))
        if (value := getattr(options, name)) != default
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return shlex.join(["lockstep", "exec", *words, "--", *command])


def _lines(knob: Knob) -> tuple[str, ...]:
    behind = f"or: {knob.words()} (after the launcher's name)"
    return (knob.line(), behind) if knob.of_mpi else (knob.line(),)


def _runner(
    options: Namespace, commands: Sequence[Sequence[str]], made: Preloads, watcher: Watcher, bound: list[str]
) -> Runner:
    """Runs programs, whose two-phase waits are what it says; ``bound`` gets a sentence on bad bindings."""

    def look(pids: Sequence[int]) -> None:
        what = "copy" if len(commands) == 1 else "job"
        jobs = [bindings.job(f"{what} {number}", pid) for number, pid in enumerate(pids)]
        found = list(bindings.overlaps(jobs, usable_processors()))
        bound.extend(f"{one.sentence}: {one.remedy}" for one in found[:1])

    def run(choice: WaitChoice, programs: tuple[int, ...], limit_s: float | None) -> Spent:
        if not choice.name.startswith(TWO_PHASE):
            return run_copies([(commands[number], choice.variables) for number in programs], limit_s, look)
        with ExitStack() as stack:
            away = elsewhere(commands, os.environ)
            registrar = stack.enter_context(Registrar(None, watcher.warn, elsewhere=away))
            heard = {number: stack.enter_context(RankListener()) for number in {*programs} & made.keys()}

            def started(number: int) -> Started:
                if number not in made:
                    return commands[number], choice.variables
                library, variables = made[number]
                told = {**choice.variables, **variables} | heard[number].variables | registrar.variables
                return launched(commands[number], told, library.needed)

            spent = run_copies([*map(started, programs)], limit_s)
        for number, listener in heard.items() if spent.wall_s is not None else ():
            if not listener.records:
                raise unheard(options, commands[number], made[number][0], spent.said)
        return spent

    return run


def _watched(run: Runner, shares: list[float]) -> Runner:
    """Runs programs; ``shares`` gets what others took of the processors in each run to the end."""

    def watched(choice: WaitChoice, programs: tuple[int, ...], limit_s: float | None) -> Spent:
        before = Moment.now(usable_processors())
        spent = run(choice, programs, limit_s)
        if spent.wall_s is not None:
            shares.append(lost_between(before, Moment.now(usable_processors())))
        return spent

    return watched


def _document(
    options: Namespace,
    commands: Sequence[Sequence[str]],
    programs: tuple[int, ...],
    choices: Sequence[WaitChoice],
    missing: Sequence[Knob],
    rounds: Sequence[Round],
) -> dict[str, Any]:
    found = [wait_row(choice.name, programs, rounds) for choice in choices]
    how = [{"environment": dict(choice.variables), "lines": choice.lines} for choice in choices]
    fastest, as_good = wait_verdict(found)
    alone = [known for one in rounds if (known := alone_s(programs[: len(commands)], one))]
    words = [*map(list, commands)]
    return {
        "schema": SCHEMA,
        **({"programs": words} if len(commands) > 1 else {"command": words[0]}),
        "jobs": len(programs),
        "timeout_factor": options.timeout_factor,
        "alone_s": asdict(estimate(alone)),
        "choices": [asdict(row) | one for row, one in zip(found, how, strict=True)],
        "unavailable": [{key: getattr(knob, key) for key in OF_MISSING} for knob in missing],
        "best": None if as_good else fastest,
        "fastest": fastest,
        "as_good": as_good,
    }
