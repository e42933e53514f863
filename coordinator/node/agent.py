"""The agent: one per node. Lets ranks in, switches slots on its own clock, reports.

Started on every node as ``python -P -m coordinator.node.agent`` with its set-up on standard input, or by hand
as ``lockstep agent FILE``. However it ends, its guardian releases all that the run has on the node. If the
guardian ends first, the agent asks the driver to stop the run, or releases it itself. Without a sign of life
from the driver, it continues until its lease ends.
"""

import gc
import itertools
import math
import os
import signal
import socket
import subprocess
import sys
import syslog
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from coordinator.host import bindings, cleanup, guardian, launch, mechanisms, processes
from coordinator.host.clock import Clock
from coordinator.host.directories import home
from coordinator.host.job_steps import is_job
from coordinator.host.launch import Stopped
from coordinator.host.loop import Loop
from coordinator.host.mechanisms import Mechanism
from coordinator.host.priority import prompt
from coordinator.host.processor_claims import ProcessorClaim
from coordinator.host.quotas import QuotaGroup
from coordinator.host.rundir import HEAD_START_S, OtherHostError, RunDirectory
from coordinator.host.slot_helper import SlotHelper
from coordinator.node import roster
from coordinator.node.contact import Contact
from coordinator.node.roster import Peer, Roster
from coordinator.node.section_remedies import Activations, DoNotPreempt, SectionPages
from coordinator.node.switcher import FREE, HOLD, Switcher, Switching
from coordinator.wire import agent_config, protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.zmq_transport import Line
from workloads import agent_line
from workloads.agent_line import ANYWHERE
from workloads.native import NativeError
from workloads.options import WITHIN_JOB

REPORT_SWITCHES = 256
"""Switches per report: reporting each would wake the driver in the middle of the slots."""

LOOK_NS = 500_000_000  # so long after its start, a program has bound its processes, if it does so


