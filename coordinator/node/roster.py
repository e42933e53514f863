"""The ranks of a node: who may connect to the agent, what they say, what they are told.

A process is admitted if it belongs to the agent's user and carries the marks of the run and
of its job; the kernel tells whose connection it is, not the process. Whatever the driver
asks for concerns admitted ranks only.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from coordinator.host.processes import JOB, RUN, Process, descendants, environment_of
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.line_socket import Channel
from coordinator.wire.protocol import FROM_RANK, TO_RANK, ProtocolError

RANKS = 1 << 24
"""No job has as many."""

BACKLOG = 4096
"""Ranks that may have connected and not yet been let in."""


class Listener(Protocol):
    """Who is told what the ranks do."""

    def admitted(self, peer: Peer) -> None:
        """A rank is here; its process may be taken over."""
        ...

    def said(self, peer: Peer, message: Any) -> None:
        """An admitted rank has said it is ready, or handed in its record."""
        ...

    def gone(self, peer: Peer) -> None:
        """An admitted rank has closed its connection."""
        ...

    def ended(self, peer: Peer) -> None:
        """The program that an admitted rank has become has ended."""
        ...

    def refused(self, why: str) -> None:
        """Somebody was turned away."""
        ...


@dataclass
class Peer:
    """A rank's connection; ``job`` and ``rank`` are known from its first line on.

    ``ready`` is set once it has said so, ``begun`` once it is told to begin, ``recorded`` once it has
    handed in its record, ``program`` once the process becomes a program of its own, which has no
    connection. Each happens once, in this order.
    """

    channel: Channel
    process: Process
    job: int = -1
    rank: int = -1
    ready: bool = False
    begun: bool = False
    recorded: bool = False
    program: protocol.RankBecoming | None = None


class Roster:
    """Listens in the run directory for as long as the agent lives.

    Raises:
        OSError: if the socket cannot be made there.
    """

    def __init__(self, directory: RunDirectory, selector: selectors.BaseSelector, listener: Listener) -> None:
        self._directory = directory
        self._selector = selector
        self._listener = listener
        self._peers: dict[tuple[int, int], Peer] = {}
        self._below: set[tuple[int, int]] = set()
        self._socket = socket.socket(socket.AF_UNIX)
        # Bound under another name and moved: a rank that finds it there can connect.
        coming = directory.socket.with_name("new")
        self._socket.bind(str(coming))
        self._socket.listen(BACKLOG)
        self._socket.setblocking(False)
        coming.rename(directory.socket)
        selector.register(self._socket, selectors.EVENT_READ, self._on_connection)

    def __iter__(self) -> Iterator[Peer]:
        """All admitted ranks."""
        return iter(tuple(self._peers.values()))

    def find(self, job: int, rank: int) -> Peer | None:
        """A rank, if it is here."""
        return self._peers.get((job, rank))

    def send(self, peer: Peer, message: Any) -> None:
        """Tell a rank something."""
        peer.channel.send(TO_RANK.encode(message))
        if peer.channel.unsent:
            key = self._selector.get_key(peer.channel)
            self._selector.modify(peer.channel, selectors.EVENT_READ | selectors.EVENT_WRITE, key.data)

    def look_below(self) -> None:
        """Note in the journal what is new below the programs: it may be found by nothing else later on.

        Not for the midst of a change of slot.
        """
        seen = {
            (child.pid, peer.job)
            for peer in self
            if peer.process.family
            for child in descendants(peer.process.pid)
        }
        for pid, job in seen - self._below:
            self._directory.note_process(pid, job)
        self._below = seen

    def flush(self, channel: Channel) -> None:
        """A rank takes again what it is sent."""
        channel.flush()
        if not channel.unsent:
            self._selector.modify(channel, selectors.EVENT_READ, self._selector.get_key(channel).data)

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
        # The mark is read once the handle holds the pid, so it is this process's own.
        if user != os.getuid() or environment_of(pid).get(RUN) != self._directory.run:
            self._listener.refused(f"refused process {pid}: it is not of this run")
            process.close()
            connection.close()
            return
        peer = Peer(Channel(connection), process)
        self._selector.register(peer.channel, selectors.EVENT_READ, lambda: self._on_input(peer))

    def _on_input(self, peer: Peer) -> None:
        try:
            for line in peer.channel.receive():
                self._hear(peer, FROM_RANK.decode(line))
        except ProtocolError as error:
            self._listener.refused(f"process {peer.process.pid}: {error}")
            peer.channel.closed = True
        if peer.channel.closed:
            self._selector.unregister(peer.channel)
            peer.channel.close()
            if peer.program is not None:
                # Its end closes the handle's other side; the program may have children that outlive it.
                self._selector.register(peer.process, selectors.EVENT_READ, lambda: self._on_end(peer))
                return
            if self._peers.get((peer.job, peer.rank)) is peer:
                del self._peers[peer.job, peer.rank]
                self._listener.gone(peer)
            peer.process.close()

    def _on_end(self, peer: Peer) -> None:
        """The process of a program has ended."""
        self._selector.unregister(peer.process)
        if self._peers.get((peer.job, peer.rank)) is peer:
            del self._peers[peer.job, peer.rank]
            self._listener.ended(peer)
        peer.process.close()

    def _hear(self, peer: Peer, message: Any) -> None:
        known = self._peers.get((peer.job, peer.rank)) is peer
        match message:
            case protocol.Hello(version, job, rank) if not known:
                self._admit(peer, version, job, rank)
            case protocol.RankReady() if known and not peer.ready:
                peer.ready = True
                self._listener.said(peer, message)
            case protocol.RankBecoming() if known and peer.begun and peer.program is None:
                peer.program, peer.process.family = message, True
            case protocol.RankRecord() if known and peer.begun and not peer.recorded:
                peer.recorded = True
                self._listener.said(peer, message)
            case _:
                raise ProtocolError(f"{type(message).__name__} out of turn")

    def _admit(self, peer: Peer, version: int, job: int, rank: int) -> None:
        if version != protocol.VERSION:
            raise ProtocolError(f"the rank speaks version {version}, required {protocol.VERSION}")
        if environment_of(peer.process.pid).get(JOB) != str(job) or (job, rank) in self._peers:
            raise ProtocolError(f"it is not rank {rank} of job {job}, or not the only one")
        if not 0 <= rank < RANKS:
            raise ProtocolError(f"no job has a rank {rank}")
        peer.job, peer.rank = job, rank
        self._peers[job, rank] = peer
        self._directory.note_process(peer.process.pid, job)
        self._listener.admitted(peer)
