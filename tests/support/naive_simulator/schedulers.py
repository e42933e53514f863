"""Local schedulers. A processor's ``queue`` holds its processes by when they last queued up."""

COLUMNS = "quantum", "tqexp", "slpret", "maxwait", "lwait"


class DispatchTable:
    """SVR4's time-sharing class; with one row a round robin, or a fifo (sections 3.3 and 7.2)."""

    leave = fall_asleep = wake_up = os_noise = lambda self, process: None
    balances = False

    def __init__(self, machine):
        self.rows = [dict(zip(COLUMNS, row, strict=True)) for row in machine.table()]
        self.boosts = machine.local == "svr4"  # "absence of priorities in round-robin" (section 7.2)

    def change_queues(self, process, processor):
        """There is no lag."""

    def enter(self, process):
        self.move(process, (len(self.rows) - 1) // 2)

    def move(self, process, priority):
        process.priority = priority
        process.seconds = 0
        process.quantum = self.rows[priority]["quantum"]

    def rank(self, process):
        # Section 3.3: whom a message has woken has kernel priority for the time being.
        return len(self.rows) if process.woken and self.boosts else process.priority

    def best(self, processor):
        # A queue of all processors also holds processes that may not come to this one.
        here = (q for q in processor.queue if q.ready() and q.processor is processor)
        return max(here, key=self.rank, default=None)

    def outranked(self, process):
        rival = self.best(process.processor)
        return rival is not None and self.rank(rival) > self.rank(process)

    def slice_ends(self, process):
        # Section 3.3: who uses up the quantum sinks, ...
        process.quantum -= not process.woken
        if process.quantum > 0:
            return False
        self.move(process, self.rows[process.priority]["tqexp"])
        return True

    def unblocked(self, process):
        # ... who sleeps instead rises, ...
        if process.seconds > self.rows[process.priority]["maxwait"]:
            self.move(process, self.rows[process.priority]["slpret"])

    def tick(self, processor):
        # ... and so does, once a second, who gets nowhere.
        processor.ticks_to_update -= 1
        if processor.ticks_to_update:
            return
        processor.ticks_to_update = 100
        # Solaris's list of threads is the same on all processors: the oldest job first.
        for process in processor.residents:
            if not process.woken:  # "running with kernel mode priority"
                process.seconds += 1
                if process.seconds > self.rows[process.priority]["maxwait"]:
                    self.help(process)
        processor.reconsider()

    def help(self, process):
        if process.state in ("running", "coming"):
            self.move(process, self.rows[process.priority]["slpret"])  # at its next return from a trap
        elif process.state == "ready":
            rises_to = self.rows[process.priority]["lwait"]
            process.seconds = 0
            if rises_to != process.priority:  # "otherwise it should just round-robin here"
                self.move(process, rises_to)
                process.processor.enqueue(process)


class Eevdf:
    """Linux since 6.12: of those who had no more than the average, the earliest virtual deadline."""

    tick = unblocked = lambda self, who: None
    balances = True

    def __init__(self, machine):
        self.slice_ns = round(machine.slice_us * 1e3) or 1_400_000
        self.max_ns = max(2 * self.slice_ns, 4_000_000)  # of lag: two slices, at least a tick

    def enter(self, process):
        # Virtual time is time used, and an offset: as far from the average as when it went to sleep.
        process.offset += self.average(process.processor) + process.lag - process.virtual()
        process.lag, process.deadline = 0, process.virtual() + self.slice_ns

    def average(self, processor):
        """Of all that compete, rounded up; of nobody, the last one."""
        awake = [q for q in processor.residents if q.allowed and q.state in ("ready", "coming", "running")]
        times = [q.virtual() for q in awake + [q for q in processor.residents if q.lingers]]
        processor.average = -(-sum(times) // len(times)) if times else processor.average
        return processor.average

    def best(self, processor):
        waiting = [q for q in processor.queue if q.lingers or q.ready()]
        mean = self.average(processor)
        eligible = [q for q in waiting if q.virtual() <= mean]
        if not eligible:
            ready = [q for q in processor.residents if q.ready()]
            return min(ready, key=lambda q: q.virtual(), default=None)
        chosen = min(eligible, key=lambda q: q.deadline)
        if not chosen.lingers:
            return chosen
        chosen.lingers, chosen.lag = False, 0  # it sleeps, and its turn has come: it owes nothing any more
        return self.best(processor)

    def slice_ends(self, process):
        """Whether the running process has had its slice, and if so begins another."""
        if process is None or process.state != "running" or process.virtual() < process.deadline:
            return False
        process.deadline = process.virtual() + self.slice_ns
        return True

    leave = slice_ends

    def outranked(self, process):
        over = self.slice_ends(process)
        eligible = process.virtual() <= self.average(process.processor)
        if eligible and not over:
            return False  # "run to parity"
        rival = self.best(process.processor)
        return rival is not None and (not eligible or rival.deadline < process.deadline)

    def fall_asleep(self, process):
        # With a debt it stays in the competition until it would be its turn ("delayed dequeue").
        self.slice_ends(process)
        process.lag = self.lag(process)
        process.lingers = process.lag > 0

    def lag(self, process):
        return max(-self.max_ns, min(process.virtual() - self.average(process.processor), self.max_ns))

    def wake_up(self, process):
        processor = process.processor
        if process.lingers:
            ahead = process.virtual() > self.average(processor)
            process.lingers = False
            process.lag = 0
            if ahead:
                return
        self.enter(process)

    def change_queues(self, process, processor):
        """It takes its lag along, and what is left until its deadline."""
        lag = self.lag(process)
        left = process.deadline - process.virtual()
        process.offset += self.average(processor) + lag - process.virtual()
        process.deadline = process.virtual() + left

    def os_noise(self, process):
        if process.state == "running" and self.outranked(process):
            process.processor.preempt()


class Inheritance:
    """Whoever is lifted runs before all others of its processor; else the local scheduler decides."""

    def __init__(self, local):
        self.local = local

    def __getattr__(self, name):
        return getattr(self.local, name)

    def lifted(self, processor):
        return next((process for process in processor.residents if process.lifted and process.ready()), None)

    def best(self, processor):
        return self.lifted(processor) or self.local.best(processor)

    def outranked(self, process):
        if process.lifted or self.lifted(process.processor):
            return not process.lifted
        return self.local.outranked(process)

    def os_noise(self, process):
        if isinstance(self.local, Eevdf) and process.state == "running" and self.outranked(process):
            process.processor.preempt()
