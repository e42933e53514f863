"""The ranks of a node: who may connect to the agent, the messages in both directions, and their records.

The agent admits a process that belongs to its own user and carries the marks of the run and of its job; it
asks the kernel who has connected, not the process. The driver's requests concern admitted ranks only.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Any, Protocol

from coordinator.host import identity, processes
from coordinator.host.clock import Clock
from coordinator.host.cpu_time import CpuTime
from coordinator.host.job_steps import JobSteps, is_job
from coordinator.host.loop import Loop
from coordinator.host.processes import ATTACHED, JOB, RUN, Evidence, Process, environment_of, family
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import FLAW, FROM_RANK, RANKS, TO_RANK
from workloads.record import RankResult

LONGEST_BYTES = 1 << 22
"""Every message is much shorter; a longer line comes from a broken or hostile peer."""


class Channel:
    """Lines both ways over a socket, which never blocks; once ``closed``, lines sent before still arrive."""

    def __init__(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        self._socket = peer
        self._in = bytearray()
        self._out = bytearray()
        self.closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether output waits for the peer; call ``flush`` when the socket is writable."""
        return bool(self._out) and not self.closed

    def send(self, line: bytes) -> None:
        self._out += line
        self.flush()

    def flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()
            self.closed = True

    def receive(self) -> list[bytes]:
        """The whole lines that have arrived, without their newlines."""
        try:
            while not self.closed:
                data = self._socket.recv(1 << 16)
                self._in += data
                if not data or len(self._in) > LONGEST_BYTES:
                    self.closed = True
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        *lines, rest = bytes(self._in).split(b"\n")
        self._in = bytearray(rest)
        return lines

    def close(self) -> None:
        self.closed = True
        self._socket.close()


BACKLOG = 4096  # connected ranks that may wait for their admission


class Listener(Protocol):
    """Handles events of the ranks."""

    def admitted(self, peer: Peer) -> None:
        """A rank has been admitted; its process may be held from now on."""

    def said(self, peer: Peer, message: Any) -> None:
        """Handle a message of an admitted rank: ready, a program, usable processors, peers, or its end."""

    def gone(self, peer: Peer) -> None:
        """An admitted rank has closed its connection."""

    def orphaned(self) -> None:
        """Processes of a tree have outlived their parents."""

    def grown(self, peer: Peer) -> None:
        """A job's later processes have been found; they run."""

    def ended(self, peer: Peer) -> None:
        """The program of an admitted rank has ended; of a tree, all its processes."""

    def refused(self, reason: str) -> None:
        """The roster has refused a process."""


@dataclass
class Peer:
    """A rank's connection; its first line states ``job`` and ``rank``.

    ``ready``: it waits for its start. ``begun``: the agent has started it. ``program``: it executes
    another program, without a connection, since when ``time`` counts. ``recorded``: it has sent its
    record. Each happens at most once. ``key``: of notes on its processes in the journal.
    """

    channel: Channel
    process: Process
    job: int = -1
    rank: int = -1
    ready: bool = False
    begun: bool = False
    recorded: bool = False
    key: str = "process"
    program: protocol.RankBecoming | None = None
    time: CpuTime | None = None


