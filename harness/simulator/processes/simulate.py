"""The front door: simulate one workload under one policy.

It drives the policy through the same :class:`coordinator.decide.session.Session` as a real run,
which asks the policy at arrivals, departures and the ends of tables that do not repeat, once for
all of them that happen at one time. The compiled kernel simulates all that happens in between.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from coordinator.decide.session import Agenda, Plan, Session
from coordinator.owners import OwnerChange
from coordinator.policies import Policy
from coordinator.view import Job, Placement
from harness.simulator import interruption
from harness.simulator.processes import model as m
from harness.simulator.processes import state
from harness.simulator.processes.kernel import advance
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import Integers, State
from harness.simulator.processes.operations import Stream, bursts, phases, sections, tasks
from harness.simulator.processes.outcome import Outcome, summarize
from workloads.bounds import fits, within
from workloads.coscheduling import Correspondents
from workloads.locks.lock_program import LOCKS
from workloads.options import ACTIVATIONS, CONSCIOUS, DEFAULTS, INHERITANCE, Options
from workloads.program import Draws, Program
from workloads.validation import InputError, number, whole
from workloads.waiting_rules import Waiting

PATIENCE_NS = 100_000_000_000
PATIENCE_FACTOR = 100
MOST_PATIENCE_NS = 10**18
"""A simulation is stuck if no process ends a phase or handles a message for PATIENCE_NS and this many compute
phases, or as many as there are processes: they spin for each other's replies and never give way, or load
their working sets again and again."""

LONGEST_DRAWN = 64  # no drawn phase is this many times as long as the mean

RANDOM_STREAM = 2**31
"""Spawn key of the machine's own random numbers (clock phases, order of queues, detours), of stream 0."""


def simulate(
    jobs: Sequence[SimulatedJob],
    machine: SimulatedMachine,
    policy: Policy,
    options: Options = DEFAULTS,
    *,
    seed: int = 0,
    repeat: int = 0,
    stream: int = 0,
    timeline: bool = False,
    timeout_s: float | None = None,
    owners: Iterable[OwnerChange] = (),
) -> Outcome:
    """Run ``jobs`` on ``machine`` under ``policy`` to their ends; the same arguments, the same outcome.

    ``seed``, ``repeat`` and the jobs' numbers fix the compute times, which are those of the
    MPI run; ``stream`` selects the machine's own random numbers. A workload that does not finish
    within ``timeout_s`` simulated seconds, or gets stuck, gives an outcome with a failure. ``owners`` are
    the changes of owners' loads, which the policy learns of; the loads themselves are not simulated.

    Raises:
        InputError: for a policy that lets a job change its processors; for a job larger than the
            machine under a policy that does not fold, or numbers
            out of range.
        InterruptedSimulationError: if ``harness.simulator.interruption.interrupt`` is called.
    """
    within("seed", seed)
    whole("repeat", repeat, minimum=0)
    whole("stream", stream, minimum=0)
    _check(jobs, machine, policy)
    if timeout_s is not None:
        number("timeout_s", timeout_s, above=0)

    rule = partial(_rule, machine, options)
    rule(jobs[0].program, as_mpi=False)
    present = tuple(owners)
    launches = 2 if policy.relocates else 1
    while True:
        run = _ProcessLevelRun(
            jobs, machine, policy, rule, _Seeds(seed, repeat, stream), timeline, present, launches=launches
        )
        _set(run.state, policy, options, machine)
        limit_ns = int(run.state.clock.never_ns) - 1
        _check_phases(jobs, limit_ns)
        if timeout_s is not None:
            limit_ns = min(limit_ns, round(timeout_s * 1e9))
        try:
            failure = run.finish(limit_ns, _patience_ns(jobs))
        except _NoRoomError:
            launches *= 2  # the same run again, with more room
            continue
        run.keep_timeline()
        return summarize(
            run.last_launches(), run.placements, run.state, np.concatenate(run.timeline), failure
        )


def _rule(machine: SimulatedMachine, options: Options, program: Program, *, as_mpi: bool) -> Waiting:
    """The waiting rule of a program; ``as_mpi``: it spins as its MPI does."""
    return (DEFAULTS if as_mpi else options).waiting_rule(
        context_switch_us=machine.remote_wakeup_us or machine.context_switch_us,
        latency_us=machine.latency_us if machine.rule_latency_us is None else machine.rule_latency_us,
        imbalance_us=program.imbalance_us,
    )


