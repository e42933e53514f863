"""``lockstep turns -- COMMAND ::: COMMAND...`` and ``--pid P``: programs share the processors by turns."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator import policies
from coordinator.drive import preflight
from coordinator.drive.driver import run_workload
from coordinator.host import guardian, identity, launch
from coordinator.host.cpu_time import CpuTime
from coordinator.host.environment import of_command
from coordinator.host.launchers import NoLauncher, program_name
from coordinator.host.lost_proxies import LostProxies
from coordinator.host.processes import Process, family
from coordinator.host.rundir import RunDirectory
from coordinator.workload import Node, Result, Workload
from harness import Interrupted
from harness.commands import SCHEMA, Answer, shared
from harness.commands.exec import check_program
from harness.measure.forward_output import forwarded
from harness.measure.registrar import start_without_signals
from harness.spec import colocate, hosts, turns
from harness.spec.colocate import FEWEST, SEPARATOR
from harness.spec.experiment import usable_processors
from harness.spec.scheduler import Scheduler
from workloads.validation import InputError, refused

if TYPE_CHECKING:
    from harness.measure.session import Watcher

Row = dict[str, Any]

QUANTUM_MS = 100.0
STANDING_S = 60.0  # from one line about the jobs to the next
SILENCE_S = 10.0  # without an answer of Slurm, after which the line of state mentions it

GATE = ("/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh")  # starts a program when it is continued


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--quantum-ms", type=float, metavar="MS", help=f"make slots this long (default: {QUANTUM_MS:g} ms)")
    add(
        "--policy",
        metavar="POLICY",
        help='use this policy, with its keys, e.g. "batch", "gang quantum_ms=20 fill=jobs" (default: gang)',
    )
    add(
        "--pid",
        type=int,
        action="append",
        default=[],
        metavar="PID",
        help="include a running job: its launcher, or the root of its processes",
    )
    add(
        "--slurm",
        action="append",
        default=[],
        metavar="JOB",
        help="include a job that Slurm runs, on all its nodes, by its number; alone, without programs",
    )
    add(
        "--watch",
        metavar="PARTITION",
        help="as root, let all jobs that share processors in a partition of Slurm take turns until Ctrl-C; "
        "--json prints the state as a line each minute",
    )
    add(
        "--processes",
        type=int,
        metavar="N",
        help="give each program this many processors (default: all, so that one runs at a time)",
    )
    shared.add_one_of(parser, *shared.HOSTS)
    add("--file", type=Path, metavar="FILE", help="read commands from a file, one on each line")
    add(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="write the outputs of the commands to files in this directory (default: pass them on)",
    )
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="-- COMMAND ...",
        help=f"run these programs, with {SEPARATOR} between them; each is one word or several",
    )


@dataclass(frozen=True)
class _Asked:
    """What takes turns, and how."""

    pids: Sequence[int]
    commands: Sequence[Sequence[str]]
    scheduler: Scheduler
    how: str
    """Of the turns, in words."""
    processors: tuple[int, ...]
    size: int | None
    """How many of the processors each job uses; None: all."""
    nodes: Sequence[Node] = ()
    """The hosts on which the commands run; none for this host."""

    def workload(self, roots: Sequence[str]) -> Workload:
        """The jobs of these roots, or on hosts those of the commands.

        Raises InputError for what the policy or the host does not allow.
        """
        if self.nodes:
            return turns.workload_on(self.nodes, self.commands, self.scheduler)
        return turns.workload(roots, self.scheduler, self.processors, self.size)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    if options.slurm or options.watch is not None:
        return _of_slurm(options)
    request = _asked(options)
    running = [identity.name(pid) for pid in request.pids]
    preflight.check_host()
    request.workload(running)  # bad input shows before anything starts
    rows = [_row(f"process {pid}", pid=pid) for pid in request.pids]
    own = [
        _row(name, command=words)
        for name, words in zip(_names(request.commands), request.commands, strict=True)
    ]
    try:
        with _outputs(options, own) as outputs:
            if request.nodes:
                failure = _run_on_hosts(request, outputs, own)
            else:
                failure = _run(request, running, outputs, rows, own)
    except (KeyboardInterrupt, SystemExit):  # the driver ends by the latter on SIGTERM
        ended = "interrupted: commands have ended"
        on = "interrupted: commands have ended, jobs of --pid continue"
        raise Interrupted(on if request.pids else ended) from None
    document = {"schema": SCHEMA, "programs": rows + own, "failure": failure}
    notes = [*map(_line, rows + own), *failure.splitlines()[: None if request.nodes else 1]]
    return Answer(document, (), max(bool(failure), *(row["status"] or 0 for row in own), 0), tuple(notes))


def _of_slurm(options: argparse.Namespace) -> Answer:
    from harness.measure import slurm_turns  # noqa: PLC0415 - other turns do not need it

    name, value = ("--slurm", options.slurm[0]) if options.slurm else ("--watch", options.watch)
    hosts_given = options.hosts is not None or options.hostfile is not None
    others = (("--pid", options.pid), ("--hosts", hosts_given), ("COMMAND", options.program))
    more = (("--file", options.file), ("--processes", options.processes), ("--output", options.output))
    both = ("--watch", options.slurm and options.watch is not None)
    for other, given in (*others, *more, both):
        if given:
            rule = f"cannot be combined with {other}, since Slurm has started the jobs on their nodes"
            raise InputError(name, value, rule, f"leave {other} out")
    if options.slurm and len(options.slurm) < FEWEST:
        rule = f"must be at least {FEWEST} jobs, which take turns"
        raise InputError("--slurm", options.slurm[0], rule, "add another --slurm")
    policy, how = _policy(options)
    quantum_ns = turns.quantum_of_jobs(policy)
    preflight.check_host()
    jobs: slurm_turns.Jobs
    if options.slurm:
        jobs = slurm_turns.Named(slurm_turns.check(options.slurm))
        what = f"{len(jobs.first)} jobs of Slurm"
    else:
        jobs = slurm_turns.Watched(options.watch)
        what = f"jobs that share processors in partition {options.watch}"
        if jobs.gang:
            _tell("warning: Slurm suspends jobs by turns, too (PreemptMode has GANG): these are left alone")
    _tell(f"{what} {how}; Ctrl-C ends, and the jobs continue")

    def report(state: Mapping[str, Any]) -> None:
        if options.json and jobs.lasting:
            sys.stdout.write(json.dumps({"schema": SCHEMA, **state}) + "\n")
            sys.stdout.flush()
        else:
            _tell(_in_words(state))

    shared_out = slurm_turns.SlurmTurns(jobs, quantum_ns, _tell, report)
    try:
        while shared_out.open:  # a run ends also where Ctrl-Z suspends it
            shared_out.run()
    except (KeyboardInterrupt, SystemExit):
        raise Interrupted("interrupted: the jobs continue") from None
    rows = []
    for name, share in shared_out.shares.items():
        seconds = ((share.end_ns or share.begin_ns) - share.begin_ns) / 1e9
        rows.append({**_row(f"job {name}"), "seconds": seconds, "state": share.job.state})
    notes = (f"{row['name']} has ended after {row['seconds']:.1f} s ({row['state']})" for row in rows)
    return Answer({"schema": SCHEMA, "programs": rows, "failure": ""}, (), 0, tuple(notes))


def _in_words(state: Mapping[str, Any]) -> str:
    """The state of Slurm's jobs in a line."""
    counts = Counter(job["turns"] or job["state"].lower() for job in state["jobs"])
    parts = [f"{number} {how}" for how, number in sorted(counts.items())]
    silent = f"; no answer of Slurm for {state['silent_s']:.0f} s" if state["silent_s"] > SILENCE_S else ""
    return f"after {state['seconds'] / 60:.0f} min, jobs: {', '.join(parts) or 'none'}{silent}"