class Agent:
    """The loop that waits for the driver, the ranks, the guardian and the next boundary."""

    def __init__(self, setup: Setup, priority: str, helper: SlotHelper | None = None) -> None:
        self._setup = setup
        self._trees = dict(setup.trees)
        self._priority = priority
        self._helper = helper
        self._clock = Clock()
        self._contact = Contact(self._clock, setup.lease_s, same_clock=setup.same_clock)
        self._line = Line(setup.endpoint, setup.driver_key, setup.keys)
        self._loop = Loop()
        self._loop.watch(self._line)  # heard in every turn of the loop
        self._switches: list[Switching] = []
        self._dropped = 0
        self._claim: ProcessorClaim | None = None
        self._cores: tuple[int, ...] = ()
        self._over = False
        self._linger_s = 1.0
        self._stopped = Stopped()
        self._looks = 0
        self._suspended = False
        self._unseen_ns = math.inf

    @property
    def _in_job(self) -> bool:
        """Whether it is a step of a job of others, whose processes take turns."""
        return any(is_job(root) for root in self._trees.values())

    @property
    def _bound(self) -> bool:
        return self._setup.options.bind is True

    def run(self) -> None:
        """Serve until the driver says End or is gone."""
        try:
            self._settle()
        except OSError as error:
            self._tell(protocol.Failure(f"{socket.gethostname()}: no place for the run: {error}", fatal=True))
            self._line.close()
            if isinstance(error, OtherHostError):  # that host releases it
                return
            cleanup.release(self._directory, spare={os.getpid()})
            # The journal may lack its last lines if the disk is full.
            cleanup.remove_files(time.time() - HEAD_START_S)
            return
        while not self._over:
            self._turn()
        self._switcher.release()
        with suppress(OSError):
            self._directory.note(**{processes.LET_GO: True})
        self._report()
        # A launcher on another host may kill all that we leave when we end, as Slurm does.
        if self._guardian_process.poll() is not None or not self._setup.same_clock:
            # What has started us, and ignores SIGTERM, ends with us.
            cleanup.release(self._directory, spare={os.getpid(), os.getppid(), self._guardian_process.pid})
            self._tell(protocol.Released())
        self._line.close(self._linger_s)

    def _settle(self) -> None:
        path = Path(self._setup.directory)
        if path.parent.name != home().name:  # of a driver that is root, in a job of another user
            path = home() / path.name
        name = self._setup.mechanism
        self._directory = RunDirectory(path)  # to be released even if it cannot be adopted
        self._directory = RunDirectory.adopt(path)
        self._guardian_process, self._guardian = guardian.start(self._directory, 2 * self._setup.lease_s)
        if name and (reason := mechanisms.known()[name].unavailable()):
            raise OSError(reason)
        options = self._setup.options
        self._quota = QuotaGroup(self._directory, options) if options.quota_ns else None
        mechanism: Mechanism | None = mechanisms.known()[name](self._directory) if name else None
        pages = SectionPages(path)
        remedy = self._setup.options.remedy
        activations = None
        if mechanism is not None and remedy.kind == "defer":
            mechanism = DoNotPreempt(mechanism, pages, remedy)
        if mechanism is not None and remedy.kind == "activations":
            mechanism = activations = Activations(mechanism, pages)
        # Before ranks can connect: they look for this file.
        self._offset_ns = None if self._setup.same_clock else agent_line.offset_word(path)
        self._roster = Roster(self._directory, self._loop, self)
        if self._setup.driver is not None:
            self._loop.watch(self._setup.driver, lambda: self._forsaken("its driver has ended"))

        def announce(job: int, rank: int, at_ns: int | None) -> None:
            pages.announce(job, rank, 0 if at_ns is None else self._clock.local_ns(at_ns))

        warns = remedy.kind == "warning"
        self._switcher = Switcher(
            mechanism,
            self._clock.now_ns,
            helper=None if warns else self._helper,
            announce=announce if warns else None,
            after_change=activations.after_change if activations else lambda: None,
        )
        self._loop.watch(self._guardian, self._on_guardian)
        if self._in_job:
            # Its launcher, for other hosts, sets no marks by which a release would find it.
            self._directory.note_process(os.getpid())
            for signum in (signal.SIGTERM, signal.SIGTSTP, signal.SIGCONT):
                signal.signal(signum, self._on_job_signal)
        for job, root in self._trees.items():
            self._roster.attach(job, root)

    def _on_job_signal(self, signum: int, frame: FrameType | None) -> None:
        """Follow what Slurm does to the job: it ends, is suspended, or resumes, which ends this run.

        From SIGTSTP on, which Slurm sends two seconds before SIGSTOP, no part of the run continues anything.
        """
        if signum == signal.SIGTSTP:
            self._suspended = True
            with suppress(OSError):
                self._directory.note(**{processes.LET_GO: True})
        elif signum == signal.SIGTERM or self._suspended:
            self._over = True

    def _turn(self) -> None:
        boundary_ns = self._boundary_ns()
        due_ns = self._contact.due_ns()
        if boundary_ns is not None and self._switcher.ready():
            self._switches += self._switcher.run_ahead(boundary_ns, self._loop.fileno(), due_ns)
            self._loop.catch_up()
        elif boundary_ns is not None and boundary_ns <= due_ns:
            self._loop.wait_exactly(boundary_ns)
        else:
            self._loop.wait(due_ns)
        self._switch()
        self._hear()  # before we judge: we may have been held for longer than the driver
        if reason := self._contact.silence():
            self._forsaken(reason)
        elif self._contact.wants_beat(self._boundary_ns()):
            self._beat()
            self._hear()  # after each message: descriptors are edge-triggered

    def _hear(self) -> None:
        while lines := self._line.receive():
            for line in lines:
                self._on_line(line)

    def _tell(self, message: Any) -> None:
        self._line.send(TO_DRIVER.encode(message))

    # The clock.

    def _boundary_ns(self) -> int | None:
        """When the slot in progress ends, on the node's clock."""
        due_ns = None if self._suspended else self._switcher.due_ns()
        return None if due_ns is None else self._clock.local_ns(due_ns)

    def _switch(self) -> None:
        if self._suspended:
            return
        due_ns = self._switcher.due_ns()
        now_ns = self._clock.now_ns()
        if due_ns is not None and due_ns <= now_ns:
            switch = self._switcher.switch(now_ns)
            self._switches += [switch] if switch is not None else []
        if len(self._switches) >= REPORT_SWITCHES:
            self._report()

    def _report(self) -> None:
        if self._switches:
            self._tell(protocol.SwitchReport(tuple(self._switches)))
            self._switches.clear()

    def _beat(self) -> None:
        self._tell(self._contact.beat(self._dropped))
        with suppress(OSError):  # the loop notices the guardian's end
            self._guardian.send(b"\n", socket.MSG_DONTWAIT)
        self._roster.look_below()
        self._look()
        if 0 < self._unseen_ns < self._clock.read_ns():
            self._look_at_bindings()

    def _look(self) -> None:
        """Report processes that were stopped by others; each call looks at one rank only, to be short."""
        self._looks += 1
        relatives = [(f"the guardian of {socket.gethostname()}", self._guardian_process.pid)]
        peers = (peer for peer in self._roster if peer.begun or peer.job not in self._trees)
        running = [peer for peer in peers if not self._switcher.holds(peer.job, peer.rank)]
        if running:
            peer = running[self._looks % len(running)]
            name = f"rank {peer.rank} of job {peer.job}"
            pid = peer.process.pid
            relatives += [(name, pid), (f"the parent of {name}", launch.parent(pid))]
        for what, pid in relatives:
            if text := self._stopped.look(what, pid):
                self._tell(protocol.Failure(text, fatal=False))

    def _look_at_bindings(self) -> None:
        """Report programs that have bound themselves to shared processors while others idle, once."""
        self._unseen_ns = math.inf
        roots: dict[str, list[int]] = {}
        for peer in sorted(self._roster, key=lambda peer: peer.job):
            roots.setdefault(f"job {peer.job}", []).append(peer.process.pid)
        overlapping = bindings.overlaps(
            [bindings.job(name, *pids) for name, pids in roots.items()], self._cores
        )
        for overlap in itertools.islice(overlapping, 1):
            self._unseen_ns = 0
            self._tell(protocol.Failure(f"{overlap.sentence}: {overlap.remedy}", fatal=False))

    def _on_echo(self, echo: protocol.Echo) -> None:
        missing = self._contact.learn(echo)
        if self._offset_ns is not None:
            self._offset_ns[0] = self._clock.offset_ns(self._clock.read_ns())
        if missing is not None and missing > 0:
            self._beat()
        elif missing == 0:
            self._join()

    def _join(self) -> None:
        cores = tuple(sorted(os.sched_getaffinity(0)))
        guardian = self._guardian_process.pid
        self._tell(protocol.Join(socket.gethostname(), cores, guardian, self._priority))

    def _forsaken(self, reason: str) -> None:
        """End without a request; a driver that still lives finds the reason in our log."""
        text = f"run {self._directory.run}: {reason}; this node releases all that belongs to the run"
        syslog.syslog(syslog.LOG_WARNING, f"lockstep agent: {text}")
        with suppress(OSError):
            sys.stderr.write(f"{text}\n")
        self._tell(protocol.Failure(text, fatal=False))
        self._over = True
        self._linger_s = 0.1

    # The driver.

    def _on_line(self, line: bytes) -> None:
        try:
            self._on_message(TO_AGENT.decode(line))
        except LineError:
            self._dropped += 1

    def _on_message(self, message: Any) -> None:
        match message:
            case protocol.Echo():
                self._on_echo(message)
            case protocol.Table():
                self._switcher.publish(message)
                self._switch()
            case protocol.Start():
                self._start(message)
            case protocol.Resize(job, cores):
                self._resize(job, cores)
            case protocol.Move(job, cores):
                self._move(job, cores)
            case protocol.ClaimCores(cores) if not self._in_job:  # jobs share them, each with an agent
                self._on_claim(cores)
            case protocol.Discard(job):
                self._discard(job)
            case protocol.Leave(jobs):
                self._leave(jobs)
            case protocol.End():
                self._tell_of_others()
                self._over = True

    def _resize(self, job: int, cores: tuple[int, ...]) -> None:
        if root := self._roster.find(job, 0):
            self._roster.send(root, protocol.RankResize(cores if self._bound else (ANYWHERE,) * len(cores)))

    def _leave(self, jobs: tuple[int, ...]) -> None:
        for peer in self._roster:
            if not jobs or peer.job in jobs:
                self._roster.send(peer, protocol.RankLeave())

    def _discard(self, job: int) -> None:
        for peer in self._roster:
            if peer.job == job and job not in self._trees:
                peer.process.send(signal.SIGKILL)

    def _move(self, job: int, cores: tuple[tuple[int, int], ...]) -> None:
        for rank, own in _by_rank(cores).items() if self._bound else ():
            if peer := self._roster.find(job, rank):
                mechanisms.set_cores(peer.process, *own)

    def _on_claim(self, cores: tuple[int, ...]) -> None:
        self._cores = cores
        if self._helper and self._bound:
            self._helper.cores = cores
        if self._claim is None:
            self._claim = ProcessorClaim(self._directory.run, cores)
            self._tell_of_others()

    def _tell_of_others(self) -> None:
        for other in self._claim.others() if self._claim else ():
            self._tell(protocol.Failure(f"{socket.gethostname()}: {other}", fatal=False))

    def _start(self, start: protocol.Start) -> None:
        of_job = tuple(sorted({core for _, core in start.cores}))
        anywhere = of_job if self._setup.options.bind == WITHIN_JOB else self._cores
        for rank, own in _by_rank(start.cores).items():
            peer = self._roster.find(start.job, rank)
            if peer is None:
                continue
            peer.begun = True
            if self._setup.options.local == "rr":
                mechanisms.set_class(peer.process, "rr")
            at_ns = self._clock.local_ns(start.at_ns)
            if start.job in self._trees:
                peer.program = protocol.RankBecoming(own[0], at_ns)
                if self._bound and not peer.process.wait(0):
                    os.sched_setaffinity(peer.process.pid, own)  # it waits to start all others
                continue
            self._unseen_ns = 0 if self._bound or not self._unseen_ns else at_ns + LOOK_NS
            cores = own if self._bound else anywhere
            self._roster.send(peer, protocol.RankStart(at_ns, own[0], cores, start.ranks))

    # The guardian.

    def _on_guardian(self) -> None:
        self._loop.unwatch(self._guardian)
        with suppress(subprocess.TimeoutExpired):
            self._guardian_process.wait(1.0)
        self._tell(protocol.Failure("the guardian has ended; the run cannot continue without it", fatal=True))

    # The ranks.

    def admitted(self, peer: Peer) -> None:
        try:
            if self._quota:
                self._quota.adopt(peer.process)
            unplaced = HOLD if peer.job in self._trees else FREE
            self._switcher.adopt(peer.job, peer.rank, peer.process, unplaced)
        except OSError as error:
            self._tell(
                protocol.Failure(f"cannot take over rank {peer.rank} of job {peer.job}: {error}", fatal=True)
            )

    def said(self, peer: Peer, message: Any) -> None:
        """Pass on a rank's message, with times by the run's clock."""
        match message:
            case protocol.RankBecoming():
                self._switcher.forget()
                return
            case protocol.RankRecord(record):
                message = protocol.RankRecord(roster.in_run_time(record, self._clock))
        self._tell_of_rank(peer, message)

    def orphaned(self) -> None:
        self._switcher.forget()

    def grown(self, peer: Peer) -> None:
        self._switcher.forget()
        if not self._suspended:
            self._switcher.hold_again(peer.job, peer.rank)

    def ended(self, peer: Peer) -> None:
        """Send the record of a program that has ended."""
        record = roster.of_program(peer, self._directory.records(peer.job), self._clock)
        self._switcher.drop(peer.job, peer.rank)
        self._tell_of_rank(peer, protocol.RankRecord(record))

    def gone(self, peer: Peer) -> None:
        self._switcher.drop(peer.job, peer.rank)
        self._tell_of_rank(peer, protocol.RankGone())

    def _tell_of_rank(self, peer: Peer, message: Any) -> None:
        self._tell(protocol.OfRank(peer.job, peer.rank, message))

    def refused(self, reason: str) -> None:
        """Report a process that the roster has refused."""
        self._dropped += 1
        self._tell(protocol.Failure(reason, fatal=False))


