"""``lockstep exec -- COMMAND...``: run any command so that the MPI programs that it starts wait two-phase."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator.host import guardian
from coordinator.host.directories import DirectoryGuardian
from coordinator.host.processes import (
    RUN,
    Process,
    check_limits,
    end_family,
    raise_descriptor_limit,
    restore_descriptor_limit,
)
from coordinator.host.rundir import RunDirectory
from harness.commands import SCHEMA, Answer
from workloads.validation import InputError, refused
from workloads.waiting_rules import RULES, rule_name, waiting_rule
from workloads.work import COPY

if TYPE_CHECKING:
    from harness.analyse.job_profile import Profiles
    from harness.analyse.lookout import Lookout, Patience
    from harness.measure.session import Watcher
    from harness.measure.stacks import Stacks, Thread
    from harness.report.command_test import Ended
    from workloads import native

Prepared = TypeVar("Prepared")

PASSED_ON = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH),
)
ENDING = PASSED_ON[:4]
FROM_A_PROCESS = (0, -1, -6)
"""si_code of kill, sigqueue and tgkill. A terminal's signals reach the command by themselves."""

BECOMING = ("su", "runuser", "sudo", "doas", "setpriv", "gosu", "su-exec")
"""Programs by which root becomes another user."""

PROCESSES = 8
"""This command, its guardian with a shell, threads for the ranks' lines, and the command that it runs."""

TIMED_OUT = 124
"""The status of a command that was ended for its time, as coreutils' timeout has it."""

SRUN = "srun"

START_S, AGAIN_S = 3.0, 0.5
"""Hydra, MPICH's launcher, loses a signal of its first milliseconds: until START_S we repeat it. As often we
look whether its waiting is useless."""


def arguments(parser: ArgumentParser) -> None:
    rule_arguments(parser)
    parser.add_argument(
        "--if-oversubscribed",
        action="store_true",
        help="leave jobs unchanged whose ranks have a processor each",
    )
    parser.add_argument(
        "--record", type=Path, metavar="DIR", help="write a record of each rank to this directory"
    )
    help_text = "report when a rank has waited for this time and no rank works for it, and stop the command"
    parser.add_argument("--stuck", type=str, metavar="SECONDS[:report]", help=f"{help_text}, or only report")
    parser.add_argument(
        "--stuck-report",
        type=Path,
        metavar="FILE",
        help="also write the reports of --stuck, --timeout and SIGUSR1 to this file, as JSON",
    )
    parser.add_argument(
        "--profile",
        action="store_true",
        help="print at the end how long ranks waited in each call of MPI, and for which rank",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        metavar="SECONDS",
        help="stop the command, and all that it has started, after this many seconds (default: never)",
    )
    parser.add_argument(
        "--spread",
        action="store_true",
        help="move ranks that share all their processors with another job to idle ones",
    )
    parser.add_argument(
        "--junit",
        type=Path,
        metavar="FILE",
        help="write to this file, as a test in JUnit's XML, how the command has ended",
    )
    parser.add_argument(
        "--task-prolog",
        type=Path,
        metavar="DIR",
        help="run nothing, but write a TaskProlog for Slurm, and its library, to this new directory",
    )
    parser.add_argument("program", nargs=REMAINDER, metavar="-- COMMAND ...", help="run this command")


def rule_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    rules = [name for name in RULES if name != "oracle"]
    add("--waiting", type=rule_name, choices=rules, default="global-adaptive", help="wait by this rule")
    add(
        "--spin-switches",
        type=float,
        default=2,
        metavar="N",
        help="under the fixed rule, spin for the time of this many context switches",
    )
    add(
        "--context-switch-us",
        type=float,
        default=10.0,
        metavar="US",
        help="assume this cost of a context switch",
    )
    add(
        "--latency-us", type=float, default=2.0, metavar="US", help="assume this one-way latency of a message"
    )
    add("--skip-call", action="append", default=[], metavar="CALL", help="leave this call to MPI")
    mpicc_argument(parser)


def call_of(name: str) -> str:
    """The name of a call that can be left to MPI, without "MPI_"."""
    import difflib  # noqa: PLC0415 - rarely needed

    from workloads.native import calls  # noqa: PLC0415

    names, bare = sorted(calls.kinds()), name.removeprefix("MPI_").removesuffix("_c")
    if bare in names:
        return bare
    near = difflib.get_close_matches(bare.capitalize(), names, 3) or names
    raise InputError(
        "--skip-call", name, "is no call that Lockstep replaces", f"choose from {', '.join(near)}"
    )


def mpicc_argument(parser: ArgumentParser) -> None:
    default = "the launcher's, otherwise the first mpicc on the PATH"
    parser.add_argument(
        "--mpicc",
        metavar="WRAPPER",
        help=f"use the compiler wrapper of the programs' MPI (default: {default})",
    )


