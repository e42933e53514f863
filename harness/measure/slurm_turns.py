"""Jobs that Slurm runs take turns: which of them have agents now, and the slots of each.

Each job has an agent on each of its nodes, as a step of the job, with a run directory of its own, so that the
loss of one affects no other. An agent stops and continues the job's processes by its table of slots, and all
tables follow the clock of this process. Jobs that share nothing need no agents, and are never stopped.

Users name jobs that share nodes (``Named``). Of a partition, the jobs that share processors take part as they
come and go (``Watched``).
"""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from coordinator import policies
from coordinator.drive.nodes import Nodes
from coordinator.host import cleanup, processes
from coordinator.host.interrupt import Interrupt
from coordinator.host.job_steps import root_of
from coordinator.host.launchers import JobStep
from coordinator.host.loop import Loop
from coordinator.host.mechanisms import choose
from coordinator.host.priority import prompt
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.zmq_transport import LinkError
from coordinator.workload import Node, ParallelJob, Workload
from harness.measure.registrar import start_without_signals
from harness.spec.colocate import FEWEST, LEASE_S
from slurm import client, partition
from slurm.command import SlurmError
from slurm.job import Standing
from workloads.validation import InputError
from workloads.work import Command

RUNS = frozenset({"RUNNING", "SIGNALING", "RESIZING"})
SUSPENDED = frozenset({"SUSPENDED", "STOPPED"})

ASK_S = 1.0  # from one question to Slurm about the jobs to the next
LAST_S = 2.5  # how long the end waits for an answer that tells which jobs are suspended
JOIN_S = 10.0  # how long it waits for agents that have just been started
TURN_NS = 200_000_000  # the loop looks at Slurm's answers so often
LEAD_NS = 100_000_000  # how long before they are in force agents get their tables
AGAIN_NS = 2_000_000_000  # how long after the loss of an agent the next one starts; by then Slurm tells why
LATEST_NS = 60_000_000_000  # the longest time that this becomes, if each one is lost before it joins
WARN_AT = 3  # losses in a row of which one tells
STATE_NS = 60_000_000_000  # from one report of the state to the next
TIDY_NS = 30_000_000_000  # how long after the loss of an agent its run directory goes, its lease being over

Placed = tuple[str, tuple[str, ...]]
"""A job and what only one job can have at a time: nodes, or processors."""

ALONE, BEGINS, TURNS = "alone", "begins", "takes turns"


class Jobs(Protocol):
    """The jobs that take turns. With ``lasting``, others may come after all have ended."""

    first: Sequence[Standing]
    lasting: bool

    def ask(self) -> Sequence[Standing]:
        """Those that Slurm knows now; a job that is not among them has ended."""


@dataclass
class Named:
    """These jobs, until each has ended."""

    first: Sequence[Standing]
    lasting: bool = False

    def ask(self) -> Sequence[Standing]:
        return client.standings([job.id for job in self.first])


class Watched:
    """The jobs that run in a partition at any time, but parts of heterogeneous jobs and the job around us.

    Raises InputError where ``name`` is not a partition whose jobs can take turns.
    """

    lasting = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._processors: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        if not shutil.which("srun"):
            raise InputError("--watch", name, "needs Slurm, and there is no srun here", "use a login node")
        try:
            place = partition.sharing(name)
            self.gang = place.gang
            if not place.found:
                raise InputError("--watch", name, "is not a partition of this cluster", "sinfo lists them")
            if place.most < FEWEST:
                rule = f"must be a partition with OverSubscribe=FORCE:n, and has {place.word}"
                raise InputError("--watch", name, rule, "name the jobs with --slurm")
            if os.getuid() not in (0, place.user):
                rule = "can be watched by root or SlurmUser only, since its jobs may be of any user"
                raise InputError("--watch", name, rule, "name your own jobs with --slurm")
            self.first = self.ask()
        except SlurmError as error:
            raise InputError("--watch", name, f"cannot be asked about: {error}", "repeat it later") from error

    def ask(self) -> Sequence[Standing]:
        around = os.environ.get("SLURM_JOB_ID")
        jobs = [job for job in client.running(self.name) if "+" not in job.name and job.id != around]
        known = {(job.id, job.nodes): self._processors.get((job.id, job.nodes), ()) for job in jobs}
        with suppress(SlurmError):  # the next answer tells more
            for job, nodes in [place for place, processors in known.items() if not processors]:
                known[job, nodes] = client.processors(job, nodes)
        self._processors = known
        return [replace(job, processors=known[job.id, job.nodes]) for job in jobs]


