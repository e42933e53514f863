"""What a policy decides as jobs come and go, on a clock of numbers and without processes.

The session and the agenda are those of the driver and the simulator, so the decisions are, too.
"""

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from coordinator.decide.session import Agenda, Session
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
    sizes = [len(place) for place in session.arrive(0, 1).decide(0).decision.placements.values()]
    return session.processes(0) != processors or any(size != processors for size in sizes)


class Show:
    """A policy, and events that it decides about; InputError for a job that has no room in the machine.

    A job with a size of p and work of w ms ends once it has had p w ms of CPU time, in equal parts
    where processes share a processor. What happens at one time is one scene.
    """

    def __init__(self, policy: Policy, processors: int, events: Sequence[Event]) -> None:
        self.policy = policy
        self.processors = processors
        arrivals = [event for event in events if event.what == "arrive"]
        self.names = [event.values[0] for event in arrivals]  # of the jobs, by number
        self._work_ns: dict[int, float] = {}
        flexible = adapts(policy, processors)
        jobs = []
        for number, (at_ns, _, (name, size, *work_ms)) in enumerate(arrivals):
            if not policy.allows_oversubscription:
                fits(f"size of {name}", size, processors)
            self._work_ns[number] = size * sum(work_ms) * 1e6 or math.inf
            estimate = ExecutionTime(self._work_ns[number] / 1e9) if work_ms else None
            jobs.append(Job(number, size, at_ns, flexible, flexible, estimate))
        self._sizes = [job.processes for job in jobs]
        self._session = Session(policy, Machine(processors), jobs)
        self._agenda = Agenda(self._session)
        others = (event for event in events if event.what != "arrive")
        self._told = deque(sorted(others, key=lambda event: (event.at_ns, event.what == "owner")))
        self._now_ns = 0
        self._left_ns: dict[int, float] = {}
        """CPU time until the end of each job that is here."""
        self._lost, self._owned = set[int](), set[int]()

    def scenes(self) -> Iterator[Scene]:
        """The scenes, once, until nothing is to come but the same tables again."""
        while True:
            due_ns = self._agenda.due_ns()
            end_ns = self._end_ns()
            told_ns = self._told[0].at_ns if self._told else NEVER_NS
            at_ns = min(end_ns, told_ns, NEVER_NS if due_ns is None else due_ns)
            same = self._agenda.due_ns(tables=False) is None and min(end_ns, told_ns) == NEVER_NS
            if at_ns == NEVER_NS or same:
                return
            self._left_ns = self._left_at(at_ns)
            self._now_ns = at_ns
            causes = self._end(job for job, left_ns in self._left_ns.items() if left_ns <= 0)
            arriving = self._agenda.happen(at_ns)
            self._left_ns |= {job: self._work_ns[job] for job in arriving}
            causes += [f"{self.names[n]} arrives (size {self._sizes[n]})" for n in arriving]
            while self._told and self._told[0].at_ns == at_ns:
                _, what, (who, *load) = self._told.popleft()
                if what == "lose":
                    causes += self._lose(who)
                elif what == "owner":
                    causes += self._owner(who, *load)
                else:
                    causes += self._end({self.names.index(who)} & self._left_ns.keys())
            if self._session.reason is not None:  # else a job was told to end that had ended
                yield self._scene("; ".join(causes) or CAUSES[self._session.reason])
                yield from self._talk(arriving)

    def _left_at(self, at_ns: int) -> dict[int, float]:
        """The CPU time that jobs still need at a time, if nothing happens until then."""
        left_ns = dict(self._left_ns)
        plan = self._session.plan
        times_ns = plan.cycle.in_force_ns(self._now_ns, at_ns) if plan else ()
        for time_ns, parts in zip(times_ns, plan.parts if plan else (), strict=True):
            for (job, sharing), processes in parts.items() if time_ns else ():
                left_ns[job] -= processes * time_ns / sharing
        return left_ns

    def _end_ns(self) -> int:
        """When the next job has had its work; NEVER_NS if none will without another event."""
        times_ns = range(self._now_ns, NEVER_NS)
        left_at = self._left_at
        over = bisect_left(times_ns, True, key=lambda at_ns: min(left_at(at_ns).values(), default=1) <= 0)
        return self._now_ns + over

    def _end(self, jobs: Iterable[int]) -> list[str]:
        """Let jobs depart; returns what to say."""
        ending = sorted(jobs)
        for job in ending:
            del self._left_ns[job]
            self._session.depart(job)
        return [f"{self.names[job]} ends" for job in ending]

    def _lose(self, processor: int) -> list[str]:
        """Jobs with a process there end, too."""
        placements = self._session.plan.decision.placements if self._session.plan else {}
        self._session.lose([processor])
        self._lost.add(processor)
        failed = [job for job in self._left_ns if processor in placements.get(job, ())]
        self._end(failed)
        return [
            f"processor {processor} is lost" + "".join(f", and {self.names[job]} with it" for job in failed)
        ]

    def _owner(self, processor: int, load: float) -> list[str]:
        (self._owned.add if load else self._owned.discard)(processor)
        self._session.owner([processor], load)
        return [f"the owner's load on processor {processor} is {load:g}"]

    def _talk(self, arriving: Sequence[int]) -> Iterator[Scene]:
        """What a policy decides that learns that the ranks of new jobs get messages from each other."""
        for job in self._left_ns.keys() & arriving:
            ranks = {*range(self._sizes[job])}
            for rank in ranks:
                self._session.observe(job, rank, ranks - {rank})
            if self._session.reason is not None:
                yield self._scene(f"the ranks of {self.names[job]} talk")

    def _scene(self, cause: str) -> Scene:
        """What the policy decides about all that has happened."""
        reason = self._session.reason
        assert reason is not None
        plan = self._session.decide(self._now_ns)
        decision = plan.decision
        slots = []
        begins_ns = accumulate((slot.length_ns or 0 for slot in decision.slots), initial=plan.start_ns)
        for begin_ns, slot, served in zip(begins_ns, decision.slots, plan.served, strict=False):
            runs = [dict.fromkeys(served.get(p, ())) for p in range(self.processors)]
            shown = [[self.names[job] for job in jobs] for jobs in runs]
            slots.append(ShownSlot(begin_ns / 1e6, slot.length_ns and slot.length_ns / 1e6, shown))
        running = {job for parts in plan.parts for job, _ in parts}
        scene = Scene(
            self._now_ns / 1e6,
            reason.value,
            cause,
            {self.names[job]: place for job, place in decision.placements.items()},
            slots,
            decision.cyclic,
            [self.names[job] for job in self._left_ns if job not in running],
            sorted(self._lost),
            sorted(self._owned),
        )
        return replace(scene, pictures=of_family(decision.state, scene, self.names, self.policy))
