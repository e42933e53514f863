"""The simulator's model once more, written for reading: objects, a heap, no compilation.

The compiled kernel must agree with it event for event. Nothing here is shared with the
kernel but the inputs: programs, waiting rules, the policy's session and the front door's
machine and job values. Events are (time, class, sequence): slots and arrivals, then
messages in the order they were sent, then processors by number, where a tick comes before
an alarm and that before the end of an activity. A timer that was reset leaves its old
entry in the heap, which is recognised by its version.

``parts`` has processes, processors and jobs; ``tables`` and ``eevdf`` the local schedulers;
``processors``, ``programs`` and ``messages`` what happens, layer upon layer; this file
the run.
"""

import heapq

import numpy as np
from naive_simulator.eevdf import Eevdf
from naive_simulator.messages import Messages
from naive_simulator.parts import Job, Processor
from naive_simulator.processors import MESSAGE, PLAN, following
from naive_simulator.tables import TICKS_PER_UPDATE, TableScheduler

from coordinator.session import Session
from coordinator.view import Job as PolicyJob
from coordinator.view import Machine
from harness.simulator import local
from workloads import blocking


class NaiveSimulation(Messages):
    def __init__(self, jobs, machine, policy, blocking_rule="spin", spin_switches=2.0, seed=0, repeat=0):
        self.machine = machine
        self.key = (seed, repeat)
        self.now = self.sequence = self.messages = self.timers = 0
        self.heap = []
        self.timeline = []
        boosts = local.KNOWN[machine.local].boosts_woken
        self.local = Eevdf(self) if machine.local == "eevdf" else TableScheduler(self, boosts)
        self.tick_ns = machine.tick_ns
        self.costs = [
            round(us * 1e3) for us in (machine.send_us, machine.receive_us, machine.serve_us, machine.poll_us)
        ]
        idle_wakeup_us = machine.wakeup_us if machine.idle_wakeup_us is None else machine.idle_wakeup_us
        self.switch_ns, self.wakeup_ns, self.idle_wakeup_ns, self.latency_ns = (
            round(us * 1e3)
            for us in (machine.context_switch_us, machine.wakeup_us, idle_wakeup_us, machine.latency_us)
        )
        self.rule = lambda program: blocking.waiting(
            blocking_rule,
            switch_us=machine.context_switch_us,
            latency_us=machine.latency_us,
            spin_switches=spin_switches,
            imbalance_us=program.imbalance_us,
        )
        self.random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(repeat, 2**31)))
        self.processors = [Processor(p) for p in range(machine.processors)]
        ticks = self.random.integers(self.tick_ns, size=machine.processors) + 1
        updates = self.random.integers(TICKS_PER_UPDATE, size=machine.processors) + 1
        for p, processor in enumerate(self.processors):
            independent = machine.timers == "independent"
            processor.tick = int(ticks[p]) if independent else self.tick_ns
            processor.ticks_to_update = int(updates[p]) if independent else TICKS_PER_UPDATE
            processor.random = int(ticks[p])
            costs = machine.slot_cost_us or [0.0]
            processor.slot_cost = round(costs[min(p, len(costs) - 1)] * 1e3)
        self.slot_random = int(ticks[0])
        self.lateness = [round(us * 1e3) for us in machine.lateness_us or [0.0]]
        self.changing = False
        self.detour_gap, self.detour_length = (
            round(us * 1e3) for us in (machine.detour_gap_us, machine.detour_length_us)
        )
        if self.detour_gap:
            gaps = self.random.exponential(machine.detour_gap_us * 1e3, size=machine.processors)
            for processor, gap in zip(self.processors, gaps, strict=True):
                processor.detour = processor.alarm = int(gap) + 1
        for processor in self.processors:
            self.set_timer(processor)
        ordered = sorted(jobs, key=lambda job: (job.arrival_s, job.number))
        firsts = np.cumsum([0] + [job.program.processes for job in ordered])
        self.jobs = [Job(self, job, int(first)) for job, first in zip(ordered, firsts, strict=False)]
        self.session = Session(
            policy,
            Machine(machine.processors),
            [PolicyJob(j.number, j.program.processes, round(j.arrival_s * 1e9), j.moldable) for j in ordered],
        )
        self.plan_version = 0

    def run(self):
        by_time = {}
        for job in self.jobs:
            by_time.setdefault(round(job.wanted.arrival_s * 1e9), []).append(job)
        for time, jobs in by_time.items():
            self.push(time, PLAN, -1, ("arrive", jobs))
        while any(job.finish_ns is None for job in self.jobs):
            self.now, kind, sequence, what = heapq.heappop(self.heap)
            if kind == PLAN:
                self.plan_event(*what)
            elif kind == MESSAGE:
                self.receive(*what)
            elif self.processors[sequence].version == what:
                self.timers += 1
                self.expire(self.processors[sequence])
        return self

    def plan_event(self, name, argument):
        if name == "arrive":
            for job in argument:
                plan = self.session.arrive(job.number, self.now)
            self.follow(plan)
        elif argument == self.plan_version:
            slots = self.plan.decision.slots
            if self.slot + 1 == len(slots) and not self.plan.decision.cyclic:
                self.follow(self.session.slot_end(self.now))
            else:
                self.slot_random = following(self.slot_random)
                late = self.lateness[(self.slot_random >> 8) % len(self.lateness)]
                self.enter_slot((self.slot + 1) % len(slots), self.slot_end, late)

    def follow(self, plan):
        self.plan = plan
        newcomers = {}
        for job in self.jobs:
            if job.number in plan.decision.placements and not job.placed:
                job.place(plan.decision.placements[job.number])
        for number in plan.decision.placements:
            job = next(job for job in self.jobs if job.number == number)
            if not getattr(job, "queued", False):
                job.queued = True
                for process in job.processes:
                    newcomers.setdefault(process.processor.number, []).append(process)
        for p, processes in sorted(newcomers.items()):
            processor = self.processors[p]
            numbers = {process.number: process for process in processes}
            for number in self.random.permutation([process.number for process in processes]):
                processor.last_order += 1
                numbers[number].order = processor.last_order
                processor.residents.append(numbers[number])
        slot, _ = plan.cycle.slot_at(self.now)
        begin = self.now - plan.cycle.position(self.now)[1]
        self.enter_slot(slot, begin, self.lateness[0])

    def enter_slot(self, slot, begin, late):
        self.slot = slot
        self.plan_version += 1
        current = self.plan.decision.slots[slot]
        if current.length_ns is not None:
            self.slot_end = begin + current.length_ns
            self.push(self.slot_end + late, PLAN, 0, ("slot", self.plan_version))
        for job in self.jobs:
            for process in job.processes if job.placed else ():
                process.allowed = job.number in current.runs[process.processor.number]
                if process.state == "entering":
                    self.local.enter(process)
                    process.state = "ready"
        self.changing = True
        for processor in self.processors:
            self.reconsider(processor)
        self.changing = False
