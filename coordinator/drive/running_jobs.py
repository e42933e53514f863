"""The jobs of a run: launching, starting, watching and ending them.

``RunningJobs`` is the conductor's job set: it executes decisions about jobs, and reports when a job is
ready, ends, or is lost.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from coordinator.decide.conductor import Conductor, active_ranks
from coordinator.decide.session import Plan
from coordinator.drive.nodes import SILENCE, Nodes
from coordinator.drive.outcome import JobState, job_result, rank_results, result_of
from coordinator.drive.preflight import LaunchPlan
from coordinator.drive.run_context import RunContext
from coordinator.host import background, launch
from coordinator.host.background import Background
from coordinator.host.cleanup import Discards
from coordinator.host.environment import PYTHON
from coordinator.host.launch import Launchers, Started
from coordinator.host.loop import Loop
from coordinator.host.processes import JOB
from coordinator.host.rundir import RunDirectory
from coordinator.view import Placement
from coordinator.wire import protocol
from coordinator.wire.protocol import FLAW
from coordinator.workload import ParallelJob, Workload
from workloads.program import Program
from workloads.work import Command


def start_launcher(
    context: RunContext, job: ParallelJob, count: int, hosts: Sequence[str], before: Sequence[str] = ()
) -> Started:
    """Start and return the launcher of a job on ``count`` processes, with ``before`` before their command."""
    workload, directory, number = context.workload, context.directory, job.number
    launcher = context.launch_plan.of(number)
    rank = [*before, *argv(workload, context.launch_plan, job, count, directory)]
    words = launcher.argv(count, rank, hosts, job.program.launcher_options)
    if hosts:
        marks = directory.marks
    else:
        marks = directory.marks_apart(str(number)) | launcher.memory_apart(directory.memory / str(number))
    command = dict(job.program.environment) if isinstance(job.program, Command) else None
    environment = launcher.environment({**marks, JOB: str(number)}, hosts=hosts, command=command)
    out, err = job.outputs or directory.logs_of(number)
    inherited = () if command is None else launch.from_caller()
    started = launch.start(words, environment, out, err, inherited=inherited)
    directory.note_process(started.pid, number)
    return started


def argv(
    workload: Workload, launch_plan: LaunchPlan, job: ParallelJob, count: int, directory: RunDirectory
) -> list[str]:
    """The command line of a rank: it executes the user's program in a wrapper, or one of our entries."""
    program, number, socket = job.program, job.number, str(directory.socket)
    if isinstance(program, Command):
        variables = dict(launch_plan.variables.get(number, {}))
        if program.waits == "two-phase":
            variables["LOCKSTEP_RECORD"] = str(directory.records(number))
        become = [*PYTHON, "-S", "-m", "coordinator.node.exec_rank", socket, str(number)]
        return [*become, launch_plan.of(number).rank, json.dumps(variables), *program.argv]
    spec: dict[str, Any] = {"version": protocol.VERSION, "socket": socket, "job": number}
    if isinstance(program, Program):
        spec |= parallel(workload, number, program, count)
        return [*PYTHON, "-m", "mpi4py", "-m", "workloads.rank", json.dumps(spec)]
    spec |= {"kind": program.kind, "work": asdict(program)}
    return [*PYTHON, "-m", "workloads.single", json.dumps(spec)]


def parallel(workload: Workload, number: int, program: Program, count: int) -> dict[str, Any]:
    """The specification of a bulk-synchronous program for its ``count`` launched ranks."""
    return {
        "program": asdict(program),
        "processes": count,
        "key": [workload.seed, workload.repeat, number],
        "options": asdict(workload.options),
        "context_switch_us": workload.context_switch_us,
        "latency_us": workload.latency_us,
        "memory_step_ns": workload.memory_step_ns,
        "timeline": workload.timeline,
        "coscheduling": dict(workload.policy.coscheduling),
        "observation": dict(workload.policy.observation),
    }


EXIT_S = 1.0
"""How long a launcher may take to end, and to give the reason, after one of its ranks has gone."""

REPORT_S = 20.0  # how long agents may take to report the end of a program after its launcher has ended


