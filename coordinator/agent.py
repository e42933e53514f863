"""The agent: one per node. Lets ranks in, switches slots on its own clock, reports.

Started by the driver as ``python -m coordinator.agent SETUP DRIVER LISTENER`` with two inherited
descriptors: one end of a socket pair, and the socket that ranks connect to. However it ends,
its guardian releases the run; if the guardian ends first, the agent has the driver end the
run, or releases it itself when there is no driver either.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from coordinator import cleanup, guardian, mechanisms, protocol
from coordinator.channel import Channel
from coordinator.priority import prompt
from coordinator.processes import JOB, RUN, Process, environment_of
from coordinator.protocol import FROM_RANK, TO_AGENT, TO_DRIVER, TO_RANK, ProtocolError
from coordinator.rundir import RunDirectory
from coordinator.slots import Switcher
from coordinator.timer import Alarm

REPORT_SWITCHES = 256
"""Switches per report: reporting each would wake the driver in the middle of the slots."""


@dataclass(frozen=True)
class Setup:
    """What an agent must know.

    Attributes:
        directory: path of the run directory.
        mechanism: its name; None if the policy stops nothing.
        local: "other" or "rr", the class of the ranks under the local scheduler.
    """

    directory: str
    mechanism: str | None
    local: str

    def encode(self) -> str:
        """As an argument of the command line."""
        return json.dumps({"version": protocol.VERSION, **asdict(self)})

    @classmethod
    def decode(cls, text: str) -> Setup:
        """The inverse of ``encode``.

        Raises:
            ProtocolError: for a set-up of another version.
        """
        document: dict[str, Any] = json.loads(text)
        if document.pop("version", None) != protocol.VERSION:
            raise ProtocolError(f"the agent's set-up is not of version {protocol.VERSION}")
        return cls(**document)


@dataclass
class _Peer:
    """A rank's connection; ``job`` and ``rank`` are known from its first line on."""

    channel: Channel
    process: Process
    job: int = -1
    rank: int = -1


