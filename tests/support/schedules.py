"""Random logs with ties, and when jobs begin and end by each of our schedulers: simulators and driver."""

import random
from dataclasses import replace

import numpy as np
from independent_scheduler.loop import Job
from independent_scheduler.policies import MALLEABLE, RULES, scheduled
from independent_scheduler.priorities import HAVE_JOBS, OPTIONS, PARTITIONS, QOS

from coordinator import policies
from coordinator.decide.conductor import Conductor
from coordinator.decide.session import Session
from coordinator.view import ExecutionTime, Machine, Submitter
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import Jobs
from harness.simulator.jobs.simulate import simulate
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate as simulate_processes
from workloads.program import Program

SHARED = ("process-control", "processor-sets")
"""Their jobs share processors, so that only the processes' simulator says when they end."""
POLICIES = [*RULES, *((name, ()) for name in MALLEABLE)]
OF_SITE = {"multifactor": OPTIONS}
"""Further options, which all comparisons have."""
S = 1_000_000_000


def log(seed, perfect=False):
    """Processors and jobs; arrivals and times are few whole numbers, so that ties are frequent.

    With ``perfect`` speedup a job takes its time times its most processors, divided by those that it has.
    """
    draw, whose = random.Random(seed), random.Random(-seed - 1)
    draw_queue = random.Random(f"queues {seed}")
    processors = draw.choice([1, 2, 3, 4, 4, 5, 6, 8, 12, 16])
    rigid = draw.choice([0.0, 0.5, 1.0])
    jobs, at = [], 0
    for number in range(draw.choice([1, 5, 10, 20])):
        at += draw.choice([0, 0, 0, 1, 1, 2, 3])
        most = draw.randint(1, processors)
        least = most if draw.random() < rigid else 1
        work = float(draw.choice([1, 1, 2, 2, 3, 4, 6]) * most)
        alpha, beta = (
            (0.0, 0.0) if perfect or least == most else draw.choice([(0.0, 0.0), (1.0, 0.0), (1.0, 0.5)])
        )
        factor, user = draw.choice([1.0, 1.0, 2.0, 3.0]), whose.choice(["", "ann", "bob"])
        queue = {
            "account": draw_queue.choice(HAVE_JOBS),
            "partition": draw_queue.choice(["", *PARTITIONS]),
            "qos": draw_queue.choice(["", *QOS]),
            "nice": draw_queue.choice([0, 0, 0, -50, 300, 5000]),
        }
        jobs.append(Job(number, at * S, least, most, work, alpha, beta, factor, user=user, **queue))
    return processors, jobs


def expected(name, options, processors, jobs):
    """When each job begins and ends."""
    jobs = [replace(job) for job in jobs]
    scheduled(name, options, jobs, processors)
    return {job.number: (job.begin_ns, job.end_ns) for job in jobs}


def columns(jobs):
    rows = [(j.arrival_ns, j.min_processes, j.max_processes, j.work, j.alpha, j.beta, j.factor) for j in jobs]
    submit, least, most, *others = zip(*rows, strict=True)
    whole = [np.array(column, dtype=np.int64) for column in (submit, least, most)]
    submitters = tuple(map(submitter, jobs))
    return Jobs(*whole, *(np.array(column, dtype=float) for column in others), submitters=submitters)


def submitter(job):
    return Submitter(job.user, job.account, job.partition, job.qos, job.nice)


def found(outcome):
    return dict(enumerate(zip(outcome.start_ns.tolist(), outcome.finish_ns.tolist(), strict=True)))


def by_kernel(policy, processors, jobs):
    return found(simulate(columns(jobs), processors, policy))


def by_event(policy, processors, jobs):
    return found(event_by_event.simulate(columns(jobs), processors, policy, malleable=resizes(policy))[0])


def resizes(policy):
    """Whether a policy changes how many processors a job has while it runs."""
    return isinstance(policy, tuple(type(policies.create(name, {})) for name in MALLEABLE))


def by_process(policy, processors, jobs):
    """Only jobs of perfect speedup: on a machine on which nothing costs time."""
    outcome = processes(policy, processors, jobs, "BARRIER")
    return {job.number: (job.start_ns, job.finish_ns) for job in outcome.jobs}