class _NoRoomError(Exception):
    """A job has lost its processors more often than the state has room for."""


def _set(state: State, policy: Policy, options: Options, machine: SimulatedMachine) -> None:
    """Put what the policy and the options ask of the kernel into the records of machine and clock.

    Raises:
        InputError: if the machine's local scheduler or queue does not suit it.
    """
    record, clock, remedy, bound = state.machine, state.clock, options.remedy, machine.queue == "bound"
    if policy.coscheduling and machine.local in ("eevdf", "fifo"):
        raise InputError(
            "local",
            machine.local,
            "must have time slices: dynamic coscheduling changes the order of its queue",
            'write local = "rr", or "round-robin"',
        )
    if policy.coscheduling and not bound:
        raise InputError(
            "queue",
            machine.queue,
            "must be bound: dynamic coscheduling needs processes that stay on their processors",
            "write bind = true",
        )
    if policy.observation and machine.local == "fifo":
        raise InputError(
            "local",
            machine.local,
            "must be preemptive, so that processes that do not communicate get time slices, too",
            'write local = "rr", or "eevdf"',
        )
    if remedy.code in (CONSCIOUS, INHERITANCE, ACTIVATIONS) and not bound:
        raise InputError(
            "queue",
            machine.queue,
            "must be bound: the lock holder is searched for in one processor's queue",
            "write bind = true, or remove the remedy",
        )
    if policy.coscheduling:
        record.patience_ns = max(1, round(policy.coscheduling["patience_us"] * 1e3))
        record.min_run_ns = round(policy.coscheduling["min_run_ms"] * 1e6)
    if policy.observation:
        record.observe_ns = round(policy.observation["observe_ms"] * 1e6)
    if policy.coscheduling or policy.observation:
        record.skips = 0  # looks are events
    record.deferrals, record.deferral_ns = remedy.times, round(remedy.deferral_us * 1e3)
    record.warning_ns, record.holder_check_ns = remedy.warning_ns, remedy.holder_check_ns
    record.remedy = remedy.code
    record.quota_ns, record.period_ns = options.quota_ns, round(options.quota_period_ms * 1e6)
    if record.quota_ns > 0:
        clock.budget_ns, clock.period_end_ns = record.quota_ns, record.period_ns
        clock.quota_at_ns = clock.period_end_ns
        record.ticks_do_more, record.skips = 1, 0


def _check(jobs: Sequence[SimulatedJob], machine: SimulatedMachine, policy: Policy) -> None:
    if not jobs:
        raise InputError("jobs", list(jobs), "must be at least one job", "add a job")
    numbers = [job.number for job in jobs]
    if len(set(numbers)) != len(numbers):
        raise InputError("jobs", numbers, "two jobs have the same number", "number them 0, 1, 2, ...")
    for job in jobs:
        if not policy.allows_oversubscription:
            key, lost = f"jobs[{job.number}].program.processes", len(machine.lost)
            fits(key, job.program.processes, machine.processors, lost=lost)


def _check_phases(jobs: Sequence[SimulatedJob], limit_ns: int) -> None:
    """Raises InputError if LONGEST_DRAWN mean phases are longer than the clock can count."""
    for job in jobs:
        if job.program.granularity_us * 1e3 * LONGEST_DRAWN > limit_ns:
            rule = f"a simulation of this many processes ends after {limit_ns / 1e9:g} s"
            remedy = "give shorter phases, or fewer processes"
            key = f"jobs[{job.number}].program.granularity_us"
            raise InputError(key, job.program.granularity_us, rule, remedy)


class _Seeds(NamedTuple):
    seed: int
    repeat: int
    stream: int

    def machine(self) -> np.random.Generator:
        """The machine's own random numbers."""
        key = (self.repeat, RANDOM_STREAM + self.stream)
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key))