def check(ids: Sequence[str]) -> list[Standing]:
    """The standing of each job; an InputError for one that cannot take turns."""
    for number, name in enumerate(ids):
        if not (name.isascii() and name.isdigit() and name[0] != "0"):
            raise InputError(
                "--slurm",
                name,
                "must be the number of a job; tasks of arrays and parts of jobs cannot take turns",
                "write it as squeue does, such as 4711",
            )
        if name in ids[:number]:
            raise InputError("--slurm", name, "cannot be named twice", "leave one of them out")
        if name == os.environ.get("SLURM_JOB_ID"):
            raise InputError("--slurm", name, "cannot be the job in which this command runs", "leave it out")
    if not shutil.which("srun"):
        raise InputError("--slurm", ids[0], "needs Slurm, and there is no srun here", "use a login node")
    try:
        return [_checked(name, _standing(name, client.standings([name]))) for name in ids]
    except SlurmError as error:
        raise InputError("--slurm", ids[0], f"cannot be asked about: {error}", "repeat it later") from error


def _standing(name: str, listed: Sequence[Standing]) -> Standing | None:
    """The job of this id; an array if it has other tasks."""
    own = [job for job in listed if name in (job.id, job.name)]
    others = [job for job in (own or listed) if job.name != name]
    return next(iter([*others, *own]), None)


def _checked(name: str, job: Standing | None) -> Standing:
    if job is None:
        raise InputError("--slurm", name, "is not a job that Slurm knows", "squeue --me lists yours")
    kind = "a job array" if "_" in job.name else "a heterogeneous job"
    for refused, rule, remedy in (
        (job.name != name, f"is {kind}, whose parts start and end apart", "name jobs that are neither"),
        (os.getuid() not in (0, job.user), f"is not yours, but of user {job.user}", "be that user, or root"),
        (job.over, f"has ended ({job.state})", "leave it out"),
        (job.state not in RUNS | SUSPENDED, f"does not run ({job.state})", "wait until it runs"),
    ):
        if refused:
            raise InputError("--slurm", name, rule, remedy)
    return job


def rows_of(jobs: Sequence[Placed]) -> list[frozenset[str]]:
    """Which jobs may run in each slot: of those on a node only one, and each of them in one slot or more."""
    rows: list[dict[str, tuple[str, ...]]] = []
    for job, nodes in jobs:
        row = next((row for row in rows if _free(row, nodes)), None)
        if row is None:
            rows.append(row := {})
        row[job] = nodes
    for row in rows:  # what is free otherwise runs, too: the jobs first that have the fewest slots
        slots = Counter(job for other in rows for job in other)
        for job, nodes in sorted(jobs, key=lambda placed: slots[placed[0]]):
            if _free(row, nodes):
                row[job] = nodes
    return [frozenset(row) for row in rows]


def groups_of(jobs: Sequence[Placed]) -> list[tuple[Placed, ...]]:
    """The jobs in groups: those of different groups share nothing."""
    groups: list[tuple[Placed, ...]] = []
    for job in jobs:
        near = [group for group in groups if any(set(job[1]) & set(places) for _, places in group)]
        groups = [group for group in groups if group not in near]
        groups.append((*(one for group in near for one in group), job))
    return groups


def _free(row: Mapping[str, Sequence[str]], nodes: Sequence[str]) -> bool:
    return not any(set(nodes) & set(others) for others in row.values())