class Roster:
    """Listens in the run directory for as long as the agent lives."""

    def __init__(self, directory: RunDirectory, loop: Loop, listener: Listener) -> None:
        self._directory = directory
        self._loop = loop
        self._listener = listener
        self._peers: dict[tuple[int, int], Peer] = {}
        self._below: set[tuple[int, int, str]] = set()
        self._socket = socket.socket(socket.AF_UNIX)
        # The socket gets its name once it listens, so that a rank that finds it can connect.
        coming = directory.socket.with_name("new")
        self._socket.bind(str(coming))
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)
        coming.rename(directory.socket)
        loop.watch(self._socket, self._on_connection)

    def __iter__(self) -> Iterator[Peer]:
        return iter(tuple(self._peers.values()))

    def find(self, job: int, rank: int) -> Peer | None:
        return self._peers.get((job, rank))

    def send(self, peer: Peer, message: Any) -> None:
        peer.channel.send(TO_RANK.encode(message))
        if peer.channel.unsent:
            self._loop.watch_room(peer.channel, lambda: self._flush(peer.channel))

    def look_below(self) -> None:
        """Note new descendants of programs, and their CPU time; too slow for a slot switch."""
        current = set()
        for peer in self:
            if isinstance(peer.process, JobSteps) and self._grown(peer, peer.process):
                self._listener.grown(peer)
            if peer.time is not None:
                below = [child.pid for child in family(peer.process)]
                peer.time.look(below)
                current |= {(pid, peer.job, peer.key) for pid in below}
        for new in current - self._below:
            self._directory.note_process(*new)
        self._below = current

    def attach(self, job: int, root: str) -> None:
        """Take over a tree that runs already, by the name of its first process or of its Slurm job."""
        unconnected = Channel(socket.socket(socket.AF_UNIX))
        unconnected.close()
        if is_job(root):
            peer = Peer(unconnected, steps := JobSteps(root), job, 0, ready=True, key=ATTACHED)
            self._grown(peer, steps)
            for process in steps.heirs if steps.left else ():
                processes.proceed(process)
            self._peers[job, 0] = peer
            self._listener.admitted(peer)
            return
        peer = Peer(unconnected, Process.named(root), job, 0, ready=True, key=ATTACHED)
        peer.process.family, peer.time = True, CpuTime(peer.process.pid)
        self._peers[job, 0] = peer
        self._directory.note(**{ATTACHED: root}, job=job)
        self._loop.watch(peer.process, lambda: self._on_end(peer, peer.process))
        self._listener.admitted(peer)
        self._listener.said(peer, protocol.RankReady())
        self.look_below()

    def _grown(self, peer: Peer, steps: JobSteps) -> bool:
        """Take in a job's later processes, each with a note before it may be stopped."""
        grown = False
        for process in steps.new():
            try:
                self._directory.note(**{ATTACHED: identity.name(process.pid)}, job=peer.job)
            except OSError:  # the disk is full; it is found again
                process.close()
                continue
            steps.heirs.append(process)
            grown = True
        return grown

    def _inherited(self, peer: Peer, ended: Process) -> bool:
        """Keep the processes of a tree whose parents have ended; returns whether anything of it is left."""
        heirs = peer.process.heirs
        if ended in heirs:
            heirs.remove(ended)
            ended.close()
        evidence = Evidence.of(self._directory.notes(), key=ATTACHED)
        root = [] if peer.process.wait(0) else [peer.process.pid]
        family_pids = [*root, *(one.pid for one in family(peer.process))]
        for heir in processes.find(None, peer.job, family_pids, evidence):
            heirs.append(heir)
            self._loop.watch(heir, partial(self._on_end, peer, heir))
        self._listener.orphaned()
        return bool(root or heirs)

    def _flush(self, channel: Channel) -> None:
        channel.flush()
        if not channel.unsent:
            self._loop.watch_room(channel, None)

    def _on_connection(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:
            return
        form = "3i"
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
        pid, user, _ = struct.unpack(form, credentials)
        try:
            process = Process(pid)
        except ProcessLookupError:
            connection.close()
            return
        # The handle holds the pid, so this mark belongs to the same process.
        if user != os.getuid() or environment_of(pid).get(RUN) != self._directory.run:
            self._listener.refused(f"refused process {pid}: it is not of this run")
            process.close()
            connection.close()
            return
        peer = Peer(Channel(connection), process)
        self._loop.watch(peer.channel, lambda: self._on_input(peer))

    def _on_input(self, peer: Peer) -> None:
        try:
            for line in peer.channel.receive():
                self._hear(peer, FROM_RANK.decode(line))
        except LineError as error:
            self._listener.refused(f"process {peer.process.pid}: {error}")
            peer.channel.closed = True
        if peer.channel.closed:
            self._loop.unwatch(peer.channel)
            peer.channel.close()
            if peer.program is not None:
                # The connection closed at exec; from now on the handle reports the program's end.
                self._loop.watch(peer.process, lambda: self._on_end(peer, peer.process))
                return
            if self._peers.get((peer.job, peer.rank)) is peer:
                del self._peers[peer.job, peer.rank]
                self._listener.gone(peer)
            peer.process.close()

    def _on_end(self, peer: Peer, ended: Process) -> None:
        if peer.time is not None:
            peer.time.look_at_end()
        self._loop.unwatch(ended)
        if peer.key == ATTACHED and self._inherited(peer, ended):
            return
        if self._peers.get((peer.job, peer.rank)) is peer:
            del self._peers[peer.job, peer.rank]
            self._listener.ended(peer)
        peer.process.close()

    def _hear(self, peer: Peer, message: Any) -> None:
        registered = self._peers.get((peer.job, peer.rank)) is peer
        match message:
            case protocol.Hello(version, job, rank) if not registered:
                self._admit(peer, version, job, rank)
            case protocol.RankReady() if registered and not peer.ready:
                peer.ready = True
                self._listener.said(peer, message)
            case protocol.RankBecoming() if registered and peer.begun and peer.program is None:
                peer.program = message
                peer.process.family = True
                peer.time = CpuTime(peer.process.pid)
                self._listener.said(peer, message)
            case protocol.RankParallelism() | protocol.RankTraffic() if (
                registered and peer.begun and not peer.recorded
            ):
                self._listener.said(peer, message)
            case protocol.RankRecord() if registered and peer.begun and not peer.recorded:
                peer.recorded = True
                self._listener.said(peer, message)
            case _:
                raise LineError(f"{type(message).__name__} out of turn")

    def _admit(self, peer: Peer, version: int, job: int, rank: int) -> None:
        if version != protocol.VERSION:
            raise LineError(f"the rank speaks version {version}, required {protocol.VERSION}")
        if environment_of(peer.process.pid).get(JOB) != str(job) or (job, rank) in self._peers:
            raise LineError(f"it is not rank {rank} of job {job}, or not the only one")
        if not 0 <= rank < RANKS:
            raise LineError(f"no job has a rank {rank}")
        peer.job = job
        peer.rank = rank
        self._peers[job, rank] = peer
        self._directory.note_process(peer.process.pid, job)
        self._listener.admitted(peer)


OWN_BYTES = 1 << 20  # every record that a program leaves in a file is shorter


def in_run_time(record: Mapping[str, Any], clock: Clock) -> dict[str, Any]:
    """A rank's record with times by the run's clock; an invalid one becomes FLAW with the reason."""
    try:
        result = RankResult.of_record(record)
        start_ns, finish_ns = clock.run_ns(result.start_ns), clock.run_ns(result.finish_ns)
        return replace(result, start_ns=start_ns, finish_ns=finish_ns).recorded()
    except ValueError as error:
        return {FLAW: str(error)}


def of_program(peer: Peer, folder: Path, clock: Clock) -> dict[str, Any]:
    """The record of a rank that became a program: when and where it ran, its CPU time, its counts."""
    if peer.program is None or peer.time is None:
        return {FLAW: "it has not begun"}
    record = {
        "job": peer.job,
        "rank": peer.rank,
        "processes": 0,
        "host": socket.gethostname(),
        "pid": peer.process.pid,
        "processor": peer.program.processor,
        "start_ns": peer.program.start_ns,
        "finish_ns": clock.read_ns(),
        **peer.time.record(),
    }
    try:
        return in_run_time(_own(folder, peer.rank) | record, clock)
    except ValueError as error:
        return {FLAW: str(error)}


def _own(folder: Path, rank: int) -> dict[str, Any]:
    """The counts that the last program of a rank has left; empty if it has left none."""
    path = folder
    try:
        files = folder.glob(f"rank-{rank}-*.json")
        path = max(files, key=lambda path: path.lstat().st_mtime_ns, default=folder)
        # It may be a pipe: do not wait for its writer.
        with FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            own = json.loads(file.read(OWN_BYTES) or b"")
    except OSError:
        return {}
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        raise ValueError(f"{path.name} is no JSON object")
    return own
