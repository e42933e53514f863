"""Running a workload for real: launches, listens, and carries the conductor's decisions out.

The decisions are made in ``coordinator.conductor``, the slots are kept by the agent. This
module joins them to processes, the clock and the user's signals, and sees to it that
nothing remains.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from coordinator import cleanup, launch, mechanisms, processes, protocol
from coordinator.agent import Setup
from coordinator.channel import Channel
from coordinator.conductor import Conductor
from coordinator.environment import passed_on
from coordinator.guardian import RELEASE_S
from coordinator.interrupt import Interrupt
from coordinator.launch import Launcher
from coordinator.priority import prompt
from coordinator.processes import JOB, Process
from coordinator.protocol import TO_AGENT, TO_DRIVER
from coordinator.rundir import RunDirectory
from coordinator.session import Plan, Session
from coordinator.timer import Alarm
from coordinator.view import Job, Machine
from coordinator.workload import JobResult, Result, Switch, Workload
from workloads.validation import InputError

HEAD_START_NS = 50_000_000
"""From the moment that all ranks are ready to the start of the run."""

LEAD_NS = 5_000_000
"""How long ahead of time arrivals are decided."""

EXIT_S = 1.0
"""How long a launcher may take to end, and to say why, after one of its ranks has gone."""

FINALIZE_S = 30.0
"""How long all launchers may take to end after the end of the workload."""

BACKLOG = 4096
"""Ranks that may have connected before the agent is up."""

Progress = Callable[[str], None]


class RunFailed(Exception):  # noqa: N818 - says what became of the run
    """The run as a whole cannot go on."""


@dataclass
class _Part:
    """What the driver knows about one launched job."""

    processes: int = 0
    mpiexec: subprocess.Popen[bytes] | None = None
    ready: set[int] = field(default_factory=set)
    records: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    failure: str = ""
    give_up_ns: int | None = None


def run_workload(workload: Workload, progress: Progress | None = None) -> Result:
    """Run a workload on this machine and return what came of it.

    However it ends, no process that it started is left, held or not, nor any file, cgroup or
    shared memory of it. A job that fails is told in the result, as is a run that fails.

    Raises:
        InputError: before anything is started, if something asked for cannot be had here.
        KeyboardInterrupt: on SIGINT, once everything is released.
        SystemExit: on SIGTERM, once everything is released.
    """
    mechanism, why = _mechanism(workload)
    launcher = launch.find_launcher()
    session, jobs = _session(workload)
    with Interrupt() as interrupt:
        driver = Driver(workload, mechanism, launcher, interrupt, progress or (lambda text: None))
        failure = driver.play(session, jobs)
        return driver.result(mechanism or "none", why, failure)


def _mechanism(workload: Workload) -> tuple[str | None, str]:
    mechanisms.check_local(workload.local)
    if not workload.policy.needs_mechanism:
        return None, "the policy stops nothing"
    mechanism, why = mechanisms.choose(workload.mechanism)
    if mechanism == "realtime" and workload.local == "rr":
        raise InputError("local", "rr", "the realtime mechanism sets the class itself", "leave local out")
    return mechanism, why


def _session(workload: Workload) -> tuple[Session, list[Job]]:
    """The policy's side of a workload, checked against this machine."""
    for core in workload.processors:
        if core not in os.sched_getaffinity(0):
            raise InputError("processors", core, "this process may not use that core", "choose other cores")
    jobs = [
        Job(job.number, job.program.processes, round(job.arrival_s * 1e9), moldable=True)
        for job in workload.jobs
    ]
    session = Session(workload.policy, Machine(len(workload.processors)), jobs)
    for job in jobs:
        count = session.processes(job.number)
        if (count or 1) > len(workload.processors):
            rule = f"must be at most the number of processors, {len(workload.processors)}"
            raise InputError("processes", count, rule, "use more processors or fewer processes")
    return session, jobs


