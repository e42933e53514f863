"""Where ready processes wait: each on its processor, in one queue for all, or in queues that others may use.

As ``harness.simulator.processes.ready_queues`` says in words.
"""

HOT_NS = 500_000
BALANCE_TICKS = 8


class Bound:
    shuffles_together = False
    newcomer = "ready"

    # A processor is about to choose who runs next, or its process to queue up behind the others; a process
    # is about to wake; whether a processor has got a process at its clock tick.
    chooses = slice_ends = wakes = ticks = lambda self, who: False

    def __init__(self, simulation):
        self.processors = simulation.processors


class Unbound(Bound):
    def may(self, process, processor):
        if processor.number in process.machine.lost:
            return False
        return not process.machine.within_job or processor in process.job.places

    def wakes(self, process):
        idle = [p for p in self.processors if p.process is None and self.may(process, p)]
        if not process.lingers and idle and process.processor.process:
            self.move(process, idle[0])

    def move(self, process, processor):
        for line in (process.processor.residents, process.processor.queue):
            line.remove(process)
        process.processor = processor
        processor.residents.append(process)
        processor.queue.append(process)


class Central(Unbound):
    """All processors' queues are the same list."""

    shuffles_together = True

    def __init__(self, simulation):
        super().__init__(simulation)
        for processor in self.processors:
            processor.queue = self.processors[0].queue

    def move(self, process, processor):
        process.processor.residents.remove(process)
        process.processor = processor
        processor.residents.append(process)

    def chooses(self, processor):
        process = next((q for q in processor.queue if q.ready() and self.may(q, processor)), None)
        if process and process.processor is not processor:
            self.move(process, processor)


class Stealing(Unbound):
    def chooses(self, processor):
        if not any(q.ready() for q in processor.residents):
            self.steal(processor, self.longest(processor))

    def length(self, processor):
        return sum(q.allowed and q.state in ("ready", "coming", "running") for q in processor.residents)

    def longest(self, processor):
        others = [p for p in self.processors if p is not processor and p.process and self.length(p) > 1]
        others = [p for p in others if any(q.ready() and self.may(q, processor) for q in p.residents)]
        return max(others, key=self.length, default=None)

    def steal(self, processor, other):
        local = processor.local
        now = processor.simulation.now
        may = [q for q in other.residents if q.ready() and self.may(q, processor)] if other else []
        if local.balances and processor.failures < 2:
            may = [q for q in may if q.lost_ns is None or now - q.lost_ns >= HOT_NS]
        if not may:
            return False
        process = min(may, key=lambda q: q.lost_ns or 0)
        local.change_queues(process, processor)
        self.move(process, processor)
        return True

    def ticks(self, processor):
        if not processor.local.balances:
            return False
        processor.ticks_to_balance -= processor.process is not None
        if processor.process and processor.ticks_to_balance:
            return False
        if processor.process:
            processor.ticks_to_balance = BALANCE_TICKS
        other = self.longest(processor)
        ahead = self.length(other) - self.length(processor) if other else 0
        wants = ahead > 1 or (ahead == 1 and processor.failures)
        got = bool(wants and self.steal(processor, other))
        processor.failures = processor.failures + 1 if ahead > 0 and not got else 0
        return got


class Affinity(Stealing):
    """With a queue of the system, which holds those of all processors that nobody has claimed."""

    shuffles_together = True
    newcomer = "unclaimed"

    def chooses(self, processor):
        if not any(q.ready() for q in processor.residents) and not self.claim(processor):
            self.steal(processor, self.longest(processor))

    def slice_ends(self, processor):
        self.claim(processor)

    def claim(self, processor):
        line = [q for p in self.processors for q in p.residents if q.state == "unclaimed" and q.allowed]
        line = [q for q in line if self.may(q, processor)]
        if not line:
            return False
        process = min(line, key=lambda q: q.place)
        self.move(process, processor)
        process.state = "ready"
        return True


KINDS = {"bound": Bound, "central": Central, "affinity": Affinity, "stealing": Stealing}