class NoProgramError(InputError):
    """A command names no program; the status is a shell's."""

    exit_status = 127


def command_of(options: Namespace, name: str) -> list[str]:
    command: list[str] = options.program[options.program[:1] == ["--"] :]
    if not command:
        raise InputError(
            "COMMAND", None, "a command must follow --", f"write lockstep {name} -- mpiexec -n 4 ./app"
        )
    check_program(command, NoProgramError if name == "exec" else InputError)
    return command


def check_program(command: Sequence[str], error: type[InputError] = NoProgramError) -> None:
    """Check that a command names a program that can be run; raises ``error``."""
    word = command[0]
    if COPY in word or shutil.which(word) is not None:
        return
    quoted = len(command) == 1 and len(word.split()) > 1
    remedy = "leave out the quotes" if quoted else "check its name, path and mode"
    raise error("COMMAND", word, "the program was not found, or is not executable", remedy)


def preload(
    options: Namespace, command: Sequence[str], watcher: Watcher
) -> tuple[native.Library, dict[str, str]]:
    """The library that waits for the MPI of a command, and what to set to wait by the rule."""
    numbers = {name: getattr(options, name) for name in ("context_switch_us", "latency_us", "spin_switches")}
    rule = waiting_rule(options.waiting, **numbers)
    compiled = library(options, command, watcher, frozenset(map(call_of, options.skip_call)))
    return compiled, compiled.environment(rule)


def library(
    options: Namespace, command: Sequence[str], watcher: Watcher, leave: Set[str] = frozenset()
) -> native.Library:
    """The library for the MPI of a command, or of --mpicc; ``leave`` as in ``native.library``."""
    from workloads import native  # noqa: PLC0415

    return native.of_command(command, options.mpicc, watcher.note, DirectoryGuardian, leave)


def execute(options: Namespace, watcher: Watcher) -> Answer:
    """Run the command; its status is ours."""
    if options.task_prolog is not None and options.program:
        raise InputError("COMMAND", shlex.join(options.program), "--task-prolog runs none", "leave it out")
    if options.task_prolog is not None:
        return _write_task_prolog(options.task_prolog, *_prepare(options, [SRUN], watcher))
    check_limits(PROCESSES)
    command = command_of(options, "exec")
    limits, save = _limits(options), partial(_save, options.stuck_report)
    save([])
    with (
        _as_test(options.junit, command, watcher.warn) as ended,
        _guarded(lambda: _prepare(options, command, watcher)) as (directory, (compiled, variables)),
        _readable(command, compiled, variables),
    ):
        from coordinator.host.causes import explained  # noqa: PLC0415 - the guardian starts first
        from coordinator.host.launchers import launched  # noqa: PLC0415
        from coordinator.host.named_hosts import elsewhere  # noqa: PLC0415
        from harness.analyse.lookout import Lookout  # noqa: PLC0415
        from harness.measure.rank_watch import RankWatch  # noqa: PLC0415
        from harness.measure.registrar import RankListener, Registrar, summed  # noqa: PLC0415

        # Another user cannot reach a socket in our directory, and memory cannot be passed on by TCP.
        folder = directory.path if directory and not _becomes_another(command) else None
        away, profiles = elsewhere([command], os.environ), _profiles(options, watcher)
        with (
            closing(RankWatch(profiles.add if profiles else None)) as watch,
            RankListener() as listener,
            Registrar(folder, watcher.warn, elsewhere=away, watch=watch) as registrar,
        ):
            signs = directory.signs if directory else {}
            read = partial(_read_stacks, signs)
            lookout = Lookout(watch, watcher.warn, time.monotonic(), *limits, save, read_stacks=read)
            if options.spread:
                from harness.measure.spreader import Spreader  # noqa: PLC0415

                lookout.spreader = Spreader(command, os.environ, watcher.warn)
            variables |= {**listener.variables, **registrar.variables}
            words, needed = launched(command, variables, compiled.needed)
            environment = {**os.environ, **needed, **signs}
            note = directory.note_process if directory else lambda pid: None
            end = _left_to_guardian if directory else _end
            status = _run(words, environment, note, watcher.warn, lookout, end)
            ended(status, lookout.fault)
    document = {"schema": SCHEMA, **summed(listener.records)}
    lines = [_line(document, options, compiled, status), explained(status, records=listener.records)]
    if profiles is not None:
        document["profile"] = [job.document for job in profiles.jobs]
        lines.append(profiles.text)
    return Answer(document, (), status=status, notes=tuple(filter(None, lines)))


