"""One workload under one policy: turns events into decisions, and time into slots.

The real driver and the simulator both own a :class:`Session` and feed it the same events;
neither ever calls a policy itself. That is why their decisions can be compared one by one.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import NamedTuple, NoReturn

from coordinator.decide.cycle import Cycle
from coordinator.owners import OwnerChange
from coordinator.policies.registry import Policy
from coordinator.view import Decision, Job, Machine, Reason, View
from workloads.validation import InputError


class Uncounted(Mapping[int, int]):
    """Stands for the service of jobs under a policy that does not weigh it, and says so if it is read."""

    def __init__(self, policy: Policy) -> None:
        self._name = type(policy).__name__

    def _refuse(self, *_: object) -> NoReturn:
        rule = "reads View.attained_ns, which is counted for policies that weigh service only"
        raise InputError("policy", self._name, rule, "write weighs_service = True in that class")

    __getitem__ = __iter__ = __len__ = _refuse


class Observations:
    """Puts together what the ranks of each job say.

    Source: Feitelson and Rudolph 1995. Ousterhout 1982 has the term.
    """

    def __init__(self) -> None:
        self._peers: dict[int, dict[int, frozenset[int]]] = {}

    def hear(self, job: int, rank: int, peers: Iterable[int]) -> tuple[tuple[int, ...], ...]:
        """The working sets of ``job`` once ``rank`` has named all from whom it gets messages often."""
        said = self._peers.setdefault(job, {})
        said[rank] = frozenset(peers)
        return connected(said)

    def forget(self, job: int) -> None:
        self._peers.pop(job, None)


def connected(peers: Mapping[int, Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """The connected sets of two and more ranks, each ascending; a rank is connected to each that it names."""
    found: list[set[int]] = []
    for rank, named in peers.items():
        joined = {rank, *named}
        apart = [ranks for ranks in found if joined.isdisjoint(ranks)]
        found = [*apart, joined.union(*(ranks for ranks in found if ranks not in apart))]
    return tuple(sorted(tuple(sorted(ranks)) for ranks in found if len(ranks) > 1))


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
        found: list[dict[int, list[int]]] = [{} for _ in self.decision.slots]
        for job, placement in self.decision.placements.items():
            for rank, processor in enumerate(placement):
                ranks[job, processor].append(rank)
        for slot, there in zip(self.decision.slots, found, strict=True):
            for p, jobs in enumerate(slot.runs):
                placed = [(job, rank) for job in jobs for rank in ranks.get((job, p), ())]
                if here := [job for job, rank in placed if not slot.only or slot.allows(job, rank, p)]:
                    there[p] = here
        return found

    @cached_property
    def parts(self) -> list[Counter[tuple[int, int]]]:
        """For each slot, how many processes of a job are on processors that so many share in equal parts."""
        return [Counter((job, len(jobs)) for jobs in there.values() for job in jobs) for there in self.served]

    @property
    def timer_ns(self) -> int | None:
        """When the policy wants to be asked again; None if it does not."""
        after_ns = self.decision.call_after_ns
        return None if after_ns is None else self.start_ns + self.decision.elapsed_ns + after_ns


class Session:
    """The state of one run as far as its policy is concerned; each event gives the plan in force from now on.

    Guarantees that a placement never exceeds the machine, and that it never changes its length while the job
    runs, unless the job is malleable or vacates its processors.

    Policies do not see a job for which too few processors are left after a loss: it would wait for ever, and
    others behind it. Plans place it as if nothing were lost, outside of all slots, and the driver that
    carries them out fails it.
    """

    def __init__(self, policy: Policy, machine: Machine, workload: Iterable[Job]) -> None:
        self.policy = policy
        self.machine = machine
        self._workload = {job.number: job for job in workload}
        self._here: dict[int, Job] = {}
        self._lost: frozenset[int] = frozenset()
        self._owner_load: dict[int, float] = {}
        self._attained_ns, self._counted_ns = Counter[int](), 0
        self._observations = Observations()
        self._answer: Decision | None = None
        self.plan: Plan | None = None

    def processes(self, number: int) -> int | None:
        """The number of processes job ``number`` will start with; None if unknown before its start."""
        jobs = tuple(self._workload.values())
        view = View(self.machine, 0, jobs, len(jobs), lost=self._lost)
        return self.policy.processes(self._workload[number], view)

    def too_large(self, number: int) -> bool:
        """Whether more processors are lost than job ``number`` can do without."""
        left = self.machine.processors - len(self._lost)
        return bool(self._lost) and (self.processes(number) or 1) > left and not self.policy.folds

    def foresee(self) -> dict[int, tuple[int, ...]]:
        """The first placement of each job if all arrive in turn and none leaves; absent if it would wait."""
        trial = Session(self.policy, self.machine, self._workload.values())
        trial.lost(self._lost)
        placed: dict[int, tuple[int, ...]] = {}
        jobs = sorted(self._workload.values(), key=lambda job: (job.arrival_ns, job.number))
        for now_ns, arrived in groupby(jobs, lambda job: job.arrival_ns):
            first, *others = (job.number for job in arrived)
            plan = trial.arrive(first, now_ns, *others)
            placed = {**plan.decision.placements, **placed}
        return placed

    def arrive(self, number: int, now_ns: int, *beside: int) -> Plan:
        """Job ``number`` has arrived, and at this instant those ``beside`` it; returns the plan in force."""
        self._here |= {arrived: self._workload[arrived] for arrived in (number, *beside)}
        return self.decide(Reason.ARRIVAL, now_ns)

    def depart(self, number: int, now_ns: int) -> Plan:
        """Job ``number`` has finished or failed."""
        del self._here[number]
        self._observations.forget(number)
        plan = self.decide(Reason.DEPARTURE, now_ns)
        del self._attained_ns[number]
        return plan

    def evolve(self, number: int, usable: int, now_ns: int) -> Plan | None:
        """Job ``number`` can use so many processes; returns the plan in force, None if it is the same."""
        if not self.policy.follows_phases or self._here[number].usable == usable:
            return None
        self._here[number] = replace(self._here[number], usable=usable)
        return self.decide(Reason.PHASE, now_ns)

    def observe(self, number: int, rank: int, peers: Iterable[int], now_ns: int) -> Plan | None:
        """A rank gets messages often from ``peers`` only; returns the plan in force, None if unchanged."""
        if not self.policy.observation:
            return None
        found = self._observations.hear(number, rank, peers)
        if self._here[number].working_sets == found:
            return None
        self._here[number] = replace(self._here[number], working_sets=found)
        return self.decide(Reason.OBSERVATION, now_ns)

    def slot_end(self, now_ns: int) -> Plan:
        """The table of the last decision is used up."""
        return self.decide(Reason.SLOT_END, now_ns)

    def owner(self, processors: Iterable[int], load: float, now_ns: int) -> Plan:
        """An owner makes this load on each of these processors now."""
        self._owner_load |= dict.fromkeys(processors, load)
        return self.decide(Reason.OWNER, now_ns)

    def lost(self, processors: Iterable[int]) -> None:
        self._lost |= frozenset(processors)

    def decide(self, why: Reason, now_ns: int) -> Plan:
        """Ask the policy, also at the end of a table, when it wants to be asked, or after a loss."""
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
            attained_ns=self._service_ns(now_ns) if self.policy.weighs_service else Uncounted(self.policy),
        )
        self._answer = decision = self.policy.decide(view, why)
        self._check(decision, before)
        if stranded:
            decision = replace(decision, placements={**decision.placements, **stranded})
        self.plan = Plan(decision, now_ns - decision.elapsed_ns)
        return self.plan

    def _service_ns(self, now_ns: int) -> dict[int, int]:
        if self.plan:
            since_ns, self._counted_ns = max(self._counted_ns, self.plan.start_ns), now_ns
            times_ns = self.plan.cycle.in_force_ns(since_ns, now_ns)
            for parts, time_ns in zip(self.plan.parts, times_ns, strict=True):
                for (job, sharing), processes in parts.items() if time_ns else ():
                    self._attained_ns[job] += processes * (time_ns // sharing)
        return {number: self._attained_ns[number] for number in self._here}

    def _check(self, decision: Decision, before: Mapping[int, tuple[int, ...]]) -> None:
        every = frozenset(range(self.machine.processors))
        for number, processors in decision.placements.items():
            if before.get(number) is processors:
                continue  # checked before
            twice = len(set(processors)) != len(processors) and not self.policy.folds
            if twice or not every.issuperset(processors):
                raise ValueError(f"the policy places job {number} on {processors}")
            free = self._workload[number].malleable or number in decision.vacates
            fixed = number in before and not free
            if fixed and len(before[number]) != len(processors):
                raise ValueError(f"the policy changes the size of running job {number}")
        if not set(decision.vacates) <= before.keys():
            raise ValueError(f"the policy vacates {decision.vacates}, but {sorted(before)} have processors")
        if decision.call_after_ns is not None and decision.call_after_ns < 1:
            raise ValueError("the policy wants to be asked again at once")
        for slot in decision.slots:
            if len(slot.runs) != self.machine.processors:
                raise ValueError("a slot must name every processor of the machine")
            for number, rank in slot.only:
                if not 0 <= rank < len(decision.placements.get(number, ())):
                    raise ValueError(f"a slot names rank {rank} of job {number}, which has no place")


class Due(NamedTuple):
    """A foreseeable event: when it happens, and why the policy decides then."""

    at_ns: int
    why: Reason


class Agenda:
    """The foreseeable events of a session: changes of owners, arrivals, timers, and ends of tables.

    At one time they come in this order. Jobs that arrive at one time do so together.

    Args:
        session: gets the events.
        arrivals: time and number of each job that is to come.
        owners: the changes of the owners' loads, in order of time.
    """

    def __init__(
        self, session: Session, arrivals: Iterable[tuple[int, int]], owners: Iterable[OwnerChange] = ()
    ) -> None:
        self._session = session
        self._owners = iter(owners)  # they may never end
        self._owner = next(self._owners, None)
        self.coming = deque(sorted(arrivals))

    def due(self, *, tables: bool = True) -> Due | None:
        """The next event, None if nothing is foreseeable; without ``tables`` no end of a table."""
        found = []
        if self._owner is not None:
            found.append(Due(self._owner.at_ns, Reason.OWNER))
        if self.coming:
            found.append(Due(self.coming[0][0], Reason.ARRIVAL))
        if (plan := self._session.plan) is not None:
            if (timer_ns := plan.timer_ns) is not None:
                found.append(Due(timer_ns, Reason.TIMER))
            if tables and (end_ns := plan.cycle.end_ns) is not None:
                found.append(Due(end_ns, Reason.SLOT_END))
        return min(found, key=lambda due: due.at_ns, default=None)

    def decide(self, due: Due, now_ns: int) -> tuple[list[int], Plan]:
        """Tell the session of the next event; returns the jobs that arrive, and the new plan."""
        if due.why is Reason.OWNER:
            assert self._owner is not None
            change, self._owner = self._owner, next(self._owners, None)
            return [], self._session.owner(change.processors, change.load, now_ns)
        if due.why is not Reason.ARRIVAL:
            return [], self._session.decide(due.why, now_ns)
        arriving = []
        while self.coming and self.coming[0][0] == due.at_ns:
            arriving.append(self.coming.popleft()[1])
        first, *others = arriving
        return arriving, self._session.arrive(first, now_ns, *others)
