"""Running a workload for real: launches, listens, and carries the conductor's decisions out.

The decisions are made in ``coordinator.conductor``, the slots are kept by the agents. This
module joins them to processes, the clock and the user's signals, and sees to it that
nothing remains.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from coordinator import cleanup, feasible, guardian, launch, processes, protocol, ranks
from coordinator.conductor import Conductor
from coordinator.interrupt import Interrupt
from coordinator.launch import Launcher
from coordinator.nodes import SILENCE_NS, Nodes
from coordinator.outcome import Part, outcome
from coordinator.priority import prompt
from coordinator.processes import JOB, Process
from coordinator.rundir import RunDirectory
from coordinator.session import Plan, Session
from coordinator.timer import Alarm
from coordinator.view import Job
from coordinator.workload import Result, Switch, Workload
from workloads.other import Command

HEAD_START_NS = 50_000_000
"""From the moment that all ranks are ready to the start of the run."""

LEAD_NS = 5_000_000
"""How long ahead of time arrivals are decided."""

EXIT_S = 1.0
"""How long a launcher may take to end, and to say why, after one of its ranks has gone."""

REPORT_S = 5.0
"""How long the agents may take to report the end of a program after its launcher has ended."""

LOSS_S = SILENCE_NS / 1e9 + 1.0
"""How long a job that has not begun waits whether its node is lost, which then costs it nothing."""

FINALIZE_S = 30.0
"""How long all launchers may take to end after the end of the workload."""

Progress = Callable[[str], None]


class RunFailed(Exception):  # noqa: N818 - says what became of the run
    """The run as a whole cannot go on."""


def run_workload(workload: Workload, progress: Progress | None = None) -> Result:
    """Run a workload on this machine, or on the nodes it names, and return what came of it.

    However it ends, no process that it started is left, held or not, nor any file, cgroup or
    shared memory of it. A job that fails is told in the result, as is a run that fails.

    Raises:
        InputError: before anything is started, if something asked for cannot be had here.
        KeyboardInterrupt: on SIGINT, once everything is released.
        SystemExit: on SIGTERM, once everything is released.
    """
    mechanism, why = feasible.mechanism(workload)
    launcher = launch.find_launcher(hosts=[node.host for node in workload.nodes])
    own = feasible.own_launchers(workload)
    session, jobs = feasible.session(workload)
    with Interrupt() as interrupt:
        driver = Driver(workload, mechanism, launcher, own, interrupt, progress or (lambda text: None))
        failure = driver.play(session, jobs)
        return driver.result(mechanism or "none", why, failure)


class Driver:
    """One run: the crew of the conductor, and the loop that tells it what happens.

    ``own`` are the launchers of the jobs that do not take the common one.
    """

    def __init__(
        self,
        workload: Workload,
        mechanism: str | None,
        launcher: Launcher,
        own: Mapping[int, Launcher],
        interrupt: Interrupt,
        progress: Progress,
    ) -> None:
        self._workload = workload
        self._mechanism = mechanism
        self._launcher = launcher
        self._own = own
        self._interrupt = interrupt
        self._progress = progress
        self._parts = {job.number: Part() for job in workload.jobs}
        self._jobs = {job.number: job for job in workload.jobs}
        self._switches: list[Switch] = []
        self._nodes: Nodes
        self._origin_ns: int | None = None
        self._give_up_ns = time.monotonic_ns() + round(workload.timeout_s * 1e9)
        self._give_up_why = f"timed out: the run may take {workload.timeout_s:g} s"

    def play(self, session: Session, jobs: list[Job]) -> str:
        """Run it all; returns what made the run fail, or nothing."""
        self._directory = RunDirectory.create()
        try:
            with ExitStack() as stack:
                stack.enter_context(prompt())
                self._selector = stack.enter_context(selectors.DefaultSelector())
                self._alarm = Alarm()
                stack.callback(self._alarm.close)
                self._watch(self._alarm, self._alarm.acknowledge)
                self._watch(self._interrupt, self._interrupt.acknowledge)
                self._start_nodes(stack)
                self._conductor = Conductor(session, jobs, self, LEAD_NS, self._nodes.node_of)
                self._perform()
        except RunFailed as failed:
            return str(failed)
        finally:
            # Again, in case the guardian was killed.
            cleanup.release(self._directory)
            self._directory.unlock()
            for part in self._parts.values():
                if part.mpiexec is not None:
                    part.mpiexec.wait()
        return ""

    def result(self, mechanism: str, why: str, failure: str) -> Result:
        """What came of it, all times relative to the start of the run."""
        return outcome(
            self._workload,
            self._parts,
            self._conductor.placements,
            self._switches,
            self._origin_ns or 0,
            mechanism=mechanism,
            mechanism_reason=why,
            launcher=str(self._launcher),
            nodes=self._nodes.results(),
            failure=failure,
        )

    # What the conductor asks for.

    def launch(self, job: int, placement: tuple[int, ...]) -> None:
        """Start a job's ranks, which report to the agents of their nodes and wait."""
        part = self._parts[job]
        part.placement = self._ranks(job, placement)
        if part.mpiexec is not None:
            part.mpiexec = None
            self._discard(job)
        if not self._nodes.alive(placement):
            self._fail(job, "it is placed on processors that are lost")
            return
        part.ready.clear()
        count = part.processes
        launcher = self._own.get(job, self._launcher)
        hosts = self._nodes.hosts(part.placement)
        rank = ranks.argv(self._workload, self._jobs[job], count, self._directory)
        argv = launcher.argv(count, rank, hosts)
        environment = launcher.environment({**self._directory.marks, JOB: str(job)}, hosts=hosts)
        out, err = (self._directory.log(f"job-{job}-{stream}") for stream in ("out", "err"))
        part.mpiexec = mpiexec = launch.start(argv, environment, out, err)
        handle = Process(mpiexec.pid)
        self._watch(handle, lambda: self._on_exit(job, mpiexec, handle))

    def publish(self, plan: Plan, from_ns: int) -> None:
        """Have the agents carry out a plan."""
        assert self._origin_ns is not None
        self._nodes.publish(plan, from_ns, self._origin_ns)

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        """Have the agents tell a job's ranks to begin."""
        assert self._origin_ns is not None
        if not self._nodes.alive(placement):
            self._fail(job, "it is placed on processors that are lost")
            return
        part = self._parts[job]
        part.placement, part.begun = self._ranks(job, placement), True
        if feasible.malleable(self._jobs[job].program):
            self._nodes.resize(job, placement)
        self._nodes.begin(job, self._origin_ns + at_ns, part.placement)
        self._progress(f"job {job} starts")

    def resize(self, job: int, placement: tuple[int, ...]) -> None:
        """Have a malleable job go on on other processors."""
        self._nodes.resize(job, placement)
        self._progress(f"job {job} goes on with {len(placement)} processes")

    def _ranks(self, job: int, placement: tuple[int, ...]) -> tuple[int, ...]:
        """Where each rank begins: of a malleable job there are more than active ones."""
        program = self._jobs[job].program
        if not feasible.malleable(program):
            return placement
        return tuple(placement[rank % len(placement)] for rank in range(program.processes))

    # What happens.

    def _perform(self) -> None:
        self._conductor.prepare()
        self._progress(f"starting {len(self._parts)} jobs with {self._launcher}")
        while not self._conductor.over:
            self._wait()
        self._nodes.send(protocol.Leave())
        self._give_up_ns = time.monotonic_ns() + round(FINALIZE_S * 1e9)
        self._give_up_why = f"a launcher did not end within {FINALIZE_S:g} s after its job"
        while any(part.mpiexec and part.mpiexec.poll() is None for part in self._parts.values()):
            self._wait()
        for key, _ in self._selector.select(0):  # the ends of the last launchers among them
            key.data()

    def _wait(self) -> None:
        """Sleep until something happens and deal with it."""
        self._nodes.receive()
        dues = [part.give_up_ns for part in self._parts.values() if part.give_up_ns is not None]
        dues += [self._give_up_ns, self._nodes.due_ns()]
        due_ns = self._conductor.due_ns()
        if self._origin_ns is not None and due_ns is not None:
            dues.append(self._origin_ns + due_ns)
        self._alarm.set(min(dues))
        for key, _ in self._selector.select():
            key.data()
        self._nodes.receive()
        if self._interrupt.caught:
            raise RunFailed("interrupted")
        now_ns = time.monotonic_ns()
        if now_ns >= self._give_up_ns:
            raise RunFailed(self._give_up_why)
        self._nodes.check(now_ns)
        for job, part in self._parts.items():
            if part.give_up_ns is not None and now_ns >= part.give_up_ns:
                self._fail(job, part.failure)
        if self._origin_ns is None and self._conductor.prepared and self._nodes.joined:
            self._origin_ns = now_ns + HEAD_START_NS
        if self._origin_ns is not None:
            self._conductor.advance(now_ns - self._origin_ns)

    def _on_message(self, node: int, message: Any) -> None:
        """An agent says something; what it says of ranks that it cannot have is left out of account."""
        match message:
            case protocol.Switched(switches):
                self._switches += [Switch(*switch, node=node) for switch in switches]
            case protocol.Trouble(text, fatal):
                if fatal:
                    raise RunFailed(text)
                self._progress(text)
            case protocol.Ready(job, rank) | protocol.Finished(job, rank) | protocol.Gone(job, rank):
                part = self._parts.get(job)
                if part is not None and rank in part.ranks_on(node, self._nodes.node_of):
                    self._on_rank(job, part, rank, message)

    def _on_rank(self, job: int, part: Part, rank: int, message: Any) -> None:
        match message:
            case protocol.Ready():
                part.ready.add(rank)
                if len(part.ready) == part.processes:
                    self._conductor.ready(job, self._now_ns())
            case protocol.Finished(_, _, record):
                part.records[rank] = record
                if len(part.records) == part.processes:
                    if part.give_up_ns is not None:  # it was given up too soon
                        part.failure, part.give_up_ns = "", None
                    self._conductor.leave(job, self._now_ns())
                    self._progress(f"job {job} has finished")
            case protocol.Gone() if rank in part.ready:
                if not self._conductor.is_over(job) and part.give_up_ns is None:
                    # Its launcher knows more; it is given a moment to end and say it.
                    self._give_up(job, f"rank {rank} has gone", EXIT_S)

    def _on_loss(self, lost: tuple[int, ...], why: str) -> None:
        """The processors of a node are gone, and with them the jobs that have begun there.

        Jobs that have not are started anew where the policy places them now.
        """
        if not self._workload.nodes or not self._nodes.alive() or self._origin_ns is None:
            raise RunFailed(f"{why}; the run cannot go on")
        self._progress(why.splitlines()[0])
        concerned = [job for job, part in self._parts.items() if set(part.placement) & set(lost)]
        open_jobs = [job for job in concerned if not self._conductor.is_over(job)]
        failed = [job for job in open_jobs if self._parts[job].begun]
        for job in set(open_jobs) - set(failed):
            self._parts[job] = Part()
            self._discard(job)
        self._conductor.lose(lost, self._now_ns(), failed)
        for job in failed:
            self._fail(job, why)

    def _on_exit(self, job: int, mpiexec: Any, handle: Process) -> None:
        """A job's launcher has ended: as it should, or before its time."""
        self._selector.unregister(handle)
        handle.close()
        part = self._parts[job]
        status = mpiexec.wait()
        command = isinstance(self._jobs[job].program, Command)
        if command:
            part.output = launch.head(self._directory.log(f"job-{job}-out"))
        if mpiexec is not part.mpiexec or (self._conductor.is_over(job) and (part.failure or not status)):
            return
        if command and not status and len(part.ready) == part.processes:
            # The program has ended by itself; what its agents say of that may be on its way.
            self._give_up(job, "its launcher has ended and its ranks have not", REPORT_S)
            return
        logs = (self._directory.log(f"job-{job}-{stream}") for stream in ("err", "out"))
        said = next(filter(None, map(launch.tail, logs)), "")
        why = "\n".join(filter(None, [part.failure, f"its launcher {launch.describe(status)}", said]))
        if self._workload.nodes and not part.begun:
            self._give_up(job, why, LOSS_S)
        else:
            self._fail(job, why)

    def _give_up(self, job: int, why: str, patience_s: float) -> None:
        """Fail a job after a while, or when more is known. One that has not begun may have lost its node."""
        part = self._parts[job]
        if self._workload.nodes and not part.begun:
            patience_s = max(patience_s, LOSS_S)
        part.failure, part.give_up_ns = why, time.monotonic_ns() + round(patience_s * 1e9)

    def _fail(self, job: int, why: str) -> None:
        """End what is left of a job; the others go on."""
        part = self._parts[job]
        part.failure, part.give_up_ns = part.failure or why, None
        self._discard(job)
        self._progress(f"job {job} has failed: {why.splitlines()[0]}")
        self._conductor.leave(job, self._now_ns())

    def _discard(self, job: int) -> None:
        self._nodes.send(protocol.Discard(job))
        processes.end(self._directory.run, job, grace_s=0)

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._origin_ns if self._origin_ns is not None else 0

    # Beginning and end.

    def _watch(self, file: Any, on_input: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, on_input)

    def _start_nodes(self, stack: ExitStack) -> None:
        workload = self._workload
        if workload.nodes:
            # The agents' guardians are elsewhere; who ends the launchers here if we cannot?
            keeper, hold = guardian.start(self._directory)
            stack.callback(keeper.wait, guardian.RELEASE_S)
            stack.callback(hold.close)
        self._nodes = Nodes(
            workload, self._mechanism, self._directory, self._launcher, self._on_message, self._on_loss
        )
        stack.callback(self._nodes.end)
        self._nodes.start(self._selector)
