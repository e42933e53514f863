"""Linux's default local scheduler: the eligible process with the earliest virtual deadline runs."""

SLICE_NS = 1_400_000
TICK_NS = 4_000_000


class Eevdf:
    def __init__(self, simulation):
        self.simulation = simulation
        slice_us = simulation.machine.slice_us
        self.slice_ns = SLICE_NS if slice_us is None else round(slice_us * 1e3)

    def enter(self, process):
        process.virtual = process.deadline = process.debt = 0
        process.delayed = False
        self.join(process)

    def competes(self, process):
        if process.state == "blocked":
            return process.delayed
        return process.allowed and process.state in ("ready", "taking over", "running")

    def average(self, processor):
        """Mean virtual run time of the competitors, rounded up; of none the mean last asked for."""
        times = [q.virtual for q in processor.residents if self.competes(q)]
        if times:
            processor.average = -(-sum(times) // len(times))
        return processor.average

    def settle(self, processor):
        """Charge the running process up to now; whether its slice has ended."""
        process = processor.current
        if process is None or process.state != "running":
            return False
        process.virtual += self.simulation.now - processor.charged
        processor.charged = self.simulation.now
        if process.virtual < process.deadline:
            return False
        process.deadline = process.virtual + self.slice_ns
        return True

    def best(self, processor):
        while True:
            mean = self.average(processor)
            waiting = [
                q
                for q in processor.residents
                if self.competes(q) and q.state not in ("running", "taking over") and q.virtual <= mean
            ]
            found = min(waiting, key=lambda q: (q.deadline, q.order), default=None)
            if found is None:
                ready = [q for q in processor.residents if q.state == "ready" and q.allowed]
                return min(ready, key=lambda q: q.virtual, default=None)
            if found.state != "blocked":
                return found
            found.delayed, found.debt = False, 0  # it sleeps in earnest, and owes nothing any more

    def outranked(self, processor, process):
        ended = self.settle(processor)
        eligible = process.virtual <= self.average(processor)
        if eligible and not ended:
            return False
        other = self.best(processor)
        if other is None:
            return False
        return not eligible or (other.deadline, other.order) < (process.deadline, process.order)

    def detour(self, processor, length):
        process = processor.current
        if process.state == "running" and self.outranked(processor, process):
            self.simulation.preempt(processor)
        processor.charged += length  # nobody is charged for it

    def turn_ends(self, processor):
        return self.settle(processor)

    def start(self, processor):
        processor.charged = self.simulation.now

    def stop(self, processor, blocks):
        process = processor.current
        self.settle(processor)
        if blocks:
            most = max(2 * self.slice_ns, TICK_NS)
            process.debt = min(max(process.virtual - self.average(processor), -most), most)
            process.delayed = process.debt > 0

    def wake(self, process):
        processor = process.processor
        self.settle(processor)
        if process.delayed:
            mean = self.average(processor)
            process.delayed = False
            if process.virtual > mean:
                return
            process.debt = 0
        self.join(process)

    def join(self, process):
        processor = process.processor
        self.settle(processor)
        process.virtual = self.average(processor) + process.debt
        process.debt = 0
        process.deadline = process.virtual + self.slice_ns

    def after_tick(self, processor):
        pass

    def unblock(self, process):
        pass