class _ProcessLevelRun:
    """One simulation in progress: the kernel's state, the policy's session, random streams.

    A job that loses its processors is stopped for ever, and launched again as another one: ``state`` has room
    for ``launches`` of each job, the first of all jobs first.
    """

    def __init__(
        self,
        jobs: Sequence[SimulatedJob],
        machine: SimulatedMachine,
        policy: Policy,
        rule: Callable[..., Waiting],
        seeds: _Seeds,
        timeline: bool,
        owners: Iterable[OwnerChange],
        *,
        launches: int,
    ) -> None:
        self.jobs = sorted(jobs, key=lambda job: (job.arrival_s, job.number))
        self.state = state.allocate(machine, self.jobs * launches, timeline)
        self.placements: dict[int, Placement] = {}
        self.timeline: list[Integers] = []
        self._index = {job.number: index for index, job in enumerate(self.jobs)}
        self._rule = rule
        self._seeds = seeds
        self._random = seeds.machine()
        state.start_timers(self.state, machine, self._random)
        self._observation = policy.observation
        self._observed: dict[int, Correspondents] = {}
        self._session = Session(policy, machine.seen(), list(map(_seen, self.jobs)), machine.lost)
        self._agenda = Agenda(self._session, owners)
        self._streams: dict[int, Stream] = {}

    def _job(self, index: int) -> SimulatedJob:
        """The job with this record."""
        return self.jobs[index % len(self.jobs)]

    def last_launches(self) -> dict[int, SimulatedJob]:
        """Each job with its true arrival, by the index of the record of its last launch."""
        arrivals_ns = {job.number: self._session.arrival_ns(job.number) for job in self.jobs}
        return {
            self._index[job.number]: replace(job, arrival_s=arrivals_ns[job.number] / 1e9)
            for job in self.jobs
        }

    def finish(self, limit_ns: int, patience_ns: int) -> str:
        """Simulate until every job has finished; returns why it could not, or an empty text.

        It gives up after ``limit_ns``, and if nothing happens to any process for ``patience_ns``.
        """
        clock = self.state.clock
        unfinished = len(self.jobs)
        look_ns, seen = patience_ns, 0
        wishes = {m.REFILL: self._refill, m.EVOLVED: self._evolve, m.LOOKS: self._look}
        while unfinished or self._session.reason is not None:
            due_ns = self._agenda.due_ns(tables=False)  # the kernel ends tables, late as the machine is
            if self._session.reason is not None:
                due_ns = int(clock.now_ns)  # more may happen at this instant
            clock.until_ns = min(limit_ns if due_ns is None else due_ns, limit_ns, look_ns) + 1
            status = advance(self.state)
            now_ns = int(clock.now_ns)
            interruption.check()
            if status == m.PAUSED:
                continue
            if status in wishes:
                wishes[status](int(clock.subject))
            elif status == m.TIMELINE_FULL:
                self.keep_timeline()
            elif status == m.DEPARTED:
                unfinished -= 1
                self._session.depart(self._job(clock.subject).number)
            elif status == m.TABLE_END:
                self._session.slot_end()
                clock.slot_end_ns = clock.never_ns
            elif due_ns is not None and due_ns <= now_ns:
                self._agenda.happen(now_ns)
                self._follow(self._session.decide(now_ns))
            elif now_ns >= limit_ns:
                return f"not finished after {limit_ns / 1e9:g} simulated seconds"
            else:
                happened = int(clock.messages + self.state.processes.phase.sum())
                if happened == seen and unfinished > self._agenda.awaited:
                    reason = f"stuck: no program has got on for {patience_ns / 1e9:g} simulated seconds"
                    spun = "; spinning uses the quota up: give more, or let ranks block (waiting)"
                    return reason + spun if self.state.machine.quota_ns > 0 else reason
                look_ns, seen = now_ns + patience_ns, happened
        return ""

    def keep_timeline(self) -> None:
        clock = self.state.clock
        self.timeline.append(self.state.timeline[: clock.recorded].copy())
        clock.recorded = 0

    def _follow(self, plan: Plan) -> None:
        newcomers = []
        for job in plan.decision.vacates:
            del self.placements[job]
            self._index[job] += len(self.jobs)
            if self._index[job] >= len(self.state.jobs):
                raise _NoRoomError
        moved = [n for n, place in plan.decision.placements.items() if place != self.placements.get(n, place)]
        rigid = [n for n in moved if not state.has_tasks(self._job(self._index[n]))]
        for job in rigid:
            raise InputError(
                "policy",
                "relocates",
                f"job {job} has begun and changes its processors",
                'simulate job by job: level = "jobs"',
            )
        for job, placement in plan.decision.placements.items():
            if job not in self.placements:
                self.placements[job] = placement
                newcomers.append(self._index[job])
                self._place(self._index[job], placement)
            elif placement != self.placements[job]:
                self.placements[job] = placement
                state.reallot(self.state, self._index[job], placement)
        self.state = state.queue_up(self.state, newcomers, self._random)
        slots, slot_ns = state.slot_arrays(self.state, plan.decision, self._index)
        self.state = self.state._replace(slots=slots, slot_ns=slot_ns)
        clock = self.state.clock
        clock.slot, end_ns = plan.cycle.slot_at(int(clock.now_ns))
        clock.slot_end_ns = clock.never_ns if end_ns is None else end_ns
        clock.cyclic = plan.decision.cyclic
        clock.late_ns = self.state.switch_delay_ns[0]
        clock.new_plan = 1

    def _evolve(self, index: int) -> None:
        """A phase of job ``index`` has begun that can use another number of processes."""
        self._session.evolve(self._job(index).number, int(self.state.jobs[index].usable))

    def _look(self, q: int) -> None:
        """Process ``q`` has just begun a phase, and looks from whom it gets messages often."""
        process = self.state.processes[q]
        job, now_ns = self._job(int(process.job)), int(self.state.clock.now_ns)
        program = job.program.on(int(self.state.jobs[process.job].processes))
        correspondents = self._observed.setdefault(q, Correspondents(self._observation["messages_per_ms"]))
        got = program.messages_to(int(process.rank)) * int(process.phase)
        if correspondents.look(got.tolist(), int(process.cpu_ns + now_ns - process.dispatched_ns)):
            self._session.observe(job.number, int(process.rank), correspondents.ranks)

    def _place(self, index: int, placement: Sequence[int]) -> None:
        """Let job ``index`` begin on the processors ``placement``."""
        job = self._job(index)
        program = job.program.on(self._launched(job, placement))
        rule = self._rule(program, as_mpi=job.replay is not None and job.replay.as_mpi)
        state.enter_job(self.state, index, job, program, placement, rule)
        first = int(self.state.jobs[index].first)
        for stream in self._streams_of(job, program, index):
            for rank in stream.ranks:
                self._streams[first + rank] = stream
            self._refill(first + stream.ranks[0])

    def _streams_of(self, job: SimulatedJob, program: Program, index: int) -> Iterator[Stream]:
        """The operations of the processes of a job; ``program`` says how many there are."""
        half = self.state.operations.shape[1] // 2 - 1  # there must be room for the operation in progress
        every = range(program.processes)
        if job.replay is not None:
            channels = int(self.state.jobs[index].channels_at)
            for rank in every:
                yield Stream(range(rank, rank + 1), job.replay.blocks(rank, half, channels))
            return
        draws = [Draws(program, rank, (self._seeds.seed, self._seeds.repeat, job.number)) for rank in every]
        if state.has_tasks(job):
            yield Stream(range(1), tasks(job.program, draws[0], half))
        elif program.locks:
            first = int(self.state.jobs[index].locks_at)
            self.state.locks[first : first + program.locks].kind = LOCKS[program.lock]
            for rank in every:
                yield Stream(range(rank, rank + 1), sections(program, draws[rank], half, first))
        elif job.think_us is not None:
            first = int(self.state.jobs[index].bursts_at)
            yield Stream(every, bursts(program, draws[0], half, job.think_ns, first))
        else:
            yield Stream(every, phases(program, draws, half))

    def _refill(self, q: int) -> None:
        """Get more operations for process ``q``, and for those that get them with it."""
        stream = self._streams[q]
        process, columns = self.state.processes[q], self.state.operations.shape[1]
        first = q - int(process.rank) + stream.ranks[0]
        while process.filled - process.at <= columns // 2:
            state.put(self.state, slice(first, first + len(stream.ranks)), next(stream.blocks))

    def _launched(self, job: SimulatedJob, placement: Sequence[int]) -> int:
        """The processes that a job begins with; ``Conductor.prepare`` launches a queue's processes."""
        if not state.has_tasks(job):
            return len(placement)
        room = min(_seen(job).max_processes, self._session.machine.processors)
        return max(self._session.processes(job.number) or 0, room)


def _seen(job: SimulatedJob) -> Job:
    """A job as the policy sees it."""
    return replace(job.seen(job.execution_time), moldable=job.moldable)


def _patience_ns(jobs: Sequence[SimulatedJob]) -> int:
    """A time in which some process must get on, unless all wait for each other."""
    longest_us = max(job.program.granularity_us + (job.think_us or 0) for job in jobs)
    phases = max(PATIENCE_FACTOR, sum(job.program.processes for job in jobs))
    return min(MOST_PATIENCE_NS, PATIENCE_NS + round(phases * longest_us * 1e3))
