"""The processes of a run: finding them, safe handles on them, ending them.

Every process that Lockstep starts has LOCKSTEP_RUN in its environment. Launchers move their proxies and ranks
to other sessions and groups, but this mark in /proc/PID/environ finds nearly all of them. Some marks are
unreadable: an execute-only program hides its environment, and a program that sets its title overwrites it. So
the journal names every process that the run has started or taken over. Their descendants belong to the run,
too; so do their sessions, which only descendants of the leader can join, and all processes in the run's
control group.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.host import identity
from coordinator.host.identity import Stat
from workloads import launcher_names
from workloads.validation import InputError


class JournaledProcess(NamedTuple):
    """A process that the journal names; ``job`` is None for one outside jobs."""

    pid: int
    start: int
    job: int | None


@dataclass(frozen=True)
class Evidence:
    """Processes that a journal names, and control groups that contain processes of the run only."""

    known: tuple[JournaledProcess, ...] = ()
    groups: tuple[Path, ...] = ()

    @classmethod
    def of(
        cls, notes: Iterable[Mapping[str, Any]], groups: Iterable[Path] = (), key: str = "process"
    ) -> Evidence:
        """The evidence in the notes of a journal, whose content may be anything."""
        processes = []
        for note in notes:
            if process := identity.meant(note.get(key)):
                job = note.get("job")
                processes.append(JournaledProcess(*process, job if type(job) is int else None))
        return cls(tuple(processes), tuple(dict.fromkeys(groups)))

    def belonging(
        self, table: Mapping[int, Stat], marked: Collection[int], others: Collection[int], job: int | None
    ) -> set[int]:
        """The pids in ``table`` that belong to the run, or to one of its jobs."""
        of_job = [one for one in self.known if job in (None, one.job)]
        pids = set(marked) | self._grouped(job)
        pids |= {one.pid for one in of_job if one.pid in table and table[one.pid].start == one.start}
        children = defaultdict(list)
        sessions = defaultdict(list)
        for pid, process in table.items():
            children[process.parent].append(pid)
            sessions[process.session].append(pid)
        for one in of_job:
            # The kernel does not reuse the pid of a session's leader as long as the session exists.
            if one.pid not in table:
                pids |= {pid for pid in sessions[one.pid] if table[pid].start >= one.start}
        coming = pids & table.keys() - set(others)
        pids = set()
        while coming:
            pids |= coming
            below = {pid for one in coming for pid in children[one] + sessions[one]}
            coming = below - pids - set(others)
        return pids

    def _grouped(self, job: int | None) -> set[int]:
        """The pids in the control groups of the run, or of one of its jobs."""
        pattern = "**/cgroup.procs" if job is None else f"job-{job}-rank-*/cgroup.procs"
        pids: set[int] = set()
        for group in self.groups:
            with suppress(OSError):
                for file in group.glob(pattern):
                    with suppress(OSError):
                        pids |= set(map(int, file.read_bytes().split()))
        return pids


NOTHING = Evidence()

ATTACHED, LET_GO = "attached", "let_go"
"""Keys of notes: on processes of others, which the run may stop and must let go; that it has done that."""

RUN = "LOCKSTEP_RUN"
JOB = "LOCKSTEP_JOB"
DIRECTORY = "LOCKSTEP_DIRECTORY"
KEEPER = "LOCKSTEP_KEEPER"
"""Variables of every process of a run; the keeper is the name of the process that holds the run's lock."""

GRACE_S = 2.0  # time from SIGTERM to SIGKILL
STUBBORN_S = 5.0  # how long to wait for the kernel to execute SIGKILL

BEGINNING_S = 0.25
"""How long to wait for the environment of a process that is just executing a new program."""