def _policy(options: argparse.Namespace) -> tuple[str, str]:
    """The policy with its keys, and the turns in words."""
    if options.policy is not None and options.quantum_ms is not None:
        raise InputError(
            "--quantum-ms",
            options.quantum_ms,
            "cannot be combined with --policy",
            'write --policy "gang quantum_ms=20"',
        )
    quantum_ms = QUANTUM_MS if options.quantum_ms is None else options.quantum_ms
    policies.create("gang", {"quantum_ms": quantum_ms})  # complains of one that is too short
    if options.policy is not None:
        return options.policy, f"under {options.policy}"
    return f"gang quantum_ms={quantum_ms}", f"in {quantum_ms:g} ms slots"


def _asked(options: argparse.Namespace) -> _Asked:
    """What the words on the command line ask for; an InputError for those that cannot be."""
    pids: list[int] = options.pid
    entries = hosts.named(options.hosts, options.hostfile)
    nodes = () if entries is None else hosts.parse(entries)
    if nodes:
        _check_usable_on_hosts(options)
    policy, how = _policy(options)
    if options.program and all(word.isdigit() for word in options.program):
        remedy = " ".join(f"--pid {word}" for word in options.program)
        raise InputError(
            "COMMAND", options.program[0], "is not a program", f"for a running job write {remedy}"
        )
    named = options.program or options.file or not pids
    commands = colocate.given(options.program, options.file) if named else []
    if len(pids) + len(commands) < FEWEST:
        rule = f"must be at least {FEWEST} programs, which take turns"
        remedy = f"add another after {SEPARATOR}, or another --pid"
        names = [*(f"--pid {pid}" for pid in pids), *map(shlex.join, commands)]
        raise InputError("COMMAND", " ".join(names) or None, rule, remedy)
    for words in commands:
        check_program(words)
    turns.check_roots(pids)
    chosen = turns.scheduler(policy, running=bool(pids))
    return _Asked(pids, commands, chosen, how, usable_processors(), options.processes, nodes)


