"""Lines to ranks with two-phase waits: whether all of a job have the library, and what they record.

A blocking collective operation of a rank without the library does not match the nonblocking ones of
the others, so ranks ask, and get one answer. ``workloads/native/handshake.c`` is their side.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import selectors
import shlex
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.host import identity
from coordinator.host.causes import explained
from workloads.record import RankResult
from workloads.validation import InputError

if TYPE_CHECKING:
    from harness.measure.rank_watch import RankWatch
    from workloads.native import Library

GRACE_S = 1.0
"""So long after the last news of a job, a silent rank has no library: MPI_Init ends when all have begun."""
MOST_GRACE_S = 10.0  # for at most this long a rank that has the library may be on its way out of MPI_Init
ANSWER_S = 30.0
"""So long after its first question a job gets a no. A rank waits twice as long, and then as MPI does."""

STRANGER_S = 2.0  # how long a caller may take to show the key; until then it costs a descriptor
STRANGERS = 64  # as many callers may be about to show it; one more takes the place of the first
LONGEST_LINE_BYTES = 1024
LOOPBACK = "127.0.0.1"
NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE)
GET_ADDRESS = 0x8915  # SIOCGIFADDR


@dataclass
class Registrations:
    """Which ranks of a job have come."""

    # Its processes that have the library, and have not yet heard the answer.
    members: set[object] = field(default_factory=set)
    ranks: dict[object, int] = field(default_factory=dict)  # of those that have asked
    size: int = 0  # how many ranks it has; 0 if unknown
    asked_s: float = 0.0  # when the first of them asked
    news_s: float = 0.0  # when the last of them came or asked
    answer: bool | None = None  # once it is decided

    def decide(self, now_s: float) -> bool:
        """Whether this call has found the answer.

        A yes waits until all have asked, so that all hear it at once: a rank that asked later, and got no
        answer in time, would wait as MPI does while the others do not.
        """
        if self.answer is not None or not self.size:
            return False
        whole = len(self.members) >= self.size
        all_asked = self.members <= self.ranks.keys()
        if now_s - self.asked_s >= ANSWER_S:
            self.answer = False
        elif whole and all_asked:
            self.answer = True
        elif not whole and now_s - self.news_s >= (GRACE_S if all_asked else MOST_GRACE_S):
            self.answer = False
        return self.answer is not None

    @property
    def missing(self) -> list[int]:
        return sorted(set(range(self.size)) - set(self.ranks.values()))


class Roll:
    """The jobs whose ranks are about to begin, by their launchers' names for them. No clock inside."""

    def __init__(self) -> None:
        self.jobs: dict[str, Registrations] = {}
        self._job_of: dict[object, str] = {}

    def announce(self, member: object, name: str, now_s: float) -> None:
        """A process of a job has the library."""
        job = self.jobs.setdefault(name, Registrations())
        job.members.add(member)
        job.news_s = now_s
        self._job_of[member] = name

    def ask(self, member: object, rank: int, size: int, now_s: float) -> None:
        """It wants to know whether all ``size`` ranks have it."""
        job = self.jobs[self._job_of[member]]
        job.asked_s = job.asked_s if job.ranks else now_s
        job.ranks[member] = rank
        job.size = max(size, job.size)
        job.news_s = now_s

    def leave(self, member: object) -> None:
        """It is gone, or has its answer. A job without members is forgotten: its name may come again."""
        name = self._job_of.pop(member, None)
        if name is None:
            return
        job = self.jobs[name]
        job.members.discard(member)
        if not job.members:
            del self.jobs[name]

    def decided(self, now_s: float) -> Iterator[Registrations]:
        """Jobs whose answer is known from now on."""
        return (job for job in list(self.jobs.values()) if job.decide(now_s))

    def answers(self) -> Iterator[tuple[object, bool]]:
        """Processes that wait for an answer that is known."""
        for job in list(self.jobs.values()):
            if job.answer is not None:
                yield from ((member, job.answer) for member in list(job.members) if member in job.ranks)