class RunningJobs:
    """Starts, watches and ends jobs, whose ``states`` it keeps, as the job set of the ``conductor``."""

    conductor: Conductor

    def __init__(self, context: RunContext, loop: Loop, nodes: Nodes) -> None:
        self._context = context
        self._loop = loop
        self._nodes = nodes
        self._jobs = {job.number: job for job in context.workload.jobs}
        self.states = {number: JobState() for number in self._jobs}
        self.open = set[int]()  # the jobs that have been launched, up to the end of all that they have
        self._discards = Discards(context.directory, context.warn)
        self._launchers = Launchers(context.warn)
        self._background = Background()
        # For each job what was launched, where it is now, and what follows from that.
        self._taking_part: dict[int, tuple[Placement, Placement, tuple[int, ...]]] = {}
        # How long an unstarted job waits to learn whether its node is lost; then it starts on another.
        self._loss_s = SILENCE * context.workload.lease_s + 1.0

    # The conductor's orders.

    def launch(self, job: int, placement: Placement) -> None:
        """Start a job's ranks, which report to the agents of their nodes and wait."""
        state = self.states[job]
        self.open.add(job)
        state.launched = tuple(first for first, *_ in self._groups(job, placement))
        state.ready.clear()
        self._background.forget(job)
        if state.mpiexec is not None:
            state.mpiexec = None
            self._discard(job)
        self._discards.then(job, lambda: self._start(job, state))

    def _start(self, job: int, state: JobState) -> None:
        over = state is not self.states[job] or self.conductor.is_over(job)
        if over or self._refused(state, state.launched) or self._jobs[job].root:
            return
        hosts = self._nodes.hosts(state.launched)
        # While other jobs are measured, one without a place yet takes no CPU time from them.
        back = not hosts and self._context.origin_ns is not None and job not in self._taking_part
        words = background.words() if back else ()
        try:
            mpiexec = start_launcher(self._context, self._jobs[job], len(state.launched), hosts, words)
            if back:
                self._background.put(job, mpiexec.pid)
            state.mpiexec = mpiexec
            state.exited = False
            self._loop.watch_end(launch.handle(mpiexec), lambda: self._on_exit(job, mpiexec))
        except OSError as error:
            # The job fails after the conductor's current step.
            state.failure, state.give_up_ns = f"its launcher cannot start: {error}", time.monotonic_ns()
        self._nodes.answer()  # hundreds of launches take longer than a lease

    def publish(self, plan: Plan, from_ns: int) -> None:
        """The first processor of a rank says when all its threads run."""
        assert self._context.origin_ns is not None
        decision, threads = plan.decision, {job: one.program.threads for job, one in self._jobs.items()}
        taking_part = {job: self._active(job, place) for job, place in decision.placements.items()}
        if max(threads.values()) > 1:
            placements = {job: place[:: threads[job]] for job, place in decision.placements.items()}
            slots = tuple(
                replace(
                    slot,
                    allowed_ranks=tuple(
                        (job, n // threads[job]) for job, n in slot.allowed_ranks if n % threads[job] == 0
                    ),
                )
                for slot in decision.slots
            )
            plan = replace(plan, decision=replace(decision, placements=placements, slots=slots))
        self._nodes.publish(plan, from_ns, self._context.origin_ns, taking_part)

    def _groups(self, job: int, placement: Placement) -> list[Placement]:
        """The processors of each rank of a placement, one for each thread."""
        return list(zip(*[iter(placement)] * self._jobs[job].program.threads, strict=True))

    def _active(self, job: int, placement: Placement) -> tuple[int, ...]:
        """The launched ranks that take part in a job, in its order; all if it must start again elsewhere."""
        launched = self.states[job].launched
        seats = self._taking_part.get(job)
        if seats is None or seats[0] is not launched or seats[1] is not placement:
            places = [first for first, *_ in self._groups(job, placement)]
            ranks = active_ranks(launched, places, self._nodes.node_of) or tuple(range(len(places)))
            seats = self._taking_part[job] = launched, placement, ranks
        return seats[2]

    def begin(self, job: int, at_ns: int, placement: Placement) -> None:
        """Let a job's ranks begin, including the parked ranks of a malleable job."""
        assert self._context.origin_ns is not None
        state = self.states[job]
        if self._refused(state, placement):
            return
        first, everybody = not state.begun, tuple(range(len(state.launched)))
        state.ranks = active = self._active(job, placement)
        places = dict(zip(active, self._groups(job, placement), strict=True))
        if self._jobs[job].program.adapts:
            state.ranks = everybody
            places = {rank: (placement[rank % len(placement)],) for rank in everybody}
        participants = () if active == everybody else active
        self._nodes.begin(job, self._context.origin_ns + at_ns, places, participants)
        if first:
            self._context.history.begins(job, at_ns)
            self._context.progress(f"job {job} starts")

    def resize(self, job: int, placement: Placement) -> None:
        self._nodes.resize(job, placement)
        self._context.progress(f"job {job} continues with {len(placement)} processes")

    def move(self, job: int, placement: Placement) -> None:
        groups = self._groups(job, placement)
        self._nodes.move(job, dict(zip(self._active(job, placement), groups, strict=True)))
        self._context.progress(f"job {job} moves to processors {', '.join(map(str, placement))}")

    def vacate(self, job: int) -> None:
        """Terminate a job's processes; it will be launched again."""
        self.states[job] = JobState(requeued=self.states[job].requeued + 1)
        self._discard(job)
        self._context.progress(f"job {job} gives its processors back")

    def _refused(self, state: JobState, placement: Placement) -> bool:
        """Whether the policy places a job on lost processors; it fails after the conductor's current step."""
        if self._nodes.alive(placement):
            return False
        state.failure, state.give_up_ns = "the policy placed it on lost processors", time.monotonic_ns()
        return True

    # Time.

    def dues_ns(self) -> Iterator[int]:
        """The times at which ``check`` or ``advance`` must be called, in CLOCK_MONOTONIC."""
        give_up_ns = (self.states[job].give_up_ns for job in self.open)
        yield from (due_ns for due_ns in give_up_ns if due_ns is not None)
        yield from self._discards.dues_ns()
        yield from self._background.dues_ns()
        if self._launches_next:
            yield 0
        due_ns = self.conductor.due_ns()
        if self._context.origin_ns is not None and due_ns is not None:
            yield self._context.origin_ns + due_ns

    def check(self, now_ns: int) -> None:
        """End processes, check launchers, fail jobs whose patience has ended, close those that are over."""
        self._discards.go_on(now_ns)
        for job in self._background:
            complete = not self.states[job].missing
            if complete or job in self._taking_part:
                self._background.fetch(job, now_ns, complete=complete)
        for job in self._launchers.look(now_ns, {job: self.states[job].mpiexec for job in self.open}):
            self._orphaned(job)
        for job in tuple(self.open):
            state = self.states[job]
            if state.give_up_ns is not None and now_ns >= state.give_up_ns:
                self._fail(job, state.failure)
            if self.conductor.is_over(job):
                self._close(job, state)

    def _close(self, job: int, state: JobState) -> None:
        """Forget a job that is over when its launcher and all discarded processes on this host have ended."""
        if self._discards.concern(job) or not (state.mpiexec is None or state.exited):
            return
        state.mpiexec = None
        self.open.remove(job)
        self._taking_part.pop(job, None)
        if self.conductor.crowded:  # children that a command has left may still use its files
            self._context.directory.remove_job(job)

    def _orphaned(self, job: int) -> None:
        """Give up a job whose launcher waits for ranks that were killed before they came to an agent."""
        state = self.states[job]
        waited_for = state.missing and state.give_up_ns is None and not self.conductor.is_over(job)
        if waited_for and self._context.launch_plan.of(job).has_children:
            self._give_up(job, "its launcher waits for processes that have ended", 0.0)

    def advance(self) -> None:
        """Let the conductor decide about all that has come in, and what is due, once the run has begun.

        Then it launches at most one job ahead of time, since messages have to wait meanwhile.
        """
        due_ns, now_ns = self.conductor.due_ns(), self._context.now_ns()
        if self._context.origin_ns is not None and due_ns is not None and due_ns <= now_ns:
            self.conductor.advance(now_ns)
        if self._launches_next:
            self.conductor.launch_next()

    @property
    def _launches_next(self) -> bool:
        """Whether to launch a job ahead of time now: one at a time, since low weights add up."""
        return self.conductor.lags and not self._background

    def arrived(self, job: int) -> ParallelJob:
        """The job with its true arrival, which of one that follows another is not a fixed one."""
        return replace(self._jobs[job], arrival_s=self.conductor.arrival_ns(job) / 1e9)

    def launched(self) -> bool:
        launchers = (self.states[job].mpiexec for job in self.open)
        return any(mpiexec and mpiexec.poll() is None for mpiexec in launchers)

    # Reports of agents and launchers.

    def hear(self, node: int, message: protocol.OfRank) -> None:
        """Handle an agent's report about a rank; reports about ranks on other nodes are ignored."""
        job, rank = message.job, message.rank
        state = self.states.get(job)
        if state is None or not state.launched_on(node, rank, self._nodes.node_of):
            return
        match message.said:
            case protocol.RankReady():
                state.ready.add(rank)
                if not state.missing:
                    self.conductor.ready(job, self._context.now_ns())
            case protocol.RankRecord(record) if self._jobs[job].root and (not state.begun or FLAW in record):
                self.conductor.leave(job)  # it has ended before its turn
            case protocol.RankRecord() if state.requeued and not state.begun:
                pass  # it had just finished when it lost its processors
            case protocol.RankRecord(record) if rank in state.ranks or not state.begun:
                own = state.ranks.index(rank) if state.begun else rank
                if own not in state.records:
                    self._on_record(job, state, own, record)
            case protocol.RankParallelism(count) if state.begun and not self.conductor.is_over(job):
                self.conductor.evolve(job, count)
            case protocol.RankTraffic(peers) if rank in state.ranks and not self.conductor.is_over(job):
                self.conductor.observe(job, state.ranks.index(rank), peers)
            case protocol.RankGone() if rank in state.ready:
                if not self.conductor.is_over(job) and state.give_up_ns is None:
                    # Its launcher knows the reason, and gives it when it ends.
                    self._give_up(job, f"rank {rank} has gone", EXIT_S)

    def _on_record(self, job: int, state: JobState, rank: int, record: Mapping[str, Any]) -> None:
        context, over = self._context, self.conductor.is_over(job)
        workload, origin_ns = context.workload, context.origin_ns
        try:
            state.records[rank] = result_of(workload, self.arrived(job), state, rank, record, origin_ns)
        except ValueError as error:
            if not over:
                state.failure = ""  # if the launcher has ended before, this is why
                self._fail(job, f"rank {rank} reported an invalid record: {error}")
            return
        if len(state.records) == state.processes and not over:
            if state.give_up_ns is not None:  # the job was given up too soon
                state.failure, state.give_up_ns = "", None
            self.conductor.leave(job)
            self._tell_end(job, state)
            if self.conductor.crowded:
                self._nodes.send(protocol.Leave((job,)))
            context.progress(f"job {job} has finished")

    def lose(self, processors: tuple[int, ...], reason: str) -> None:
        """Fail the jobs that have begun on a lost node's processors; others start again elsewhere."""
        concerned = [job for job, state in self.states.items() if set(state.launched) & set(processors)]
        open_jobs = [job for job in concerned if not self.conductor.is_over(job)]
        failed = [job for job in open_jobs if self.states[job].begun]
        for job in open_jobs:
            if job not in failed:
                self.states[job] = JobState(requeued=self.states[job].requeued)
                self._discard(job)
        self.conductor.lose(processors, failed)
        for job in failed:
            self._fail(job, reason)

    def _on_exit(self, job: int, mpiexec: Started) -> None:
        state = self.states[job]
        # Outputs that others read may be pipes: a look at them would take text away from their readers.
        logs = None if self._jobs[job].outputs else self._context.directory.logs_of(job)
        status = mpiexec.wait()
        if mpiexec is state.mpiexec:
            state.exited = True
            state.status = status
            self._background.forget(job)
        command = isinstance(self._jobs[job].program, Command)
        if command and logs:
            state.output = launch.head(logs.out)
        if mpiexec is not state.mpiexec or (self.conductor.is_over(job) and (state.failure or not status)):
            return
        if command and not status and not state.missing:
            # The program has ended by itself; the agents' reports may be under way.
            self._give_up(job, "its launcher has ended, but its ranks have not", REPORT_S)
            return
        who = "it" if command and state.processes == 1 else "its launcher"  # which then ends as its rank did
        how = launch.failed(status, *((logs.err, logs.out) if logs else ()))
        reason = f"{state.failure}\n{who} {how}".lstrip()
        if self._context.remote and not state.begun:
            self._give_up(job, reason, self._loss_s)
        else:
            self._fail(job, reason)

    def _give_up(self, job: int, reason: str, patience_s: float) -> None:
        """Fail a job after ``patience_s``; later if it has not begun, as its node may turn out to be lost."""
        state = self.states[job]
        if self._context.remote and not state.begun:
            patience_s = max(patience_s, self._loss_s)
        state.failure, state.give_up_ns = reason, time.monotonic_ns() + round(patience_s * 1e9)

    def _fail(self, job: int, reason: str) -> None:
        state = self.states[job]
        state.failure, state.give_up_ns = state.failure or reason, None
        self._discard(job)
        self._context.progress(f"job {job} has failed: {reason.splitlines()[0]}")
        self.conductor.leave(job)
        self._tell_end(job, state)

    def _tell_end(self, job: int, state: JobState) -> None:
        context, places = self._context, self.conductor.placements.get(job, ())
        origin_ns = context.origin_ns or 0
        result = job_result(self.arrived(job), state, places, origin_ns)
        whole = replace(result, admitted_ns=self.conductor.admitted_ns.get(job))
        ranks = [*rank_results(context.workload, state, places, origin_ns)]
        context.history.ends(whole, ranks, context.now_ns())

    def _discard(self, job: int) -> None:
        """Terminate all processes of a job, on every node."""
        self._nodes.send(protocol.Discard(job))
        self._discards.begin(job, time.monotonic_ns())

    def reap(self, timeout_s: float) -> None:
        launch.reap((state.mpiexec for state in self.states.values()), timeout_s)
        for state in self.states.values():
            if state.mpiexec is not None:
                state.status = state.mpiexec.returncode
