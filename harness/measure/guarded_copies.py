"""Several commands at once, or copies of one, under a guardian: no process of theirs outlives this one."""

import os
import re
import resource
import select
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from coordinator.host import guardian, launch
from coordinator.host.environment import of_command
from coordinator.host.lost_proxies import LostProxies
from coordinator.host.processes import STUBBORN_S
from coordinator.host.rundir import RunDirectory
from workloads.validation import refused
from workloads.work import COPY

Started = tuple[Sequence[str], Mapping[str, str]]
"""A command, and its variables besides those of ``environment.of_command``."""


class Ended(NamedTuple):
    """When a command ended, by the monotonic clock, and the CPU time of all its processes."""

    at_s: float
    cpu_s: float


LOOK_S = 0.5  # by then ranks have been bound, if their launcher binds them


@dataclass(frozen=True)
class CpuUsage:
    """The times of commands that ran at once; none if they were stopped before all had ended."""

    wall_s: tuple[float, ...] = ()  # of each, time until its end
    cpu_s: tuple[float, ...] = ()  # of each, CPU time of all its processes
    said: str = ""  # the end of what they wrote to standard error


def run_copies(
    copies: Sequence[Started],
    limit_s: float | None,
    look: Callable[[Sequence[int]], None] | None = None,
) -> CpuUsage:
    """Run commands at once, from here and without input, and wait ``limit_s`` for them to end.

    ``look`` is called with their pids once they have run for LOOK_S, unless all have ended by then.
    """
    started: list[subprocess.Popen[bytes]] = []
    commands = [command for command, _ in copies]
    try:
        with guardian.guarded() as directory:
            begin = time.monotonic()
            ended: dict[int, Ended] = {}
            for copy, (command, variables) in enumerate(copies):
                started.append(_start(command, copy, of_command(variables), directory))
            deadline = None if limit_s is None else begin + limit_s
            if look is not None and not _ended(started, commands, directory, begin + LOOK_S, ended):
                look([process.pid for process in started])
            if not _ended(started, commands, directory, deadline, ended):
                return CpuUsage()
            in_order = [ended[copy] for copy in range(len(copies))]
            walls_s = tuple(one.at_s - begin for one in in_order)
            messages = [launch.tail(directory.log(f"err-{copy}")) for copy in range(len(copies))]
            return CpuUsage(walls_s, tuple(one.cpu_s for one in in_order), "\n".join(messages))
    finally:
        launch.reap(started, STUBBORN_S)  # else a stopped copy's time would count in a later run


def libraries_loaded(command: Sequence[str]) -> dict[Path, int]:
    """How many processes of a command, alone on this host, load each library, by the dynamic loader."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        with guardian.guarded() as directory:
            variables = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(directory.path / "loaded")}
            started.append(_start(command, 0, of_command(variables), directory))
            _ended(started, [command], directory, None, {})
            files = [file.read_bytes() for file in directory.path.glob("loaded.*")]
    finally:
        launch.reap(started, STUBBORN_S)
    names = [name for file in files for name in set(re.findall(rb"calling init: (/.+)", file))]
    return {Path(os.fsdecode(name)): count for name, count in sorted(Counter(names).items())}


def _children_s() -> float:
    """CPU time of all descendants of this process that have been waited for, in seconds."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _start(
    command: Sequence[str], copy: int, environment: Mapping[str, str], directory: RunDirectory
) -> subprocess.Popen[bytes]:
    argv = [word.replace(COPY, str(copy)) for word in command]
    out = directory.log(f"out-{copy}")
    err = directory.log(f"err-{copy}")
    with refused("COMMAND", shlex.join(command), "cannot be run", "look at its name and path"):
        variables = {**environment, **directory.marks_apart(str(copy))}
        process = launch.start(argv, variables, out, err, inherited=launch.from_caller())
    directory.note_process(process.pid)
    return process


def _ended(
    started: Sequence[subprocess.Popen[bytes]],
    commands: Sequence[Sequence[str]],
    directory: RunDirectory,
    deadline: float | None,
    ended: dict[int, Ended],
) -> bool:
    """Wait until all have succeeded, with their ends in ``ended``; returns whether before the deadline."""
    with ExitStack() as stack:
        poll = select.poll()
        left = dict[int, int]()
        lost = {copy: LostProxies(process.pid) for copy, process in enumerate(started)}
        for copy, process in enumerate(started):
            if process.returncode is not None:  # it succeeded before
                continue
            handle = stack.enter_context(closing(launch.handle(process)))
            poll.register(handle, select.POLLIN)
            left[handle.fileno()] = copy
        while left:
            left_s = LOOK_S if deadline is None else max(0.0, deadline - time.monotonic())
            ready = poll.poll(min(left_s, LOOK_S) * 1e3)
            if not ready and not left_s:
                return False
            for copy in left.values():
                if lost[copy].look():
                    raise launch.LaunchError(
                        f"{shlex.join(commands[copy])} waits for processes that were killed"
                    )
            for descriptor, _ in ready:
                poll.unregister(descriptor)
                copy = left.pop(descriptor)
                at_s = time.monotonic()
                before_s = _children_s()
                status = started[copy].wait()
                ended[copy] = Ended(at_s, _children_s() - before_s)
                if status:
                    logs = directory.log(f"err-{copy}"), directory.log(f"out-{copy}")
                    raise launch.LaunchError(f"{shlex.join(commands[copy])} {launch.failed(status, *logs)}")
    return True
