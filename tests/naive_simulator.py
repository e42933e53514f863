"""The simulator's model once more, written for reading: objects, a heap, no compilation.

The compiled kernel must agree with it event for event. Nothing here is shared with the
kernel but the inputs: programs, waiting rules, the policy's session and the front door's
machine and job values. Events are (time, class, sequence): slots and arrivals, then
messages in the order they were sent, then processors by number, where a tick comes before
an alarm and that before the end of an activity. A timer that was reset leaves its old
entry in the heap, which is recognised by its version.
"""

import heapq
from collections import deque

import numpy as np

from coordinator.session import Session
from coordinator.view import Job as PolicyJob
from coordinator.view import Machine
from harness.simulator import local
from workloads import blocking
from workloads.program import Draws

TICK_NS = 10_000_000
NEVER = float("inf")
PLAN, MESSAGE, TIMER = range(3)
CATEGORIES = ["computing", "communicating", "synchronizing", "switching", "idle"]
COMPUTING, COMMUNICATING, SYNCHRONIZING, SWITCHING, IDLE = CATEGORIES


class Process:
    def __init__(self, job, rank, number, processor):
        self.job, self.rank, self.number, self.processor = job, rank, number, processor
        self.state = "ready"
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
        self.priority = (len(job.simulation.table) - 1) // 2
        self.ticks_left = job.simulation.table[self.priority][0]
        self.seconds = 0
        self.order = 0
        self.draws = Draws(job.program, rank, (*job.simulation.key, job.number))

    @property
    def level(self):
        return 10**9 if self.kernel else self.priority

    @property
    def waits(self):
        return self.activity in ("reading", "opening", "closing", "thinking")


class Processor:
    def __init__(self, number):
        self.number = number
        self.residents = []
        self.current = None
        self.switching = False
        self.activity = self.alarm = NEVER
        self.category, self.since = IDLE, 0
        self.spent = dict.fromkeys(CATEGORIES, 0)
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
        self.bursts = self.longest_burst = 0

    def now(self):
        return self.simulation.now

    def place(self, placement):
        self.placed = True
        self.placement = placement
        self.program = self.wanted.program.on(len(placement))
        self.targets = self.program.reads()
        self.phases = self.program.phase_count()
        self.rule = self.simulation.rule(self.program)
        self.processes = [
            Process(self, rank, self.first + rank, self.simulation.processors[p])
            for rank, p in enumerate(placement)
        ]
        self.unfinished = len(placement)