def _check_usable_on_hosts(options: argparse.Namespace) -> None:
    name = "--hosts" if options.hosts is not None else "--hostfile"
    for other, given, reason in (
        ("--pid", options.pid, "whose job runs on this host"),
        ("--processes", options.processes is not None, "since -n of each command says how many ranks it has"),
    ):
        if given:
            raise InputError(
                name,
                options.hosts or str(options.hostfile),
                f"cannot be combined with {other}, {reason}",
                f"leave {other} out",
            )


def _run(
    request: _Asked,
    running: Sequence[str],
    outputs: Sequence[Sequence[Path]],
    rows: Sequence[Row],
    own: Sequence[Row],
) -> str:
    """Start the programs, and let them and the running jobs take turns until all have ended.

    Notes in the rows, our ``own`` and the others, what became of each. Returns why it could not continue.
    """
    every = [*rows, *own]
    with guardian.guarded() as directory:
        pairs = zip(request.commands, outputs, strict=True)
        programs = [_start(words, out, err, directory) for words, (out, err) in pairs]
        roots = [*running, *(identity.name(program.pid) for program in programs)]
        ends = "Ctrl-C ends, and jobs of --pid continue" if request.pids else "Ctrl-C ends"
        _tell(f"{len(roots)} jobs {request.how}; {ends}")
        with _watched(roots, every, [program.pid for program in programs]):
            failure = _take_turns(request.workload(roots), every)
    for row, program in zip(own, programs, strict=True):
        _, status, used = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
        row["status"] = program.returncode if program.returncode >= 0 else 128 - program.returncode
        row["cpu_s"] = used.ru_utime + used.ru_stime
    return failure


def _run_on_hosts(request: _Asked, outputs: Sequence[Sequence[Path]], rows: Sequence[Row]) -> str:
    """Run the programs on the hosts until all have ended, and note in the rows what became of each.

    Returns why it could not continue.
    """
    workload = request.workload(())
    jobs = [replace(job, outputs=(out, err)) for job, (out, err) in zip(workload.jobs, outputs, strict=True)]
    names = ", ".join(node.host for node in request.nodes)
    begun = f"{len(jobs)} jobs {request.how} on {names}; Ctrl-C ends, Ctrl-Z does nothing"

    def tell(text: str) -> None:
        if text.startswith("starting "):  # all hosts take part
            _tell(begun)
        elif about := re.fullmatch(r"job (\d+) (has .*)", text):
            _tell(f"{rows[int(about[1])]['name']} {about[2]}")
        else:
            _tell(text)

    with _never_suspended():
        result = run_workload(replace(workload, jobs=tuple(jobs)), tell)
    _note_times(result, rows)
    for job, row in zip(result.jobs, rows, strict=True):
        if job.status is not None:
            row["status"] = job.status if job.status >= 0 else 128 - job.status
    return result.broken


@contextmanager
def _never_suspended() -> Iterator[None]:
    """A context in which Ctrl-Z does nothing, since it would terminate a run on several hosts."""
    former = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, former)


def _row(name: str, pid: int | None = None, command: Sequence[str] | None = None) -> Row:
    times = {"seconds": None, "cpu_s": None}
    return {"name": name, "pid": pid, "command": command, "status": None, **times}


