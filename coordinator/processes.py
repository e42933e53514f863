"""The processes of a run: finding them, holding them by a safe handle, ending them.

Everything that Lockstep starts carries LOCKSTEP_RUN in its environment. Launchers move
their proxies and ranks to sessions and groups of their own, so the mark in
/proc/PID/environ is what finds all of them, whoever started them and whoever is gone.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Collection, Generator, Iterator
from pathlib import Path

RUN = "LOCKSTEP_RUN"
JOB = "LOCKSTEP_JOB"
DIRECTORY = "LOCKSTEP_DIRECTORY"

PROXIES = (b"hydra_pmi_proxy", b"prted", b"orted")
"""What the launchers leave on a node to start ranks, as the kernel names it."""

GRACE_S = 2.0
"""How long a process may take to follow SIGTERM before SIGKILL."""

STUBBORN_S = 5.0
"""How long to wait for the kernel to carry out SIGKILL."""


class Process:
    """A handle on one process, which a reused pid cannot turn to another one; it may be at hand already.

    ``family`` says that what is done to it is meant for its descendants as well.

    Raises:
        ProcessLookupError: if there is no such process.
    """

    def __init__(self, pid: int, descriptor: int | None = None) -> None:
        self.pid = pid
        self.family = False
        self._fd = os.pidfd_open(pid) if descriptor is None else descriptor

    def fileno(self) -> int:
        """A descriptor that turns readable when the process ends."""
        return self._fd

    def send(self, signum: signal.Signals) -> bool:
        """Send a signal; returns whether there was still a process to receive it."""
        try:
            signal.pidfd_send_signal(self._fd, signum)
        except ProcessLookupError:
            return False
        return True

    def wait(self, timeout_s: float | None) -> bool:
        """Wait until the process has ended, at most so long; returns whether it has."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1e3))

    def close(self) -> None:
        """Give the handle back; the process goes on."""
        os.close(self._fd)


def descendants(pid: int) -> Iterator[Process]:
    """Handles on the children of ``pid`` and theirs, parents first; each is closed after use.

    While ``pid`` is stopped it makes no more of them. A daemon that gave up its parent is none.
    """
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return
    for child in map(int, text.split()):
        try:
            process = Process(child)
        except ProcessLookupError:
            continue
        yield process
        process.close()
        yield from descendants(child)


def environment_of(pid: int) -> dict[str, str]:
    """The environment that ``pid`` was started with; empty if it is gone or not ours to read."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in os.fsdecode(data).split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def marked() -> dict[int, dict[str, str]]:
    """Pid and environment of every living process of this user that carries the mark of some run."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - a third of the time
    found = {pid: environment_of(pid) for pid in pids}
    return {pid: variables for pid, variables in found.items() if RUN in variables and _is_ours(pid)}


def _is_ours(pid: int) -> bool:
    """Whether all user ids of a process are ours; a set-uid program keeps the environment of another user."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return False
    return [b"Uid:", *[b"%d" % os.getuid()] * 4] in [line.split() for line in lines]


def find(run: str, job: int | None = None, spare: Collection[int] = ()) -> list[Process]:
    """Handles on the processes of a run, or of one of its jobs; those in ``spare`` are left out."""
    found = []
    for pid in marked():
        if pid in spare:
            continue
        try:
            process = Process(pid)
        except ProcessLookupError:
            continue
        # Read again: the pid may have been reused before the handle held it.
        variables = environment_of(pid)
        if variables.get(RUN) == run and job in (None, _number(variables.get(JOB))) and _is_ours(pid):
            found.append(process)
        else:
            process.close()
    return found


def end(
    run: str, job: int | None = None, spare: Collection[int] = (), grace_s: float = GRACE_S
) -> tuple[int, int]:
    """End the processes of a run or job, as ``ending`` does, and wait for it."""
    steps = ending(run, job, spare, grace_s)
    while True:
        try:
            process, wait_s = next(steps)
        except StopIteration as done:
            ended: tuple[int, int] = done.value
            return ended
        process.wait(wait_s)


def ending(
    run: str, job: int | None = None, spare: Collection[int] = (), grace_s: float = GRACE_S
) -> Generator[tuple[Process, float], None, tuple[int, int]]:
    """End the processes of a run or job: SIGTERM, grace, SIGKILL; also the stopped ones.

    And their parents, if those are what a launcher leaves on a node to start its ranks: cut off
    from their launcher, they would wait for it.

    Yields a process for whose end to wait, and for how many seconds at most, before the next step.
    Returns how many were ended and how many would not end even so.
    """
    begin = time.monotonic()
    asked: set[int] = set()
    proxies: dict[int, Process] = {}
    while found := find(run, job, spare) + [proxy for proxy in proxies.values() if not proxy.wait(0)]:
        elapsed_s = time.monotonic() - begin
        if elapsed_s > grace_s + STUBBORN_S:
            break
        for process in found:
            if process.pid not in proxies:
                proxies |= _proxy_of(process.pid)
            if elapsed_s >= grace_s:
                process.send(signal.SIGKILL)
            elif process.pid not in asked:
                process.send(signal.SIGTERM)
            # Continued after the other signal is pending, a stopped process ends before
            # it executes anything.
            process.send(signal.SIGCONT)
            asked.add(process.pid)
        # A short wait each time: an ending launcher may start or hand over processes.
        yield found[0], 0.02 if elapsed_s < grace_s else 0.1
        for process in found:
            if process.pid not in proxies:
                process.close()
    left = {process.pid: process for process in found}
    for process in (left | proxies).values():
        process.close()
    return len(asked) - len(left), len(left)


def _proxy_of(pid: int) -> dict[int, Process]:
    """The launcher's proxy that is the parent of ``pid``, by its pid; empty if it has another parent."""
    try:
        parent = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        proxy = Process(parent)
    except (OSError, ValueError, IndexError):
        return {}
    try:
        named = Path(f"/proc/{parent}/comm").read_bytes().strip()
        if named in PROXIES and Path(f"/proc/{parent}").stat().st_uid == os.getuid():
            return {parent: proxy}
    except OSError:
        pass
    proxy.close()
    return {}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