def sentence(job: Registrations) -> str:
    missing = job.missing
    if not missing:
        return (
            f"the ranks of a job of {job.size} heard nothing of lockstep for {ANSWER_S:g} s, so all of them"
            " wait as MPI does: let lockstep run while a job begins"
        )
    which = ", ".join(map(str, missing[:8])) + (" and more" if len(missing) > 8 else "")
    plural = "s" if len(missing) > 1 else ""
    return (
        f"rank{plural} {which} of a job of {job.size} did not say that the library is loaded, so all"
        " its ranks wait as MPI does: let the launcher pass LD_PRELOAD and LOCKSTEP_* on to them (mpirun -x,"
        " srun --export=ALL), link them with the MPI's shared library, and let them reach this host (if a"
        " script names other hosts, write lockstep exec in it, in front of the launcher)"
    )


class Registrar:
    """Answers the ranks of the jobs that start while it is entered.

    Ranks on this host come by a socket in ``folder``, or without one by a socket in no file system; others
    by TCP, for which the port is open to other hosts only with ``elsewhere``. ``tell`` gets a sentence on
    each job whose ranks have not all got the library. ``watch`` gets what ranks on this host note.

    Other users can connect to both sockets, and each connection costs a descriptor. So the registrar hangs
    up on callers that do not show its key soon, and has few of them at a time.
    """

    def __init__(
        self,
        folder: Path | None,
        tell: Callable[[str], None],
        *,
        elsewhere: bool = False,
        watch: RankWatch | None = None,
    ) -> None:
        self._key, self._tell, self._roll = os.urandom(16).hex(), tell, Roll()
        near = socket.socket(socket.AF_UNIX)
        name = str(folder / "registrar") if folder else f"\0lockstep-{os.urandom(16).hex()}"
        near.bind(name)
        self._listeners = [near]
        by_port = ["0"]
        with suppress(OSError):  # there is no loopback, and ranks come by the other socket
            far = socket.create_server(("" if elsewhere else LOOPBACK, 0))
            by_port = [str(far.getsockname()[1]), *(own_addresses() if elsewhere else [LOOPBACK])]
            self._listeners.append(far)
        parts = [self._key, name.replace("\0", "@"), *by_port]
        self.variables = {"LOCKSTEP_REGISTRAR": ",".join(parts)}
        self._watch = watch
        self._passed: dict[socket.socket, int] = {}  # descriptors of ranks' memory, until the key is shown
        self._woken, self._waker = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = selectors.DefaultSelector()
        self._heard: dict[socket.socket, bytes] = {}  # the beginning of each caller's next line
        self._strangers: dict[socket.socket, float] = {}  # callers without the key, and when each goes
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def __enter__(self) -> Registrar:
        self._listeners[0].listen(4096)
        start_without_signals(self._thread)
        return self

    def __exit__(self, *ignored: object) -> None:
        self._waker.close()
        self._thread.join()

    def _serve(self) -> None:
        try:
            self._answer()
        finally:  # a rank whose line ends waits as MPI does
            self._ready.close()
            for one in (*self._listeners, self._woken, *self._heard):
                one.close()
            for descriptor in self._passed.values():
                os.close(descriptor)
            os.close(self._spare)

    def _answer(self) -> None:
        for one in (*self._listeners, self._woken):
            one.setblocking(False)
            self._ready.register(one, selectors.EVENT_READ)
        while True:
            for key, _ in self._ready.select(self._patience_s()):
                if key.fileobj is self._woken:
                    return
                assert isinstance(key.fileobj, socket.socket)
                if key.fileobj in self._listeners:
                    self._accept(key.fileobj)
                elif key.fileobj in self._heard:
                    self._attend(key.fileobj)
            now_s = time.monotonic()
            for one in [one for one, until_s in self._strangers.items() if until_s <= now_s]:
                self._drop(one)
            for job in self._roll.decided(now_s):
                if not job.answer:
                    self._tell(sentence(job))
            for member, answer in self._roll.answers():
                assert isinstance(member, socket.socket)
                with suppress(OSError):
                    member.send(b"y" if answer else b"n")
                self._drop(member)

    def _patience_s(self) -> float | None:
        """How long nothing happens by itself; None if nothing ever does."""
        due_s = [GRACE_S / 4] if self._roll.jobs else []
        due_s += [until_s - time.monotonic() for until_s in list(self._strangers.values())[:1]]
        return max(0.0, min(due_s)) if due_s else None

    def _accept(self, listener: socket.socket) -> None:
        """Let callers in, so many that those at the other socket do not wait for long."""
        for _ in range(STRANGERS):
            try:
                caller, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_DESCRIPTOR:
                    self._make_room(listener)
                continue
            caller.setblocking(False)
            self._heard[caller] = b""
            self._strangers[caller] = time.monotonic() + STRANGER_S
            self._ready.register(caller, selectors.EVENT_READ)
            self._attend(caller)
            if len(self._strangers) > STRANGERS:
                self._turn_out()

    def _make_room(self, listener: socket.socket) -> None:
        """Free a descriptor for the next caller, or without strangers turn that caller away."""
        if self._strangers:
            self._turn_out()
            return
        os.close(self._spare)
        with suppress(OSError):
            listener.accept()[0].close()
        self._spare = os.open(os.devnull, os.O_RDONLY)

    def _turn_out(self) -> None:
        """Drop the first of the strangers, unless it has shown the key by now: a rank of ours comes again."""
        first = next(iter(self._strangers))
        self._attend(first)
        if first in self._strangers:
            self._drop(first)

    def _attend(self, one: socket.socket) -> None:
        """Take all that a caller has said: one that has hung up is gone before anything is decided."""
        while one in self._heard:
            try:
                came, passed, *_ = socket.recv_fds(one, LONGEST_LINE_BYTES, 1, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return
            except OSError:
                came = b""
                passed = []
            for descriptor in passed:
                self._close_passed(one)
                self._passed[one] = descriptor
            *lines, self._heard[one] = (self._heard[one] + came).split(b"\n")
            short = len(self._heard[one]) <= LONGEST_LINE_BYTES
            if not (came and short and all(self._hear(one, line) for line in lines)):
                self._drop(one)

    def _hear(self, one: socket.socket, line: bytes) -> bool:
        """One line of a process; returns whether it makes sense."""
        words = line.decode(errors="replace").split(" ")
        now_s = time.monotonic()
        if len(words) == 4 and words[0] == self._key:
            return self._let_answer(one, *words[2:])
        if len(words) == 2 and words[0] == self._key:
            self._strangers.pop(one, None)
            self._roll.announce(one, words[1], now_s)
            if self._watch is not None and one in self._passed:
                self._watch_memory(self._watch, self._passed.pop(one), _pid_of(one))
            return True
        try:
            rank, size = map(int, words)
            self._roll.ask(one, rank, size, now_s)
        except (KeyError, ValueError):
            return False
        return True

    def _watch_memory(self, watch: RankWatch, descriptor: int, pid: int) -> None:
        from harness.measure.local_rank import LocalRank  # noqa: PLC0415 - not needed without ranks

        rank = LocalRank(descriptor, pid)
        if not watch.add(rank):
            rank.close()

    def _let_answer(self, one: socket.socket, host: str, place: str) -> bool:
        """By this line a rank will answer the questions of the watch; returns False: it is no line to us."""
        from harness.measure.remote_rank import REFUSED, RemoteRank  # noqa: PLC0415 - rarely needed

        line = None
        with suppress(OSError):  # there is no descriptor left
            line = one.dup() if self._watch is not None else None
        if self._watch is None or line is None:
            with suppress(OSError):
                one.send(REFUSED)
            return False
        rank = RemoteRank(line, host, place)
        if not self._watch.add(rank):
            rank.refuse()
        return False

    def _close_passed(self, one: socket.socket) -> None:
        if (descriptor := self._passed.pop(one, None)) is not None:
            os.close(descriptor)

    def _drop(self, one: socket.socket) -> None:
        self._close_passed(one)
        self._roll.leave(one)
        self._strangers.pop(one, None)
        self._ready.unregister(one)
        del self._heard[one]
        one.close()


def _pid_of(one: socket.socket) -> int:
    """The process at the other end of a line on this host, as seen from here; 0 if it is not."""
    with suppress(OSError):
        credentials = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])
    return 0