def _names(commands: Sequence[Sequence[str]]) -> list[str]:
    """A name for each command: of its program, and its place if several have that name."""
    programs = [*map(program_name, commands)]
    numbered = enumerate(programs, start=1)
    return [f"{name}-{place}" if programs.count(name) > 1 else name for place, name in numbered]


@contextmanager
def _outputs(options: argparse.Namespace, rows: Sequence[Row]) -> Iterator[list[list[Path]]]:
    if (folder := options.output) is None:
        out = sys.stderr if options.json else sys.stdout
        with forwarded([row["name"] for row in rows], out.buffer, sys.stderr.buffer) as pipes:
            yield pipes
        return
    with refused("--output", folder, "cannot be made", "name a directory of yours"):
        folder.mkdir(parents=True, exist_ok=True)
    yield [[folder / f"{row['name']}.{end}" for end in ("out", "err")] for row in rows]


def _start(command: Sequence[str], out: Path, err: Path, directory: RunDirectory) -> subprocess.Popen[bytes]:
    """Start a program of a run in our environment; it waits to be continued."""
    with refused("COMMAND", command[0], "cannot be started", "look at its outputs, and stop other programs"):
        descriptors = launch.from_caller()
        program = launch.start(
            [*GATE, *command], of_command(directory.signs), out, err, inherited=descriptors
        )
    directory.note_process(program.pid)
    os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    return program


@contextmanager
def _watched(roots: Sequence[str], rows: Sequence[Row], own: Sequence[int]) -> Iterator[None]:
    """A context in which a line each minute says how much CPU time each job has had since its begin.

    Launchers of our ``own`` programs that wait for ever end; what runs already is never ended.
    """
    over, begin_s = threading.Event(), time.monotonic()
    lost = [LostProxies(pid) for pid in own]
    with ExitStack() as stack:
        jobs = [stack.enter_context(closing(Process.named(root))) for root in roots]
        used = [CpuTime(job.pid) for job in jobs]

        def look() -> Iterator[str]:
            for job, spent, row in zip(jobs, used, rows, strict=True):
                spent.look(one.pid for one in family(job))
                seconds = spent.record().get("running_ns", 0) / 1e9
                yield f"{row['name']} has ended" if job.wait(0) else f"{row['name']} {seconds:.0f} s"

        def watch() -> None:
            due_s = begin_s + STANDING_S
            while not over.wait(min(launch.LOOK_S, STANDING_S)):
                for program in lost:
                    program.end_launchers(_tell)
                if time.monotonic() >= due_s:
                    due_s += STANDING_S
                    minutes = (time.monotonic() - begin_s) / 60
                    _tell(f"after {minutes:.0f} min, CPU time: {', '.join(look())}")

        thread = threading.Thread(target=watch, daemon=True)
        start_without_signals(thread)
        try:
            yield
        finally:
            over.set()
            thread.join()


def _take_turns(workload: Workload, rows: Sequence[Row]) -> str:
    """Let jobs take turns until all have ended, and note their times; returns why it could not continue."""
    while True:
        result = run_workload(workload, _tell, NoLauncher("", ""))
        _note_times(result, rows)
        if not result.failure.startswith("suspended"):  # from the terminal, and now continued
            return result.failure


def _note_times(result: Result, rows: Sequence[Row]) -> None:
    for job, row in zip(result.jobs, rows, strict=True):
        if job.start_ns is not None and job.finish_ns is not None:
            row["seconds"] = (job.finish_ns - job.start_ns) / 1e9
        used_ns = [rank.running_ns for rank in result.ranks if rank.job == job.number]
        known_ns = [one for one in used_ns if one is not None]
        if known_ns and len(known_ns) == len(used_ns):
            row["cpu_s"] = sum(known_ns) / 1e9


def _tell(text: str) -> None:
    """Pass on what the driver warns of, but not how far the jobs are."""
    if not text.startswith(("job ", "starting ")):
        os.write(2, f"lockstep: {text}\n".encode(errors="backslashreplace"))


def _line(row: Row) -> str:
    unknown = "has ended" if row["pid"] is not None else "has not run"
    how = unknown if row["status"] is None else launch.describe(row["status"])
    times = ((" after", row["seconds"], "s"), (" with", row["cpu_s"], "s of CPU time"))
    return f"{row['name']} {how}" + "".join(f"{a} {s:.1f} {b}" for a, s, b in times if s is not None)
