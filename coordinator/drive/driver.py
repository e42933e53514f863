"""Running a workload for real: launches, listens, and carries the conductor's decisions out.

The decisions are made in ``coordinator.decide.conductor``, the slots are kept by the agents. This
module joins them to processes, the clock and the user's signals, and sees to it that
nothing remains.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Plan, Session
from coordinator.drive import preflight, ranks, run_log
from coordinator.drive.nodes import SILENCE, Contacts, Nodes
from coordinator.drive.outcome import Part, never_begun, outcome, unfit
from coordinator.drive.preflight import Means
from coordinator.drive.run_log import Beginning, Event, History
from coordinator.host import cleanup, descriptors, guardian, launch
from coordinator.host.discards import Discards
from coordinator.host.interrupt import Interrupt
from coordinator.host.launch import Launcher, Started
from coordinator.host.logs import Logs
from coordinator.host.priority import prompt
from coordinator.host.processes import STUBBORN_S, Process
from coordinator.host.rundir import RunDirectory
from coordinator.host.stopped import Launchers
from coordinator.host.timer import Alarm
from coordinator.view import Job
from coordinator.wire import protocol
from coordinator.wire.zmq_transport import LinkError
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

FINALIZE_S = 30.0
"""How long all launchers may take to end after the end of the workload."""

WARNINGS = 20
"""So many are kept of a run, the first."""

Progress = Callable[[str], None]


class RunFailed(Exception):  # noqa: N818 - says what became of the run
    """The run as a whole cannot go on."""


def run_workload(
    workload: Workload, progress: Progress | None = None, launcher: Launcher | None = None
) -> Result:
    """Run a workload on this machine, or on the nodes it names, and return what came of it.

    A ``launcher`` is that of a series of runs; without one it is the first that is found.

    However it ends, no process that it started is left, held or not, nor any file, cgroup or
    shared memory of it. A job that fails is told in the result, as is a run that fails.

    Raises:
        InputError: before anything is started, if something asked for cannot be had here.
        LaunchError: before anything is started, if the series' launcher is not there any more.
        KeyboardInterrupt: on SIGINT, once everything is released.
        SystemExit: on SIGTERM and SIGHUP, once everything is released.
    """
    means = preflight.means(workload, launcher)
    session, jobs = preflight.session(workload)
    try:
        with Interrupt() as interrupt:
            directory = RunDirectory.create()
            driver = Driver(directory, workload, means, interrupt, progress or (lambda text: None))
            return driver.result(driver.play(session, jobs))
    except OSError as error:
        return never_begun(workload, means, f"there is no place for the run: {error}")


class Driver:
    """One run: the crew of the conductor, and the loop that tells it what happens."""

    contacts: Contacts | None = None

    def __init__(
        self,
        directory: RunDirectory,
        workload: Workload,
        means: Means,
        interrupt: Interrupt,
        progress: Progress,
    ) -> None:
        self._directory = directory
        self._workload = workload
        self._means = means
        self._interrupt = interrupt
        self._progress = progress
        self._parts = {job.number: Part() for job in workload.jobs}
        self._jobs = {job.number: job for job in workload.jobs}
        self._discards = Discards(directory, self._warn)
        self._logs = Logs(directory, self._warn)
        self._launchers = Launchers(self._warn, wrapped=bool(workload.nodes))
        self._switches: list[Switch] = []
        self._warnings: list[str] = []
        self._history = History(directory.history)
        self._nodes: Nodes
        self._origin_ns: int | None = None
        self._launched = self._under_way = False
        # So long a job that has not begun waits whether its node is lost, which then costs it nothing.
        self._loss_s = SILENCE * workload.lease_s + 1.0
        self._give_up_ns = time.monotonic_ns() + round(workload.timeout_s * 1e9)
        self._give_up_why = f"timed out: the run may take {workload.timeout_s:g} s"

    def play(self, session: Session, jobs: list[Job]) -> str:
        """Run it all; returns what made the run fail, or nothing."""
        try:
            with ExitStack() as stack:
                descriptors.allow()
                stack.enter_context(prompt())
                self._selector = stack.enter_context(selectors.DefaultSelector())
                self._alarm = Alarm()
                stack.callback(self._alarm.close)
                self._watch(self._alarm, self._alarm.acknowledge)
                self._watch(self._interrupt, self._interrupt.acknowledge)
                self._start_nodes(stack)
                self._prepare(session, jobs)
                self._perform()
        except RunFailed as failed:
            return str(failed)
        except (OSError, LinkError) as error:
            return f"the run cannot go on: {error}"
        finally:
            self._history.end()
            # Again, in case the guardian was killed.
            cleanup.release(self._directory)
            self._directory.unlock()
            launch.reap((part.mpiexec for part in self._parts.values()), STUBBORN_S)
        return ""

    def result(self, failure: str) -> Result:
        """What came of it, all times relative to the start of the run."""
        if not hasattr(self, "_conductor"):
            return never_begun(self._workload, self._means, failure)
        return outcome(
            self._workload,
            self._means,
            self._parts,
            self._conductor.placements,
            self._switches,
            self._origin_ns or 0,
            nodes=self._nodes.results(),
            failure=failure,
            warnings=tuple(self._warnings),
        )

    # What the conductor asks for.

    def launch(self, job: int, placement: tuple[int, ...]) -> None:
        """Start a job's ranks, which report to the agents of their nodes and wait."""
        part = self._parts[job]
        part.placement = ranks.places(self._jobs[job].program, placement)
        part.ready.clear()
        if part.mpiexec is not None:
            part.mpiexec = None
            self._discard(job)
        self._discards.then(job, lambda: self._start(job, part))

    def _start(self, job: int, part: Part) -> None:
        over = part is not self._parts[job] or self._conductor.is_over(job)
        if over or self._refused(part, part.placement):
            return
        hosts = self._nodes.hosts(part.placement)
        start = (self._workload, self._means, self._jobs[job], part.processes, hosts, self._directory)
        try:
            part.mpiexec = ranks.start(*start)
            self._note(run_log.Launched(job, part.mpiexec.pid))
            self._watch_launcher(job, part.mpiexec)
        except OSError as error:
            # It fails as soon as the conductor is done.
            part.failure, part.give_up_ns = f"its launcher cannot be started: {error}", time.monotonic_ns()

    def _watch_launcher(self, job: int, mpiexec: Started) -> None:
        handle = launch.handle(mpiexec)
        self._watch(handle, lambda: self._on_exit(job, mpiexec, handle))

    def publish(self, plan: Plan, from_ns: int) -> None:
        """Have the agents carry out a plan."""
        assert self._origin_ns is not None
        self._nodes.publish(plan, from_ns, self._origin_ns)

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        """Have the agents tell a job's ranks to begin."""
        assert self._origin_ns is not None
        part = self._parts[job]
        if self._refused(part, placement):
            return
        first = not part.begun
        part.placement, part.begun = ranks.places(self._jobs[job].program, placement), True
        if preflight.malleable(self._jobs[job].program):
            self._nodes.resize(job, placement)
        self._nodes.begin(job, self._origin_ns + at_ns, part.placement)
        if first:
            self._progress(f"job {job} starts")

    def resize(self, job: int, placement: tuple[int, ...]) -> None:
        """Have a malleable job go on on other processors."""
        self._nodes.resize(job, placement)
        self._progress(f"job {job} goes on with {len(placement)} processes")

    def _refused(self, part: Part, placement: tuple[int, ...]) -> bool:
        """Whether a job cannot be where the policy places it; it fails as soon as the conductor is done."""
        if self._nodes.alive(placement):
            return False
        part.failure, part.give_up_ns = "it is placed on processors that are lost", time.monotonic_ns()
        return True

    # What happens.

    def _prepare(self, session: Session, jobs: list[Job]) -> None:
        """Launch what can be launched ahead of time; elsewhere, once every node has its guardian.

        If an agent ends before, nobody there would remove what killed ranks leave.
        """
        self._conductor = Conductor(session, jobs, self, LEAD_NS, self._nodes.node_of)
        if not self._workload.nodes:
            self._launch_ahead()

    def _launch_ahead(self) -> None:
        self._launched = True
        self._conductor.prepare()
        self._progress(f"starting {len(self._parts)} jobs with {self._means.launcher}")

    def _set_off(self, now_ns: int) -> bool:
        """Begin the run if all are there; from then on another driver can take it over."""
        if not self._nodes.joined:
            return False
        if not self._launched:
            self._launch_ahead()
        if not self._conductor.prepared:
            return False
        self._origin_ns = now_ns + HEAD_START_NS
        if self._workload.nodes:
            past = self._workload, self._means, self._nodes.contacts, self._origin_ns, self._give_up_ns
            self._history.begin(Beginning(*past))
        return True

    @property
    def _over(self) -> bool:
        return self._conductor.over

    def _perform(self) -> None:
        while not self._over:
            self._wait()
        self._nodes.send(protocol.Leave())
        self._give_up_ns = time.monotonic_ns() + round(FINALIZE_S * 1e9)
        self._give_up_why = f"a launcher did not end within {FINALIZE_S:g} s after its job"
        try:
            while any(part.mpiexec and part.mpiexec.poll() is None for part in self._parts.values()):
                self._wait()
            for key, _ in self._selector.select(0):  # the ends of the last launchers among them
                key.data()
        except RunFailed as failed:
            if self._interrupt.caught:
                raise
            self._warn(f"{failed}; all records were there")

    def _wait(self) -> None:
        """Sleep until something happens and deal with it."""
        self._nodes.receive()
        dues = [part.give_up_ns for part in self._parts.values() if part.give_up_ns is not None]
        dues += [self._give_up_ns, self._nodes.due_ns(), *self._discards.dues_ns()]
        due_ns = self._conductor.due_ns()
        if self._origin_ns is not None and due_ns is not None:
            dues.append(self._origin_ns + due_ns)
        self._alarm.set(min(dues))
        for key, _ in self._selector.select():
            key.data()
        self._nodes.receive()
        if self._interrupt.caught:
            raise RunFailed(self._interrupt.why)
        now_ns = time.monotonic_ns()
        if now_ns >= self._give_up_ns:
            raise RunFailed(self._give_up_why)
        self._nodes.check(now_ns)
        self._discards.go_on(now_ns)
        self._logs.bound(now_ns)
        self._launchers.look(now_ns, {job: part.mpiexec for job, part in self._parts.items()})
        for job, part in self._parts.items():
            if part.give_up_ns is not None and now_ns >= part.give_up_ns:
                self._fail(job, part.failure)
        self._under_way = self._under_way or self._set_off(now_ns)
        if self._origin_ns is not None:
            due_ns = self._conductor.due_ns()
            if due_ns is not None and due_ns <= now_ns - self._origin_ns:
                self._happened(run_log.Advanced(now_ns - self._origin_ns))

    def _note(self, event: Event) -> None:
        if self._workload.nodes:
            self._history.add(event)

    def _happened(self, event: Event) -> None:
        """Have the conductor decide what follows from an event."""
        self._note(event)
        run_log.tell(self._conductor, event)

    def _on_message(self, node: int, message: Any) -> None:
        """An agent says something; what it says of ranks that it cannot have is left out of account."""
        match message:
            case protocol.Switched(switches):
                told = tuple(Switch(*switch, node=node) for switch in switches)
                self._note(run_log.Switched(told))
                self._switches += told
            case protocol.Trouble(text, fatal):
                if fatal:
                    raise RunFailed(text)
                self._warn(text)
            case protocol.Ready(job, rank) | protocol.Finished(job, rank) | protocol.Gone(job, rank):
                part = self._parts.get(job)
                if part is not None and rank in part.ranks_on(node, self._nodes.node_of):
                    self._on_rank(job, part, rank, message)

    def _on_rank(self, job: int, part: Part, rank: int, message: Any) -> None:
        match message:
            case protocol.Ready():
                part.ready.add(rank)
                if len(part.ready) == part.processes:
                    self._happened(run_log.Ready(job, self._now_ns()))
            case protocol.Finished(_, _, record) if rank not in part.records:
                self._on_record(job, part, rank, record)
            case protocol.Gone() if rank in part.ready:
                if not self._conductor.is_over(job) and part.give_up_ns is None:
                    # Its launcher knows more; it is given a moment to end and say it.
                    self._give_up(job, f"rank {rank} has gone", EXIT_S)

    def _on_record(self, job: int, part: Part, rank: int, record: Mapping[str, Any]) -> None:
        """A rank has handed in its record; what is none fails its job, and nothing of it is kept."""
        over = self._conductor.is_over(job)
        if why := unfit(self._workload, self._jobs[job], part, rank, record, self._origin_ns):
            if not over:
                self._fail(job, f"rank {rank} has handed in what is no record: {why}")
            return
        part.records[rank] = record
        if len(part.records) == part.processes and not over:
            if part.give_up_ns is not None:  # it was given up too soon
                part.failure, part.give_up_ns = "", None
            self._leave(job, part)
            self._progress(f"job {job} has finished")

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
        displaced = [job for job in open_jobs if job not in failed]
        for job in displaced:
            self._parts[job] = Part()
            self._discard(job)
        node = self._nodes.node_of[lost[0]]
        self._happened(run_log.Lost(node, lost, why, self._now_ns(), tuple(failed), tuple(displaced)))
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
        why = f"{part.failure}\nits launcher {launch.failed(status, *logs)}".lstrip()
        if self._workload.nodes and not part.begun:
            self._give_up(job, why, self._loss_s)
        else:
            self._fail(job, why)

    def _give_up(self, job: int, why: str, patience_s: float) -> None:
        """Fail a job after a while, or when more is known. One that has not begun may have lost its node."""
        part = self._parts[job]
        if self._workload.nodes and not part.begun:
            patience_s = max(patience_s, self._loss_s)
        part.failure, part.give_up_ns = why, time.monotonic_ns() + round(patience_s * 1e9)

    def _fail(self, job: int, why: str) -> None:
        """End what is left of a job; the others go on."""
        part = self._parts[job]
        part.failure, part.give_up_ns = part.failure or why, None
        self._discard(job)
        self._progress(f"job {job} has failed: {why.splitlines()[0]}")
        self._leave(job, part)

    def _leave(self, job: int, part: Part) -> None:
        self._happened(run_log.Left(job, self._now_ns(), part.failure, part.records))

    def _discard(self, job: int) -> None:
        self._nodes.send(protocol.Discard(job))
        self._discards.begin(job, time.monotonic_ns())

    def _warn(self, text: str) -> None:
        """Tell something that does not keep the run from going on, and have the result say it."""
        self._progress(text)
        if text not in self._warnings:
            self._warnings = [*self._warnings, text][:WARNINGS]

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._origin_ns if self._origin_ns is not None else 0

    # Beginning and end.

    def _watch(self, file: Any, on_input: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, on_input)

    def _start_nodes(self, stack: ExitStack) -> None:
        workload, means = self._workload, self._means
        if workload.nodes:
            # The agents' guardians are elsewhere; who ends the launchers here if we cannot?
            keeper, hold = guardian.start(self._directory, patience_s=workload.lease_s)
            self._note(run_log.Guarded(keeper.pid))
            stack.callback(launch.reap, [keeper], guardian.RELEASE_S)
            stack.callback(hold.close)
        tell = (self._on_message, self._on_loss)
        self._nodes = Nodes(workload, means.mechanism, self._directory, means.launcher, *tell, self.contacts)
        stack.callback(self._nodes.end)
        stack.callback(self._history.end)
        self._nodes.start(self._selector)