def _write_task_prolog(folder: Path, compiled: native.Library, variables: dict[str, str]) -> Answer:
    """Write the script and its library to a new directory, which every user may read."""
    from coordinator.host.environment import UNDO  # noqa: PLC0415 - rarely needed
    from slurm import task_prolog  # noqa: PLC0415
    from workloads import native  # noqa: PLC0415

    folder = folder.absolute()
    remedy = "name a new directory that all nodes see, in one that only you can write to"
    if re.search(r"[\s:;=$]", str(folder)):
        raise InputError("--task-prolog", folder, "has a character that LD_PRELOAD cannot carry", remedy)
    with refused("--task-prolog", folder, "cannot be made, or another user could replace it", remedy):
        copy = native.readable(compiled, folder)
        ours = {**variables, "LD_PRELOAD": str(copy.preload), "LOCKSTEP_MEETING": "1"}
        ours[UNDO] = json.dumps({name: [value, None] for name, value in ours.items()})
        script = folder / task_prolog.SCRIPT
        others = {name: value for name, value in ours.items() if name != "LD_PRELOAD"}
        script.write_text(task_prolog.text(copy.preload, others))
        script.chmod(0o755)
    line = f"TaskProlog={script}"
    return Answer({"schema": SCHEMA, "script": str(script)}, (line,), verbatim=True)


def _profiles(options: Namespace, watcher: Watcher) -> Profiles | None:
    """What takes the profiles of jobs, if they are asked for."""
    if not options.profile:
        return None
    from harness.analyse.job_profile import Profiles  # noqa: PLC0415 - takes long to import

    return Profiles(watcher.warn)


def _limits(options: Namespace) -> tuple[Patience | None, float | None]:
    """For how long a job may be stuck, and for how long the command may run."""
    from harness.analyse.lookout import Patience  # noqa: PLC0415 - as above

    if options.timeout is not None and not 0 < options.timeout < float("inf"):
        raise InputError("--timeout", options.timeout, "must be a number of seconds above 0", "write 600")
    return None if options.stuck is None else Patience.parsed(options.stuck), options.timeout


def _save(path: Path | None, reports: list[dict[str, Any]]) -> None:
    """Write the reports so far; a command that was ended leaves them."""
    if path is not None:
        with refused("--stuck-report", path, "cannot be written", "name another file"):
            path.write_text(json.dumps({"schema": SCHEMA, "reports": reports}, indent=1) + "\n")


def _as_test(
    path: Path | None, command: Sequence[str], tell: Callable[[str], None]
) -> AbstractContextManager[Ended]:
    """The command as a test in the file of --junit, if there is one."""
    if path is None:
        return nullcontext(lambda status, fault: None)
    from harness.report.command_test import as_test  # noqa: PLC0415 - rarely needed

    return as_test(path, command, tell)


def _read_stacks(signs: Mapping[str, str], threads: Sequence[Thread]) -> Stacks:
    from harness.measure import stacks  # noqa: PLC0415 - only for a report

    return stacks.read(threads, signs)


def _prepare(
    options: Namespace, command: Sequence[str], watcher: Watcher
) -> tuple[native.Library, dict[str, str]]:
    """The library and its variables; also imports what the command needs once its guardian has started."""
    from coordinator.host import causes, launch, launcher_choice, lost_proxies, named_hosts  # noqa: F401, PLC0415
    from harness.measure import registrar  # noqa: F401, PLC0415

    compiled, variables = preload(options, command, watcher)
    if options.record is not None:
        with refused("--record", options.record, "cannot be made", "name a directory that you can write to"):
            options.record.mkdir(parents=True, exist_ok=True)
        variables["LOCKSTEP_RECORD"] = str(options.record.resolve())
    if options.if_oversubscribed:
        variables["LOCKSTEP_IF_OVERSUBSCRIBED"] = "1"
    if options.profile:
        variables["LOCKSTEP_PROFILE"] = "1"
    return compiled, variables


def _becomes_another(command: Sequence[str]) -> bool:
    return os.getuid() == 0 and Path(command[0]).name in BECOMING


@contextmanager
def _readable(command: Sequence[str], compiled: native.Library, variables: dict[str, str]) -> Iterator[None]:
    """If the command makes root another user, who cannot read root's cache, that user's ranks get a copy."""
    import shutil  # noqa: PLC0415 - rarely needed
    import tempfile  # noqa: PLC0415

    from workloads import native  # noqa: PLC0415

    around = Path(tempfile.gettempdir(), f"lockstep-{os.urandom(8).hex()}")
    if not _becomes_another(command) or os.statvfs(around.parent).f_flag & os.ST_NOEXEC:
        yield
        return
    with DirectoryGuardian(around / "library"):
        try:
            with refused("TMPDIR", around.parent, "cannot hold a library for another user", "name another"):
                around.mkdir(mode=0o755)
                around.chmod(0o755)
                copy = native.readable(compiled, around / "library")
            variables["LD_PRELOAD"] = variables["LD_PRELOAD"].replace(
                str(compiled.preload), str(copy.preload), 1
            )
            yield
        finally:
            shutil.rmtree(around, ignore_errors=True)