class Process:
    """A handle on one process, which never refers to another one that reuses its pid.

    ``descriptor`` is an open pidfd, if there is one. With ``family``, mechanisms treat the
    descendants like the process, and so the ``heirs``, which have outlived their parents.
    """

    def __init__(self, pid: int, descriptor: int | None = None) -> None:
        self.pid = pid
        self.family = False
        self.heirs: list[Process] = []
        self._fd = os.pidfd_open(pid) if descriptor is None else descriptor

    @classmethod
    def named(cls, name: str) -> Process:
        """The process of this name (``identity``); if it has gone, a handle that shows its end."""
        pid, start = identity.meant(name) or (0, 0)
        with suppress(OSError):
            process = cls(pid)
            if (status := identity.stat(pid)) and status.start == start:
                return process
            process.close()
        return cls(pid, os.eventfd(1))

    def fileno(self) -> int:
        """A descriptor that turns readable when the process ends."""
        return self._fd

    def send(self, signum: signal.Signals) -> bool:
        """Send a signal; return whether the process still existed."""
        try:
            signal.pidfd_send_signal(self._fd, signum)
        except ProcessLookupError:
            return False
        return True

    def wait(self, timeout_s: float | None) -> bool:
        """Wait at most so long for the end of the process; return whether it has ended."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1e3))

    def close(self) -> None:
        os.close(self._fd)


def descendants(pid: int) -> Iterator[Process]:
    """Handles, each closed at the next request, on all descendants of ``pid``, parents first, but daemons."""
    for child in children(pid):
        try:
            process = Process(child)
        except ProcessLookupError:
            continue
        yield process
        process.close()
        yield from descendants(child)


def family(process: Process) -> Iterator[Process]:
    """Handles on the descendants of a process, on its heirs, and on the descendants of these."""
    for one in (process, *process.heirs):
        if one is not process:
            yield one
        if not one.wait(0) and process.pid:  # else the pid may be another process's, or all are heirs
            yield from descendants(one.pid)


def name_of(pid: int) -> str:
    """The kernel's name for a process; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    except OSError:
        return ""


def is_launcher(pid: int) -> bool:
    """Whether a process is a launcher or its proxy, by the kernel's name for it."""
    return name_of(pid).partition(".")[0] in launcher_names.ALL


def ancestors(pid: int) -> Iterator[int]:
    """The parent of a process, its parent, and so on, without the first process of all."""
    while (status := identity.stat(pid)) and status.parent > 1:
        pid = status.parent
        yield pid


def threads(pid: int) -> Iterator[int]:
    with suppress(OSError):
        yield from map(int, os.listdir(f"/proc/{pid}/task"))  # noqa: PTH208 - speed matters in a slot switch


def children(pid: int) -> Iterator[int]:
    for thread in threads(pid):
        with suppress(OSError):
            yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())


def below(pid: int) -> Iterator[int]:
    """The pids of all descendants of a process, each after its parent."""
    for child in children(pid):
        yield child
        yield from below(child)


def environment_of(pid: int) -> dict[str, str]:
    """The environment with which ``pid`` started, awaited up to BEGINNING_S; empty if unreadable."""
    file = Path(f"/proc/{pid}/environ")
    deadline = time.monotonic() + BEGINNING_S
    try:
        data = file.read_bytes()
        while not data and (status := identity.stat(pid)):
            data = file.read_bytes()  # after reading its state, so as not to miss a change in between
            if data or not status.beginning or time.monotonic() > deadline:
                break
            time.sleep(0.0005)
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in os.fsdecode(data).split("\0") if "=" in entry)
    return {name: value for name, _, value in pairs}


def marked() -> dict[int, dict[str, str]]:
    """Pid and environment of every living process of this user with the mark of a run."""
    environments = {pid: environment_of(pid) for pid in identity.pids()}
    return {pid: variables for pid, variables in environments.items() if RUN in variables and is_ours(pid)}


def is_ours(pid: int) -> bool:
    """Whether all user ids of a process are ours; a set-uid program has another user's environment."""
    try:
        lines = Path(f"/proc/{pid}/status").read_bytes().splitlines()
    except OSError:
        return False
    return [b"Uid:", *[b"%d" % os.getuid()] * 4] in [line.split() for line in lines]


def find(
    run: str | None, job: int | None = None, spare: Collection[int] = (), evidence: Evidence = NOTHING
) -> list[Process]:
    """Handles on the processes of a run, or of one of its jobs, except those in ``spare``.

    These are the processes with its mark, those with other evidence, and their descendants
    and members of their sessions, unless they carry the mark of another run. Without a ``run`` only
    evidence counts, and no mark.
    """
    # Before reading the marks: a pid that is reused meanwhile has another start.
    table = identity.table()
    marks = marked() if run else {}
    meant = {
        pid
        for pid, variables in marks.items()
        if variables[RUN] == run and (job is None or variables.get(JOB) == str(job))
    }
    others = {*spare, *marks} - (meant - set(spare))
    processes = []
    for pid in sorted(evidence.belonging(table, meant, others, job)):
        try:
            process = Process(pid)
        except OSError:  # it has ended, or there are too many to hold at once
            continue
        now = identity.stat(pid)
        if now and now.start == table[pid].start and not process.wait(0):
            processes.append(process)
        else:
            process.close()
    return processes


