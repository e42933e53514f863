"""One workload under one policy: turns events into decisions, and time into slots.

The real driver and the simulator both own a :class:`Session` and feed it the same events;
neither ever calls a policy itself. That is why their decisions can be compared one by one.
They note all events of an instant, in any order, and then ask for one decision.
"""

from bisect import insort
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from typing import NoReturn, Self

from coordinator.decide.cycle import Cycle
from coordinator.owners import OwnerChange
from coordinator.policies.registry import Policy, blamed, is_ours
from coordinator.view import (
    ANY_JOB,
    Decision,
    Job,
    Machine,
    Placement,
    Reason,
    Slot,
    View,
    arrival_after_ns,
)
from workloads.validation import InputError, shown


class Uncounted(Mapping[int, int]):
    """Stands for the service of jobs under a policy that does not weigh it, and says so if it is read."""

    def __init__(self, policy: Policy) -> None:
        self._name = type(policy).__name__

    def _refuse(self, *_: object) -> NoReturn:
        raise InputError(
            "policy",
            self._name,
            "reads View.attained_ns, which is counted for policies that weigh service only",
            "write uses_attained_service = True in that class",
        )

    __getitem__ = __iter__ = __len__ = _refuse


class Observations:
    """Puts together what the ranks of each job say.

    Source: Feitelson and Rudolph 1995. Ousterhout 1982 has the term.
    """

    def __init__(self) -> None:
        self._peers: dict[int, dict[int, frozenset[int]]] = {}

    def hear(self, job: int, rank: int, peers: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """The working sets of ``job`` once ``rank`` has named all from whom it gets messages often."""
        reports = self._peers.setdefault(job, {})
        reports[rank] = frozenset(peers)
        return connected(reports)

    def forget(self, job: int) -> None:
        self._peers.pop(job, None)


def connected(peers: Mapping[int, Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """The connected sets of two and more ranks, each ascending; a rank is connected to each that it names."""
    sets: list[set[int]] = []
    for rank, named in peers.items():
        joined = {rank, *named}
        apart = [ranks for ranks in sets if joined.isdisjoint(ranks)]
        sets = [*apart, joined.union(*(ranks for ranks in sets if ranks not in apart))]
    return tuple(sorted(tuple(sorted(ranks)) for ranks in sets if len(ranks) > 1))


@dataclass(frozen=True)
class Plan:
    """A decision with the time at which its first slot began (or counts as begun)."""

    decision: Decision
    start_ns: int

    @cached_property
    def cycle(self) -> Cycle:
        lengths_ns = tuple(slot.length_ns for slot in self.decision.slots)
        return Cycle(self.start_ns, lengths_ns, self.decision.cyclic)

    @cached_property
    def served(self) -> list[dict[int, list[int]]]:
        """For each slot, by processor in use, the job of each process that may run there."""
        ranks = defaultdict[tuple[int, int], list[int]](list)
        jobs_of_slots: list[dict[int, list[int]]] = [{} for _ in self.decision.slots]
        for job, placement in self.decision.placements.items():
            for rank, processor in enumerate(placement):
                ranks[job, processor].append(rank)
        for slot, there in zip(self.decision.slots, jobs_of_slots, strict=True):
            for p, jobs in enumerate(slot.runs):
                placed = [(job, rank) for job in jobs for rank in ranks.get((job, p), ())]
                if here := [
                    job for job, rank in placed if not slot.allowed_ranks or slot.allows(job, rank, p)
                ]:
                    there[p] = here
        return jobs_of_slots

    @cached_property
    def parts(self) -> list[Counter[tuple[int, int]]]:
        """For each slot, how many processes of a job are on processors that so many share in equal parts."""
        return [Counter((job, len(jobs)) for jobs in there.values() for job in jobs) for there in self.served]

    @property
    def timer_ns(self) -> int | None:
        """When the policy wants to be asked again; None if it does not."""
        after_ns = self.decision.timer_ns
        return None if after_ns is None else self.start_ns + self.decision.elapsed_ns + after_ns


class Session:
    """The state of one run as far as its policy is concerned.

    Its methods note what happens; ``decide`` then gives the plan that is in force from now on. Each of them
    returns the session, so that ``session.depart(1).arrive(2, 3).decide(now_ns)`` is one instant.

    Guarantees that a placement never exceeds the machine, and that it never changes its length while the job
    runs, unless the job is malleable or vacates its processors.

    Policies do not see a job for which too few processors are left after a loss: it would wait for ever, and
    others behind it. Plans place it as if nothing were lost, outside of all slots, and the driver that
    carries them out fails it.

    Args:
        policy: decides.
        machine: the processors.
        workload: all jobs that will come.
        lost: the processors that are lost from the beginning.

    Attributes:
        ended: the jobs that have departed since the agenda has looked.
    """

    def __init__(
        self, policy: Policy, machine: Machine, workload: Iterable[Job], lost: Iterable[int] = ()
    ) -> None:
        self.policy = policy
        self.machine = machine
        self._workload = {job.number: job for job in workload}
        self._here: dict[int, Job] = {}
        self.ended: list[int] = []
        self._happened: set[Reason] = set()
        self._lost = frozenset(lost)
        self._owner_load: dict[int, float] = {}
        self._attained_ns = Counter[int]()
        self._counted_ns = 0
        self._observations = Observations()
        self._answer: Decision | None = None
        self.plan: Plan | None = None

    @property
    def workload(self) -> Collection[Job]:
        """All jobs, in the order in which they were given."""
        return self._workload.values()

    def arrival_ns(self, number: int) -> int:
        """When job ``number`` arrives; of one that follows another its own time until that one has ended."""
        return self._workload[number].arrival_ns

    def processes(self, number: int) -> int | None:
        """The number of processes job ``number`` will start with; None if unknown before its start."""
        jobs = tuple(self._workload.values())
        view = View(self.machine, 0, jobs, len(jobs), lost=self._lost)
        with blamed(type(self.policy), "processes"):
            return self.policy.processes(self._workload[number], view)

    def too_large(self, number: int) -> bool:
        """Whether more processors are lost than job ``number`` can do without."""
        usable = self.machine.processors - len(self._lost)
        return (
            bool(self._lost)
            and (self.processes(number) or 1) > usable
            and not self.policy.allows_oversubscription
        )

    def foresee(self, until_ns: int | None = None) -> dict[int, Placement]:
        """The first placement of each job if all arrive in turn and none leaves; absent if it would wait.

        With ``until_ns``, only of those that arrive by then, all at once.
        """
        trial = Session(self.policy, self.machine, self._workload.values(), self._lost)
        placed: dict[int, Placement] = {}
        coming = (job for job in self._workload.values() if until_ns is None or job.arrival_ns <= until_ns)
        jobs = sorted(coming, key=lambda job: (job.arrival_ns, job.number))
        for now_ns, arrived in groupby(jobs, lambda job: max(job.arrival_ns, until_ns or 0)):
            plan = trial.arrive(*(job.number for job in arrived)).decide(now_ns)
            placed = {**plan.decision.placements, **placed}
        return placed

    def postpone(self, number: int, arrival_ns: int) -> None:
        """Job ``number``, which has not arrived, arrives at this time."""
        self._workload[number] = replace(self._workload[number], arrival_ns=arrival_ns)

    def arrive(self, *numbers: int) -> Self:
        """Jobs have arrived; those of one time are in order of their numbers."""
        jobs = sorted(map(self._workload.__getitem__, numbers), key=lambda job: (job.arrival_ns, job.number))
        self._here |= {job.number: job for job in jobs}
        return self._note(Reason.ARRIVAL)

    def depart(self, *numbers: int) -> Self:
        """Jobs have finished or failed."""
        for number in numbers:
            del self._here[number]
            self.ended.append(number)
            self._observations.forget(number)
        return self._note(Reason.DEPARTURE)

    def evolve(self, number: int, usable: int) -> Self:
        """Job ``number`` can use so many processes."""
        if not self.policy.reacts_to_phases or self._here[number].usable == usable:
            return self
        self._here[number] = replace(self._here[number], usable=usable)
        return self._note(Reason.PHASE)

    def observe(self, number: int, rank: int, peers: Iterable[int]) -> Self:
        """A rank gets messages often from ``peers`` only."""
        if not self.policy.observation:
            return self
        sets = self._observations.hear(number, rank, peers)
        if self._here[number].working_sets == sets:
            return self
        self._here[number] = replace(self._here[number], working_sets=sets)
        return self._note(Reason.OBSERVATION)

    def owner(self, processors: Iterable[int], load: float) -> Self:
        """An owner makes this load on each of these processors."""
        self._owner_load |= dict.fromkeys(processors, load)
        return self._note(Reason.OWNER)

    def lose(self, processors: Iterable[int]) -> Self:
        """These processors are lost; the jobs that had begun there depart."""
        self._lost |= frozenset(processors)
        return self._note(Reason.NODE_LOST)

    def timer(self) -> Self:
        """The time has come at which the policy wants to be asked."""
        return self._note(Reason.TIMER)

    def slot_end(self) -> Self:
        """The table of the last decision is used up."""
        return self._note(Reason.SLOT_END)

    def _note(self, reason: Reason) -> Self:
        self._happened.add(reason)
        return self

    @property
    def reason(self) -> Reason | None:
        """The gravest of what has happened since the last decision; None if nothing has, or nothing new."""
        return next((reason for reason in Reason if reason in self._happened), None)

    def decide(self, now_ns: int) -> Plan:
        """The policy's answer to all that has happened at this instant, which must be something."""
        reason = self.reason
        assert reason is not None
        self._happened.clear()
        slot, elapsed_ns = self.plan.cycle.position(now_ns) if self.plan else (0, 0)
        before = self.plan.decision.placements if self.plan else {}
        # Those that are too large stay where they are, or begin as if nothing were lost.
        large = [number for number in self._here if self.too_large(number)]
        stranded = {n: before.get(n, tuple(range(self._workload[n].processes))) for n in large}
        view = View(
            machine=self.machine,
            now_ns=now_ns,
            jobs=tuple(job for number, job in self._here.items() if number not in stranded),
            workload_jobs=len(self._workload),
            previous=self._answer,
            slot=slot,
            elapsed_ns=elapsed_ns,
            lost=self._lost,
            owner_load=dict(self._owner_load),
            attained_ns=self._service_ns(now_ns)
            if self.policy.uses_attained_service
            else Uncounted(self.policy),
        )
        with blamed(type(self.policy), "decide"):
            self._answer = decision = self.policy.decide(view, reason)
            self._check(decision, before)
        if stranded:
            decision = replace(decision, placements={**decision.placements, **stranded})
        self.plan = Plan(decision, now_ns - decision.elapsed_ns)
        for number in self._attained_ns.keys() - self._here.keys():
            del self._attained_ns[number]
        return self.plan

    def _service_ns(self, now_ns: int) -> dict[int, int]:
        if self.plan:
            since_ns = max(self._counted_ns, self.plan.start_ns)
            self._counted_ns = now_ns
            times_ns = self.plan.cycle.in_force_ns(since_ns, now_ns)
            for parts, time_ns in zip(self.plan.parts, times_ns, strict=True):
                for (job, sharing), processes in parts.items() if time_ns else ():
                    self._attained_ns[job] += processes * (time_ns // sharing)
        return {number: self._attained_ns[number] for number in self._here}

    def _check(self, decision: Decision, before: Mapping[int, Placement]) -> None:
        if not isinstance(decision, Decision):
            raise ValueError(f"returns {shown(decision)}, and no Decision")
        if not is_ours(type(self.policy)):
            _check_form(decision)
        every = frozenset(range(self.machine.processors))
        for number, processors in decision.placements.items():
            if before.get(number) is processors:
                continue  # checked before
            twice = len(set(processors)) != len(processors) and not self.policy.allows_oversubscription
            if twice or not every.issuperset(processors):
                raise ValueError(f"places job {number} on processors {shown(processors)}")
            free = self._workload[number].malleable or number in decision.vacates
            fixed = number in before and not free
            if fixed and len(before[number]) != len(processors):
                raise ValueError(f"changes the size of running job {number}")
        if not set(decision.vacates) <= before.keys():
            raise ValueError(f"vacates {decision.vacates}, but {sorted(before)} have processors")
        if decision.timer_ns is not None and decision.timer_ns < 1:
            raise ValueError("wants to be asked again at once")
        for slot in decision.slots:
            if len(slot.runs) != self.machine.processors:
                raise ValueError("has a slot that does not name every processor of the machine")
            for number, rank in slot.allowed_ranks:
                if not 0 <= rank < len(decision.placements.get(number, ())):
                    raise ValueError(f"has a slot with rank {rank} of job {number}, which has no place")


def _check_form(decision: Decision) -> None:
    """Refuse what a type checker would have refused in a policy that has seen none."""
    if not isinstance(decision.placements, Mapping):
        raise ValueError(f"has no mapping of jobs to processors as placements: {shown(decision.placements)}")
    if not (isinstance(decision.slots, Sequence) and decision.slots):
        raise ValueError(f"has no tuple of slots: {shown(decision.slots)}")
    for slot in decision.slots:
        if not (isinstance(slot, Slot) and all(isinstance(jobs, Collection) for jobs in slot.runs)):
            raise ValueError(f"has no slot with a tuple of jobs for each processor: {shown(slot)}")


class Agenda:
    """The foreseeable events of a session: changes of owners, arrivals, timers, and ends of tables.

    A job that follows another (``Job.after``) is foreseeable from the end of that one on, however that one
    has ended. If that one is not in the workload, the job arrives at its own time.

    Args:
        session: gets the events.
        owners: the changes of the owners' loads, in order of time.
    """

    def __init__(self, session: Session, owners: Iterable[OwnerChange] = ()) -> None:
        self._session = session
        self._owners = iter(owners)  # they may never end
        self._owner = next(self._owners, None)
        self._coming = deque[tuple[int, int]]()
        self._following = defaultdict[int, deque[Job]](deque)
        self._withdrawn = set[int]()
        known = {ANY_JOB, *(job.number for job in session.workload)}
        for job in session.workload:
            if job.after and job.after.job in known:
                self._following[job.after.job].append(job)
            else:
                self._coming.append((job.arrival_ns, job.number))
        self._coming = deque(sorted(self._coming))

    @property
    def awaited(self) -> int:
        """How many jobs have not arrived."""
        return len(self._coming) + sum(map(len, self._following.values()))

    def due_ns(self, *, tables: bool = True) -> int | None:
        """When the next event happens, None if none is foreseeable; without ``tables`` no end of a table."""
        dues_ns = [at_ns for at_ns, _ in islice(self._coming, 1)]
        if self._owner is not None:
            dues_ns.append(self._owner.at_ns)
        if (plan := self._session.plan) is not None:
            dues_ns += [] if plan.timer_ns is None else [plan.timer_ns]
            dues_ns += [] if plan.cycle.end_ns is None or not tables else [plan.cycle.end_ns]
        return min(dues_ns, default=None)

    def happen(self, now_ns: int) -> list[int]:
        """Tell the session of all events up to ``now_ns``; returns the jobs that arrive."""
        while self._owner is not None and self._owner.at_ns <= now_ns:
            self._session.owner(self._owner.processors, self._owner.load)
            self._owner = next(self._owners, None)
        for number in self._session.ended:
            self._end(number, now_ns)
        self._session.ended.clear()
        arriving = []
        while self._coming and self._coming[0][0] <= now_ns:
            at_ns, number = self._coming.popleft()
            if number in self._withdrawn:
                self._end(number, at_ns)
            else:
                arriving.append(number)
        if arriving:
            self._session.arrive(*arriving)
        if (plan := self._session.plan) is not None:
            if plan.timer_ns is not None and plan.timer_ns <= now_ns:
                self._session.timer()
            if plan.cycle.end_ns is not None and plan.cycle.end_ns <= now_ns:
                self._session.slot_end()
        return arriving

    def withdraw(self, number: int) -> None:
        """Job ``number`` has failed before it arrives: it never does, and ends when it would have arrived."""
        self._withdrawn.add(number)
        if number not in self._following:  # else there is one that counts from that time
            self._coming = deque(arrival for arrival in self._coming if arrival[1] != number)

    def _end(self, number: int, now_ns: int) -> None:
        """Foresee the arrivals of the jobs that follow job ``number``, which has ended."""
        following = [*self._following.pop(number, ())]
        if of_any := self._following.get(ANY_JOB):
            following.append(of_any.popleft())
        for job in following:
            assert job.after
            at_ns = arrival_after_ns(now_ns, job.arrival_ns, job.after.think_ns)
            self._session.postpone(job.number, at_ns)
            insort(self._coming, (at_ns, job.number))
