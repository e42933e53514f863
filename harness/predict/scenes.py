"""What a policy decides as jobs come and go, on a clock of numbers and without processes.

The session and the agenda are those of the driver and the simulator, so the decisions are, too.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from coordinator.decide.agenda import Agenda
from coordinator.decide.session import Attained, Plan, Session
from coordinator.owners import OwnerChange
from coordinator.policies import Policy
from coordinator.view import ExecutionTime, Job, Machine, Reason, View
from harness.predict.pictures import Scene, ShownSlot, of_family
from harness.spec.events import Event
from workloads.bounds import fits

MOST = 200
"""Scenes of a show."""
NEVER_NS = 1 << 60


def adapts(policy: Policy, processors: int) -> bool:
    """Whether the policy gives jobs fewer processors than they can use, if they take any number."""
    jobs = [Job(number, processors, moldable=True, malleable=True) for number in (0, 1)]
    machine = Machine(processors)
    if policy.processes(jobs[0], View(machine, 0, tuple(jobs), 2)) != processors:
        return True
    placements = Session(policy, machine, jobs).arrive(0, 0, 1).decision.placements
    return any(len(place) != processors for place in placements.values())


class Show:
    """A policy, and events that it decides about.

    A job with a size of p and work of w ms ends once it has had p w ms of processor time, in equal parts
    where processes share a processor. At one time jobs end before other things happen.

    Attributes:
        names: of the jobs, by number.

    Raises:
        InputError: for a job that is larger than the machine, unless the policy folds it.
    """

    def __init__(self, policy: Policy, processors: int, events: Sequence[Event]) -> None:
        self.policy, self.processors = policy, processors
        arrivals = [event for event in events if event.what == "arrive"]
        self.names = [event.values[0] for event in arrivals]
        self._work_ns: dict[int, float] = {}
        flexible, jobs = adapts(policy, processors), []
        for number, (at_ns, _, (name, size, *work_ms)) in enumerate(arrivals):
            if not policy.folds:
                fits(f"size of {name}", size, processors)
            self._work_ns[number] = size * sum(work_ms) * 1e6 or math.inf
            estimate = ExecutionTime(self._work_ns[number] / 1e9) if work_ms else None
            jobs.append(Job(number, size, at_ns, flexible, flexible, estimate))
        self._jobs = jobs
        self._session = Session(policy, Machine(processors), jobs)
        self._owners = deque(
            OwnerChange(at_ns, (values[0],), values[1]) for at_ns, what, values in events if what == "owner"
        )
        self._agenda = Agenda(self._session, ((job.arrival_ns, job.number) for job in jobs), [*self._owners])
        self._told = deque(event for event in events if event.what in ("end", "lose"))
        self._now_ns = 0
        self._left_ns: dict[int, float] = {}
        """Processor time until the end of each job that is here."""
        self._lost, self._owned = frozenset[int](), frozenset[int]()

    def scenes(self) -> Iterator[Scene]:
        """The scenes, once, until nothing is to come but the same tables again."""
        while True:
            due, end_ns = self._agenda.due(), self._end_ns()
            told_ns = self._told[0].at_ns if self._told else NEVER_NS
            at_ns = min(end_ns, told_ns, due.at_ns if due else NEVER_NS)
            same = due is not None and due.why is Reason.SLOT_END and not self._agenda.coming
            if at_ns == NEVER_NS or (same and min(end_ns, told_ns) == NEVER_NS):
                return
            had_ns = self._had_ns(at_ns)
            self._left_ns = {job: left_ns - had_ns.get(job, 0) for job, left_ns in self._left_ns.items()}
            self._now_ns = at_ns
            if end_ns == at_ns:
                yield self._ended(next(job for job, left_ns in self._left_ns.items() if left_ns <= 0))
            elif told_ns == at_ns:
                _, what, (who,) = self._told.popleft()
                if what == "lose":
                    yield self._lose(who)
                elif (job := self.names.index(who)) in self._left_ns:
                    yield self._ended(job)
            elif due is not None:
                arriving, plan = self._agenda.decide(due, at_ns)
                yield self._scene(due.why, self._cause(due.why, arriving), plan)
                yield from self._talk(arriving)

    def _had_ns(self, until_ns: int) -> dict[int, int]:
        """The processor time of each job from now on."""
        before, after = Attained(), Attained()
        if (plan := self._session.plan) is not None:
            before.count(plan.decision, plan.cycle, self._now_ns)
            after.count(plan.decision, plan.cycle, until_ns)
        return {job: had_ns - before.service_ns.get(job, 0) for job, had_ns in after.service_ns.items()}

    def _end_ns(self) -> int:
        """When the next job has had its work; NEVER_NS if none will without another event."""

        def over(after_ns: int) -> bool:
            had_ns = self._had_ns(self._now_ns + after_ns)
            return any(left_ns <= had_ns.get(job, 0) for job, left_ns in self._left_ns.items())

        return self._now_ns + bisect_left(range(NEVER_NS - self._now_ns), True, key=over)

    def _ended(self, job: int) -> Scene:
        del self._left_ns[job]
        plan = self._session.depart(job, self._now_ns)
        return self._scene(Reason.DEPARTURE, f"{self.names[job]} ends", plan)

    def _lose(self, processor: int) -> Scene:
        """Jobs with a process there end, too."""
        placements = self._session.plan.decision.placements if self._session.plan else {}
        self._session.lost([processor])
        self._lost |= {processor}
        failed = [job for job in self._left_ns if processor in placements.get(job, ())]
        for job in failed:
            self._ended(job)
        cause = f"processor {processor} is lost" + "".join(
            f", and {self.names[job]} with it" for job in failed
        )
        return self._scene(Reason.NODE_LOST, cause, self._session.replan(self._now_ns))

    def _cause(self, why: Reason, arriving: Sequence[int]) -> str:
        """What the agenda has told; notes the jobs that are ``arriving``, and owners."""
        if why is Reason.OWNER:
            _, processors, load = self._owners.popleft()
            self._owned = self._owned.union(processors) if load else self._owned.difference(processors)
            return f"the owner's load on processor {processors[0]} is {load:g}"
        self._left_ns |= {job: self._work_ns[job] for job in arriving}
        causes = {Reason.SLOT_END: "the table is over", Reason.TIMER: "the policy asked to be called"}
        return causes.get(why) or "; ".join(
            f"{self.names[job]} arrives (size {self._jobs[job].processes})" for job in arriving
        )

    def _talk(self, arriving: Sequence[int]) -> Iterator[Scene]:
        """What a policy decides that learns that the ranks of new jobs get messages from each other."""
        for job in arriving:
            ranks = {*range(self._jobs[job].processes)}
            heard = [self._session.observe(job, rank, ranks - {rank}, self._now_ns) for rank in ranks]
            if (plan := heard[-1]) is not None:
                yield self._scene(Reason.OBSERVATION, f"the ranks of {self.names[job]} talk", plan)

    def _scene(self, why: Reason, cause: str, plan: Plan) -> Scene:
        decision, slots = plan.decision, []
        begins_ns = accumulate((slot.length_ns or 0 for slot in decision.slots), initial=plan.start_ns)
        for begin_ns, slot in zip(begins_ns, decision.slots, strict=False):
            there: list[dict[str, None]] = [{} for _ in range(self.processors)]
            for job, place in decision.placements.items():
                for rank, processor in enumerate(place):
                    if slot.allows(job, rank, processor):
                        there[processor][self.names[job]] = None
            length_ms = slot.length_ns and slot.length_ns / 1e6
            slots.append(ShownSlot(begin_ns / 1e6, length_ms, [[*jobs] for jobs in there]))
        running = {job for slot in slots for jobs in slot.runs for job in jobs}
        scene = Scene(
            self._now_ns / 1e6,
            why.value,
            cause,
            {self.names[job]: place for job, place in decision.placements.items()},
            slots,
            decision.cyclic,
            [name for name in map(self.names.__getitem__, self._left_ns) if name not in running],
            sorted(self._lost),
            sorted(self._owned),
        )
        return replace(scene, pictures=of_family(decision.memory, scene, self.names, self.policy))
