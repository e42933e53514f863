"""How long each job has run by the decisions, which policies that weigh service are told."""

import random

from slots_of_jobs import slot_of

from coordinator.decide.session import Session
from coordinator.policies import Policy
from coordinator.view import Decision, Job, Machine, Slot

TICK_NS = 60  # up to six processes share a processor in whole nanoseconds
PROCESSORS = 3


class Listening(Policy):
    """Decides what it is given, one decision after the other, and keeps what it is told of service."""

    uses_attained_service = True
    allows_oversubscription = True

    def __init__(self, decisions):
        self.decisions, self.told = iter(decisions), []

    def decide(self, view, reason):
        self.told.append(dict(view.attained_ns))
        return next(self.decisions)


def any_decision(draw, sizes):
    """Jobs of these sizes on any processors, and slots in which some of them, or some ranks, may run."""
    placements = {job: tuple(draw.choices(range(PROCESSORS), k=size)) for job, size in enumerate(sizes)}
    every = [(job, rank) for job, size in enumerate(sizes) for rank in range(size)]
    slots = []
    for _ in range(draw.randint(1, 3)):
        runs = tuple(tuple(job for job in placements if draw.random() < 0.6) for _ in range(PROCESSORS))
        only = tuple(draw.sample(every, draw.randint(0, min(2, len(every)))))
        slots.append(Slot(runs, draw.choice([TICK_NS, 2 * TICK_NS, 4 * TICK_NS, None]), only))
    elapsed_ns = TICK_NS * draw.randint(0, 1) if slots[0].length_ns else 0
    return Decision(placements, tuple(slots), draw.random() < 0.5, elapsed_ns)


def one_tick_ns(decision, slot):
    """The job and the time of each process that runs in a tick: equal parts of its processor."""
    for processor in range(PROCESSORS):
        here = [
            job
            for job, places in decision.placements.items()
            for rank, place in enumerate(places)
            if place == processor and slot.allows(job, rank, processor)
        ]
        yield from ((job, TICK_NS // len(here)) for job in here)


def test_service_is_the_sum_over_all_ticks_of_what_each_process_had_of_its_processor():
    draw, given = random.Random(5), 0
    for _ in range(80):
        sizes = [draw.randint(1, 2) for _ in range(draw.randint(1, 3))]
        decisions = [any_decision(draw, sizes) for _ in range(4)]
        policy = Listening(decisions)
        jobs = [Job(number, size) for number, size in enumerate(sizes)]
        session = Session(policy, Machine(PROCESSORS), jobs).arrive(*range(len(jobs)))
        session.decide(0)
        had_ns, now_ns = dict.fromkeys(range(len(jobs)), 0), 0
        for decision in decisions[:-1]:
            lengths_ns = [slot.length_ns for slot in decision.slots]
            for _ in range(draw.randint(0, 12)):
                slot, _ = slot_of(lengths_ns, decision.cyclic, now_ns - session.plan.start_ns)
                for job, share_ns in one_tick_ns(decision, decision.slots[slot]):
                    had_ns[job] += share_ns
                now_ns += TICK_NS
            session.timer().decide(now_ns)
            assert policy.told[-1] == had_ns
        given += sum(had_ns.values())
    assert given > 80 * TICK_NS
