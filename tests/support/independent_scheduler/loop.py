"""Space sharing once more, plain and slow, from docs/policies.md: this folder imports nothing of ours.

Here are jobs, what is known at an instant, and the loop from instant to instant.
Times are whole nanoseconds. At each instant at which jobs end or arrive, all of them do so; then the rule of
the policy decides once which waiting jobs start, and on how many processors.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

NS = 1_000_000_000


@dataclass
class Job:
    """A job takes work / p + alpha + beta p seconds on p processors, and its user thinks that it takes
    ``factor`` times as long."""

    number: int
    arrival_ns: int
    min_processes: int
    max_processes: int
    work: float
    alpha: float = 0.0
    beta: float = 0.0
    factor: float = 1.0
    begin_ns: int = -1
    end_ns: int = -1
    size: int = 0
    served_ns: int = 0
    """CPU time that it has had."""
    place: frozenset = frozenset()
    user: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    nice: int = 0
    told_ns: int | None = None
    """When it ends, if that is told, however long it should take."""

    def seconds(self, p, factor=1.0):
        return self.work * factor / p + self.alpha * factor + self.beta * factor * p

    def time_ns(self, p):
        return max(1, round(self.seconds(p) * NS))

    @property
    def owner(self):
        return f"{self.account}/{self.user}"

    def guess_ns(self, p):
        return round(self.seconds(p, self.factor) * NS)

    @property
    def demand(self):
        return self.seconds(1, self.factor)

    @cached_property
    def useful(self):
        """With more processors it would not be faster."""
        return min(range(self.min_processes, self.max_processes + 1), key=lambda p: (self.exactly(p), p))

    def exactly(self, p):
        return Fraction(self.work) / p + Fraction(self.alpha) + Fraction(self.beta) * p

    @property
    def average(self):
        """Its average parallelism."""
        return min(float(self.useful), self.seconds(1, self.factor) / self.seconds(self.useful, self.factor))


@dataclass
class State:
    """All that is known at an instant."""

    processors: int
    count: int
    """Jobs of the whole log."""
    now_ns: int = 0
    waiting: list = field(default_factory=list)
    running: list = field(default_factory=list)
    over: list = field(default_factory=list)
    """Jobs that have ended, in order of their ends, those of one time in order of their numbers."""
    memory: dict = field(default_factory=dict)
    again_ns: int | None = None
    """When the rule wants to decide again, if nothing else happens before."""

    @property
    def free(self):
        return self.processors - sum(job.size for job in self.running)


def schedule(jobs, processors, rule):
    """Run all jobs to their ends; returns the processors of all that run, after each instant."""
    history = {}
    coming = sorted(jobs, key=lambda job: (job.arrival_ns, job.number))
    state = State(processors, len(jobs))
    while coming or state.running:
        times = [job.end_ns for job in state.running] + [job.arrival_ns for job in coming]
        times += [] if state.again_ns is None else [state.again_ns]
        before_ns, state.now_ns = state.now_ns, min(times)
        for job in state.running:
            job.served_ns += job.size * (state.now_ns - before_ns)
        ended = [job for job in state.running if job.end_ns <= state.now_ns]
        state.over += sorted(ended, key=lambda job: job.number)
        state.running = [job for job in state.running if job.end_ns > state.now_ns]
        state.waiting += [job for job in coming if job.arrival_ns == state.now_ns]
        coming = [job for job in coming if job.arrival_ns > state.now_ns]
        state.again_ns = None
        rule(state)
        state.waiting = [job for job in state.waiting if job.begin_ns < 0]
        history[state.now_ns] = {job.number: set(job.place) for job in state.running}
    return history


def start(state, job, size):
    job.begin_ns = state.now_ns
    job.end_ns = state.now_ns + job.time_ns(size) if job.told_ns is None else job.told_ns
    job.size = size
    state.running.append(job)


def in_turn(state, order, size_of):
    """Start jobs in order as long as the first one fits on ``size_of`` it."""
    for job in order:
        size = size_of(job)
        if size > state.free or state.free == 0:
            break
        start(state, job, size)
