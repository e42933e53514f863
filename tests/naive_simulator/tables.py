"""Local schedulers that a dispatch table describes: svr4, round-robin, rr, fifo."""

QUANTUM, TQEXP, SLPRET, MAXWAIT, LWAIT = range(5)
TICKS_PER_UPDATE = 100


class TableScheduler:
    def __init__(self, simulation, boosts):
        self.simulation, self.boosts = simulation, boosts
        self.table = simulation.machine.table()

    def enter(self, process):
        process.priority = (len(self.table) - 1) // 2
        process.ticks_left = self.table[process.priority][QUANTUM]
        process.seconds = 0

    def level(self, process):
        return 10**9 if process.kernel and self.boosts else process.priority

    def best(self, processor):
        ready = [q for q in processor.residents if q.state == "ready" and q.allowed]
        return min(ready, key=lambda q: (-self.level(q), q.order), default=None)

    def outranked(self, processor, process):
        other = self.best(processor)
        return other is not None and self.level(other) > self.level(process)

    def turn_ends(self, processor):
        process = processor.current
        if process.kernel:
            return False
        process.ticks_left -= 1
        if process.ticks_left > 0:
            return False
        self.move(process, TQEXP)
        process.ticks_left = self.table[process.priority][QUANTUM]
        return True

    def after_tick(self, processor):
        processor.ticks_to_update -= 1
        if processor.ticks_to_update > 0:
            return
        processor.ticks_to_update = TICKS_PER_UPDATE
        for process in processor.residents:
            process.seconds += 1
            if process.state != "blocked" and self.has_waited(process):
                self.move(process, LWAIT)
                if process.state == "ready":
                    self.simulation.enqueue(process, first=False)
        self.simulation.reconsider(processor)

    def unblock(self, process):
        if self.has_waited(process):
            self.move(process, SLPRET)
            process.ticks_left = self.table[process.priority][QUANTUM]

    def has_waited(self, process):
        return process.seconds > self.table[process.priority][MAXWAIT]

    def move(self, process, column):
        process.priority = self.table[process.priority][column]
        process.seconds = 0

    def start(self, processor):
        pass

    def stop(self, processor, blocks):
        pass

    def wake(self, process):
        pass

    def detour(self, processor, length):
        pass
