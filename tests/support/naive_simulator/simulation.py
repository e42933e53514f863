"""The simulator's model once more, written from its description: a queue of events, and generators.

Section 3 of Dusseau, Arpaci, Culler 1996, docs/decisions.md, and what the docstrings of
``harness.simulator`` promise. Nothing is shared with the kernel but inputs: programs, waiting rules,
dispatch tables, the policy's session, and the sequence of random numbers that ``model`` promises.
"""

import heapq
from functools import partial
from types import SimpleNamespace

import numpy as np
from naive_simulator.processes import Job
from naive_simulator.processors import SLICE_NS, Processor
from naive_simulator.ready_queues import KINDS
from naive_simulator.schedulers import DispatchTable, Eevdf, Inheritance
from naive_simulator.wants import (
    ALARM,
    ARRIVALS,
    AT_ONCE,
    DECISION,
    MESSAGES,
    QUOTAS,
    SLOTS,
    TICK,
    TIMERS,
)

from coordinator import view
from coordinator.decide.session import Session
from workloads.options import DEFAULTS
from workloads.patterns import partners

DEVIATIONS = frozenset({"handled when dispatched"})
"""Where the kernel does not do what is written (test_simulator_reference), and the reference follows it."""


class NaiveSimulation:
    def __init__(self, jobs, machine, policy, options=DEFAULTS, seed=0, stream=0, deviates=DEVIATIONS):
        self.machine = machine
        self.key = (seed, 0)
        self.deviates = deviates
        self.now = self.events = self.messages = self.timers = self.idle_yields = self.pushed = 0
        self.remedy = options.remedy
        self.ends = None
        kind = self.remedy.kind
        self.put_offs = self.remedy.deferrals if kind == "defer" else 0
        self.put_off_ns = round(self.remedy.deferral_us * 1e3)
        self.conscious = kind == "conscious"
        self.lifts = kind == "inheritance"
        self.activations = kind == "activations"
        self.placed = 0
        self.heap, self.slot_end, self.reallotted = [], SimpleNamespace(), False
        costs = self.take_costs(machine)
        given = policy.coscheduling
        self.patience = round(given["patience_us"] * 1e3) if given else 0
        self.min_run = round(given["min_run_ms"] * 1e6) if given else 0
        self.observation = policy.observation
        self.rule = lambda program, as_mpi=False: (DEFAULTS if as_mpi else options).waiting_rule(
            imbalance_us=program.imbalance_us, **costs
        )
        self.local = Eevdf(machine) if machine.local == "eevdf" else DispatchTable(machine)
        self.slices_end = machine.local == "eevdf" and 0 < machine.queried_slice_us < 1000
        self.local = Inheritance(self.local) if self.lifts else self.local
        self.random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0, 2**31 + stream)))
        self.processors = [Processor(self, p) for p in range(machine.processors)]
        self.queues = KINDS[machine.queue](self)
        self.limit(options)
        self.start_timers(machine)
        self.expect(jobs, policy)

    def take_costs(self, machine):
        """What the machine's messages and switches cost, in ns; returns what waiting rules know of them."""
        us = {name[:-3]: v for name, v in vars(machine).items() if name.endswith("_us") and np.isscalar(v)}
        us = {"rule_latency": us["latency"], **us}
        rule_us, usual_us = (us[name] or us["context_switch"] for name in ("remote_wakeup", "local_switch"))
        us["wakeup"] = max(0, us["remote_wakeup"] - usual_us)
        us["idle_wakeup"] = max(0, (us["idle_wakeup"] or us["remote_wakeup"]) - usual_us)
        self.cost = {name: round(value * 1e3) for name, value in us.items()}
        self.rests, self.rested_switches, self.rested_sends = (
            (np.array(given) * 1e3).round().astype(int).tolist()
            for given in (machine.idle_times_us, machine.switch_after_idle_us, machine.send_after_idle_us)
        )
        self.overruns = [round(more_us * 1e3) for more_us in machine.overrun_us]
        self.overruns = self.overruns if any(self.overruns) else []
        self.rested_sends = self.rested_sends if np.any(self.rested_sends) else []
        self.sends_cost = self.cost["send"] > 0 or self.rested_sends
        parts_cost = any(self.cost[name] for name in ("receive", "serve", "poll"))
        self.messages_cost = self.sends_cost or parts_cost
        self.switch_delay = [round(late * 1e3) for late in machine.switch_delay_us or [0.0]]
        scatter = [round(more * 1e3) for more in machine.switch_deviation_us]
        differ = any(scatter) or self.rested_switches
        self.switches = [max(0, self.cost["context_switch"] + more) for more in scatter or [0] if differ]
        self.tick_delay = [round(late * 1e3) for late in machine.tick_delay_us]
        return {"context_switch_us": rule_us, "latency_us": us["rule_latency"]}

    def expect(self, jobs, policy):
        """Let the jobs arrive in their time."""
        jobs = sorted(jobs, key=lambda job: (job.arrival_s, job.number))
        firsts = np.cumsum([0] + [job.program.processes for job in jobs]).tolist()
        self.coming = {given.number: (given, first) for given, first in zip(jobs, firsts, strict=False)}
        self.jobs = {}
        known = [
            view.Job(
                *(job.number, job.program.processes, round(job.arrival_s * 1e9), job.moldable),
                malleable=job.program.pattern == "TASKS",
                partners=partners(job.program.pattern, job.program.processes),
                memory_bytes=getattr(job.program, "working_set_bytes", 0),
            )
            for job in jobs
        ]
        self.session = Session(policy, self.machine.seen(), known, self.machine.lost)
        for time in {job.arrival_ns for job in known}:
            here = [job.number for job in known if job.arrival_ns == time]
            self.at(time, ARRIVALS, 0, partial(self.tell, self.session.arrive, *here))

    def start_timers(self, machine):
        # Section 3.3: ticks and updates are independent of each other; or section 7.1: they are not.
        count = machine.processors
        independent = machine.timers == "independent"
        ticks = (self.random.integers(machine.tick_ns, size=count) + 1).tolist()
        updates = (self.random.integers(100, size=count) + 1).tolist()
        detours = [2.0**60] * count
        if machine.os_noise_interval_us:
            detours = self.random.exponential(machine.os_noise_interval_us * 1e3, size=count)
        self.delay_random = ticks[0]
        costs = list(machine.slot_cost_us or [0.0])
        for p, processor in enumerate(self.processors):
            processor.slot_cost_ns = round(costs[min(p, len(costs) - 1)] * 1e3)
            processor.random = ticks[p]
            processor.ticks_to_update = updates[p] if independent else 100
            processor.due = ticks[p] if independent else machine.tick_ns
            processor.at(processor.due, TICK, processor.tick)
            processor.at(int(detours[p]) + 1, ALARM, processor.os_noise)

    def limit(self, options):
        """Turner et al. 2010: in each period the processes have so much time of all processors together."""
        self.period = round(options.quota_period_ms * 1e6)
        self.quota = self.budget = round(options.quota_processors * self.period)
        self.throttled_ns, self.slack = 0, False  # slack: who stands still gets what others have not used
        self.period_end = self.period
        if self.quota:
            self.at(self.period, QUOTAS, 0, self.begin_period)

    def begin_period(self):
        self.period_end += self.period
        self.at(self.period_end, QUOTAS, 0, self.begin_period)
        self.budget = self.quota
        self.release()

    def give_back(self, ns):
        """What a processor does not need others may have; in 5 ms also who stands still, if it is a slice."""
        self.budget += ns
        late = self.period_end - self.now < 7_000_000
        if any(p.stopped for p in self.processors) and self.budget > SLICE_NS and not (self.slack or late):
            self.slack = True
            self.at(self.now + 5_000_000, QUOTAS, 0, self.end_slack)

    def end_slack(self):
        self.slack = False
        if self.budget > SLICE_NS:
            self.release()

    def release(self):
        for processor in self.processors:
            if processor.stopped and self.budget > 0:
                processor.release()

    def at(self, time, priority, sequence, action):
        event = SimpleNamespace(time=time, action=action, cancelled=False)
        self.pushed += 1
        heapq.heappush(self.heap, (time, priority, sequence, self.pushed, event))
        return event

    def run(self):
        while self.coming or any(job.finish_ns is None for job in self.jobs.values()):
            before, (self.now, priority, _, _, event) = self.now, heapq.heappop(self.heap)
            assert self.now >= before
            if not event.cancelled:
                self.events += 1
                idle = event.action() is False
                self.timers += priority == TIMERS and not idle
        return self

    def send(self, receiver, sender, what):
        """Section 3.2: a message takes the latency from processor to processor, and more with every hop."""
        arrive = partial(deliver, receiver, (sender, what))
        if what == "read" and sender.job.network_reads:
            self.messages += 1
            arrive = partial(self.send, sender, receiver, "answer")
        hops = self.session.machine.hops(receiver.processor.number, sender.processor.number)
        latency = self.cost["latency"] + hops * self.cost["hop_latency"]
        self.at(self.now + latency, MESSAGES, self.pushed, arrive)

    def answer(self, process, time):
        """What it waits for comes at this time."""
        self.later(time, partial(deliver, process, (None, "answer")))

    def later(self, time, arrive):
        self.at(time, MESSAGES, self.pushed, arrive)

    def depart(self, job):
        job.finish_ns = self.now
        self.tell(self.session.depart, job.given.number)

    def evolve(self, job, usable):
        """The others hear of it as soon as this process has begun its task."""
        self.at(self.now, AT_ONCE, 0, partial(job.resume, min(usable, job.allotted)))
        self.tell(self.session.evolve, job.given.number, usable)

    def hear(self, process):
        self.tell(self.session.observe, process.job.given.number, process.rank, process.correspondents.ranks)

    def tell(self, event, *values):
        """The policy decides when nothing more happens at this time."""
        event(*values)
        self.at(self.now, DECISION, 0, self.decide)

    def decide(self):
        if self.session.reason:
            self.adopt(self.session.decide(self.now).decision)

    def adopt(self, decision):
        self.decision = decision
        newcomers = {}
        everyone = {}
        for number in [number for number in decision.placements if number in self.coming]:
            self.jobs[number] = Job(self, *self.coming.pop(number), decision.placements[number])
            for process in self.jobs[number].processes:
                newcomers.setdefault(process.processor.number, {})[process.number] = process
                everyone[process.number] = process
        for number in self.jobs.keys() & decision.placements.keys():
            self.reallotted |= self.jobs[number].reallot(decision.placements[number])
        # Section 3.3: processes that arrive together are queued in random order.
        for p, processes in sorted(newcomers.items()):
            self.processors[p].residents += processes.values()
        together = self.queues.shuffles_together and everyone
        for line in [everyone] if together else [line for _, line in sorted(newcomers.items())]:
            for number in self.random.permutation(list(line)):
                line[number].processor.queue.append(line[number])
                self.placed += 1
                line[number].place = self.placed
        lengths = [slot.length_ns for slot in decision.slots]
        slot = 0
        begin = self.now - decision.elapsed_ns
        while lengths[slot] is not None and begin + lengths[slot] <= self.now:
            slot, begin = (slot + 1) % len(lengths), begin + lengths[slot]
        self.begin_slot(slot, begin, self.switch_delay[0])

    def begin_slot(self, index, begin, late_ns):
        self.slot = index
        slot = self.decision.slots[index]
        self.slot_end.cancelled = True
        self.ends = None if slot.length_ns is None else begin + slot.length_ns
        if slot.length_ns is not None:
            end = self.ends
            self.slot_end = self.at(max(end + late_ns, self.now), SLOTS, 0, partial(self.end_slot, end))
        processes = [process for job in self.jobs.values() for process in job.processes]
        by_number = sorted(processes, key=lambda process: process.number)
        late = [processor for processor in self.processors if processor.puts_off(self.put_offs)]
        for process in processes:
            process.allowed = process.allowed if process.processor in late else self.lets(process)
        for process in [process for process in processes if process.state == "new"]:
            self.local.enter(process)
            process.state = self.queues.newcomer
        for processor in self.processors:
            processor.reconsider(processor.slot_cost_ns)
        for process in by_number:
            if process.held_off and process.state == "running" and not self.warns(process):
                process.processor.go_on(process.processor.stop_timer())
        for process in by_number:
            if self.activations and process.inside and process.wait is None:
                process.visit()
        for job in sorted(self.jobs.values(), key=lambda job: job.processes[0].number):
            job.resume(job.allotted if self.reallotted else 0)
        self.reallotted = False

    def lets(self, process, index=None):
        """Whether the slot in force lets it run, or another one."""
        slot = self.decision.slots[self.slot if index is None else index]
        job = process.job
        rank = process.rank
        return rank >= job.allotted or slot.allows(job.given.number, rank, process.home.number)

    def warns(self, process):
        """Whether the next slot will stop it soon. After the last slot of a table anything may come."""
        warning = self.remedy.warning_ns
        if not warning or self.ends is None or self.ends - self.now >= warning:
            return False
        following = (self.slot + 1) % len(self.decision.slots)
        return not self.lets(process, following) and (following > 0 or self.decision.cyclic)

    def end_slot(self, end):
        slot = (self.slot + 1) % len(self.decision.slots)
        if slot == 0 and not self.decision.cyclic:
            self.tell(self.session.slot_end)
        else:
            self.delay_random = (1103515245 * self.delay_random + 12345) % 2**31
            late_ns = self.switch_delay[(self.delay_random >> 8) % len(self.switch_delay)]
            self.begin_slot(slot, end, late_ns)


def deliver(process, message):
    """A message comes to the processor on which its receiver is by then."""
    process.processor.deliver(process, message)