class NaiveSimulation:
    def __init__(self, jobs, machine, policy, blocking_rule="spin", spin_switches=2.0, seed=0, repeat=0):
        self.machine = machine
        self.key = (seed, repeat)
        self.now = self.sequence = self.messages = self.timers = 0
        self.heap = []
        self.timeline = []
        self.table = machine.table()
        self.requeues = local.KNOWN[machine.local].requeues_unblocked
        self.costs = [
            round(us * 1e3) for us in (machine.send_us, machine.receive_us, machine.serve_us, machine.poll_us)
        ]
        self.switch_ns, self.latency_ns = (
            round(machine.context_switch_us * 1e3),
            round(machine.latency_us * 1e3),
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
        ticks = self.random.integers(TICK_NS, size=machine.processors) + 1
        updates = self.random.integers(100, size=machine.processors) + 1
        for p, processor in enumerate(self.processors):
            independent = machine.timers == "independent"
            processor.tick = int(ticks[p]) if independent else TICK_NS
            processor.ticks_to_update = int(updates[p]) if independent else 100
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

    # --- the heap

    def push(self, time, kind, sequence, what):
        heapq.heappush(self.heap, (time, kind, sequence, what))

    def send(self, sender, is_reply):
        self.sequence += 1
        self.push(self.now + self.latency_ns, MESSAGE, self.sequence, (sender, is_reply))

    def set_timer(self, processor):
        processor.version += 1
        time = min(processor.tick, processor.alarm, processor.activity)
        self.push(time, TIMER, processor.number, processor.version)

    def set_activity(self, processor, after):
        processor.activity = self.now + after
        self.set_timer(processor)

    # --- the run

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
                self.enter_slot((self.slot + 1) % len(slots), self.slot_end)

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
        slot, _ = plan.slot_at(self.now)
        begin = self.now - plan.position(self.now)[1]
        self.enter_slot(slot, begin)

    def enter_slot(self, slot, begin):
        self.slot = slot
        self.plan_version += 1
        current = self.plan.decision.slots[slot]
        if current.length_ns is not None:
            self.slot_end = begin + current.length_ns
            self.push(self.slot_end, PLAN, 0, ("slot", self.plan_version))
        for job in self.jobs:
            for process in job.processes if job.placed else ():
                process.allowed = job.number in current.runs[process.processor.number]
        for processor in self.processors:
            self.reconsider(processor)

    # --- processors

    def charge(self, processor, category):
        processor.spent[processor.category] += self.now - processor.since
        processor.since, processor.category = self.now, category
        process = processor.current.number if processor.current else -1
        self.timeline.append((self.now, processor.number, process, CATEGORIES.index(category)))

    def best(self, processor):
        ready = [q for q in processor.residents if q.state == "ready" and q.allowed]
        return min(ready, key=lambda q: (-q.level, q.order), default=None)

    def outranked(self, processor, process):
        other = self.best(processor)
        return other is not None and other.level > process.level

    def enqueue(self, process, first):
        processor = process.processor
        process.state = "ready"
        if first:
            processor.first_order -= 1
            process.order = processor.first_order
        else:
            processor.last_order += 1
            process.order = processor.last_order

    def dispatch(self, processor):
        processor.current = self.best(processor)
        processor.switching = processor.current is not None
        if processor.current is None:
            self.charge(processor, IDLE)
            self.set_activity(processor, NEVER)
        else:
            processor.current.state = "taking over"
            processor.switches += 1
            self.charge(processor, SWITCHING)
            self.set_activity(processor, self.switch_ns)

    def leave(self, processor, state):
        process = processor.current
        left = processor.activity - self.now
        if process.handling:
            process.handling_left = left
        else:
            process.remaining = left
        process.cpu_ns += self.now - process.dispatched
        process.state = state

    def preempt(self, processor):
        process = processor.current
        self.leave(processor, "ready")
        self.enqueue(process, first=True)
        self.dispatch(processor)

    def reconsider(self, processor):
        current = processor.current
        if current is None:
            if self.best(processor):
                self.dispatch(processor)
        elif not processor.switching and (not current.allowed or self.outranked(processor, current)):
            self.preempt(processor)

    def block(self, processor):
        process = processor.current
        self.leave(processor, "blocked")
        process.blocked, process.kernel = True, False
        self.dispatch(processor)

    def wake(self, process):
        process.kernel = True
        self.enqueue(process, first=False)
        self.reconsider(process.processor)

    def turn_over(self, processor):
        process = processor.current
        self.enqueue(process, first=False)
        if self.best(processor) is process:
            process.state = "running"
        else:
            self.leave(processor, "ready")
            self.dispatch(processor)

    def expire(self, processor):
        if processor.tick <= self.now:
            self.tick(processor)
        elif processor.alarm <= self.now:
            self.ring_alarms(processor)
        elif processor.switching:
            self.take_over(processor)
        else:
            self.end_activity(processor, processor.current)

    def tick(self, processor):
        processor.tick += TICK_NS
        self.set_timer(processor)
        process = processor.current
        if process and not processor.switching and not process.kernel:
            process.ticks_left -= 1
            if process.ticks_left <= 0:
                self.set_priority(process, column=1)
                process.ticks_left = self.table[process.priority][0]
                self.turn_over(processor)
        processor.ticks_to_update -= 1
        if processor.ticks_to_update == 0:
            processor.ticks_to_update = 100
            for process in processor.residents:
                process.seconds += 1
                if process.state != "blocked" and process.seconds > self.table[process.priority][3]:
                    self.set_priority(process, column=4)
                    if process.state == "ready":
                        self.enqueue(process, first=False)
            self.reconsider(processor)

    def set_priority(self, process, column):
        process.priority = self.table[process.priority][column]
        process.seconds = 0

    def ring_alarms(self, processor):
        due = [process for process in processor.residents if process.alarm <= self.now]
        processor.alarm = NEVER
        for process in due:
            process.alarm = NEVER
            process.wait_began = self.now
            process.replied = True
            self.wake(process)
        processor.alarm = min(process.alarm for process in processor.residents)
        self.set_timer(processor)

    def take_over(self, processor):
        process = processor.current
        processor.switching = False
        if not process.allowed or self.outranked(processor, process):
            self.enqueue(process, first=True)
            self.dispatch(processor)
            return
        process.state = "running"
        process.dispatched = self.now
        if process.handling:
            self.charge(processor, COMMUNICATING)
            self.set_activity(processor, process.handling_left)
        elif self.handle_inbox(processor, process):
            self.resume(processor, process)

    # --- programs

    def end_activity(self, processor, process):
        if process.handling:
            self.go_on_handling(processor, process)
        elif process.activity == "gap":
            self.ask(processor, process, "reading")
        elif process.waits and process.replied:
            self.proceed(processor, process)
        elif process.waits:
            self.block(processor)
        elif process.job.think_us is not None:
            self.think(processor, process)
        elif process.job.program.opening_barrier:
            self.ask(processor, process, "opening")
        else:
            process.read = 0
            self.start_gap(processor, process)

    def start_phase(self, processor, process):
        process.activity = "compute"
        process.gap = int(process.draws.gap_ns(1)[0])
        self.charge(processor, COMPUTING)
        self.set_activity(processor, int(process.draws.compute_ns(1)[0]))

    def start_gap(self, processor, process):
        process.activity = "gap"
        self.charge(processor, COMPUTING)
        self.set_activity(processor, process.gap)

    def finish_phase(self, processor, process):
        job = process.job
        process.phase += 1
        if process.phase < job.phases:
            self.start_phase(processor, process)
            return
        self.leave(processor, "finished")
        job.unfinished -= 1
        self.dispatch(processor)
        if job.unfinished == 0:
            job.finish_ns = self.now
            self.follow(self.session.depart(job.number, self.now))

    def think(self, processor, process):
        job = process.job
        burst = self.now - process.wait_began
        job.bursts += burst
        job.longest_burst = max(job.longest_burst, burst)
        process.wait_began = self.now
        if job.think_us == 0 or process.phase + 1 == job.phases:
            self.finish_phase(processor, process)
            return
        process.activity = "thinking"
        process.alarm = self.now + round(job.think_us * 1e3)
        processor.alarm = min(processor.alarm, process.alarm)
        self.block(processor)

    def ask(self, processor, process, activity):
        job = process.job
        process.activity, process.blocked = activity, False
        if activity == "reading":
            process.target = job.processes[job.targets[process.rank][process.read]]
            self.charge(processor, COMMUNICATING)
        else:
            process.target = job.processes[0]
            self.charge(processor, SYNCHRONIZING)
        if self.costs[0] and not self.asks_itself(process):
            process.handling = "send"
            self.set_activity(processor, self.costs[0])
        else:
            self.start_wait(processor, process)

    def asks_itself(self, process):
        return process.target is process and not self.machine.messages_to_self

    def start_wait(self, processor, process):
        process.wait_began = self.now
        rule = process.job.rule
        if process.activity == "reading" and process.job.program.read == "rma":
            process.remaining = 1 << 62
        elif process.activity == "reading":
            process.remaining = blocking.read_limit(rule)
        else:
            process.remaining = blocking.barrier_limit(rule, process.estimate)
        process.spin_end = self.now + process.remaining
        if not self.asks_itself(process):
            self.send(process, is_reply=False)
        elif process.activity == "reading":
            process.replied = True
        elif self.is_last_arrival(process.job, process):
            self.complete_barrier(process)
        if process.handling == "broadcast":
            self.set_activity(processor, self.costs[0])
        elif self.handle_inbox(processor, process):
            self.spin(processor, process)

    def spin(self, processor, process):
        if process.replied:
            self.set_activity(processor, 0)
        elif process.remaining > 0:
            self.set_activity(processor, process.remaining if process.remaining < 1 << 60 else NEVER)
        else:
            self.block(processor)

    def resume(self, processor, process):
        if process.kernel:
            if not process.replied:
                self.block(processor)
                return
            process.kernel = False
            if process.seconds > self.table[process.priority][3]:
                self.set_priority(process, column=2)
                process.ticks_left = self.table[process.priority][0]
            if self.requeues:
                self.turn_over(processor)
            elif self.outranked(processor, process):
                self.preempt(processor)
            if process.state != "running":
                return
        if process.replied:
            self.proceed(processor, process)
        elif process.activity == "start":
            self.start_phase(processor, process)
        elif not process.waits:
            self.charge(processor, COMPUTING)
            self.set_activity(processor, process.remaining)
        else:
            self.charge(processor, COMMUNICATING if process.activity == "reading" else SYNCHRONIZING)
            if self.machine.spin_clock == "wall":
                process.remaining = process.spin_end - self.now
            self.spin(processor, process)

    def proceed(self, processor, process):
        process.replied = False
        reads = process.job.targets.shape[1]
        if process.activity == "reading":
            process.read += 1
            if process.read < reads:
                self.start_gap(processor, process)
            else:
                self.ask(processor, process, "closing")
        elif process.activity == "opening" and reads:
            process.read = 0
            self.start_gap(processor, process)
        else:
            self.finish_phase(processor, process)

    # --- messages

    def receive(self, sender, is_reply):
        process = sender if is_reply else sender.target
        if not is_reply and sender.activity == "reading" and sender.job.program.read == "rma":
            self.messages += 1
            self.send(sender, is_reply=True)
            return
        listens = process.state == "running" and (process.waits or not self.machine.handles_when_waiting)
        if listens and not any(self.costs):
            self.handle(process, sender, is_reply)
            if process.replied:
                self.proceed(process.processor, process)
            return
        process.inbox.append((sender, is_reply))
        if process.state == "blocked":
            self.wake(process)
        elif listens and not process.handling:
            process.remaining = process.processor.activity - self.now
            self.handle_inbox(process.processor, process)

    def handle_inbox(self, processor, process):
        send, receive, serve, poll = self.costs
        while process.inbox:
            if any(self.costs):
                at_barrier = process.activity in ("opening", "closing")
                self.charge(processor, SYNCHRONIZING if at_barrier else COMMUNICATING)
                process.handling = "message"
                sender, is_reply = process.inbox[0]
                is_read = not is_reply and sender.activity == "reading"
                self.set_activity(processor, receive + poll * process.waits + (serve + send) * is_read)
                return False
            self.handle(process, *process.inbox.popleft())
        return True

    def go_on_handling(self, processor, process):
        if process.handling == "send":
            process.handling = None
            self.start_wait(processor, process)
            return
        if process.handling == "broadcast":
            self.send(process.job.processes[process.broadcast], is_reply=True)
            process.broadcast += 1
            if process.broadcast == len(process.job.processes):
                process.handling = None
        else:
            process.handling = None
            self.handle(process, *process.inbox.popleft())
        if process.handling == "broadcast":
            self.set_activity(processor, self.costs[0])
        elif self.handle_inbox(processor, process):
            self.resume(processor, process)

    def handle(self, process, sender, is_reply):
        self.messages += 1
        if is_reply:
            self.take_reply(process)
        elif sender.activity == "reading":
            self.send(sender, is_reply=True)
        elif self.is_last_arrival(process.job, sender):
            self.complete_barrier(process)

    def complete_barrier(self, root):
        others = root.job.processes
        if not self.machine.messages_to_self:
            self.take_reply(root)
            others = others[1:]
        if self.costs[0] and others:
            root.handling, root.broadcast = "broadcast", others[0].rank
        else:
            for other in others:
                self.send(other, is_reply=True)

    def is_last_arrival(self, job, sender):
        job.longest = max(job.longest, sender.previous_wait)
        job.arrived += 1
        if job.arrived < len(job.processes):
            return False
        job.arrived = 0
        if job.rule.rule == blocking.GLOBAL_ADAPTIVE and job.longest >= 0 and self.ends_compute(sender):
            job.estimate = blocking.learn(job.sample, job.longest)
        job.longest = -1
        return True

    def take_reply(self, process):
        job = process.job
        process.replied = True
        waited = self.now - process.wait_began
        kind = "read" if process.activity == "reading" else "barrier"
        job.waits[kind, process.blocked][0] += 1
        job.waits[kind, process.blocked][1] += waited
        if kind == "read":
            return
        if self.ends_compute(process):
            process.previous_wait = waited
            if job.rule.rule == blocking.LOCAL_ADAPTIVE:
                process.estimate = blocking.learn(process.sample, waited)
        if job.rule.rule == blocking.GLOBAL_ADAPTIVE:
            process.estimate = job.estimate

    def ends_compute(self, process):
        return process.activity == ("opening" if process.job.program.opening_barrier else "closing")