def own_addresses() -> list[str]:
    """The IPv4 addresses at which other hosts may reach this one."""
    addresses = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            with suppress(OSError):
                answer = fcntl.ioctl(any_socket, GET_ADDRESS, struct.pack("256s", name.encode()))
                addresses.append(socket.inet_ntoa(answer[20:24]))
    return [address for address in addresses if not address.startswith("127.")]


LARGEST_RECORD_BYTES = 65536


def start_without_signals(thread: threading.Thread) -> None:
    """Start a thread that handles no signals: a thread that waits for one with sigwaitinfo would miss it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class RankListener:
    """Takes the records that the command's ranks on this host send at their ends; leaves nothing behind.

    A rank shows the key of its environment: it may be another user's by then.
    """

    def __init__(self) -> None:
        self.records: list[RankResult] = []
        self._key = os.urandom(16).hex()
        self._name = f"lockstep-{os.urandom(16).hex()}-{identity.boot()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self._name}")
        self._thread = threading.Thread(target=self._take, daemon=True)

    @property
    def variables(self) -> dict[str, str]:
        return {"LOCKSTEP_LISTENER": f"{self._name},{self._key}"}

    def __enter__(self) -> RankListener:
        start_without_signals(self._thread)
        return self

    def __exit__(self, *ignored: object) -> None:
        """Take the records sent so far, and no more."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(f"{self._key} ".encode(), f"\0{self._name}")
        self._thread.join()
        self._socket.close()

    def _take(self) -> None:
        while True:
            key, _, text = self._socket.recv(LARGEST_RECORD_BYTES).partition(b" ")
            if key != self._key.encode():
                continue
            if not text:
                return
            with suppress(ValueError, TypeError, RecursionError):  # it is no record
                self.records.append(RankResult.of_record(json.loads(text)))