def _by_rank(cores: Sequence[tuple[int, int]]) -> dict[int, tuple[int, ...]]:
    ranks = dict.fromkeys(rank for rank, _ in cores)
    return {rank: tuple(core for own, core in cores if own == rank) for rank in ranks}


def serve(setup: Setup) -> None:
    """Run the agent with the set-up ``setup`` until the run is over."""
    # Slurm sends SIGTERM to all processes of a job, but only the driver ends an agent.
    for signum in (
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
        *([] if setup.same_clock else [signal.SIGTERM]),
    ):
        signal.signal(signum, signal.SIG_IGN)
    if os.getsid(0) != os.getpid() and os.getpgrp() != os.getpid():
        os.setsid()  # a launcher's signals to its group are not for the agent
    processes.raise_descriptor_limit()
    helper = None
    in_job = any(is_job(root) for _, root in setup.trees)
    if setup.mechanism and not in_job:  # whose processes are looked up at each change
        with suppress(NativeError, OSError):  # there is no C compiler, or no place for what it makes
            helper = SlotHelper()
    with prompt() as priority:
        how = f", slots change in {'C' if helper else 'Python'}" if setup.mechanism else ""
        agent = Agent(setup, priority + how, helper)
        # A garbage collection during a switch would delay it by a millisecond.
        gc.collect()
        gc.freeze()
        gc.disable()
        agent.run()


if __name__ == "__main__":
    serve(agent_config.find_own(*sys.argv[1:]) if sys.argv[1:] else agent_config.find())
