"""The two sides that the parity tests compare: the driver with a fake clock and mechanism, and the simulator.

The simulator says when jobs leave. The real side gets these events from a fake clock: the
conductor that the driver has, and on every processor the switcher of an agent, with a mechanism
that only writes down what it is asked to hold.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Session
from coordinator.node.switcher import Switcher
from coordinator.policies import Policy
from coordinator.view import Decision, Machine, Reason
from coordinator.wire.protocol import Table
from harness.simulator.processes.machine import SimulatedMachine
from harness.simulator.processes.simulate import simulate

PROCESSORS = 4
"""Of both sides, unless a test asks for others."""

Decided = tuple[Reason, int, Decision]

Said = tuple[int, str, tuple[Any, ...]]
"""What a rank said: when, the method of ``Conductor`` that hears it, and its values."""


@dataclass(frozen=True)
class Recorded:
    """A policy that writes down what it is asked, when, and what it answers."""

    policy: Policy
    decided: list[Decided]
    changes: list[Said] = field(default_factory=list)
    """What jobs said of how many processes they could use from then on."""

    def __getattr__(self, name):
        return getattr(self.policy, name)

    def decide(self, view, reason):
        if view.previous is None:  # the simulator begins again if jobs are launched more often than foreseen
            self.decided.clear()
            self.changes.clear()
        decision = self.policy.decide(view, reason)
        known = dict(values for _, _, values in self.changes)
        for job in view.jobs:
            if job.usable is not None and known.get(job.number) != job.usable:
                self.changes.append((view.now_ns, "evolve", (job.number, job.usable)))
        self.decided.append((reason, view.now_ns, decision))
        return decision


class Holder:
    """A mechanism that knows which processes, here (job, rank), it holds, and since when."""

    def __init__(self):
        self.now_ns = 0
        self.changes = {}

    def adopt(self, process, job, rank):
        self.changes.setdefault(process, [(-1, False)]).append((self.now_ns, False))

    def drop(self, process):
        pass  # what it was told counts

    def hold(self, process):
        self.changes[process].append((self.now_ns, True))

    def run(self, process):
        self.changes[process].append((self.now_ns, False))

    free = run

    def holds(self, process, at_ns):
        """Whether the process is held at a time between two changes."""
        return [held for since_ns, held in self.changes[process] if since_ns < at_ns][-1]


class Real:
    """The real machine without its processes: the job set of a conductor, and one agent's slots."""

    def __init__(
        self,
        policy,
        jobs,
        owners=(),
        processors=PROCESSORS,
    ):
        self._processors = processors
        self.decided = []
        self.holder = Holder()
        self._switcher = Switcher(self.holder, lambda: self.holder.now_ns)  # type: ignore[arg-type]
        session = Session(Recorded(policy, self.decided), Machine(processors), jobs)  # type: ignore[arg-type]
        self._conductor = Conductor(session, jobs, self, owners=owners)
        self._starting = []
        self.told = []

    def play(self, departures, said=()):
        """Run to the end; ``departures`` are the times and jobs that leave, in order.

        ``said`` is what ranks say meanwhile, in order.
        """
        coming = list(said)
        self._conductor.prepare()
        leaving = list(departures)
        while not self._conductor.over:
            while self._starting:
                self._conductor.ready(self._starting.pop(0), self.holder.now_ns)
            due_ns = self._conductor.due_ns()
            dues = [due for due in (due_ns, self._switcher.due_ns()) if due is not None]
            dues += [at_ns for at_ns, _, _ in coming[:1]]
            self.holder.now_ns = now_ns = min([*dues, *(at_ns for at_ns, _ in leaving[:1])])
            while coming and coming[0][0] <= now_ns:
                _, what, values = coming.pop(0)
                getattr(self._conductor, what)(*values)
            while leaving and leaving[0][0] <= now_ns:
                self._conductor.leave(leaving.pop(0)[1])
            self._conductor.advance(now_ns)
            self._switcher.switch(now_ns)

    def launch(self, job, placement):
        self._starting.append(job)
        for rank in range(len(placement)):
            self._switcher.adopt(job, rank, (job, rank))  # type: ignore[arg-type]

    def publish(self, plan, from_ns):
        seats = {job: range(len(place)) for job, place in plan.decision.placements.items()}
        (table,) = Table.shares(plan, from_ns, 0, [range(self._processors)], seats)
        self._switcher.publish(table)
        self._switcher.switch(from_ns)

    def begin(self, job, at_ns, placement):
        pass

    def resize(self, job, placement):
        self.told.append((self.holder.now_ns, job, placement))

    def move(self, job, placement):
        assert self.decided[-1][2].placements[job] == placement

    def vacate(self, job):
        for rank in range(self._processors):
            self._switcher.drop(job, rank)


def simulated(
    policy,
    jobs,
    owners=(),
    processors=PROCESSORS,
):
    """The decisions of the simulator for ``jobs``, and its outcome."""
    decided = []
    machine = SimulatedMachine(processors=processors, context_switch_us=1, latency_us=1, local="round-robin")
    recorded = Recorded(policy, decided)
    outcome = simulate(jobs, machine, recorded, timeline=True, owners=owners)
    assert outcome.failure == ""
    return decided, outcome


@contextmanager
def heard(observed):
    """Append what the session hears of observed messages, with the time of its next decision."""
    observe, decide, unanswered = Session.observe, Session.decide, []

    def hear(session, *said):
        unanswered.append(said)
        return observe(session, *said)

    def answer(session, now_ns):
        observed.extend((now_ns, "observe", said) for said in unanswered)
        unanswered.clear()
        return decide(session, now_ns)

    with mock.patch.multiple(Session, observe=hear, decide=answer):
        yield


def departures(outcome):
    """When each job left, and which, in order."""
    return sorted((job.finish_ns or 0, job.number) for job in outcome.jobs)
