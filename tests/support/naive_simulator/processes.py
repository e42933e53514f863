"""Programs: each process is a generator that yields what it wants of its processor.

It yields a ``Time``, or SLEEP until it is woken, or AWAKE once it has what it slept for; and gets what
is left of a Time when a message came or a switch took place, else None.
"""

from naive_simulator.locks import Lock
from naive_simulator.replay import Channel, carry_out_steps, hear
from naive_simulator.wants import (
    ALARM,
    ALERT,
    AWAKE,
    BEGIN,
    COMMUNICATING,
    COMPUTING,
    DEAF,
    LATE,
    SLEEP,
    SYNCHRONIZING,
    Time,
)

from workloads import waiting_rules
from workloads.coscheduling import Correspondents
from workloads.program import Draws


class Job:
    def __init__(self, simulation, given, first, placement):
        self.simulation = simulation
        self.given = given
        # Of a queue of tasks as many processes come as may ever run at once, or more if the policy says.
        most = simulation.session.processes(given.number) or 0
        room = min(given.program.processes, simulation.machine.processors)
        tasks = given.program.pattern == "TASKS"
        self.program = given.program.on(max(most, room) if tasks else len(placement))
        self.left = self.program.phase_count() if tasks else 0
        self.allotted, self.draws = len(placement), Draws(self.program, 0, (*simulation.key, given.number))
        self.rule = simulation.rule(self.program)
        self.targets = self.program.reads().tolist()
        by_network = simulation.machine.reads_served_by == "network" or self.program.read == "rma"
        self.network_reads = by_network and not given.replay
        self.waits = {
            (kind, slept): [0, 0] for kind in ("read", "opening", "closing", "lock") for slept in (0, 1)
        }
        self.finish_ns, self.bursts_ns, self.arrived, self.reports = None, [], 0, []
        self.served, self.order = -1, first  # when a message last got it a processor
        self.estimate, self.learned, self.sample = -1, -1, waiting_rules.new_sample(0)
        places = [simulation.processors[placement[r % len(placement)]] for r in range(self.program.processes)]
        self.places = places
        self.locks = [Lock() for _ in range(getattr(self.program, "locks", 0))]
        self.processes = [Process(self, rank, first + rank, place) for rank, place in enumerate(places)]
        if given.replay:
            self.rule = simulation.rule(self.program, as_mpi=given.replay.as_mpi)
            of = self.processes
            self.channels = [Channel(of[a], of[b], meets) for a, b, meets in given.replay.channels.tolist()]
            self.longest = -1
            for process in self.processes:
                spins = self.rule.rule == waiting_rules.SPIN and simulation.machine.local == "eevdf"
                process.yields = given.replay.yield_interval_ns if spins else 0

    def reallot(self, placement):
        """Whether these are other processors than before."""
        before = [process.home.number for process in self.processes[: self.allotted]]
        self.allotted = len(placement)
        for process, p in zip(self.processes, placement, strict=False):
            process.home = self.simulation.processors[p]
        return before != list(placement)

    def resume(self, count):
        for process in self.processes[:count]:
            if process.suspended and process.state == "asleep":
                process.resume()

    def host(self):
        """Where a stopped process would visit."""
        mates = (q.processor for q in self.processes if q.state == "running" and q.allowed)
        return next((place for place in mates if place.visitor is None), None)

    def arrival(self, sender):
        # Section 6.3: the root knows that the load imbalance is the longest wait of any process (each tells
        # its last one, or when it comes); a completion carries what it has learned: at the barriers before.
        spread = self.rule.estimate == waiting_rules.ARRIVAL_SPREAD
        self.reports.append(sender.began if spread else sender.last_wait)
        self.arrived += 1
        if self.arrived < len(self.processes):
            return False
        self.estimate = self.learned
        longest = max(self.reports) - min(self.reports) if spread else max(self.reports)
        if sender.learns and self.rule.rule == waiting_rules.GLOBAL_ADAPTIVE and longest >= 0:
            self.learned = waiting_rules.learn(self.sample, longest)
        self.arrived = 0
        self.reports = []
        return True


