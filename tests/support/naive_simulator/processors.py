"""A processor: it switches between its processes, and gives the running one what it asks for."""

import itertools
import math
from types import SimpleNamespace

from naive_simulator.caches import Cache
from naive_simulator.ready_queues import BALANCE_TICKS
from naive_simulator.wants import ALARM, ALERT, AWAKE, COMPUTING, END, IDLE, SLEEP, SWITCHING, TICK, TIMERS

SLICE_NS = 5_000_000  # of the quota's budget; who needs nothing keeps 1 ms


class Processor:
    def __init__(self, simulation, number):
        self.simulation = simulation
        self.number = number
        self.local = simulation.local
        self.residents = []
        self.queue = []
        self.process = self.end = None  # end: the event at which the switch or the process's time is over
        self.category = IDLE
        self.history = [(0, -1, IDLE)]
        self.average = self.switches = self.put_offs = 0
        self.look, self.slice, self.next_yield = (SimpleNamespace() for _ in range(3))
        self.visitor = None
        self.ticks_to_balance = BALANCE_TICKS
        self.failures = 0
        self.cache = Cache(simulation.machine)
        self.given = None  # when a message last gave it to a process
        self.share = self.counted = 0  # of the quota's budget, and when it was counted
        self.stopped = False
        self.stood = None

    def at(self, time, kind, action):
        return self.simulation.at(time, TIMERS, 3 * self.number + kind, action)

    def note(self, category):
        self.category = category
        self.history.append((self.simulation.now, self.process.number if self.process else -1, category))

    def chosen(self):
        """Who runs next here; nobody while the quota is used up."""
        process = None
        if not self.stopped:
            self.simulation.queues.chooses(self)
            process = self.local.best(self)
        if process and not self.used_up():
            return process
        if self.stopped and self.stood is None and any(q.ready() for q in self.residents):
            self.stood = self.simulation.now
        return None

    def gives_way(self, process):
        return self.used_up() or not process.allowed or self.local.outranked(process)

    def used_up(self):
        """Whether the quota stops it. It takes slices, and pays for what it has used before."""
        simulation = self.simulation
        self.share -= (simulation.now - self.counted) * (self.process is not None)
        self.counted = simulation.now
        if simulation.quota and self.share <= 0 and not self.stopped:
            self.take(SLICE_NS - self.share)
            self.stopped = self.share <= 0
            self.stood = None
        return self.stopped

    def take(self, ns):
        ns = min(ns, self.simulation.budget)
        self.share = self.share + ns
        self.simulation.budget = self.simulation.budget - ns

    def release(self):
        self.used_up()
        self.take(1 - self.share)
        if self.share > 0:
            self.stopped = False
            self.simulation.throttled_ns += 0 if self.stood is None else self.simulation.now - self.stood
            self.reconsider()

    def reconsider(self, extra_ns=0):
        process = self.process
        if process is None:
            if self.chosen():
                self.dispatch(extra_ns)
        elif process.state == "running" and self.gives_way(process):
            self.preempt(extra_ns)

    def puts_off(self, left):
        """Whether the change of slot waits here, at most ``left`` times, for a process with its bit up."""
        self.look.cancelled = True
        process = self.process
        simulation = self.simulation
        spares = left and process and process.state == "running" and process.inside
        self.put_offs = left if spares and not simulation.lets(process) else 0
        if self.put_offs:
            self.look = self.at(simulation.now + simulation.put_off_ns, ALARM, self.look_again)
        return self.put_offs > 0

    def look_again(self):
        if not self.puts_off(self.put_offs - 1):
            for process in self.residents:
                process.allowed = self.simulation.lets(process)
            self.reconsider(self.slot_cost_ns)

    def dispatch(self, extra_ns=0, yields=0):
        # A switch, also from idle. It is carried through (Figure 7): who is ready meanwhile costs another.
        cost = self.simulation.cost
        wakeup = "idle_wakeup" if self.category == IDLE else "wakeup"
        if self.process:
            self.process.lost_ns = self.simulation.now
        chosen = self.chosen()
        if self.process and not chosen and not self.used_up() and self.share > 1_000_000:
            rest = self.share - 1_000_000
            self.share = 1_000_000
            self.simulation.give_back(rest)
        self.process = chosen
        self.note(SWITCHING if self.process else IDLE)
        if self.process:
            self.process.state = "coming"
            self.switches += 1
            costs = self.simulation.switches
            if self.process.waits() and self.process.lost_ns is not None:
                costs = self.rested(self.simulation.rested_switches, self.process.lost_ns) or costs
            cost_ns = self.one_of(costs) if costs else cost["context_switch"]
            self.switch_ns = cost_ns + extra_ns + (cost[wakeup] if self.process.woken else 0)
            if yields and not self.process.woken:
                self.switch_ns = yields
            self.end = self.at(self.simulation.now + self.switch_ns, END, self.switched)

    def one_of(self, values):
        return values[self.draw() // 256 % len(values)] if values else 0

    def rested(self, rows, since):
        """What is equally likely after a rest since then; nothing if it does not count as one."""
        rest = self.simulation.now - since
        rests = [0, *self.simulation.rests] if rows else []
        for (before, after), row in zip(itertools.pairwise(rests), [[], *rows], strict=False):
            if before <= rest < after:
                upper = self.draw() // 256 % 4096 < (rest - before) * 4096 // (after - before)
                return rows[rests.index(after) - 1] if upper else row
        return rows[-1] if rows else []

    def switched(self):
        process = self.process
        self.end = None
        if self.gives_way(process):
            self.enqueue(process, first=True)
            self.dispatch()
            return
        process.state = "running"
        process.dispatched = self.simulation.now
        process.offset += self.switch_ns  # as in Linux, which charges it from when it was chosen
        process.load(self.cache.load_ns(process))
        if process.wants.hears:
            self.go_on(process.wants.left)
        else:
            self.grant(process.wants)

    def preempt(self, extra_ns=0):
        self.enqueue(self.take_away("ready"), first=True)
        self.dispatch(extra_ns)

    def hand_over(self, process):
        """Who runs goes back to the head of the queue, and ``process`` before it."""
        rival = self.take_away("ready")
        process.priority = max(process.priority, rival.priority)
        self.enqueue(rival, first=True)
        self.enqueue(process, first=True)
        self.dispatch()

    def enqueue(self, process, first=False):
        process.state = "ready"
        self.queue.remove(process)
        self.queue.insert(0 if first else len(self.queue), process)

    def take_away(self, state):
        process = self.process
        (self.local.fall_asleep if state == "asleep" else self.local.leave)(process)
        if self.end:
            process.wants.left = self.stop_timer()
        process.cpu_ns = process.virtual() - process.offset
        process.state = state
        return process

    def stop_timer(self):
        left = self.end.time - self.simulation.now
        self.end.cancelled = True
        self.end = None
        return left

    def go_on(self, answer=None):
        """The running process goes on until it wants something."""
        self.end = None
        process = self.process
        try:
            self.grant(process.life.send(answer))
        except StopIteration:
            job = self.take_away("gone").job
            if all(process.state == "gone" for process in job.processes):
                self.simulation.depart(job)
            self.dispatch()
            job.resume(len(job.processes))
        if lock := process.gives_up:
            process.gives_up = None
            lock.give_up(process, fair=process.job.program.lock != "test-and-test-and-set")
            if process.lifted:
                process.lifted = False
                self.reconsider()

    def tell(self, process):
        """A process has what it waits for: it goes on at once, or when it runs."""
        if process.state == "asleep":
            self.wake(process)
        elif process.state == "running":
            self.go_on(self.stop_timer())

    def grant(self, wants, stays=False):
        """It gets what it wants from now on. Who ``stays`` was at it already, and yields as it would have."""
        process = self.process
        process.wants = wants
        process.woken = process.woken and wants not in (SLEEP, AWAKE)
        if wants is SLEEP:
            self.take_away("asleep")
            self.dispatch()
            if process.suspended and process.moves:
                process.resume()  # elsewhere
        elif wants is AWAKE:
            # Section 3.3: it has handled its message, and gets a priority of its own again.
            self.local.unblocked(process)
            (self.preempt if self.local.outranked(process) else self.go_on)()
        else:
            self.note(wants.category)
            self.end = self.at(self.simulation.now + wants.left, END, self.go_on)
            self.watch_slice()
            if not stays:
                self.watch_yield()
            then = wants.then
            wants.then = None
            if then:
                then()

    def deliver(self, process, message):
        """A process that runs and listens handles a message at once; another when it does."""
        process.inbox.append(message)
        if process.state == "asleep":
            self.wake(process)
        elif process.state == "running" and process.wants.hears == ALERT:
            if not process.messages_cost:
                assert list(process.handle_messages()) == []  # no time: what it is at goes on meanwhile
            if process.messages_cost or process.answered:
                self.go_on(self.stop_timer())

    def wake(self, process):
        process.woken = True
        self.simulation.queues.wakes(process)
        self.local.wake_up(process)
        process.processor.enqueue(process)
        process.processor.reconsider()

    def watch_slice(self):
        """Linux notices that a slice is over where a process asks for its CPU time."""
        process = self.process
        if process.wants.asks and self.simulation.slices_end:
            ends = self.simulation.now + process.deadline - process.virtual()
            if ends < self.end.time:
                self.slice.cancelled = True
                self.slice = self.at(max(ends, self.simulation.now), ALARM, self.end_slice)

    def end_slice(self):
        if self.process and self.process.state == "running" and self.category == COMPUTING:
            (self.slice_over if self.local.slice_ends(self.process) else self.watch_slice)()

    def slice_over(self):
        process = self.process
        self.simulation.queues.slice_ends(self)
        self.enqueue(self.take_away("ready"))
        if self.chosen() is process:
            process.state = "running"
            process.dispatched = self.simulation.now
            self.grant(process.wants, stays=True)
        else:
            self.dispatch()

    def watch_yield(self):
        """Its MPI lets Linux choose again, every so often while it spins."""
        every = self.process.yields
        process = self.process
        self.next_yield.cancelled = True
        spins = process.wants.hears == ALERT and process.wants.category != COMPUTING
        if every and spins and not process.polls:
            self.simulation.idle_yields += 1
            self.next_yield = self.at(self.simulation.now + every, ALARM, self.give_away)

    def give_away(self):
        """Whether another one runs after this yield."""
        process = self.process
        if not (process and process.state == "running" and process.wait):
            return False
        if not self.gives_way(process):
            self.watch_yield()
            return False
        self.simulation.idle_yields -= 1
        self.enqueue(self.take_away("ready"))
        self.dispatch(yields=self.simulation.cost["yield"])
        return True

    def tick(self):
        if self.process and self.process.state == "running" and self.local.slice_ends(self.process):
            self.slice_over()
        self.local.tick(self)
        self.due += self.simulation.machine.tick_ns
        late = self.simulation.tick_delay
        self.at(self.due + (late[self.draw() // 256 % len(late)] if any(late) else 0), TICK, self.tick)
        if self.process and self.used_up() and self.process.state == "running":
            self.preempt()
        if self.simulation.queues.ticks(self):
            self.reconsider()

    def ring(self):
        # Alarms of one time are one event, and wake in the order in which the processes were placed.
        due = [process for process in self.residents if process.alarm == self.simulation.now]
        for process in due:
            process.alarm = None
            process.began = self.simulation.now
            self.wake(process)
        return bool(due)

    def receive(self, visitor, left):
        """The process that runs gives way to a visitor, and goes on later."""
        switch = self.simulation.cost["context_switch"]
        visitor.visits = self
        self.visitor = visitor
        self.visiting = left
        self.visit = self.at(self.simulation.now + switch + left, ALARM, self.end_visit)
        self.process.cpu_ns -= 2 * switch + left
        action = self.end.action
        remains = self.stop_timer()
        self.end = self.at(self.simulation.now + remains + 2 * switch + left, END, action)

    def part(self):
        visitor = self.visitor
        self.visit.cancelled = True
        self.visitor = visitor.visits = None
        return visitor

    def end_visit(self):
        visitor = self.part()
        if visitor.state == "ready":
            left = visitor.wants.left if visitor.wait is None else self.visiting
            visitor.cpu_ns += left
            visitor.offset -= left
            visitor.has_left = True
            visitor.wants.left = 0 if visitor.wait is None else visitor.wants.left
            visitor.lock.give_up(visitor, fair=visitor.job.program.lock != "test-and-test-and-set")

    def os_noise(self):
        """The operating system takes the processor: what it is at takes longer, at nobody's charge."""
        length_ns, gap_ns = (self.exponential(of) for of in ("os_noise_length", "os_noise_interval"))
        self.at(self.simulation.now + length_ns + 1 + gap_ns, ALARM, self.os_noise)
        if self.process:
            self.local.os_noise(self.process)
        if self.process:  # the quota may have stopped it
            self.process.cpu_ns -= length_ns if self.process.state == "running" else 0
            action = self.end.action
            left = self.stop_timer()
            self.end = self.at(self.simulation.now + left + length_ns, END, action)

    def exponential(self, of):
        return int(-math.log((self.draw() + 1) / 2**31) * self.simulation.cost[of])

    def draw(self):
        self.random = (1103515245 * self.random + 12345) % 2**31
        return self.random
