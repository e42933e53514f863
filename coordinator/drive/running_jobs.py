"""The jobs of a run: launching, starting, watching and ending them.

``RunningJobs`` is the conductor's crew: it carries out decisions about jobs, and reports when a job is
ready, ends, or is lost.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from coordinator.decide.conductor import Conductor
from coordinator.decide.seats import seats
from coordinator.decide.session import Plan
from coordinator.drive import ranks
from coordinator.drive.context import RunContext
from coordinator.drive.nodes import SILENCE, Nodes
from coordinator.drive.outcome import Part, unfit
from coordinator.drive.run_log import events
from coordinator.host import launch
from coordinator.host.discards import Discards
from coordinator.host.launch import Started
from coordinator.host.loop import Loop
from coordinator.host.processes import Process
from coordinator.host.stopped import Launchers
from coordinator.wire import protocol
from workloads.work import Command

EXIT_S = 1.0
"""How long a launcher may take to end, and to give the reason, after one of its ranks has gone."""

REPORT_S = 20.0
"""How long agents may take to report the end of a program after its launcher has ended."""


class RunningJobs:
    """Starts, watches and ends jobs.

    Attributes:
        conductor: makes the decisions; ``follow`` must set it first.
        parts: the state of each job.
    """

    conductor: Conductor

    def __init__(self, context: RunContext, loop: Loop, nodes: Nodes) -> None:
        self._context = context
        self._loop = loop
        self._nodes = nodes
        self._jobs = {job.number: job for job in context.workload.jobs}
        self.parts = {number: Part() for number in self._jobs}
        self._discards = Discards(context.directory, context.warn)
        self._launchers = Launchers(context.warn, wrapped=context.remote)
        # How long an unstarted job waits to learn whether its node is lost; then it starts on another.
        self._loss_s = SILENCE * context.workload.lease_s + 1.0

    def follow(self, conductor: Conductor) -> None:
        self.conductor = conductor
        conductor.crew = self

    # The conductor's orders.

    def launch(self, job: int, placement: tuple[int, ...]) -> None:
        """Start a job's ranks, which report to the agents of their nodes and wait."""
        part = self.parts[job]
        part.launched = placement
        part.ready.clear()
        if part.mpiexec is not None:
            part.mpiexec = None
            self.discard(job)
        self._discards.then(job, lambda: self._start(job, part))

    def _start(self, job: int, part: Part) -> None:
        over = part is not self.parts[job] or self.conductor.is_over(job)
        if over or self._refused(part, part.launched):
            return
        context, count = self._context, len(part.launched)
        hosts = self._nodes.hosts(part.launched)
        start = (context.workload, context.means, self._jobs[job], count, hosts, context.directory)
        try:
            mpiexec = ranks.start(*start)
            context.note(events.Launched(job, mpiexec.pid))
            self.watch(job, mpiexec)
        except OSError as error:
            # The job fails after the conductor's current step.
            part.failure, part.give_up_ns = f"its launcher cannot start: {error}", time.monotonic_ns()

    def watch(self, job: int, mpiexec: Started) -> None:
        """Watch for the end of a job's launcher, which we or a driver before us started."""
        self.parts[job].mpiexec = mpiexec
        handle = launch.handle(mpiexec)
        self._loop.watch(handle, lambda: self._on_exit(job, mpiexec, handle))

    def publish(self, plan: Plan, from_ns: int) -> None:
        assert self._context.origin_ns is not None
        taking_part = {job: self._seats(job, place) for job, place in plan.decision.placements.items()}
        self._nodes.publish(plan, from_ns, self._context.origin_ns, taking_part)

    def _seats(self, job: int, placement: tuple[int, ...]) -> tuple[int, ...]:
        """The launched ranks that take part in a job, in its order; all if it must start again elsewhere."""
        found = seats(self.parts[job].launched, placement, self._nodes.node_of)
        return found or tuple(range(len(placement)))

    def begin(self, job: int, at_ns: int, placement: tuple[int, ...]) -> None:
        """Let a job's ranks begin, including the parked ranks of a malleable job."""
        assert self._context.origin_ns is not None
        part = self.parts[job]
        if self._refused(part, placement):
            return
        first, everybody = not part.begun, tuple(range(len(part.launched)))
        part.ranks = active = self._seats(job, placement)
        places = dict(zip(active, placement, strict=True))
        if self._jobs[job].program.adapts:
            part.ranks = everybody
            places = {rank: placement[rank % len(placement)] for rank in everybody}
        told = () if active == everybody else active
        self._nodes.begin(job, self._context.origin_ns + at_ns, places, told)
        if first:
            self._context.progress(f"job {job} starts")

    def resize(self, job: int, placement: tuple[int, ...]) -> None:
        """Let a malleable job continue on other processors."""
        self._nodes.resize(job, placement)
        self._context.progress(f"job {job} continues with {len(placement)} processes")

    def move(self, job: int, placement: tuple[int, ...]) -> None:
        """Let each process of a job continue on its new processor."""
        self._nodes.move(job, dict(zip(self._seats(job, placement), placement, strict=True)))
        self._context.progress(f"job {job} moves to processors {', '.join(map(str, placement))}")

    def vacate(self, job: int) -> None:
        """End a job's processes; it will be launched again."""
        self.parts[job] = Part(vacated=True)
        self.discard(job)
        self._context.progress(f"job {job} gives its processors back")

    def _refused(self, part: Part, placement: tuple[int, ...]) -> bool:
        """Whether the policy places a job on lost processors; it fails after the conductor's current step."""
        if self._nodes.alive(placement):
            return False
        part.failure, part.give_up_ns = "the policy placed it on lost processors", time.monotonic_ns()
        return True

    # Time.

    def dues_ns(self) -> Iterator[int]:
        """The times at which ``check`` or ``advance`` must be called, in CLOCK_MONOTONIC."""
        yield from (part.give_up_ns for part in self.parts.values() if part.give_up_ns is not None)
        yield from self._discards.dues_ns()
        due_ns = self.conductor.due_ns()
        if self._context.origin_ns is not None and due_ns is not None:
            yield self._context.origin_ns + due_ns

    def check(self, now_ns: int) -> None:
        """Continue to end processes, check the launchers, and fail jobs whose patience has ended."""
        self._discards.go_on(now_ns)
        for job in self._launchers.look(now_ns, {job: part.mpiexec for job, part in self.parts.items()}):
            self._bereft(job)
        for job, part in self.parts.items():
            if part.give_up_ns is not None and now_ns >= part.give_up_ns:
                self._fail(job, part.failure)

    def _bereft(self, job: int) -> None:
        """Give up a job whose launcher waits for ranks that were killed before they came.

        The agents report the end of ranks that have come.
        """
        part, known = self.parts[job], self._context.means
        waited_for = part.missing and part.give_up_ns is None and not self.conductor.is_over(job)
        if waited_for and known.own.get(job, known.launcher).has_children:
            self._give_up(job, "its launcher waits for processes that have ended", 0.0)

    def advance(self) -> None:
        """Let the conductor make the decisions that are due, once the run has begun."""
        due_ns, now_ns = self.conductor.due_ns(), self._context.now_ns()
        if self._context.origin_ns is not None and due_ns is not None and due_ns <= now_ns:
            self._happened(events.Advanced(now_ns))

    def launched(self) -> bool:
        return any(part.mpiexec and part.mpiexec.poll() is None for part in self.parts.values())

    # Reports of agents and launchers.

    def hear(
        self,
        node: int,
        message: protocol.Present
        | protocol.Finished
        | protocol.Gone
        | protocol.Parallelism
        | protocol.Traffic,
    ) -> None:
        """Handle an agent's report about a rank; reports about ranks on other nodes are ignored."""
        job, rank = message.job, message.rank
        part = self.parts.get(job)
        if part is None or rank not in part.ranks_on(node, self._nodes.node_of):
            return
        match message:
            case protocol.Present():
                part.ready.add(rank)
                if not part.missing:
                    self._happened(events.Ready(job, self._context.now_ns()))
            case protocol.Finished() if part.vacated and not part.begun:
                pass  # it had just finished when it lost its processors
            case protocol.Finished() if rank in part.ranks or not part.begun:
                own = part.ranks.index(rank) if part.begun else rank
                if own not in part.records:
                    self._on_record(job, part, own, message.record)
            case protocol.Parallelism() if part.begun and not self.conductor.is_over(job):
                self._happened(events.Evolved(job, message.processes, self._context.now_ns()))
            case protocol.Traffic() if rank in part.ranks and not self.conductor.is_over(job):
                own, now_ns = part.ranks.index(rank), self._context.now_ns()
                self._happened(events.Observed(job, own, message.peers, now_ns))
            case protocol.Gone() if rank in part.ready:
                if not self.conductor.is_over(job) and part.give_up_ns is None:
                    # Its launcher knows the reason, and gives it when it ends.
                    self._give_up(job, f"rank {rank} has gone", EXIT_S)

    def _on_record(self, job: int, part: Part, rank: int, record: Mapping[str, Any]) -> None:
        """Keep a rank's record; an invalid one fails its job."""
        context, over = self._context, self.conductor.is_over(job)
        if why := unfit(context.workload, self._jobs[job], part, rank, record, context.origin_ns):
            if not over:
                part.failure = ""  # if the launcher has ended before, this is why
                self._fail(job, f"rank {rank} reported an invalid record: {why}")
            return
        part.records[rank] = record
        if len(part.records) == part.processes and not over:
            if part.give_up_ns is not None:  # the job was given up too soon
                part.failure, part.give_up_ns = "", None
            self._leave(job, part)
            context.progress(f"job {job} has finished")

    def lose(self, processors: tuple[int, ...], why: str) -> None:
        """Fail the jobs that have begun on a lost node's processors.

        Jobs that have not begun start again where the policy places them now.
        """
        concerned = [job for job, part in self.parts.items() if set(part.launched) & set(processors)]
        open_jobs = [job for job in concerned if not self.conductor.is_over(job)]
        failed = tuple(job for job in open_jobs if self.parts[job].begun)
        displaced = tuple(job for job in open_jobs if job not in failed)
        for job in displaced:
            self.parts[job] = Part()
            self.discard(job)
        node, now_ns = self._nodes.node_of[processors[0]], self._context.now_ns()
        self._happened(events.Lost(node, processors, why, now_ns, failed, displaced))
        for job in failed:
            self._fail(job, why)

    def _on_exit(self, job: int, mpiexec: Started, handle: Process) -> None:
        """Handle the end of a job's launcher, expected or not."""
        self._loop.unwatch(handle)
        handle.close()
        part, directory = self.parts[job], self._context.directory
        status = mpiexec.wait()
        command = self._jobs[job].program.kind == Command.kind
        if command:
            part.output = launch.head(directory.log(f"job-{job}-out"))
        if mpiexec is not part.mpiexec or (self.conductor.is_over(job) and (part.failure or not status)):
            return
        if command and not status and not part.missing:
            # The program has ended by itself; the agents' reports may be under way.
            self._give_up(job, "its launcher has ended, but its ranks have not", REPORT_S)
            return
        logs = (directory.log(f"job-{job}-{stream}") for stream in ("err", "out"))
        why = f"{part.failure}\nits launcher {launch.failed(status, *logs)}".lstrip()
        if self._context.remote and not part.begun:
            self._give_up(job, why, self._loss_s)
        else:
            self._fail(job, why)

    def _give_up(self, job: int, why: str, patience_s: float) -> None:
        """Fail a job after ``patience_s``; later if it has not begun, as its node may turn out to be lost."""
        part = self.parts[job]
        if self._context.remote and not part.begun:
            patience_s = max(patience_s, self._loss_s)
        part.failure, part.give_up_ns = why, time.monotonic_ns() + round(patience_s * 1e9)

    def _fail(self, job: int, why: str) -> None:
        """End a job and all its processes; the other jobs continue."""
        part = self.parts[job]
        part.failure, part.give_up_ns = part.failure or why, None
        self.discard(job)
        self._context.progress(f"job {job} has failed: {why.splitlines()[0]}")
        self._leave(job, part)

    def _leave(self, job: int, part: Part) -> None:
        self._happened(events.Left(job, self._context.now_ns(), part.failure, part.records))

    def _happened(self, event: events.Event) -> None:
        """Log an event, and let the conductor decide about it."""
        self._context.note(event)
        events.tell(self.conductor, event)

    def discard(self, job: int) -> None:
        """End all processes of a job, on every node."""
        self._nodes.send(protocol.Discard(job))
        self._discards.begin(job, time.monotonic_ns())

    def reap(self, timeout_s: float) -> None:
        """Wait at most so long for launchers that have been told to end."""
        launch.reap((part.mpiexec for part in self.parts.values()), timeout_s)