class Agent:
    """The loop that waits for the driver, the ranks, the guardian and the next boundary."""

    def __init__(self, setup: Setup, driver: socket.socket, listener: socket.socket) -> None:
        self._directory = RunDirectory(Path(setup.directory))
        self._local = setup.local
        self._guardian_process, self._guardian = guardian.start(self._directory)
        mechanism = mechanisms.known()[setup.mechanism](self._directory) if setup.mechanism else None
        self._switcher = Switcher(mechanism, time.monotonic_ns)
        self._switches: list[tuple[int, int, int, int]] = []
        self._peers: dict[tuple[int, int], _Peer] = {}
        self._alarm = Alarm()
        self._listener = listener
        self._listener.setblocking(False)
        self._driver = Channel(driver)
        self._over = False
        self._selector = selectors.DefaultSelector()
        self._watch(self._alarm, self._on_alarm)
        self._watch(self._driver, self._on_driver)
        self._watch(self._listener, self._on_connection)
        self._watch(self._guardian, self._on_guardian)

    def run(self, priority: str) -> None:
        """Serve until the driver says End or is gone."""
        self._tell(protocol.Up(self._guardian_process.pid, priority))
        while not self._over:
            for key, events in self._selector.select():
                if events & selectors.EVENT_WRITE:
                    self._flush(key.fileobj)
                if events & selectors.EVENT_READ:
                    key.data()
        self._switcher.release()
        self._report()
        self._driver.drain(1.0)
        if self._guardian_process.poll() is not None:
            cleanup.release(self._directory, spare={os.getpid()})

    def _watch(self, file: Any, on_input: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, on_input)

    def _send(self, channel: Channel, line: bytes) -> None:
        channel.send(line)
        if channel.unsent:
            key = self._selector.get_key(channel)
            self._selector.modify(channel, selectors.EVENT_READ | selectors.EVENT_WRITE, key.data)

    def _flush(self, channel: Any) -> None:
        channel.flush()
        if not channel.unsent:
            self._selector.modify(channel, selectors.EVENT_READ, self._selector.get_key(channel).data)

    def _tell(self, message: Any) -> None:
        self._send(self._driver, TO_DRIVER.encode(message))

    def _on_alarm(self) -> None:
        self._alarm.acknowledge()
        self._switch()

    def _switch(self) -> None:
        switch = self._switcher.switch(time.monotonic_ns())
        self._alarm.set(self._switcher.due_ns())
        if switch is not None:
            self._switches.append(astuple(switch))
            if len(self._switches) >= REPORT_SWITCHES:
                self._report()

    def _report(self) -> None:
        if self._switches:
            self._tell(protocol.Switched(tuple(self._switches)))
            self._switches.clear()

    def _on_driver(self) -> None:
        for line in self._driver.receive():
            match TO_AGENT.decode(line):
                case protocol.Table() as table:
                    self._switcher.publish(table)
                    self._switch()
                case protocol.Start() as start:
                    self._start(start)
                case protocol.Leave():
                    for peer in self._peers.values():
                        self._send(peer.channel, TO_RANK.encode(protocol.RankLeave()))
                case protocol.End():
                    self._over = True
        self._over |= self._driver.closed

    def _start(self, start: protocol.Start) -> None:
        for rank, core in enumerate(start.cores):
            peer = self._peers.get((start.job, rank))
            if peer is None:
                continue
            if self._local == "rr":
                mechanisms.set_class(peer.process, "rr")
            self._send(peer.channel, TO_RANK.encode(protocol.RankStart(start.at_ns, core)))

    def _on_guardian(self) -> None:
        self._selector.unregister(self._guardian)
        self._guardian_process.wait()
        self._tell(protocol.Trouble("the guardian has gone; the run cannot go on without it", fatal=True))

    def _on_connection(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        pid, user, _ = struct.unpack(
            "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        )
        try:
            process = Process(pid)
        except ProcessLookupError:
            connection.close()
            return
        # The mark is read once the handle holds the pid, so it is this process's own.
        if user != os.getuid() or environment_of(pid).get(RUN) != self._directory.run:
            self._tell(protocol.Trouble(f"refused process {pid}: it is not of this run", fatal=False))
            process.close()
            connection.close()
            return
        peer = _Peer(Channel(connection), process)
        self._watch(peer.channel, lambda: self._on_rank(peer))

    def _on_rank(self, peer: _Peer) -> None:
        try:
            for line in peer.channel.receive():
                self._hear(peer, FROM_RANK.decode(line))
        except ProtocolError as error:
            self._tell(protocol.Trouble(f"process {peer.process.pid}: {error}", fatal=False))
            peer.channel.closed = True
        if peer.channel.closed:
            self._selector.unregister(peer.channel)
            peer.channel.close()
            if self._peers.get((peer.job, peer.rank)) is peer:
                del self._peers[peer.job, peer.rank]
                self._switcher.drop(peer.job, peer.rank)
                self._tell(protocol.Gone(peer.job, peer.rank))
            peer.process.close()

    def _hear(self, peer: _Peer, message: Any) -> None:
        known = self._peers.get((peer.job, peer.rank)) is peer
        match message:
            case protocol.Hello(version, job, rank) if not known:
                self._admit(peer, version, job, rank)
            case protocol.RankReady() if known:
                self._tell(protocol.Ready(peer.job, peer.rank, peer.process.pid))
            case protocol.RankRecord(record) if known:
                self._tell(protocol.Finished(peer.job, peer.rank, record))
            case _:
                raise ProtocolError(f"{type(message).__name__} out of turn")

    def _admit(self, peer: _Peer, version: int, job: int, rank: int) -> None:
        if version != protocol.VERSION:
            raise ProtocolError(f"the rank speaks version {version}, required {protocol.VERSION}")
        if environment_of(peer.process.pid).get(JOB) != str(job) or (job, rank) in self._peers:
            raise ProtocolError(f"it is not rank {rank} of job {job}, or not the only one")
        peer.job, peer.rank = job, rank
        self._peers[job, rank] = peer
        try:
            self._switcher.adopt(job, rank, peer.process)
        except OSError as error:
            self._tell(protocol.Trouble(f"cannot take over rank {rank} of job {job}: {error}", fatal=True))


def main(setup: str, driver: str, listener: str) -> None:
    """Be an agent."""
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    with prompt() as priority:
        sockets = (socket.socket(fileno=int(descriptor)) for descriptor in (driver, listener))
        agent = Agent(Setup.decode(setup), *sockets)
        # A collection in the middle of a switch would show as lateness of a millisecond.
        gc.collect()
        gc.freeze()
        gc.disable()
        agent.run(priority)


if __name__ == "__main__":
    main(*sys.argv[1:])