class Driver:
    """One run: the crew of the conductor, and the loop that tells it what happens."""

    def __init__(
        self,
        workload: Workload,
        mechanism: str | None,
        launcher: Launcher,
        interrupt: Interrupt,
        progress: Progress,
    ) -> None:
        self._workload = workload
        self._mechanism = mechanism
        self._launcher = launcher
        self._interrupt = interrupt
        self._progress = progress
        self._parts = {job.number: _Part() for job in workload.jobs}
        self._programs = {job.number: job.program for job in workload.jobs}
        self._switches: list[Switch] = []
        self._tables = 0
        self._origin_ns: int | None = None
        self._guardian: Process | None = None
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
                stack.callback(self._end)
                self._start_agent()
                self._conductor = Conductor(session, jobs, self, LEAD_NS)
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

    # What the conductor asks for.

    def launch(self, job: int, processes: int) -> None:
        """Start a job's ranks, which report to the agent and wait."""
        part = self._parts[job]
        part.processes = processes
        command = [sys.executable, "-m", "mpi4py", "-m", "workloads.rank", self._spec(job, processes)]
        environment = self._launcher.environment({**self._directory.marks, JOB: str(job)})
        out, err = (self._directory.log(f"job-{job}-{stream}") for stream in ("out", "err"))
        part.mpiexec = launch.start(self._launcher.argv(processes, command), environment, out, err)
        handle = Process(part.mpiexec.pid)
        self._watch(handle, lambda: self._on_exit(job, handle))

    def publish(self, plan: Plan, from_ns: int) -> None:
        """Have the agent carry out a plan."""
        assert self._origin_ns is not None
        decision = plan.decision
        self._tables += 1
        table = protocol.Table(
            number=self._tables,
            from_ns=self._origin_ns + from_ns,
            start_ns=self._origin_ns + plan.start_ns,
            cyclic=decision.cyclic,
            lengths_ns=tuple(slot.length_ns for slot in decision.slots),
            runs=tuple(slot.runs for slot in decision.slots),
            placements=tuple(decision.placements.items()),
        )
        self._agent.send(TO_AGENT.encode(table))

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        """Have the agent tell a job's ranks to begin."""
        assert self._origin_ns is not None
        cores = tuple(self._workload.processors[processor] for processor in placement)
        self._agent.send(TO_AGENT.encode(protocol.Start(job, self._origin_ns + at_ns, cores)))
        self._progress(f"job {job} starts")

    # What happens.

    def _perform(self) -> None:
        self._conductor.prepare()
        self._progress(f"starting {len(self._parts)} jobs with {self._launcher}")
        while not self._conductor.over:
            self._wait()
        self._agent.send(TO_AGENT.encode(protocol.Leave()))
        self._give_up_ns = time.monotonic_ns() + round(FINALIZE_S * 1e9)
        self._give_up_why = f"a launcher did not end within {FINALIZE_S:g} s after its job"
        while any(part.mpiexec and part.mpiexec.poll() is None for part in self._parts.values()):
            self._wait()

    def _wait(self) -> None:
        """Sleep until something happens and deal with it."""
        dues = [part.give_up_ns for part in self._parts.values() if part.give_up_ns is not None]
        dues.append(self._give_up_ns)
        due_ns = self._conductor.due_ns()
        if self._origin_ns is not None and due_ns is not None:
            dues.append(self._origin_ns + due_ns)
        self._alarm.set(min(dues))
        for key, _ in self._selector.select():
            key.data()
        if self._interrupt.caught:
            raise RunFailed("interrupted")
        now_ns = time.monotonic_ns()
        if now_ns >= self._give_up_ns:
            raise RunFailed(self._give_up_why)
        for job, part in self._parts.items():
            if part.give_up_ns is not None and now_ns >= part.give_up_ns:
                self._fail(job, part.failure)
        if self._origin_ns is None and self._conductor.prepared:
            self._origin_ns = now_ns + HEAD_START_NS
        if self._origin_ns is not None:
            self._conductor.advance(now_ns - self._origin_ns)

    def _on_agent(self) -> None:
        for line in self._agent.receive():
            self._hear(TO_DRIVER.decode(line))
        if self._agent.closed:
            text = launch.tail(self._directory.log("agent"))
            raise RunFailed(f"the agent has gone, and with it the run\n{text}".rstrip())

    def _hear(self, message: Any) -> None:
        match message:
            case protocol.Up(guardian):
                # One that has gone by now is reported by the agent.
                with suppress(ProcessLookupError):
                    self._guardian = Process(guardian)
            case protocol.Ready(job, rank):
                part = self._parts[job]
                part.ready.add(rank)
                if len(part.ready) == part.processes:
                    self._conductor.ready(job, self._now_ns())
            case protocol.Finished(job, rank, record):
                part = self._parts[job]
                part.records[rank] = record
                if len(part.records) == part.processes:
                    self._conductor.leave(job, self._now_ns())
                    self._progress(f"job {job} has finished")
            case protocol.Gone(job, rank):
                part = self._parts[job]
                if not self._conductor.is_over(job) and part.give_up_ns is None:
                    # Its launcher knows more; it is given a moment to end and say it.
                    part.failure = f"rank {rank} has gone"
                    part.give_up_ns = time.monotonic_ns() + round(EXIT_S * 1e9)
            case protocol.Switched(switches):
                self._switches += [Switch(*switch) for switch in switches]
            case protocol.Trouble(text, fatal):
                if fatal:
                    raise RunFailed(text)
                self._progress(text)

    def _on_exit(self, job: int, handle: Process) -> None:
        """A job's launcher has ended: as it should, or before its time."""
        self._selector.unregister(handle)
        handle.close()
        part = self._parts[job]
        assert part.mpiexec is not None
        status = part.mpiexec.wait()
        if status or not self._conductor.is_over(job):
            said = launch.tail(self._directory.log(f"job-{job}-err")) or launch.tail(
                self._directory.log(f"job-{job}-out")
            )
            why = f"its launcher {launch.describe(status)}"
            self._fail(job, "\n".join(filter(None, [part.failure, why, said])))

    def _fail(self, job: int, why: str) -> None:
        """End what is left of a job; the others go on."""
        part = self._parts[job]
        part.failure, part.give_up_ns = why, None
        processes.end(self._directory.run, job, grace_s=0)
        self._progress(f"job {job} has failed: {why.splitlines()[0]}")
        self._conductor.leave(job, self._now_ns())

    def _now_ns(self) -> int:
        return time.monotonic_ns() - self._origin_ns if self._origin_ns is not None else 0

    # Beginning and end.

    def _watch(self, file: Any, on_input: Callable[[], None]) -> None:
        self._selector.register(file, selectors.EVENT_READ, on_input)

    def _start_agent(self) -> None:
        ours, its = socket.socketpair()
        self._agent = Channel(ours)
        setup = Setup(str(self._directory.path), self._mechanism, self._workload.local)
        listener = socket.socket(socket.AF_UNIX)
        with its, listener, self._directory.log("agent").open("ab") as log:
            # Listening before anything starts lets ranks and agent come up at the same time.
            listener.bind(str(self._directory.socket))
            listener.listen(BACKLOG)
            descriptors = [its.fileno(), listener.fileno()]
            self._agent_process = subprocess.Popen(
                [sys.executable, "-m", "coordinator.agent", setup.encode(), *map(str, descriptors)],
                env=passed_on(self._directory.marks),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=descriptors,
                start_new_session=True,
            )
        self._watch(self._agent, self._on_agent)

    def _end(self) -> None:
        """Let agent and guardian end, and with them everything else."""
        agent = getattr(self, "_agent", None)
        if agent is None:
            return
        agent.send(TO_AGENT.encode(protocol.End()))
        deadline = time.monotonic() + processes.GRACE_S
        with selectors.DefaultSelector() as selector:
            selector.register(agent, selectors.EVENT_READ)
            while not agent.closed and selector.select(max(0.0, deadline - time.monotonic())):
                for line in agent.receive():
                    message = TO_DRIVER.decode(line)
                    if isinstance(message, protocol.Switched):
                        self._hear(message)
        # An agent that is stopped itself neither ends nor lets its guardian begin.
        if agent.closed and self._guardian is not None:
            self._guardian.wait(RELEASE_S)
        agent.close()

    def _spec(self, job: int, count: int) -> str:
        workload = self._workload
        return json.dumps(
            {
                "version": protocol.VERSION,
                "socket": str(self._directory.socket),
                "job": job,
                "program": asdict(self._programs[job].on(count)),
                "key": [workload.seed, workload.repeat, job],
                "waiting": {
                    "blocking": workload.blocking,
                    "switch_us": workload.switch_us,
                    "latency_us": workload.latency_us,
                    "spin_switches": workload.spin_switches,
                },
                "unit_ns": workload.unit_ns,
                "timeline": workload.timeline,
            }
        )

    def result(self, mechanism: str, why: str, failure: str) -> Result:
        """What came of it, all times relative to the start of the run."""
        origin_ns = self._origin_ns or 0
        jobs, ranks = [], []
        for job in self._workload.jobs:
            part = self._parts[job.number]
            records = [part.records[rank] for rank in sorted(part.records)]
            whole = part.processes > 0 and len(records) == part.processes
            broken = part.failure or ("" if whole else failure)
            jobs.append(
                JobResult(
                    number=job.number,
                    processes=part.processes,
                    placement=self._conductor.placements.get(job.number, ()),
                    arrival_ns=round(job.arrival_s * 1e9),
                    start_ns=min(record["start_ns"] for record in records) - origin_ns if whole else None,
                    finish_ns=max(record["finish_ns"] for record in records) - origin_ns if whole else None,
                    failure=broken,
                )
            )
            ranks += [
                {**record, **{key: record[key] - origin_ns for key in ("start_ns", "finish_ns")}}
                for record in records
            ]
        failed = [f"job {job.number}: {job.failure}" for job in jobs if job.failure]
        switches = tuple(
            Switch(switch.slot, switch.due_ns - origin_ns, switch.lateness_ns, switch.skew_ns)
            for switch in self._switches
        )
        return Result(
            tuple(jobs),
            tuple(ranks),
            switches,
            mechanism,
            why,
            str(self._launcher),
            failure or "\n".join(failed),
        )