def summed(records: Sequence[RankResult]) -> dict[str, Any]:
    """The records of ranks, summed up: ranks, waits, and CPU time."""
    kinds = [kind for record in records if record.waits for kind in record.waits.kinds]
    blocked = sum(kind.blocked for kind in kinds)
    return {
        "ranks": len(records),
        "waits": blocked + sum(kind.spun for kind in kinds),
        "blocked": blocked,
        "rechecks": sum(record.rechecks or 0 for record in records),
        "cpu_s": sum(record.cpu_ns or 0 for record in records) / 1e9,
        "given_back_s": sum(record.asleep_ns or 0 for record in records) / 1e9,
    }


def unheard(command: Sequence[str], compiled: Library, output: str, *, named: bool) -> InputError:
    """The error that no rank with the library was heard of, although the command went well and said this.

    ``named``: the user has named the compiler wrapper of the MPI.
    """
    rule = f"started no program on this host that uses {compiled.libraries[0]}"
    if reason := explained(0, output):
        return InputError("COMMAND", shlex.join(command), rule, reason)
    other = "one that loads this MPI as a shared library" if named else "an MPI program"
    remedy = f"write a command that runs {other}"
    wrapper = "" if named else ", or name its MPI's compiler wrapper with --mpicc"
    return InputError("COMMAND", shlex.join(command), rule, remedy + wrapper)
