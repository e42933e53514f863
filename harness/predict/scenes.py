"""What a policy decides as jobs come and go, on a clock of numbers and without processes.

The session and the agenda are those of the driver and the simulator, so the decisions are, too.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from coordinator.decide.session import Agenda, Plan, Session
from coordinator.policies import Policy
from coordinator.view import ExecutionTime, Job, Machine, Reason
from harness.predict.pictures import Scene, ShownSlot, of_family
from harness.spec.events import Event
from workloads.bounds import fits

MOST = 200  # scenes of a show
NEVER_NS = 1 << 60
CAUSES = {Reason.SLOT_END: "the table is over", Reason.TIMER: "the policy asked to be called"}


def adapts(policy: Policy, processors: int) -> bool:
    """Whether the policy gives jobs fewer processors than they can use, if they take any number."""
    jobs = [Job(number, processors, moldable=True, malleable=True) for number in (0, 1)]
    session = Session(policy, Machine(processors), jobs)
    sizes = [len(place) for place in session.arrive(0, 0, 1).decision.placements.values()]
    return session.processes(0) != processors or any(size != processors for size in sizes)


class Show:
    """A policy, and events that it decides about; InputError for a job that has no room in the machine.

    A job with a size of p and work of w ms ends once it has had p w ms of processor time, in equal parts
    where processes share a processor. At one time jobs end before other things happen.
    """

    def __init__(self, policy: Policy, processors: int, events: Sequence[Event]) -> None:
        self.policy, self.processors = policy, processors
        arrivals = [event for event in events if event.what == "arrive"]
        self.names = [event.values[0] for event in arrivals]  # of the jobs, by number
        self._work_ns: dict[int, float] = {}
        flexible, jobs = adapts(policy, processors), []
        for number, (at_ns, _, (name, size, *work_ms)) in enumerate(arrivals):
            if not policy.folds:
                fits(f"size of {name}", size, processors)
            self._work_ns[number] = size * sum(work_ms) * 1e6 or math.inf
            estimate = ExecutionTime(self._work_ns[number] / 1e9) if work_ms else None
            jobs.append(Job(number, size, at_ns, flexible, flexible, estimate))
        self._sizes = [job.processes for job in jobs]
        self._session = Session(policy, Machine(processors), jobs)
        self._agenda = Agenda(self._session, ((job.arrival_ns, job.number) for job in jobs))
        told = (event for event in events if event.what != "arrive")
        self._told = deque(sorted(told, key=lambda event: (event.at_ns, event.what == "owner")))
        self._now_ns = 0
        self._left_ns: dict[int, float] = {}
        """Processor time until the end of each job that is here."""
        self._lost, self._owned = set[int](), set[int]()

    def scenes(self) -> Iterator[Scene]:
        """The scenes, once, until nothing is to come but the same tables again."""
        while True:
            due, end_ns = self._agenda.due(), self._end_ns()
            told_ns = self._told[0].at_ns if self._told else NEVER_NS
            at_ns = min(end_ns, told_ns, due.at_ns if due else NEVER_NS)
            same = due is not None and due.why is Reason.SLOT_END and not self._agenda.coming
            if at_ns == NEVER_NS or (same and min(end_ns, told_ns) == NEVER_NS):
                return
            self._left_ns, self._now_ns = self._left_at(at_ns), at_ns
            if end_ns == at_ns:
                yield self._ended(next(job for job, left_ns in self._left_ns.items() if left_ns <= 0))
            elif told_ns == at_ns:
                _, what, (who, *load) = self._told.popleft()
                if what == "lose":
                    yield self._lose(who)
                elif what == "owner":
                    yield self._owner(who, *load)
                elif (job := self.names.index(who)) in self._left_ns:
                    yield self._ended(job)
            elif due is not None:
                arriving, plan = self._agenda.decide(due, at_ns)
                self._left_ns |= {job: self._work_ns[job] for job in arriving}
                came = "; ".join(f"{self.names[n]} arrives (size {self._sizes[n]})" for n in arriving)
                yield self._scene(due.why, CAUSES.get(due.why, came), plan)
                yield from self._talk(arriving)

    def _left_at(self, at_ns: int) -> dict[int, float]:
        """The processor time that jobs still need at a time, if nothing happens until then."""
        left_ns, plan = dict(self._left_ns), self._session.plan
        times_ns = plan.cycle.in_force_ns(self._now_ns, at_ns) if plan else ()
        for time_ns, parts in zip(times_ns, plan.parts if plan else (), strict=True):
            for (job, sharing), processes in parts.items() if time_ns else ():
                left_ns[job] -= processes * time_ns / sharing
        return left_ns

    def _end_ns(self) -> int:
        """When the next job has had its work; NEVER_NS if none will without another event."""
        times_ns, left_at = range(self._now_ns, NEVER_NS), self._left_at
        over = bisect_left(times_ns, True, key=lambda at_ns: min(left_at(at_ns).values(), default=1) <= 0)
        return self._now_ns + over

    def _ended(self, job: int) -> Scene:
        del self._left_ns[job]
        plan = self._session.depart(job, self._now_ns)
        return self._scene(Reason.DEPARTURE, f"{self.names[job]} ends", plan)

    def _lose(self, processor: int) -> Scene:
        """Jobs with a process there end, too."""
        placements = self._session.plan.decision.placements if self._session.plan else {}
        self._session.lost([processor])
        self._lost.add(processor)
        failed = [job for job in self._left_ns if processor in placements.get(job, ())]
        for job in failed:
            self._ended(job)
        cause = f"processor {processor} is lost" + "".join(
            f", and {self.names[job]} with it" for job in failed
        )
        return self._scene(Reason.NODE_LOST, cause, self._session.decide(Reason.NODE_LOST, self._now_ns))

    def _owner(self, processor: int, load: float) -> Scene:
        (self._owned.add if load else self._owned.discard)(processor)
        plan = self._session.owner([processor], load, self._now_ns)
        return self._scene(Reason.OWNER, f"the owner's load on processor {processor} is {load:g}", plan)

    def _talk(self, arriving: Sequence[int]) -> Iterator[Scene]:
        """What a policy decides that learns that the ranks of new jobs get messages from each other."""
        for job in arriving:
            ranks = {*range(self._sizes[job])}
            heard = [self._session.observe(job, rank, ranks - {rank}, self._now_ns) for rank in ranks]
            for plan in [plan for plan in heard if plan][-1:]:
                yield self._scene(Reason.OBSERVATION, f"the ranks of {self.names[job]} talk", plan)

    def _scene(self, why: Reason, cause: str, plan: Plan) -> Scene:
        decision, slots = plan.decision, []
        begins_ns = accumulate((slot.length_ns or 0 for slot in decision.slots), initial=plan.start_ns)
        for begin_ns, slot, served in zip(begins_ns, decision.slots, plan.served, strict=False):
            runs = [dict.fromkeys(served.get(p, ())) for p in range(self.processors)]
            shown = [[self.names[job] for job in jobs] for jobs in runs]
            slots.append(ShownSlot(begin_ns / 1e6, slot.length_ns and slot.length_ns / 1e6, shown))
        running = {job for parts in plan.parts for job, _ in parts}
        scene = Scene(
            self._now_ns / 1e6,
            why.value,
            cause,
            {self.names[job]: place for job, place in decision.placements.items()},
            slots,
            decision.cyclic,
            [self.names[job] for job in self._left_ns if job not in running],
            sorted(self._lost),
            sorted(self._owned),
        )
        return replace(scene, pictures=of_family(decision.memory, scene, self.names, self.policy))