def processes(policy, processors, jobs, pattern):
    costs = {"context_switch_us": 0, "latency_us": 0, "messages_to_self": False}
    machine = SimulatedMachine(processors=processors, local="round-robin", **costs)
    given = []
    for job in jobs:
        kind = pattern if job.min_processes < job.max_processes else "BARRIER"
        phases = round(job.work) if kind == "TASKS" else 1
        granularity_us = 1e6 if kind == "TASKS" else job.work / job.max_processes * 1e6
        program = Program(kind, job.max_processes, granularity_us=granularity_us, imbalance=0, phases=phases)
        known = {
            "moldable": job.min_processes < job.max_processes,
            "estimate": ExecutionTime(job.work * job.factor),
            "execution_time": ExecutionTime(job.work),
            "submitter": submitter(job),
        }
        given.append(SimulatedJob(job.number, program, job.arrival_ns / 1e9, **known))
    outcome = simulate_processes(given, machine, policy)
    assert outcome.failure == ""
    return outcome


class Noting:
    """A policy that remembers the places that it has given."""

    def __init__(self, policy):
        self._policy, self.places = policy, {}

    def __getattr__(self, name):
        return getattr(self._policy, name)

    def decide(self, view, reason):
        decision = self._policy.decide(view, reason)
        self.places[view.now_ns] = decision.placements
        return decision


def by_decision(policy, processors, jobs, sized):
    """What the processes' simulator decides about queues of tasks, and when it ends the jobs."""
    noting = Noting(policy)
    outcome = processes(noting, processors, jobs, "TASKS")
    shown = len if sized else set
    places = {
        at_ns: {job: shown(place) for job, place in places.items()} for at_ns, places in noting.places.items()
    }
    return changes(places), {job.number: job.finish_ns for job in outcome.jobs}


def changes(history):
    """Those instants of a history after which something is not as before."""
    before, result = None, {}
    for at_ns, now in sorted(history.items()):
        if now != before:
            before = result[at_ns] = now
    return result


class FakeMachine:
    """The driver's conductor with a fake clock, and jobs that take their time; messages come in any order."""

    def __init__(self, policy, processors, jobs, order):
        known = columns(jobs).views(malleable=resizes(policy))
        self.jobs, self.order = jobs, order
        self.starting, self.begun, self.ends, self.sizes, self.now_ns = [], {}, {}, {}, 0
        self.conductor = Conductor(Session(policy, Machine(processors), known), known, self)

    def play(self):
        """When each job began and ended."""
        self.conductor.prepare()
        over = {}
        while not self.conductor.over:
            while self.starting:
                self.conductor.ready(self.starting.pop(), self.now_ns)
            due_ns = self.conductor.due_ns()
            self.now_ns = min([*self.ends.values(), *([] if due_ns is None else [due_ns])])
            ended = [job for job, end_ns in self.ends.items() if end_ns == self.now_ns]
            for job in self.order.sample(ended, len(ended)):
                over[job] = self.begun[job], self.ends.pop(job)
                self.conductor.leave(job)
            self.conductor.advance(self.now_ns)
        return over

    def launch(self, job, placement):
        self.starting.append(job)

    def publish(self, plan, from_ns):
        pass

    def begin(self, job, at_ns, placement):
        self.begun[job], self.sizes[job] = at_ns, len(placement)
        self.ends[job] = at_ns + self.jobs[job].time_ns(len(placement))

    def resize(self, job, placement):
        new, old = (self.jobs[job].time_ns(size) for size in (len(placement), self.sizes[job]))
        if new != old:
            self.ends[job] = self.now_ns + round((self.ends[job] - self.now_ns) * (new / old))
        self.sizes[job] = len(placement)


def by_driver(policy, processors, jobs):
    return FakeMachine(policy, processors, jobs, random.Random(len(jobs))).play()


def schedulers(name):
    """Those of our schedulers that are compared under a policy, without and with perfect speedup."""
    if name in SHARED:
        return {False: [by_driver], True: [by_decision]}
    return {False: [by_kernel, by_event, by_driver], True: [by_decision if name in MALLEABLE else by_process]}


def differing(seed, name, options, ours=None):
    """Those of our schedulers whose times of some job are not the independent scheduler's, by what they say.

    ``ours`` are the schedulers, by default all (``schedulers``).
    By process only jobs of perfect speedup are compared, since programs have that. Where processes share
    processors or come and go, decisions are compared, and the independent scheduler is told the ends.
    """
    policy = policies.create(name, OF_SITE.get(name, {}) | dict(options))
    differences = {}
    for perfect, compared in (ours or schedulers(name)).items():
        processors, jobs = log(seed, perfect)
        right = expected(name, options, processors, jobs)
        for scheduler in compared:
            if scheduler is by_decision:
                times, ends = by_decision(policy, processors, jobs, name in MALLEABLE)
                job_list = [replace(job, told_ns=ends[job.number]) for job in jobs]
                right = changes(scheduled(name, options, job_list, processors))
            else:
                times = scheduler(policy, processors, jobs)
            if times != right:
                differences[scheduler.__name__] = times, right
    return differences