def tables(jobs: Sequence[Placed], quantum_ns: int | None, from_ns: int) -> dict[str, protocol.Table]:
    """The table of each job's agents; without a quantum, the jobs of the first row run until they end."""
    rows = rows_of(jobs)[: None if quantum_ns else 1]
    lengths = (quantum_ns,) * len(rows) if len(rows) > 1 else (None,)
    return {
        job: protocol.Table(
            from_ns,
            from_ns,
            cyclic=len(rows) > 1,
            lengths_ns=lengths,
            runs=tuple(((0,) if job in row else (),) for row in rows),
            placements=((0, 0, 0),),
        )
        for job, _ in jobs
    }


@dataclass
class Share:
    """What became of a job; times in CLOCK_MONOTONIC, ``state`` is Slurm's last word."""

    job: Standing
    begin_ns: int
    end_ns: int | None = None

    @property
    def open(self) -> bool:
        return self.end_ns is None

    @property
    def runs(self) -> bool:
        return self.open and self.job.state in RUNS


class _Agent:
    """An agent of a job on a node: its run directory, its table, and why it counts as lost."""

    def __init__(self, loop: Loop, step: JobStep, root: str, node: str, tell: Callable[[str], None]) -> None:
        self.lost = ""
        self.table: protocol.Table | None = None
        self._loop = loop
        self._tell = tell
        self.directory = RunDirectory.create()
        work = ParallelJob(0, Command((root,)), root=root)
        workload = Workload((work,), policies.create("gang", {}), (), nodes=(Node(node),), lease_s=LEASE_S)
        try:
            self.nodes = Nodes(
                workload, choose("signals")[0], self.directory, step, self._on_message, self._on_loss
            )
            self.nodes.start(loop)
        except BaseException:
            cleanup.release(self.directory)
            self.directory.unlock()
            raise

    def _on_loss(self, processors: tuple[int, ...], reason: str) -> None:
        self.lost = self.lost or reason

    def _on_message(self, number: int, message: Any) -> None:
        match message:
            case protocol.Failure(text, fatal=True):
                self.lost = self.lost or text
            case protocol.Failure(text):
                self._tell(text)

    @property
    def joined(self) -> bool:
        return self.nodes.joined and not self.lost

    def end(self) -> None:
        self.nodes.unwatch(self._loop)
        self.nodes.end()


@dataclass
class _Place:
    """A job on one of its nodes: its agent, if there is one now, and when another may start."""

    agent: _Agent | None = None
    left: bool = False  # whether an agent that was lost may have left something stopped
    losses: int = 0
    due_ns: int = 0


