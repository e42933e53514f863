"""Processes, processors and jobs of the plain model."""

from collections import deque

from workloads import blocking
from workloads.program import Draws

NEVER = float("inf")
CATEGORIES = ["computing", "communicating", "synchronizing", "switching", "idle"]
COMPUTING, COMMUNICATING, SYNCHRONIZING, SWITCHING, IDLE = CATEGORIES


class Process:
    def __init__(self, job, rank, number, processor):
        self.job, self.rank, self.number, self.processor = job, rank, number, processor
        self.state = "entering"
        self.activity = "start"
        self.inbox = deque()
        self.phase = self.read = self.remaining = self.cpu_ns = 0
        self.handling = None  # None, "message", "broadcast", "send"
        self.handling_left = self.broadcast = 0
        self.blocked = self.replied = self.kernel = self.allowed = False
        self.estimate = self.previous_wait = -1
        self.sample = blocking.new_sample(rank)
        self.wait_began = job.now()
        self.alarm = NEVER
        self.order = 0
        self.draws = Draws(job.program, rank, (*job.simulation.key, job.number))

    @property
    def waits(self):
        return self.activity in ("reading", "opening", "closing", "thinking")


class Processor:
    def __init__(self, number):
        self.number = number
        self.residents = []
        self.current = None
        self.switching = False
        self.activity = self.alarm = self.detour = NEVER
        self.category, self.since = IDLE, 0
        self.spent = dict.fromkeys(CATEGORIES, 0)
        self.charged = self.average = 0
        self.first_order = self.last_order = self.switches = 0
        self.version = 0


class Job:
    def __init__(self, simulation, job, first):
        self.simulation, self.first = simulation, first
        self.number, self.think_us = job.number, job.think_us
        self.wanted = job
        self.finish_ns = None
        self.placed = False
        self.arrived = 0
        self.longest = self.estimate = -1
        self.sample = blocking.new_sample(0)
        self.waits = {(k, b): [0, 0] for k in ("read", "barrier") for b in (False, True)}
        self.bursts_ns = []

    def now(self):
        return self.simulation.now

    def place(self, placement):
        self.placed = True
        self.placement = placement
        self.program = self.wanted.program.on(len(placement))
        self.targets = self.program.reads()
        self.phases = self.program.phase_count()
        self.rule = self.simulation.rule(self.program)
        by_network = self.simulation.machine.reads_served_by == "network"
        self.served_by_network = by_network or self.program.read == "rma"
        self.processes = [
            Process(self, rank, self.first + rank, self.simulation.processors[p])
            for rank, p in enumerate(placement)
        ]
        self.unfinished = len(placement)
