"""Tools that read the stack of another process: they run for a limited time, and leave that as it was.

A debugger stops a process by ptrace, and the kernel continues it when the debugger ends. One that is killed
between its request and the stop leaves the request behind: the process would stop later, for ever. So after
a debugger that was killed the process gets SIGCONT, which also cancels requests, unless it was stopped
before. After others it gets none: it may handle SIGCONT.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from coordinator.host import identity
from coordinator.host.environment import Variables
from coordinator.host.processes import Process, end_family

LIMIT_S = 5.0
"""How long all tools together may take."""

AT_ONCE = 4
MOST_BYTES = 4 << 20
"""A tool that prints more is ended."""

LOOK_S = 0.02  # how often we look whether a tool has ended
END_S = 1.0  # for how long a killed tool is awaited: it may hang in the kernel


@dataclass(frozen=True)
class Inspection:
    """A command that reads the stack of a process, and whether it ``stops`` the process meanwhile."""

    pid: int
    argv: tuple[str, ...]
    stops: bool = True


@dataclass(frozen=True)
class Outcome:
    """What a tool has printed; bytes that are not UTF-8 are replaced.

    ``failure`` says why it did not end well by itself, or is "".
    """

    output: str = ""
    errors: str = ""
    failure: str = ""


def inspect(
    inspections: Sequence[Inspection], environment: Variables, limit_s: float = LIMIT_S
) -> list[Outcome]:
    """The outcomes of these commands, of which AT_ONCE run at a time, after ``limit_s`` at the latest.

    A process is looked into by one of them at a time, since only one can stop it. None of them runs any more
    at the end, and no process is stopped that was not stopped before.
    """
    deadline = time.monotonic() + limit_s
    late = f"did not end within {limit_s:g} s"
    outcomes = [Outcome(failure=late)] * len(inspections)
    waiting = dict(enumerate(inspections))
    running: dict[int, _Tool] = {}
    try:
        while (waiting or running) and time.monotonic() < deadline:
            for place, one in list(waiting.items()):
                if len(running) == AT_ONCE or one.pid in {tool.pid for tool in running.values()}:
                    continue
                del waiting[place]
                try:
                    running[place] = _Tool(one, environment)
                except OSError as error:
                    outcomes[place] = Outcome(failure=f"cannot be run: {error.strerror}")
            _await_output(running.values())
            for place, tool in list(running.items()):
                if tool.is_over():
                    outcomes[place] = tool.end()
                    del running[place]
    finally:
        for place, tool in running.items():
            outcomes[place] = tool.end(late)
    return outcomes


class _Tool:
    """A tool that runs, and what it has printed so far."""

    def __init__(self, inspection: Inspection, environment: Variables) -> None:
        status = identity.stat(inspection.pid)
        self.pid = inspection.pid
        self._may_leave_a_stop = inspection.stops and status is not None and status.state not in "Tt"
        self._process = subprocess.Popen(
            inspection.argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-Z must not stop what holds a process
            preexec_fn=_unblock_signals,  # noqa: PLW1509 # it locks nothing
        )
        assert self._process.stdout and self._process.stderr
        self._printed = {stream: bytearray() for stream in (self._process.stdout, self._process.stderr)}
        self._open = [*self._printed]
        for stream in self._open:
            os.set_blocking(stream.fileno(), False)

    @property
    def descriptors(self) -> list[int]:
        """Those that become readable when there is more to read."""
        return [stream.fileno() for stream in self._open]

    def is_over(self) -> bool:
        """Read what it has printed; whether it has ended, or printed too much."""
        ended = self._process.poll() is not None
        for stream in [*self._open]:
            with suppress(BlockingIOError):
                while (more := os.read(stream.fileno(), 1 << 16)) and not self._is_too_much:
                    self._printed[stream] += more
                if not more:
                    self._open.remove(stream)
        return ended or self._is_too_much

    @property
    def _is_too_much(self) -> bool:
        return sum(map(len, self._printed.values())) > MOST_BYTES

    def end(self, late: str = "") -> Outcome:
        """Its outcome; it is killed if it still runs, with what it has started."""
        killed = self._process.poll() is None
        if killed:
            end_family(self._process.pid, grace_s=0.0)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        for stream in self._printed:
            stream.close()
        status = self._process.returncode
        if self._may_leave_a_stop and (killed or status < 0):
            _continue(self.pid)
        output, errors = (bytes(part).decode(errors="replace") for part in self._printed.values())
        if killed:
            failure = f"printed more than {MOST_BYTES >> 20} MB" if self._is_too_much else late
        else:
            failure = f"ended with status {status}" if status else ""
        return Outcome(output, errors, failure)


def _await_output(tools: Iterable[_Tool]) -> None:
    poll = select.poll()
    for tool in tools:
        for descriptor in tool.descriptors:
            poll.register(descriptor, select.POLLIN)
    poll.poll(LOOK_S * 1e3)


def _continue(pid: int) -> None:
    with suppress(OSError):
        process = Process(pid)
        process.send(signal.SIGCONT)
        process.close()


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