class Process:
    def __init__(self, job, rank, number, processor):
        self.job, self.rank, self.number, self.processor = job, rank, number, processor
        self.home = processor
        self.suspended = False
        self.moves = False
        self.simulation, self.machine, self.cost = job.simulation, job.simulation.machine, job.simulation.cost
        self.visits, self.has_left, self.entered, self.section = None, False, None, 0
        self.state = "new"  # then ready, coming, running, asleep, and gone at last
        self.allowed = self.woken = self.lingers = self.answered = False
        self.inbox, self.wants, self.wait, self.alarm = [], BEGIN, None, None
        self.estimate, self.last_wait, self.sample = -1, -1, waiting_rules.new_sample(rank)
        self.gives_up, self.inside, self.held_off, self.lifted, self.gives_way = None, *[False] * 4
        self.lost_ns = self.cache = self.walk = None
        self.talked = self.simulation.now  # when its last wait ended
        self.cold_ns = 0
        self.owed_ns = 0
        self.computes = False
        self.began, self.dispatched, self.cpu_ns, self.offset, self.lag = self.simulation.now, 0, 0, 0, 0
        self.correspondents, self.look_at, self.word, self.naps = None, 0, None, False
        self.yields = 0
        self.polls = False
        self.draws = Draws(job.program, rank, (*self.simulation.key, job.given.number))
        polls = LATE if "handled when dispatched" in self.simulation.deviates else DEAF
        self.hears = polls if self.machine.handles_when_waiting else ALERT  # while it computes
        self.messages_cost = self.simulation.messages_cost and not job.given.replay
        self.life = self.run()

    def waits(self):
        """Whether it would do nothing but wait if it ran."""
        in_section = self.entered is not None  # maybe in the place of another, before it has had its own
        return (self.wait is not None and not in_section) or self.naps or self.suspended

    def ready(self):
        return self.state == "ready" and self.allowed

    def virtual(self):
        running = self.state == "running"
        return self.offset + self.cpu_ns + running * (self.simulation.now - self.dispatched)

    def run(self):
        """Section 3.1 and Figure 1: it computes, then communicates, and so on, phase after phase."""
        program = self.job.program
        think_us = self.job.given.think_us
        others = self.job.processes
        if self.hears:
            yield from self.handle_messages()
        if program.pattern == "TASKS":
            yield from self.carry_out_tasks()
            return
        if self.job.given.replay:
            yield from carry_out_steps(self)
            return
        for phase in range(program.phase_count()):
            if phase and self.simulation.observation:
                self.observe(phase)
            yield from self.sleep(round((think_us or 0) * 1e3))
            gap_ns = int(self.draws.gap_ns(1)[0])
            yield from self.work(int(self.draws.compute_ns(1)[0]) + self.overrun())
            if self.job.locks:
                yield from self.exclude(int(self.draws.among(len(self.job.locks), 1)[0]))
                continue
            if think_us is not None:
                self.job.bursts_ns.append(self.simulation.now - self.began)
                continue
            if program.opening_barrier:
                yield from self.ask("opening", others[0], learns=True)
            for target in self.job.targets[self.rank]:
                yield from self.compute(gap_ns + self.overrun(), asks=True)
                yield from self.serve()
                yield from self.ask("read", others[target])
            if program.closing_barrier:
                yield from self.ask("closing", others[0], learns=not program.opening_barrier)

    def sleep(self, ns):
        if ns:
            self.alarm = self.simulation.now + ns
            self.naps = True
            self.processor.at(self.alarm, ALARM, self.processor.ring)
            yield SLEEP
            yield AWAKE
            self.naps = False

    def observe(self, phases):
        """Feitelson and Rudolph 1995: it tells from whom it gets many messages, whenever that has changed."""
        given = self.simulation.observation
        now = self.simulation.now
        program = self.job.program
        if self.job.locks or now < self.look_at:
            return
        self.look_at = now + round(given["observe_ms"] * 1e6)
        self.correspondents = self.correspondents or Correspondents(given["messages_per_ms"])
        got = [0] * program.processes
        for rank in range(program.processes):
            barriers = program.barriers_per_phase if 0 in (rank, self.rank) else 0
            reads = self.job.targets[self.rank].count(rank) + self.job.targets[rank].count(self.rank)
            got[rank] = phases * (barriers + (reads if program.read == "message" else 0))
        got[self.rank] = 0
        if self.correspondents.look(got, self.virtual() - self.offset):
            self.simulation.hear(self)

    def exclude(self, number):
        """It waits for the lock as for a read, but without a message; and computes while it has the lock."""
        self.lock = self.job.locks[number]
        program = self.job.program
        self.wait, self.slept, self.category, self.inside = "lock", False, SYNCHRONIZING, True
        self.began = self.simulation.now
        # Psyche's two-minute warning: it does not ask any more if its slot is about to end.
        while self.simulation.warns(self):
            self.processor.note(self.category)
            self.held_off = True
            yield Time(left=waiting_rules.FOREVER_NS, category=self.category, hears=ALERT)
        self.held_off = False
        self.gives_way = False
        self.asks = self.simulation.now
        if self.lock.owner is None:
            self.lock.owner = self
            self.answered = True
        else:
            self.processor.note(self.category)
            self.lock.line.append(self)
            yield from self.await_answer(self.try_lock)
        self.wait = None
        self.answered = False
        count = self.job.waits["lock", self.slept]
        entered = self.simulation.now if self.entered is None else self.entered
        count[:] = count[0] + 1, count[1] + entered - self.began
        yield from self.compute(0 if self.has_left else round(program.section_us * 1e3))
        # It leaves as soon as it is at what comes next, unless it has left during a visit.
        self.gives_up = None if self.has_left else self.lock
        self.inside = False
        self.has_left = False
        self.entered = None
        if self.visits:
            self.visits.part()

    def visit(self):
        """Anderson et al. 1992: if stopped, it runs on in the place of another of its job until it leaves."""
        if not self.stopped():
            return
        if place := self.job.host():
            if self.woken:
                self.woken = False
                self.simulation.local.unblocked(self)
            handed = self.entered is None and self.wait == "lock"
            self.entered = self.simulation.now if handed else self.entered
            in_line = self.wait == "lock"
            left = round(self.job.program.section_us * 1e3) if in_line else self.wants.left
            place.receive(self, left)

    def stopped(self):
        return self.state == "ready" and not (self.allowed or self.visits or self.has_left)

    def plays_host(self):
        return self.lock.owner.stopped() and self.job.host() is self.processor

    def try_lock(self):
        """It has a processor again: a lock that nobody has is its own. Else a sleeper lines up anew."""
        if self.answered:
            return
        if self.lock.owner is None:
            self.lock.owner = self
            self.answered = True
        if self.answered or (self.woken and self.job.program.lock == "test-and-test-and-set"):
            self.lock.line.remove(self)
            self.lock.line += [] if self.answered else [self]

    def carry_out_tasks(self):
        """Tucker and Gupta 1989: before each task it suspends itself if its job has too many processes."""
        while self.job.left:
            program = self.job.given.program
            task = self.job.program.phase_count() - self.job.left
            may = self.rank < min(self.job.allotted, program.usable(task))
            if may and (self.home is self.processor or self.machine.queue != "bound"):
                self.job.left -= 1
                before = program.usable(task - 1) if task else program.processes
                if program.usable(task) != before:
                    self.simulation.evolve(self.job, program.usable(task))
                yield from self.work(int(self.job.draws.compute_ns(1)[0]) + self.overrun())
            else:
                self.suspended = True
                self.moves = may
                yield SLEEP
                yield AWAKE
                self.suspended = False

    def resume(self):
        """It wakes where it is to be from now on."""
        if self.machine.queue == "bound":
            for place in (self.processor, self.home) if self.home is not self.processor else ():
                for line in (place.residents, place.queue):
                    (line.remove if place is self.processor else line.append)(self)
            self.lingers = self.lingers and self.home is self.processor
            self.processor = self.home
        self.processor.wake(self)

    def load(self, ns):
        """It will take so long to load its working set when it computes."""
        if self.wants is self.walk:
            self.walk.left += ns
        elif self.computes:
            self.owed_ns += ns
        else:
            self.cold_ns = max(self.cold_ns, ns)

    def work(self, left):
        """A compute phase, which uses its working set."""
        left = left + self.cold_ns
        self.cold_ns = 0
        self.computes = True
        while left is not None:
            self.walk = Time(left=left, category=COMPUTING, hears=self.hears, asks=True)
            left = yield self.walk
            if left is not None:
                yield from self.handle_messages()
                left = left + self.owed_ns
                self.owed_ns = 0
        self.computes = False
        self.walk = None

    def overrun(self):
        return self.processor.one_of(self.simulation.overruns)

    def serve(self):
        while self.inbox:
            yield from self.handle_messages()
            if self.messages_cost:
                yield from self.compute(0)  # it looks again

    def compute(self, left, asks=False):
        while (left := (yield Time(left=left, category=COMPUTING, hears=self.hears, asks=asks))) is not None:
            yield from self.handle_messages()

    def ask(self, kind, other, learns=False):
        """Section 3.1: a read is a request and a response, which the target sends only while it runs.
        Footnote 1: at a barrier all tell the root, which counts them, and tells all when there are P.
        """
        self.wait, self.slept, self.learns, self.asked = kind, False, learns, other
        self.category = COMMUNICATING if kind == "read" else SYNCHRONIZING
        self.processor.note(self.category)
        silent = other is self and not self.machine.messages_to_self
        ns = 0 if silent else self.cost["send"]
        if not silent or (kind != "read" and len(self.job.processes) > 1):
            ns += self.processor.one_of(self.processor.rested(self.simulation.rested_sends, self.talked))
        if ns or (self.simulation.sends_cost and not silent):
            yield Time(left=ns, category=self.category)
        self.began = self.simulation.now
        event = self.simulation.events
        if not silent:
            self.simulation.send(other, self, kind)
        elif kind == "read":
            self.answered = True
        elif self.job.arrival(self):
            yield from self.complete()
        yield from self.handle_messages()
        if self.answered and event == self.simulation.events:
            yield Time(left=0, category=self.category, hears=ALERT)  # a wait takes an event at least
            yield from self.handle_messages()
        yield from self.await_answer()
        self.wait = None
        self.answered = False
        self.talked = self.simulation.now

    def limit(self):
        if self.wait == "read" and self.job.network_reads:
            return waiting_rules.FOREVER_NS  # the network wakes nobody
        if self.wait in ("read", "lock"):
            return waiting_rules.read_limit(self.job.rule)
        return waiting_rules.barrier_limit(self.job.rule, self.estimate)

    def await_answer(self, look=lambda: None, until=None):
        """Section 5: it spins up to the limit, then blocks until the message has come."""
        began = self.asks if self.wait == "lock" else self.began
        end = began + self.limit() if until is None else until
        left = end - (began if until is None else self.simulation.now)
        begins = self.simulation.activations and self.wait == "lock"
        while not self.answered:
            left = end - self.simulation.now if self.machine.spin_clock == "wall" else left
            left = 0 if self.gives_way and self.wait == "lock" else left
            if begins and (left > 0 or self.plays_host()):
                # Whoever is waited for runs on if it is stopped: here before a limit of nothing ends, ...
                then = self.lock.owner.visit
                left = yield Time(left=max(left, 0), category=self.category, hears=ALERT, then=then)
                begins = left is not None
                left = left or 0
                look()
                continue
            if begins:
                self.lock.owner.visit()  # ... or elsewhere.
                begins = False
            self.slept = self.slept or left <= 0
            every, look_around = self.looks()
            if every and left > 0:
                if not (yield from self.spin_until_look(end, every)):
                    look_around()
                look()
                yield from self.handle_messages()
                left = end - self.simulation.now
                continue
            spin = Time(left=left, category=self.category, hears=ALERT)
            left = (yield spin if left > 0 else SLEEP) or 0
            look()
            yield from self.handle_messages()
        # Section 3.3: a message wakes it; if that is not the answer it goes back to sleep.
        if self.slept and self.entered is None:
            yield AWAKE
            yield from self.handle_messages()

    def looks(self):
        """How often it looks around while it spins, if ever, and what it does then."""
        if self.wait == "lock":
            return self.simulation.remedy.holder_check_ns, self.check_holder
        return self.simulation.patience, self.look

    def spin_until_look(self, end, every):
        """Whether a message came, or the end, before it has looked around."""
        now = self.simulation.now
        looks = self.began + ((now - self.began) // every + 1) * every
        spin = Time(left=min(looks, end) - now, category=self.category, hears=ALERT)
        return (yield spin) is not None or self.answered or self.simulation.now >= end

    def check_holder(self):
        """It spins only for a holder that runs, or lifts it."""
        holder = self.lock.owner
        if holder and holder.state != "running":
            self.gives_way = not self.simulation.lifts or holder.processor is self.processor
            if not self.gives_way and holder.state == "ready":
                holder.lifted = True
                holder.processor.reconsider()

    def look(self):
        """Sobalvarro and Weihl: it sees to it that those run from whom it waits to hear."""
        others = self.job.processes
        now = self.simulation.now
        if self.wait == "read":
            awaited = [] if self.job.network_reads else [self.asked]
        else:
            all_tell = self is others[0] and not self.job.given.replay
            awaited = others[1:] if all_tell else [self.asked]
        for peer in awaited:
            place = peer.processor
            rival = peer.processor.process
            if not peer.ready() or rival is None or rival.job is self.job or rival.state != "running":
                continue
            in_vain = rival.wait not in (None, "lock") and rival.wants.hears == ALERT and not rival.answered
            if not in_vain or now - rival.began < self.simulation.patience:
                continue
            if place.given is not None and now - place.given < self.simulation.min_run:
                continue
            if (self.job.served, self.job.order) > (rival.job.served, rival.job.order):
                continue
            self.job.served = place.given = self.processor.given = now
            place.hand_over(peer)

    def handle_messages(self):
        while self.inbox:
            sender, what = self.inbox[0]
            if self.messages_cost:
                ns = self.cost["receive"] + (self.cost["poll"] if self.wait else 0)
                ns += self.cost["serve"] + self.cost["send"] if what == "read" else 0
                yield Time(left=ns, category=self.category if self.wait else COMMUNICATING)
            self.inbox.pop(0)
            self.simulation.messages += 1
            if what == "read":
                self.simulation.send(sender, self, "answer")
            elif what == "answer":
                self.take_answer()
            elif self.job.arrival(sender):
                yield from self.complete()
        if self.word == "here" and self.wait:
            hear(self)

    def complete(self):
        """The root tells everybody in turn, "using P pair-wise messages" (footnote 1)."""
        if not self.machine.messages_to_self:
            self.take_answer()
        rings = 0  # to wake the one before; the last one's is part of its wake-up
        for other in self.job.processes[0 if self.machine.messages_to_self else 1 :]:
            if self.cost["send"]:
                yield Time(left=rings + self.cost["send"], category=SYNCHRONIZING)
            self.simulation.send(other, self, "answer")
            rings = self.cost["wake"] if other.state == "asleep" else 0

    def take_answer(self):
        rule = self.job.rule.rule
        waited = self.simulation.now - self.began
        self.answered = True
        count = self.job.waits[self.wait, self.slept]
        count[:] = count[0] + 1, count[1] + waited
        if self.learns:  # it is the barrier that shows the load imbalance
            self.last_wait = waited
            if rule == waiting_rules.LOCAL_ADAPTIVE:
                self.estimate = waiting_rules.learn(self.sample, waited)
        if rule == waiting_rules.GLOBAL_ADAPTIVE and self.wait != "read":
            self.estimate = self.job.estimate