@dataclass
class SlurmTurns:
    """Lets jobs take turns until all have ended; jobs that last, until it is interrupted.

    ``quantum_ns`` is the length of a slot; with None jobs run one after the other. ``tell`` gets lines for
    people, ``report`` the state at the begin and each minute.
    """

    jobs: Jobs
    quantum_ns: int | None
    tell: Callable[[str], None]
    report: Callable[[Mapping[str, Any]], None]
    shares: dict[str, Share] = field(init=False)

    def __post_init__(self) -> None:
        now_ns = time.monotonic_ns()
        self.shares = {job.id: Share(job, now_ns) for job in self.jobs.first}
        self._begin_ns = self._state_ns = self._answer_ns = now_ns
        self._places: dict[tuple[str, str], _Place] = {}
        self._left: list[tuple[str, RunDirectory, int]] = []
        self._placed: list[Placed] = []
        self._groups: dict[tuple[Placed, ...], dict[str, protocol.Table]] = {}
        self._srun = shutil.which("srun") or "srun"

    def run(self) -> None:
        """Return when all jobs have ended, or when Ctrl-Z was over; else as ``Interrupt`` says."""
        with Interrupt() as interrupt, ExitStack() as stack:
            stack.enter_context(processes.kept_limits())
            processes.raise_descriptor_limit()
            stack.enter_context(prompt())
            self._loop = Loop()
            stack.callback(self._loop.close)
            self._loop.watch(interrupt, interrupt.acknowledge)
            answers = stack.enter_context(_asked(self.jobs))
            stack.callback(self._end, answers)
            while not interrupt.caught and self.open:
                self._turn(answers)

    @property
    def open(self) -> bool:
        return self.jobs.lasting or any(share.open for share in self.shares.values())

    def state(self, now_ns: int) -> dict[str, Any]:
        """The jobs that have not ended, each with what it does, and for how long Slurm has said nothing."""
        apart = {name for group in self._groups if len(group) < FEWEST for name, _ in group}
        jobs = []
        for name, share in self.shares.items():
            if not share.open:
                continue
            agents = [self._places.get((name, node), _Place()).agent for node in share.job.nodes]
            ready = all(agent is not None and agent.joined for agent in agents)
            how = ALONE if name in apart else TURNS if ready else BEGINS
            row = {"name": share.job.name, "state": share.job.state, "nodes": share.job.nodes}
            jobs.append({**row, "turns": how if share.runs else None})
        silent_s = (now_ns - self._answer_ns) / 1e9
        return {"seconds": (now_ns - self._begin_ns) / 1e9, "silent_s": silent_s, "jobs": jobs}

    def _turn(self, answers: list[Sequence[Standing]]) -> None:
        for agent in self._agents():
            agent.nodes.receive()
        self._loop.wait(time.monotonic_ns() + TURN_NS)
        now_ns = time.monotonic_ns()
        for agent in self._agents():
            agent.nodes.receive()
            agent.nodes.check(now_ns)
        while answers:
            self._follow(answers.pop(0), now_ns)
        self._drop(now_ns)
        self._tidy(now_ns)
        self._share_out(now_ns)
        self._start(now_ns)
        self._publish()
        if now_ns >= self._state_ns:
            self._state_ns += STATE_NS * (1 + (now_ns - self._state_ns) // STATE_NS)
            self.report(self.state(now_ns))

    def _agents(self) -> list[_Agent]:
        return [place.agent for place in self._places.values() if place.agent is not None]

    def _follow(self, listed: Sequence[Standing], now_ns: int) -> None:
        """Learn from Slurm's answer; a job that it no longer knows has ended."""
        known = {job.id: job for job in listed}
        self._answer_ns = now_ns
        if self.jobs.lasting:
            for standing in listed:  # in Slurm's order
                self.shares.setdefault(standing.id, Share(standing, now_ns))
        for name, share in self.shares.items():
            job = known.get(name)
            if not share.open:
                continue
            if job is not None and (job.state in SUSPENDED) != (share.job.state in SUSPENDED):
                self.tell(f"Slurm has {'suspended' if job.state in SUSPENDED else 'resumed'} job {name}")
            if job is None or job.over:
                share.end_ns = now_ns
            share.job = share.job if job is None else job

    def _drop(self, now_ns: int) -> None:
        """Hang up on agents that are lost, and of jobs that do not run there now."""
        for (job, node), place in self._places.items():
            share, agent = self.shares[job], place.agent
            if agent is None or (share.runs and node in share.job.nodes and not agent.lost):
                continue
            agent.nodes.hang_up(self._loop)
            place.agent = None
            place.left = bool(agent.lost)
            self._left.append((job, agent.directory, now_ns + TIDY_NS))
            if share.job.state in SUSPENDED:
                # Nothing of this run on this host continues what Slurm has suspended; the agent ends with it.
                with suppress(OSError):
                    agent.directory.note(**{processes.LET_GO: True})
            self._lost(place, job, node, agent.lost, now_ns)

    def _tidy(self, now_ns: int) -> None:
        """Remove what an agent has left that ended long ago; of a lasting set, forget jobs that have ended.

        One at a time: that takes milliseconds, and other agents await their messages.
        """
        if self.jobs.lasting:
            self.shares = {name: share for name, share in self.shares.items() if share.open}
            self._places = {at: place for at, place in self._places.items() if at[0] in self.shares}
        for left in self._left:
            if now_ns >= left[2] and not self._is_suspended(left[0]):
                self._left.remove(left)
                cleanup.release(left[1])
                left[1].unlock()
                return

    def _is_suspended(self, job: str) -> bool:
        return job in self.shares and self.shares[job].job.state in SUSPENDED

    def _lost(self, place: _Place, job: str, node: str, reason: str, now_ns: int) -> None:
        place.due_ns = now_ns + min(AGAIN_NS << place.losses, LATEST_NS)
        place.losses += bool(reason)
        if reason and place.losses == WARN_AT:
            self.tell(f"on {node} job {job} takes no turns: {' '.join(reason.split())}")

    def _start(self, now_ns: int) -> None:
        """Start the agents of jobs that share something, or may be left stopped, where there are none."""
        sharing = {name for group in self._groups if len(group) >= FEWEST for name, _ in group}
        for name, share in self.shares.items():
            for node in share.job.nodes if share.runs else ():
                place = self._places.setdefault((name, node), _Place())
                needed = name in sharing or place.left
                if place.agent is None and needed and now_ns >= place.due_ns:
                    step, root = (
                        JobStep(self._srun, "", job=name, user=share.job.user),
                        root_of(name, left=place.left),
                    )
                    try:
                        place.agent = _Agent(self._loop, step, root, node, self.tell)
                    except (InputError, OSError, LinkError) as error:
                        self._lost(place, name, node, str(error), now_ns)

    def _share_out(self, now_ns: int) -> None:
        """Make new tables for groups of jobs in which one runs, ends, comes or has other places."""
        jobs = [share.job for share in self.shares.values() if share.runs]
        known = all(job.processors for job in jobs)  # else all count by their nodes
        placed = [(job.id, job.processors if known else job.nodes) for job in jobs]
        if placed == self._placed:
            return
        self._placed = placed
        groups = groups_of(placed)
        from_ns = now_ns + LEAD_NS
        self._groups = {
            group: self._groups.get(group) or tables(group, self.quantum_ns, from_ns) for group in groups
        }

    def _publish(self) -> None:
        """Give the agents their tables if they have others."""
        shared = {job: table for group in self._groups.values() for job, table in group.items()}
        for (job, _), place in self._places.items():
            agent, table = place.agent, shared.get(job)
            if agent is not None and table is not None and agent.table is not table and agent.joined:
                place.losses = 0
                agent.table = table
                agent.nodes.send(table)

    def _wait(self, condition: Callable[[], object], patience_s: float) -> None:
        """Wait so long for a condition; agents are heard meanwhile."""
        deadline = time.monotonic() + patience_s
        while not condition() and time.monotonic() < deadline:
            self._loop.wait(time.monotonic_ns() + TURN_NS)
            for agent in self._agents():
                agent.nodes.receive()

    def _end(self, answers: list[Sequence[Standing]]) -> None:
        """Stop all agents, which continue what they have stopped, but those of suspended jobs."""
        answers.clear()
        self._wait(lambda: answers or not self.open, LAST_S)
        for answer in answers:
            self._follow(answer, time.monotonic_ns())
        self._drop(time.monotonic_ns())
        for place in self._places.values():
            place.due_ns = 0 if place.left else place.due_ns
        self._start(time.monotonic_ns())  # what lost agents have left stopped
        self._wait(lambda: all(agent.joined or agent.lost for agent in self._agents()), JOIN_S)
        agents = self._agents()
        for agent in agents:
            agent.nodes.send(protocol.End())
        for agent in agents:
            agent.end()
        ended = [*self._left, *(("", agent.directory, 0) for agent in agents)]
        for job, directory, _ in ended:
            if not self._is_suspended(job):
                cleanup.release(directory)
            directory.unlock()
        self._places, self._left, self._groups, self._placed = {}, [], {}, []


@contextmanager
def _asked(jobs: Jobs) -> Iterator[list[Sequence[Standing]]]:
    """A context in which a thread asks Slurm about jobs, since that may take long; yields its answers."""
    answers: list[Sequence[Standing]] = []
    over = threading.Event()

    def ask() -> None:
        while not over.wait(ASK_S):
            with suppress(SlurmError):  # the next answer tells more
                answers.append(jobs.ask())

    thread = threading.Thread(target=ask, daemon=True)
    start_without_signals(thread)
    try:
        yield answers
    finally:
        over.set()  # without waiting: Slurm may take a minute