def let_go(notes: Sequence[Mapping[str, Any]]) -> int:
    """Continue the processes of others, by the notes of a run's journal; returns how many there are."""
    if any(LET_GO in note for note in notes):
        return 0
    processes = find(None, evidence=Evidence.of(notes, key=ATTACHED))
    for process in processes:
        status = identity.stat(process.pid)
        if status and (status.state == "T" or not is_launcher(process.pid)):  # launchers are never stopped
            _ask(process, ())
        process.close()
    return len(processes)


def starts_s(run: str) -> list[float]:
    """The starts of the processes with the mark of a run, in seconds of ``time.time``."""
    pids = [pid for pid, variables in marked().items() if variables[RUN] == run]
    return [identity.start_s(status) for pid in pids if (status := identity.stat(pid))]


Steps = Generator[tuple[Process, float], None, tuple[int, int]]


def end(steps: Steps) -> tuple[int, int]:
    """Execute the steps of ``ending``, and wait between them; returns its result."""
    while True:
        try:
            process, wait_s = next(steps)
        except StopIteration as done:
            ended: tuple[int, int] = done.value
            return ended
        process.wait(wait_s)


def ending(
    run: str,
    job: int | None = None,
    spare: Collection[int] = (),
    grace_s: float = GRACE_S,
    evidence: Evidence = NOTHING,
) -> Steps:
    """Terminate processes of a run or job, also stopped ones and launchers' proxies: SIGTERM, grace, SIGKILL.

    A proxy without its launcher waits for ever. A handle on each process stays open until the process has
    ended, since the evidence for it may vanish earlier. Yields before the next step a process to wait for,
    and for how many seconds at most. Returns the numbers of processes that ended and of those that survived.
    """
    begin = time.monotonic()
    held: dict[int, Process] = {}
    notified: set[int] = set()
    ended = 0
    try:
        while True:
            for pid in [pid for pid, process in held.items() if process.wait(0)]:
                held.pop(pid).close()
                notified.discard(pid)
                ended += 1
            _hold(held, find(run, job, spare, evidence))
            elapsed_s = time.monotonic() - begin
            if not held or elapsed_s > grace_s + STUBBORN_S:
                return ended, len(held)
            for pid, process in held.items():
                signum = signal.SIGKILL if elapsed_s >= grace_s else signal.SIGTERM
                _ask(process, [signum] if signum == signal.SIGKILL or pid not in notified else [])
            notified |= held.keys()
            # A short wait each time: an ending launcher may start or hand over processes.
            yield next(iter(held.values())), 0.02 if elapsed_s < grace_s else 0.1
    finally:
        for process in held.values():
            process.close()


def end_family(pid: int, grace_s: float = GRACE_S) -> None:
    """Terminate a process and all its descendants, in whatever sessions, also stopped ones.

    They get SIGTERM, and after ``grace_s`` SIGKILL, with what they have started meanwhile.
    """
    held: dict[int, Process] = {}
    deadline = time.monotonic() + grace_s
    try:
        _hold_family(held, pid)
        for process in held.values():
            _ask(process, [signal.SIGTERM])
        while time.monotonic() < deadline and not all(process.wait(0.02) for process in held.values()):
            pass
        for one in [pid for pid, process in held.items() if not process.wait(0)]:
            _hold_family(held, one)
        for process in held.values():
            if not process.wait(0):
                _ask(process, [signal.SIGKILL])
    finally:
        for process in held.values():
            process.close()


def _hold_family(held: dict[int, Process], pid: int) -> None:
    if pid not in held:
        try:
            held[pid] = Process(pid)
        except OSError:
            return
    for child in children(pid):
        _hold_family(held, child)


