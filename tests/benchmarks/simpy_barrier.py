"""The BARRIER experiment of the simulator's benchmark as one would write it with SimPy.

A generator per rank and per processor's clock, messages as timeouts, a processor that serves the
process of the highest priority. The same rules as in ``harness.simulator``, written without it: the
dispatch table, the programs' compute times and the waiting rules are all that is shared.
"""

import simpy

from harness.simulator.processes.local import svr4
from workloads import blocking
from workloads.program import Draws

SWITCH_NS, LATENCY_NS, TICK_NS = 200_000, 10_000, 10_000_000
KERNEL = 1000
TABLE = svr4.table()


class Processor:
    """One at a time of the ranks in ``ready``; every dispatch costs a switch."""

    def __init__(self, env):
        self.env = env
        self.ranks, self.ready = [], []
        self.current, self.switching = None, False

    def enter(self, rank, first=False):
        self.ready.insert(0 if first else len(self.ready), rank)
        if self.current is None:
            self.switch()
        elif not self.switching and rank.level > self.current.level:
            self.preempt(first=True)

    def switch(self):
        if not self.ready:
            self.current = None
            return
        self.current = max(self.ready, key=lambda rank: rank.level)
        self.ready.remove(self.current)
        self.switching = True
        self.env.timeout(SWITCH_NS).callbacks.append(self.switched)

    def switched(self, _):
        self.switching = False
        rank = self.current
        if any(other.level > rank.level for other in self.ready):
            self.ready.insert(0, rank)
            self.switch()
        else:
            rank.turn.succeed()

    def preempt(self, first):
        rank = self.current
        rank.turn = self.env.event()
        rank.process.interrupt()
        self.ready.insert(0 if first else len(self.ready), rank)
        self.switch()

    def leave(self):
        """The current rank blocks or has finished."""
        self.current.turn = self.env.event()
        self.switch()

    def clock(self, offset_ns, ticks_to_update):
        yield self.env.timeout(offset_ns)
        while True:
            rank = self.current
            if rank and not self.switching and not rank.kernel:
                rank.ticks -= 1
                if rank.ticks <= 0:
                    rank.move(1)
                    rank.ticks = TABLE[rank.priority][0]
                    if any(other.level >= rank.level for other in self.ready):
                        self.preempt(first=False)
            ticks_to_update -= 1
            if ticks_to_update == 0:
                ticks_to_update = 100
                self.update()
            yield self.env.timeout(TICK_NS)

    def update(self):
        for rank in self.ranks:
            rank.seconds += 1
            if not rank.blocked and rank.seconds > TABLE[rank.priority][3]:
                rank.move(4)
                if rank in self.ready:
                    self.ready.remove(rank)
                    self.ready.append(rank)
        best = max((rank.level for rank in self.ready), default=-1)
        if self.current and not self.switching and best > self.current.level:
            self.preempt(first=True)


class Rank:
    """A process of a job; rank 0 is the root of its barrier."""

    def __init__(self, env, job, number, processor, key):
        self.env, self.job, self.processor = env, job, processor
        self.compute_ns = Draws(job.program, number, key).compute_ns(job.phases)
        self.turn, self.reply = env.event(), None
        self.inbox = []
        self.priority = (len(TABLE) - 1) // 2
        self.ticks = TABLE[self.priority][0]
        self.seconds = 0
        self.kernel = self.blocked = False
        self.waited_ns = self.estimate_ns = -1
        processor.ranks.append(self)

    @property
    def level(self):
        return KERNEL if self.kernel else self.priority

    @property
    def runs(self):
        return self.processor.current is self and not self.processor.switching

    def move(self, column):
        self.priority = TABLE[self.priority][column]
        self.seconds = 0

    def life(self):
        yield self.turn
        for compute_ns in self.compute_ns.tolist():
            yield from self.use(compute_ns)
            yield from self.barrier()
        self.processor.leave()

    def use(self, left_ns, until=None):
        """Use the processor for so long, or until an event, through all preemptions."""
        while left_ns > 0 and not (until and until.triggered):
            begin_ns = self.env.now
            try:
                end = self.env.timeout(left_ns)
                yield end | until if until else end
                return
            except simpy.Interrupt:
                left_ns -= self.env.now - begin_ns
                yield self.turn
                self.handle_inbox()

    def barrier(self):
        self.reply = self.env.event()
        began_ns = self.env.now
        self.send(self.job.ranks[0], self.waited_ns)
        limit_ns = blocking.barrier_limit(self.job.rule, self.estimate_ns)
        yield from self.use(limit_ns, self.reply)
        while not self.reply.triggered:
            self.blocked = True
            self.processor.leave()
            yield self.turn
            self.handle_inbox()
            self.kernel = self.kernel and self.reply.triggered
        self.waited_ns = self.env.now - began_ns
        self.estimate_ns = self.job.estimate_ns
        if self.kernel:
            yield from self.wake_up()

    def wake_up(self):
        """Back from a sleep: a user priority again, and room for those with a higher one."""
        self.kernel = False
        if self.seconds > TABLE[self.priority][3]:
            self.move(2)
            self.ticks = TABLE[self.priority][0]
        if any(other.level > self.level for other in self.processor.ready):
            self.turn = self.env.event()
            self.processor.ready.insert(0, self)
            self.processor.switch()
            yield self.turn
            self.handle_inbox()

    def send(self, target, message):
        arrival = self.env.timeout(LATENCY_NS, message)
        arrival.callbacks.append(lambda event: target.receive(event.value))

    def receive(self, message):
        if self.runs:
            self.handle(message)
            return
        self.inbox.append(message)
        if self.blocked:
            self.blocked, self.kernel = False, True
            self.processor.enter(self)

    def handle_inbox(self):
        while self.inbox:
            self.handle(self.inbox.pop(0))

    def handle(self, message):
        self.job.handled += 1
        if message is None:
            self.reply.succeed()
        elif self.job.all_arrived(message):
            for rank in self.job.ranks:
                self.send(rank, None)


class Job:
    def __init__(self, env, number, program, processors, key):
        self.program, self.phases = program, program.phase_count()
        self.rule = blocking.waiting(
            "global-adaptive", switch_us=SWITCH_NS / 1e3, latency_us=LATENCY_NS / 1e3
        )
        self.sample, self.estimate_ns, self.longest_ns = blocking.new_sample(0), -1, -1
        self.arrived = self.handled = 0
        self.ranks = [Rank(env, self, r, p, (*key, number)) for r, p in enumerate(processors)]

    def all_arrived(self, waited_ns):
        self.arrived += 1
        self.longest_ns = max(self.longest_ns, waited_ns)
        if self.arrived < len(self.ranks):
            return False
        if self.longest_ns >= 0:
            self.estimate_ns = blocking.learn(self.sample, self.longest_ns)
        self.arrived, self.longest_ns = 0, -1
        return True


def simulate(programs, processors, key, random):
    """Run BARRIER ``programs`` that arrive together; returns the makespan and the messages handled."""
    env = simpy.Environment()
    machine = [Processor(env) for _ in range(processors)]
    jobs = [Job(env, number, program, machine, key) for number, program in enumerate(programs)]
    for processor in machine:
        for index in random.permutation(len(jobs)):
            processor.ready.append(processor.ranks[index])
    for rank in (rank for job in jobs for rank in job.ranks):
        rank.process = env.process(rank.life())
    for processor in machine:
        processor.switch()
        env.process(processor.clock(int(random.integers(TICK_NS)) + 1, int(random.integers(100)) + 1))
    env.run(env.all_of([rank.process for job in jobs for rank in job.ranks]))
    return env.now, sum(job.handled for job in jobs)
