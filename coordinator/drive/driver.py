"""The driver: runs a workload on real processes.

The conductor (``coordinator.decide.conductor``) makes the decisions, and the agents switch slots.
The driver connects them with processes, the clock and the user's signals, and leaves nothing behind.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import astuple, replace
from typing import Any

from coordinator.decide.conductor import AHEAD, Conductor
from coordinator.decide.session import Session
from coordinator.drive import preflight
from coordinator.drive.nodes import Nodes
from coordinator.drive.outcome import never_begun, outcome
from coordinator.drive.run_context import Progress, RunContext, RunFailed
from coordinator.drive.running_jobs import RunningJobs
from coordinator.host import cleanup, guardian, launch, processes, quotas
from coordinator.host.interrupt import Interrupt
from coordinator.host.launch import Logs
from coordinator.host.launchers import Launcher
from coordinator.host.loop import Loop
from coordinator.host.priority import prompt
from coordinator.host.processes import STUBBORN_S
from coordinator.host.rundir import RunDirectory
from coordinator.owners import changes
from coordinator.view import Job
from coordinator.wire import protocol
from coordinator.wire.zmq_transport import LinkError
from coordinator.workload import FOR_EVER_S, NO_HISTORY, History, Result, Switch, Workload

HEAD_START_NS = 50_000_000  # time from the moment at which all ranks are ready to the start of the run
LEAD_NS = 5_000_000  # how long before an arrival the conductor decides about it, at least

SHARE_NS = 100_000
"""As much of the lead for each node, since nodes get their tables one after the other (docs/scaling.md)."""


def lead_ns(workload: Workload) -> int:
    return max(LEAD_NS, SHARE_NS * len(workload.nodes))


FINALIZE_S = 30.0  # how long launchers may take to end after the end of the workload


def run_workload(
    workload: Workload,
    progress: Progress | None = None,
    launcher: Launcher | None = None,
    history: History = NO_HISTORY,
) -> Result:
    """Run a workload on this machine, or on the nodes that it names; the result says what failed.

    All runs of a series pass the same ``launcher``; without one, the driver takes the first that it finds.
    ``history`` hears of begins and ends of jobs, and says where the run's clock begins.
    However the run ends, none of its processes, files, cgroups or shared-memory segments remains.
    """
    launch_plan = preflight.launch_plan(workload, launcher, progress or (lambda text: None))
    session, jobs = preflight.session(workload)
    try:
        with Interrupt() as interrupt:
            directory = RunDirectory.create()
            give_up_ns = time.monotonic_ns() + round(workload.timeout_s * 1e9)
            context = RunContext(
                directory, workload, launch_plan, progress or (lambda text: None), give_up_ns, history=history
            )
            return Driver(context, session, jobs, interrupt).play()
    except OSError as error:
        return never_begun(workload, launch_plan, f"cannot make a run directory: {error}")


class Driver:
    """One run from its start to its end: the loop that handles all events."""

    _jobs: RunningJobs
    _nodes: Nodes

    def __init__(
        self, context: RunContext, session: Session, views: Sequence[Job], interrupt: Interrupt
    ) -> None:
        self._context = context
        self._session = session
        self._views = views
        self._interrupt = interrupt
        self._logs = Logs(context.directory, context.warn)
        self._prepared = self._launched = False
        self._throttled: tuple[int, float] | None = None
        self._give_up_why = f"timed out: the run may take {context.workload.timeout_s:g} s"

    def play(self) -> Result:
        failure = ""
        try:
            with ExitStack() as stack:
                self._prepare(stack)
                self._perform()
        except RunFailed as failed:
            failure = str(failed)
        except (OSError, LinkError) as error:
            failure = f"the run cannot continue: {error}"
        finally:
            # The guardian may have been killed.
            cleanup.release(self._context.directory)
            self._context.directory.unlock()
            if self._prepared:
                self._jobs.reap(STUBBORN_S)
        return self.result(failure)

    def _prepare(self, stack: ExitStack) -> None:
        context = self._context
        stack.enter_context(processes.kept_limits())
        processes.raise_descriptor_limit()
        stack.enter_context(prompt())
        self._loop = Loop()
        stack.callback(self._loop.close)
        self._loop.watch(self._interrupt, self._interrupt.acknowledge)
        if context.remote:
            # The agents' guardians are elsewhere; this one terminates the launchers here if we are killed.
            ours, hold = guardian.start(context.directory)
            stack.callback(launch.reap, [ours], guardian.RELEASE_S)
            stack.callback(hold.close)
        self._nodes = Nodes(
            context.workload,
            context.launch_plan.mechanism,
            context.directory,
            context.launch_plan.launcher,
            on_message=self._on_message,
            on_loss=self._on_loss,
        )
        stack.callback(self._nodes.end)
        self._jobs = RunningJobs(context, self._loop, self._nodes)
        self._nodes.start(self._loop)
        workload = context.workload
        owners = changes(workload.owners, workload.seed, workload.repeat)
        lead = lead_ns(workload)
        # Trees that run already are ready at once, and need no launch.
        ahead = len(workload.jobs) if any(job.root for job in workload.jobs) else AHEAD
        self._jobs.conductor = Conductor(
            self._session, self._views, self._jobs, lead, self._nodes.node_of, owners, ahead
        )
        if not context.remote:
            self._launch()
        self._prepared = True

    def _launch(self) -> None:
        """Launch programs ahead of time; on other hosts only after every node has its guardian.

        Before that, no process there would remove the segments of killed ranks.
        """
        self._launched = True
        plan = self._context.launch_plan
        for text in plan.warnings:
            self._context.warn(text)
        self._jobs.conductor.prepare(self._context.history.begin_ns)
        self._context.progress(f"starting {len(self._jobs.states)} jobs with {plan.launcher}")

    def _set_off(self) -> None:
        """Let the run begin if all is ready."""
        if self._context.origin_ns is not None or not self._nodes.joined:
            return
        if not self._launched:
            self._launch()
        if self._jobs.conductor.prepared:
            begin_ns = time.monotonic_ns() + HEAD_START_NS
            self._context.origin_ns = begin_ns - self._context.history.begin_ns

    def _perform(self) -> None:
        while self._context.origin_ns is None or not self._jobs.conductor.over:
            self._wait()
        if self._context.workload.options.quota_ns:
            self._throttled = astuple(quotas.throttled_of_run(self._context.directory))
        self._nodes.send(protocol.Leave())
        self._context.give_up_ns = time.monotonic_ns() + round(FINALIZE_S * 1e9)
        self._give_up_why = f"a launcher did not end within {FINALIZE_S:g} s after its job"
        try:
            while self._jobs.launched():
                self._wait()
            self._loop.catch_up()  # to notice the ends of the last launchers
        except RunFailed as failed:
            if self._interrupt.caught:
                raise
            self._context.warn(f"{failed}; no record is missing")

    def _wait(self) -> None:
        self._nodes.receive()
        self._loop.wait(min(self._context.give_up_ns, self._nodes.due_ns(), *self._jobs.dues_ns()))
        self._nodes.receive()
        if self._interrupt.caught:
            raise RunFailed(self._interrupt.reason)
        now_ns = time.monotonic_ns()
        if now_ns >= self._context.give_up_ns:
            raise RunFailed(self._give_up_why)
        self._nodes.check(now_ns)
        self._logs.bound(now_ns)
        self._jobs.check(now_ns)
        self._set_off()
        self._jobs.advance()

    def _on_message(self, node: int, message: Any) -> None:
        match message:
            case protocol.SwitchReport(switches):
                if self._context.workload.timeout_s < FOR_EVER_S:
                    self._context.switches += (Switch(*switch, node=node) for switch in switches)
            case protocol.Failure(text, fatal=True):
                raise RunFailed(text)
            case protocol.Failure(text):
                self._context.warn(text)
            case _:
                self._jobs.hear(node, message)

    def _on_loss(self, processors: tuple[int, ...], reason: str) -> None:
        """Handle the loss of a node's processors; the run continues if it has begun and has other nodes."""
        if not self._context.remote or not self._nodes.alive() or self._context.origin_ns is None:
            raise RunFailed(f"{reason}; the run cannot continue")
        self._context.progress(reason.splitlines()[0])
        self._jobs.lose(processors, reason)

    def result(self, failure: str) -> Result:
        context = self._context
        if not self._prepared:
            return never_begun(context.workload, context.launch_plan, failure)
        arrived = tuple(self._jobs.arrived(job.number) for job in context.workload.jobs)
        result = outcome(
            replace(context.workload, jobs=arrived),
            context.launch_plan,
            self._jobs.states,
            self._jobs.conductor.placements,
            self._jobs.conductor.admitted_ns,
            context.switches,
            context.origin_ns or 0,
            nodes=self._nodes.results(),
            failure=failure,
            warnings=tuple(context.warnings),
        )
        return replace(result, throttled=self._throttled)