def _hold(held: dict[int, Process], processes: Iterable[Process]) -> None:
    for process in processes:
        if process.pid in held:
            process.close()
            continue
        held[process.pid] = process
        if (proxy := _proxy_of(process.pid)) is None:
            continue
        if proxy.pid in held:
            proxy.close()
        else:
            held[proxy.pid] = proxy


def _ask(process: Process, signals: Sequence[signal.Signals]) -> None:
    """Send signals, even if one fails, and SIGCONT last: a stopped process then ends before anything else."""
    for signum in (*signals, signal.SIGCONT):
        with suppress(OSError):  # it belongs to another user now
            process.send(signum)


def proceed(process: Process) -> None:
    """Continue a process."""
    _ask(process, ())


def _proxy_of(pid: int) -> Process | None:
    """The launcher's proxy that is the parent of ``pid``; None if it has another parent."""
    child = identity.stat(pid)
    try:
        proxy = Process(child.parent) if child else None
    except (OSError, ValueError):
        return None
    if proxy is None:
        return None
    with suppress(OSError):
        named = Path(f"/proc/{proxy.pid}/comm").read_text(errors="replace").strip()
        if named in launcher_names.PROXIES and Path(f"/proc/{proxy.pid}").stat().st_uid == os.getuid():
            return proxy
    proxy.close()
    return None


RESERVED_DESCRIPTORS = 64  # descriptors that connections cannot use while anybody may connect

_DESCRIPTORS_AT_START = resource.getrlimit(resource.RLIMIT_NOFILE)


LEAST_DESCRIPTORS = 32
LEAST_ADDRESS_SPACE = 1 << 29
LEAST_PROCESSES = 16  # and threads, of the driver and its parts: ZeroMQ aborts, or a launcher waits, without
LEAST_STACK = 1 << 18  # no system needs more for a thread, and the address space may be limited


def check_limits(processes: int = LEAST_PROCESSES) -> None:
    """Refuse limits of this process under which a run fails anywhere, also in libraries that abort then.

    So many processes and threads must be able to start when this is first called: another program may need
    some of them for a moment, and a run that lacks them fails alone.
    """
    needs = (
        (resource.RLIMIT_NOFILE, "ulimit -n", LEAST_DESCRIPTORS, "descriptors", 1),
        (resource.RLIMIT_AS, "ulimit -v", LEAST_ADDRESS_SPACE, "KiB of address space", 1024),
    )
    for limit, command, least, what, unit in needs:
        soft, hard = resource.getrlimit(limit)
        allowed = hard if limit == resource.RLIMIT_NOFILE else soft  # of descriptors we take all
        if resource.RLIM_INFINITY != allowed < least:
            raise InputError(
                command,
                allowed // unit,
                f"a run needs at least {least // unit} {what}",
                f"write {command} {least // unit} before it",
            )
    _check_startable(processes)


@cache  # of its successes
def _check_startable(processes: int) -> None:
    if (left := _startable(processes)) < processes:
        raise InputError(
            "processes and threads that may start",
            left,
            f"a run needs at least {processes}",
            "raise ulimit -u, or pids.max of the control group",
        )


def _startable(most: int) -> int:
    """How many processes and threads can start now, up to ``most``: limits of several kinds count them."""
    usual = threading.stack_size(LEAST_STACK)
    over = threading.Event()
    started = list[threading.Thread]()
    try:
        for _ in range(most):
            thread = threading.Thread(target=over.wait)
            thread.start()
            started.append(thread)
    except RuntimeError:
        pass
    finally:
        threading.stack_size(usual)
        over.set()
        for thread in started:
            thread.join()
    return len(started)


def raise_descriptor_limit(reserve: int = 0) -> None:
    """Raise the limit of this process to the hard limit, less ``reserve`` unless the limit is too tight."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most - reserve if most >= 4 * reserve else most, most))


@contextmanager
def kept_limits() -> Iterator[None]:
    """On exit this process has its present limits again: it may be the program of one who calls us."""
    before = {which: resource.getrlimit(which) for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_RTPRIO)}
    try:
        yield
    finally:
        for which, limits in before.items():
            resource.setrlimit(which, limits)


def restore_descriptor_limit(pid: int) -> None:
    """Give a process that we have just started the limit with which we started."""
    with suppress(OSError):  # it has ended
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _DESCRIPTORS_AT_START)
