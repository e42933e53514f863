"""The agent: one per node. Lets ranks in, switches slots on its own clock, reports.

Started on every node as ``python -P -m coordinator.node.agent`` with its set-up on standard input, or
by hand as ``lockstep agent FILE``. However it ends, its guardian releases what the run has on
the node; if the guardian ends first, the agent has the driver end the run, or releases it
itself. Without a sign of life from the driver it goes on for the length of its lease.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import syslog
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import astuple
from io import FileIO
from pathlib import Path
from typing import Any

from coordinator.host import cleanup, descriptors, guardian, mechanisms, stopped
from coordinator.host.clock import Clock, Sample
from coordinator.host.priority import prompt
from coordinator.host.processor_claims import Claim
from coordinator.host.rundir import HEAD_START_S, OtherHostError, RunDirectory
from coordinator.host.stopped import Stopped
from coordinator.host.timer import Alarm
from coordinator.node.lease import BEAT_NS, Lease
from coordinator.node.roster import Peer, Roster
from coordinator.node.switcher import Switcher
from coordinator.wire import agent_config, protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.protocol import FLAW, TO_AGENT, TO_DRIVER, ProtocolError
from coordinator.wire.zmq_transport import Line
from workloads.record import COUNTED, flaw

REPORT_SWITCHES = 256
"""Switches per report: reporting each would wake the driver in the middle of the slots."""

FIRST_EXCHANGES = 16
"""Exchanges with the driver before a node joins, so that its clock is known."""

OWN_BYTES = 1 << 20
"""No record that a program leaves in a file is as long."""

JOIN_S = 5.0
"""How long to look for the driver, which listens before it starts agents."""


class Agent:
    """The loop that waits for the driver, the ranks, the guardian and the next boundary."""

    def __init__(self, setup: Setup, priority: str, clock: Clock | None = None) -> None:
        self._setup = setup
        self._priority = priority
        self._clock = clock or Clock()
        self._line = Line(setup.endpoint, setup.driver_key, setup.keys)
        self._selector = selectors.DefaultSelector()
        self._alarm = Alarm()
        self._watch(self._alarm, self._alarm.acknowledge)
        self._watch(self._line, lambda: None)  # heard in every turn of the loop
        self._switches: list[tuple[int, ...]] = []
        self._told: list[protocol.Ready | protocol.Finished | protocol.Gone] = []
        self._exchanges = 0 if not setup.same_clock else FIRST_EXCHANGES - 1
        self._lease_ns = round(setup.lease_s * 1e9)
        self._lease = Lease(self._clock.read_ns(), self._lease_ns, round(JOIN_S * 1e9))
        self._dropped = 0
        self._claim: Claim | None = None
        self._over = False
        self._linger_s = 1.0
        self._stopped, self._looks = Stopped(), 0

    def run(self) -> None:
        """Serve until the driver says End or is gone."""
        try:
            self._settle()
        except OSError as error:
            self._tell(protocol.Trouble(f"{socket.gethostname()}: no place for the run: {error}", fatal=True))
            self._line.close()
            if isinstance(error, OtherHostError):  # which releases it
                return
            cleanup.release(self._directory, spare={os.getpid()})
            # The journal may lack what was written last, if that is what there was no place for.
            cleanup.remove_segments(time.time() - HEAD_START_S)
            return
        while not self._over:
            self._turn()
        self._switcher.release()
        self._report()
        self._line.close(self._linger_s)
        # Whoever started us from another host may end all that we leave when we end, as Slurm does.
        if self._guardian_process.poll() is not None or not self._setup.same_clock:
            cleanup.release(self._directory, spare={os.getpid(), self._guardian_process.pid})

    def _settle(self) -> None:
        """Take up residence on the node.

        Raises:
            OSError: if that is not possible.
        """
        path, name = Path(self._setup.directory), self._setup.mechanism
        self._directory = RunDirectory(path)
        self._directory = RunDirectory.adopt(path)
        self._guardian_process, self._guardian = guardian.start(self._directory, 2 * self._setup.lease_s)
        if name and (reason := mechanisms.known()[name].unavailable()):
            raise OSError(reason)
        mechanism = mechanisms.known()[name](self._directory) if name else None
        self._roster = Roster(self._directory, self._selector, self)
        if self._setup.driver is not None:
            self._watch(self._setup.driver, lambda: self._forsaken("its driver has ended"))
        self._switcher = Switcher(mechanism, self._clock.now_ns)
        self._watch(self._guardian, self._on_guardian)

    def _turn(self) -> None:
        """Wait for something to happen, and deal with it."""
        boundary_ns = self._boundary_ns()
        due_ns = self._lease.due_ns()
        self._alarm.set(due_ns if boundary_ns is None else min(due_ns, boundary_ns))
        for key, events in self._selector.select():
            if events & selectors.EVENT_WRITE:
                self._roster.flush(key.fileobj)  # type: ignore[arg-type]
            if events & selectors.EVENT_READ:
                key.data()
        self._switch()
        self._live()
        while lines := self._line.receive():
            for line in lines:
                self._on_line(line)

    def _watch(self, file: Any, on_input: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, on_input)

    def _tell(self, message: Any) -> None:
        self._line.send(TO_DRIVER.encode(message))

    # The clock.

    def _boundary_ns(self) -> int | None:
        """When the slot in progress ends, on the node's clock."""
        due_ns = self._switcher.due_ns()
        return None if due_ns is None else self._clock.local_ns(due_ns)

    def _switch(self) -> None:
        due_ns = self._switcher.due_ns()
        now_ns = self._clock.now_ns()
        if due_ns is None or due_ns > now_ns:
            return
        switch = self._switcher.switch(now_ns)
        if switch is not None:
            self._switches.append(astuple(switch)[:4])
            if len(self._switches) >= REPORT_SWITCHES:
                self._report()

    def _report(self) -> None:
        if self._switches:
            self._tell(protocol.Switched(tuple(self._switches)))  # type: ignore[arg-type]
            self._switches.clear()

    def _live(self) -> None:
        """Give a sign of life when it is time, and see to it that the driver does."""
        now_ns = self._clock.read_ns()
        if self._lease.over(now_ns):
            early = self._exchanges < FIRST_EXCHANGES
            silence_s = JOIN_S if early else self._setup.lease_s
            self._forsaken(
                f"its driver has {'not answered' if early else 'said nothing'} for {silence_s:g} s"
            )
        elif self._lease.beat(now_ns, self._boundary_ns()):
            self._beat()

    def _beat(self) -> None:
        now_ns = self._clock.read_ns()
        clock = self._clock
        offset_ns, uncertainty_ns = clock.offset_ns(now_ns), clock.uncertainty_ns()
        self._tell(protocol.Beat(now_ns, offset_ns, uncertainty_ns, clock.drift, clock.steps, self._dropped))
        self._lease.beaten(now_ns)
        with suppress(OSError):  # the guardian's end is noticed by itself
            self._guardian.send(b"\n", socket.MSG_DONTWAIT)
        self._roster.look_below()
        self._look()

    def _look(self) -> None:
        """Tell of what somebody else has stopped: each time of another rank, which must not take long."""
        self._looks += 1
        seen = [(f"the guardian of {socket.gethostname()}", self._guardian_process.pid)]
        running = [peer for peer in self._roster if not self._switcher.holds(peer.job, peer.rank)]
        if running:
            peer = running[self._looks % len(running)]
            name, pid = f"rank {peer.rank} of job {peer.job}", peer.process.pid
            seen += [(name, pid), (f"the parent of {name}", stopped.parent(pid))]
        for what, pid in seen:
            if text := self._stopped.look(what, pid):
                self._tell(protocol.Trouble(text, fatal=False))

    def _on_echo(self, echo: protocol.Echo) -> None:
        now_ns = self._clock.read_ns()
        if not 0 <= now_ns - echo.sent_ns <= BEAT_NS + self._lease_ns:
            return
        self._lease.renew(now_ns)
        if not self._setup.same_clock:
            self._clock.learn(Sample.of(echo.sent_ns, echo.received_ns, echo.replied_ns, now_ns))
        self._exchanges += 1
        if self._exchanges < FIRST_EXCHANGES:
            self._beat()
        elif self._exchanges == FIRST_EXCHANGES:
            cores = tuple(sorted(os.sched_getaffinity(0)))
            self._tell(protocol.Join(socket.gethostname(), cores, self._guardian_process.pid, self._priority))

    def _forsaken(self, why: str) -> None:
        """End without having been asked to; the driver finds the reason in our log, if it is still there."""
        text = f"run {self._directory.run}: {why}; everything of it on this node is released"
        syslog.syslog(syslog.LOG_WARNING, f"lockstep agent: {text}")
        with suppress(OSError):
            sys.stderr.write(f"{text}\n")
        self._tell(protocol.Trouble(text, fatal=False))
        self._over, self._linger_s = True, 0.1

    # The driver.

    def _on_line(self, line: bytes) -> None:
        try:
            message = TO_AGENT.decode(line)
        except ProtocolError:
            self._dropped += 1
            return
        match message:
            case protocol.Echo():
                self._on_echo(message)
            case protocol.Table():
                self._switcher.publish(message)
                self._switch()
            case protocol.Start():
                self._start(message)
            case protocol.Resize(job, cores):
                if root := self._roster.find(job, 0):
                    self._roster.send(root, protocol.RankResize(cores))
            case protocol.Claim(cores):
                self._on_claim(cores)
            case protocol.Discard(job):
                self._discard(job)
            case protocol.Retell():
                self._retell()
            case protocol.Leave():
                self._leave()
            case protocol.End():
                self._tell_of_others()
                self._over = True

    def _retell(self) -> None:
        for told in self._told:
            self._tell(told)

    def _leave(self) -> None:
        for peer in self._roster:
            self._roster.send(peer, protocol.RankLeave())

    def _on_claim(self, cores: tuple[int, ...]) -> None:
        if self._claim is None:
            self._claim = Claim(self._directory.run, cores)
            self._tell_of_others()

    def _tell_of_others(self) -> None:
        """Tell of other runs on our cores."""
        for other in self._claim.others() if self._claim else ():
            self._tell(protocol.Trouble(f"{socket.gethostname()}: {other}", fatal=False))

    def _discard(self, job: int) -> None:
        for peer in self._roster:
            if peer.job == job:
                peer.process.send(signal.SIGKILL)

    def _start(self, start: protocol.Start) -> None:
        for rank, core in start.cores:
            peer = self._roster.find(start.job, rank)
            if peer is None or peer.begun:  # another driver does not know what the first has said
                continue
            peer.begun = True
            if self._setup.local == "rr":
                mechanisms.set_class(peer.process, "rr")
            at_ns = self._clock.local_ns(start.at_ns)
            self._roster.send(peer, protocol.RankStart(at_ns, core))

    # The guardian.

    def _on_guardian(self) -> None:
        self._selector.unregister(self._guardian)
        with suppress(subprocess.TimeoutExpired):
            self._guardian_process.wait(1.0)
        self._tell(protocol.Trouble("the guardian has gone; the run cannot go on without it", fatal=True))

    # The ranks.

    def admitted(self, peer: Peer) -> None:
        """Take over a rank's process."""
        self._told = [told for told in self._told if (told.job, told.rank) != (peer.job, peer.rank)]
        try:
            self._switcher.adopt(peer.job, peer.rank, peer.process)
        except OSError as error:
            text = f"cannot take over rank {peer.rank} of job {peer.job}: {error}"
            self._tell(protocol.Trouble(text, fatal=True))

    def said(self, peer: Peer, message: Any) -> None:
        """Pass on what a rank says, its times in the run's clock."""
        match message:
            case protocol.RankReady():
                self._tell_of_rank(protocol.Ready(peer.job, peer.rank, peer.process.pid))
            case protocol.RankRecord(record):
                if why := flaw(record):
                    told: dict[str, Any] = {FLAW: why}
                else:
                    times = (key for key in ("start_ns", "finish_ns") if key in record)
                    told = {**record, **{key: self._clock.run_ns(record[key]) for key in times}}
                self._tell_of_rank(protocol.Finished(peer.job, peer.rank, told))

    def ended(self, peer: Peer) -> None:
        """Make the record of a program: when it ran, and where, and what it has left of its waits."""
        now_ns = self._clock.read_ns()
        assert peer.program is not None
        self._switcher.drop(peer.job, peer.rank)
        record = {
            "job": peer.job,
            "rank": peer.rank,
            "host": socket.gethostname(),
            "pid": peer.process.pid,
            "processor": peer.program.processor,
            "start_ns": peer.program.start_ns,
            "finish_ns": now_ns,
        }
        try:
            own = _own(self._directory.records(peer.job) / f"rank-{peer.rank}.json")
        except ValueError as error:
            self._tell_of_rank(protocol.Finished(peer.job, peer.rank, {FLAW: str(error)}))
        else:
            self.said(peer, protocol.RankRecord(own | record))

    def gone(self, peer: Peer) -> None:
        """A rank is no longer there."""
        self._switcher.drop(peer.job, peer.rank)
        self._tell_of_rank(protocol.Gone(peer.job, peer.rank))

    def _tell_of_rank(self, message: protocol.Ready | protocol.Finished | protocol.Gone) -> None:
        """Tell the driver, and remember it: it may be gone before it has heard."""
        self._told.append(message)
        self._tell(message)

    def refused(self, why: str) -> None:
        """Somebody was turned away."""
        self._dropped += 1
        self._tell(protocol.Trouble(why, fatal=False))


def _own(path: Path) -> dict[str, Any]:
    """What a program tells of itself in a file; nothing if there is none.

    Raises:
        ValueError: if it is not what such a file holds.
    """
    try:
        # It may be a pipe, whose writer nobody waits for.
        with FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            own = json.loads(file.read(OWN_BYTES) or b"")
    except OSError:
        return {}
    except (ValueError, RecursionError):
        own = None
    if not isinstance(own, dict):
        raise ValueError(f"{path.name} is no JSON object")
    return {key: own[key] for key in COUNTED if key in own}


def serve(found: Setup) -> None:
    """Be the agent that ``found`` describes, until the run is over."""
    # Slurm tells all processes of a job to end, but an agent's end is for the driver to say.
    for signum in (signal.SIGINT, signal.SIGHUP, *([] if found.same_clock else [signal.SIGTERM])):
        signal.signal(signum, signal.SIG_IGN)
    if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
        os.setsid()  # a launcher's signals to its group are not for the agent
    descriptors.allow()
    with prompt() as priority:
        agent = Agent(found, priority)
        # A collection in the middle of a switch would show as lateness of a millisecond.
        gc.collect()
        gc.freeze()
        gc.disable()
        agent.run()


if __name__ == "__main__":
    serve(agent_config.find())
