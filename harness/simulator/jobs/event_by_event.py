"""Simulates jobs under any policy: asks the policy itself at every instant with events, through its session.

It is slower than the kernels, but takes every policy that decides which job runs where, also
time sharing. A job progresses while all its processes run. The time between two events costs
nothing, however often a cyclic table repeats.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from coordinator.decide.session import Agenda, Plan, Session
from coordinator.migration import Migration
from coordinator.owners import OwnerChange
from coordinator.policies import Policy
from coordinator.policies.regions.region_policy import RegionPolicy
from coordinator.policies.registry import blamed
from coordinator.topology import FLAT, Topology, runs
from coordinator.view import ANY_JOB, After, Decision, Job, Machine, Placement, Reason
from harness.simulator import interruption
from harness.simulator.jobs.losses import FragmentationMeter, Relocations
from harness.simulator.jobs.model import NEVER_NS, Integers, JobLevelOutcome, Jobs
from workloads.bounds import fits
from workloads.validation import InputError

PATIENCE = 1_000_000  # after so many changes of owners in which no job ends, the jobs will never end


@dataclass(frozen=True)
class Usage:
    """Processors in use between decisions: ``busy[i]`` on average from ``time_ns[i]`` on."""

    time_ns: Integers
    busy: np.ndarray


@dataclass
class _Share:
    """The intervals of a table in which one job runs, ascending, from the beginning of the table."""

    begins_ns: list[int] = field(default_factory=list)
    ends_ns: list[int] = field(default_factory=list)
    before_ns: list[int] = field(default_factory=list)
    """Service up to the beginning of each interval."""
    cycle_ns: int = NEVER_NS

    @property
    def total_ns(self) -> int:
        """Service in one pass of the table."""
        return self.before_ns[-1] + self.ends_ns[-1] - self.begins_ns[-1] if self.begins_ns else 0

    def served_ns(self, time_ns: int) -> int:
        """Service in the first ``time_ns`` after the beginning of the table."""
        if not self.begins_ns:
            return 0
        cycles, rest = divmod(time_ns, self.cycle_ns)
        last = bisect_right(self.begins_ns, rest) - 1
        part = 0
        if last >= 0:
            part = self.before_ns[last] + min(rest, self.ends_ns[last]) - self.begins_ns[last]
        return cycles * self.total_ns + part

    def reached_ns(self, service_ns: int) -> int:
        """When, after the beginning, the job has had ``service_ns`` (above 0) of service."""
        if not self.begins_ns:
            return NEVER_NS
        cycles = (service_ns - 1) // self.total_ns
        rest = service_ns - cycles * self.total_ns
        if cycles and self.cycle_ns == NEVER_NS:
            return NEVER_NS
        last = bisect_left(self.before_ns, rest) - 1
        return cycles * self.cycle_ns + self.begins_ns[last] + rest - self.before_ns[last]


def _shares(decision: Decision) -> dict[int, _Share]:
    """The share of each placed job in the table; an endless slot counts as NEVER_NS long."""
    lengths = [NEVER_NS if slot.length_ns is None else slot.length_ns for slot in decision.slots]
    begins = [0, *accumulate(lengths)]
    cycle_ns = begins[-1] if decision.cyclic and begins[-1] < NEVER_NS else NEVER_NS
    shares = {number: _Share(cycle_ns=cycle_ns) for number in decision.placements}
    needed = {number: len(place) for number, place in decision.placements.items()}
    for slot, begin, length in zip(decision.slots, begins, lengths, strict=False):
        if slot.allowed_ranks:
            raise InputError(
                "policy",
                "local",
                "needs a simulation of processes, since single processes of a job run",
                "simulate its processes",
            )
        counts: dict[int, int] = {}
        for jobs in slot.runs:
            if len(jobs) > 1:
                raise InputError(
                    "policy",
                    "local",
                    "needs a simulation of processes, since the local scheduler divides processors",
                    "simulate its processes",
                )
            for job in jobs:
                counts[job] = counts.get(job, 0) + 1
        for job, count in counts.items():
            if count == needed[job]:
                share = shares[job]
                share.before_ns.append(share.total_ns)
                share.begins_ns.append(begin)
                share.ends_ns.append(begin + length)
    return shares


class _JobLevelRun:
    """One simulation in progress."""

    def __init__(
        self,
        jobs: Jobs,
        machine: Machine,
        policy: Policy,
        malleable: bool,
        migration: Migration,
        lost: Iterable[int],
        population: int | None,
    ) -> None:
        self.jobs = jobs
        self.malleable = malleable
        views = jobs.views(malleable=malleable)
        if population:
            views = [*_closed(views, population)]
        self.relocations = Relocations(migration) if policy.relocates else None
        self.session = Session(policy, machine, views, lost)
        for number in filter(self.session.too_large, range(len(jobs))):
            fits(
                f"jobs[{number}].processes",
                int(jobs.max_processes[number]),
                machine.processors,
                lost=len(set(lost)),
            )
        self.meter = FragmentationMeter(machine.processors) if isinstance(policy, RegionPolicy) else None
        n = len(jobs)
        self.start_ns = np.full(n, NEVER_NS)
        self.finish_ns = np.full(n, NEVER_NS)
        self.first = np.full(n, -1)
        self.held_ns = np.zeros(n)
        self.places: dict[int, Placement] = {}
        self.used: list[tuple[int, float]] = []
        self.left_ns: dict[int, int] = {}
        self.vacated_ns: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.shares: dict[int, _Share] = {}
        self.plan: Plan | None = None
        self.now_ns = 0

    def follow(self, plan: Plan) -> None:
        for number in plan.decision.vacates:  # its progress since its last checkpoint is lost
            assert self.relocations is not None
            whole_ns = self.jobs.time_ns(number, self.sizes[number])
            self.vacated_ns[number] = self.relocations.vacate(number, whole_ns, self.left_ns[number])
            self.start_ns[number] = NEVER_NS  # it has that of its last run, as one with processes
            del self.sizes[number], self.places[number]
        for number, place in plan.decision.placements.items():
            size = len(place)
            if self.relocations and place != self.places.get(number, place):
                self.left_ns[number] = self.relocations.move(number, self.left_ns[number])
                self.places[number], self.first[number] = place, -1
            if self.sizes.get(number) != size:
                self._resize(number, size)
                self.places[number] = place
                self.first[number] = place[0] if place == tuple(range(place[0], place[0] + size)) else -1
        self.plan = plan
        self.shares = _shares(plan.decision)
        if self.meter:
            self.meter.watch(plan, self.now_ns)

    def _resize(self, number: int, size: int) -> None:
        new_ns = self.jobs.time_ns(number, size)
        if number in self.sizes:
            old_ns = self.jobs.time_ns(number, self.sizes[number])
            self.left_ns[number] = max(0, int(np.rint(self.left_ns[number] * (new_ns / old_ns))))
        else:
            self.left_ns[number] = self.vacated_ns.pop(number, new_ns)
        self.sizes[number] = size

    def end_ns(self) -> int:
        """When the next job ends; NEVER_NS if none is running."""
        if self.plan is None:
            return NEVER_NS
        offset_ns = self.now_ns - self.plan.start_ns
        ends_ns = (
            self.plan.start_ns + share.reached_ns(share.served_ns(offset_ns) + self.left_ns[n])
            if self.left_ns[n]
            else self.now_ns
            for n, share in self.shares.items()
        )
        return min(ends_ns, default=NEVER_NS)

    def end_jobs(self) -> list[int]:
        """Let the jobs depart that have nothing left to do, and return them."""
        ending = sorted(number for number in self.shares if not self.left_ns[number])
        for number in ending:
            self.finish_ns[number] = self.now_ns
            del self.left_ns[number], self.shares[number]
        if ending:
            self.session.depart(*ending)
        return ending

    def go_to(self, time_ns: int) -> None:
        if self.plan is not None and time_ns > self.now_ns:
            begin_ns = self.now_ns - self.plan.start_ns
            end_ns = time_ns - self.plan.start_ns
            work_ns = 0
            for number, share in self.shares.items():
                before_ns = share.served_ns(begin_ns)
                service_ns = share.served_ns(end_ns) - before_ns
                if service_ns and self.start_ns[number] == NEVER_NS:
                    self.start_ns[number] = self.plan.start_ns + share.reached_ns(before_ns + 1) - 1
                self.left_ns[number] -= service_ns
                self.held_ns[number] += service_ns * self.sizes[number]
                work_ns += service_ns * self.sizes[number]
            self.used.append((self.now_ns, work_ns / (time_ns - self.now_ns)))
        self.now_ns = time_ns

    def outcome(self) -> tuple[JobLevelOutcome, Usage]:
        """The outcome of all jobs, with their true arrivals, and the use of the processors."""
        arrivals = [job.arrival_ns for job in self.session.workload]
        sizes = np.array([self.sizes[n] for n in range(len(self.jobs))], dtype=float)
        if self.malleable:
            sizes = self.held_ns / np.maximum(1, self.finish_ns - self.start_ns)
        outcome = JobLevelOutcome(
            replace(self.jobs, submit_ns=np.array(arrivals, dtype=np.int64)),
            self.session.machine.processors,
            self.start_ns,
            self.finish_ns,
            sizes,
            self.first,
            places={} if self.malleable else {job: runs(place) for job, place in self.places.items()},
            fragmentation=self.meter.found() if self.meter else None,
            relocations=self.relocations.found() if self.relocations else None,
        )
        times, busy = zip(*self.used, strict=True) if self.used else ((), ())
        return outcome, Usage(np.array(times, dtype=np.int64), np.array(busy))


def _closed(jobs: Iterable[Job], population: int) -> Iterator[Job]:
    """The jobs of a closed system: ``population`` arrive at time 0, and the next one when one ends."""
    for job in jobs:
        yield replace(job, arrival_ns=0, after=None if job.number < population else After(ANY_JOB))


def simulate(
    jobs: Jobs,
    processors: int,
    policy: Policy,
    *,
    malleable: bool = False,
    population: int | None = None,
    watch: Callable[[Plan, int], None] | None = None,
    topology: Topology = FLAT,
    owners: Iterable[OwnerChange] = (),
    migration: Migration | None = None,
    lost: Collection[int] = (),
) -> tuple[JobLevelOutcome, Usage]:
    """Simulate ``jobs`` under any policy that says which job runs where.

    The policy decides once about all that happens at one time.
    Jobs that change processors while they run, or start again on others, pay for it by ``migration``. With
    ``population`` the system is closed: that many jobs arrive at time 0, and the next one at each
    departure; the outcome has their arrival times. ``watch`` receives every plan and the time from
    which it is in force. The ``lost`` processors are faulty from the beginning.

    Raises:
        InputError: for a policy that leaves the processors to the local scheduler, or a job
            that is larger than what the machine has left; or if owners keep the jobs from running.
    """
    jobs.check(processors, len(lost))
    machine = Machine(processors, topology)
    run = _JobLevelRun(jobs, machine, policy, malleable, migration or Migration(), lost, population)
    stalled = 0
    agenda = Agenda(run.session, owners)
    unfinished = len(jobs)
    while unfinished:
        interruption.check()
        due_ns = agenda.due_ns()
        time_ns = min(run.end_ns(), NEVER_NS if due_ns is None else due_ns)
        if time_ns >= NEVER_NS:
            with blamed(type(policy), "decide"):
                raise ValueError("lets no job run while jobs wait")
        run.go_to(time_ns)
        ended = run.end_jobs()
        unfinished -= len(ended)
        agenda.happen(time_ns)
        stalled = 0 if ended else stalled + (run.session.reason is Reason.OWNER)
        if stalled > PATIENCE:
            raise InputError(
                "owners",
                f"{time_ns / 1e9:g} s",
                f"must let jobs finish, and none did in {PATIENCE} changes of owners",
                "use shorter jobs, cheaper moves, or owners who stay away longer",
            )
        plan = run.session.decide(time_ns)
        run.follow(plan)
        if watch is not None:
            watch(plan, time_ns)
    return run.outcome()