@contextmanager
def _guarded(prepare: Callable[[], Prepared]) -> Iterator[tuple[RunDirectory | None, Prepared]]:
    """The run directory, and what ``prepare`` returns; a guardian ends it even if we are killed."""
    if RUN in os.environ:  # a Lockstep above us answers for it
        yield None, prepare()
        return
    prepared: list[Prepared] = []
    with guardian.guarded(lambda: prepared.append(prepare())) as directory:
        yield directory, prepared[0]


def _run(
    command: Sequence[str],
    environment: Mapping[str, str],
    note: Callable[[int], None],
    tell: Callable[[str], None],
    lookout: Lookout,
    end: Callable[[subprocess.Popen[bytes]], None],
) -> int:
    """Run the command, whose pid ``note`` gets, passing signals on; returns its status as a shell would.

    If the lookout has it end, ``end`` gets it, and the status is TIMED_OUT.
    """
    from coordinator.host.launch import from_caller  # noqa: PLC0415

    blocked = {*PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    raise_descriptor_limit()  # each rank has a line to us while its job begins
    try:
        with refused("COMMAND", shlex.join(command), "cannot be run", "look at its name and path"):
            child = subprocess.Popen(
                command,
                env=environment,
                pass_fds=from_caller(),
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509 # it locks nothing
            )
            restore_descriptor_limit(child.pid)
            note(child.pid)
            if not _pass_on(blocked, child, command, tell, lookout):
                end(child)
                return TIMED_OUT
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _left_to_guardian(child: subprocess.Popen[bytes]) -> None:
    """The guardian ends everything that has started, and removes what a killed launcher leaves."""


def _end(child: subprocess.Popen[bytes]) -> None:
    """A Lockstep above us has the guardian, whose run lasts."""
    end_family(child.pid)
    child.wait()


def _pass_on(
    signals: Set[signal.Signals],
    child: subprocess.Popen[bytes],
    command: Sequence[str],
    tell: Callable[[str], None],
    lookout: Lookout,
) -> bool:
    """Pass signals on until the child ends; repeat one that should end a launcher which may have lost it.

    A launcher that waits for processes that have ended would wait for ever, and is ended. Returns whether the
    child has ended, and else the lookout has it end.
    """
    from coordinator.host.lost_proxies import LostProxies  # noqa: PLC0415

    until_s = time.monotonic() + START_S
    handle, lost = Process(child.pid), LostProxies(child.pid)
    ending: signal.Signals | None = None
    while child.poll() is None and not lookout.look(time.monotonic()):
        if ending and time.monotonic() > until_s:
            ending = None
        came = signal.sigtimedwait(signals, min(AGAIN_S, lookout.pause_s))
        if came is None:
            if ending:
                handle.send(ending)
            lost.end_launchers(tell)
        elif came.si_signo != signal.SIGCHLD:
            signum = signal.Signals(came.si_signo)
            asks = signum == signal.SIGUSR1 and came.si_code in FROM_A_PROCESS
            if asks:
                lookout.ask("where the ranks are:", time.monotonic())
            if came.si_code in FROM_A_PROCESS and (not asks or lookout.watch.withstand(signum, child.pid)):
                handle.send(signum)
            if signum in ENDING and time.monotonic() < until_s and _may_lose_signals(command):
                ending = signum
    handle.close()
    lookout.finish()
    return child.returncode is not None


def _may_lose_signals(command: Sequence[str]) -> bool:
    """Whether a command is a launcher that loses a signal of its first milliseconds."""
    from coordinator.host.launcher_choice import launcher_at  # noqa: PLC0415
    from workloads import native  # noqa: PLC0415

    if not native.is_launcher(command):
        return False
    with suppress(InputError):
        return launcher_at(command[0]).may_lose_signals
    return False


def _line(document: Mapping[str, Any], options: Namespace, compiled: native.Library, status: int) -> str:
    if not document["ranks"] and options.if_oversubscribed:
        return "two-phase waits: none, no MPI program with more ranks than processors has ended on this host"
    if not document["ranks"] and status:
        return f"two-phase waits: none counted, the command failed (status {status}) before a rank finished"
    if not document["ranks"]:
        return (
            f"two-phase waits: none, no program that uses {compiled.libraries[0]} was reached and has ended "
            "on this host: unless a line above says why, name the compiler wrapper of your MPI, as in "
            "--mpicc "
            "/usr/bin/mpicc"
        )
    share = document["blocked"] / max(1, document["waits"])
    return (
        f"two-phase waits: {document['ranks']} ranks, {document['waits']} waits, {100 * share:.1f} % blocked,"
        f" {document['given_back_s']:.1f} s of CPU time given back (used: {document['cpu_s']:.1f} s)"
    )
