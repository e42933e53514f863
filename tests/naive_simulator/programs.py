"""What a running process does next: compute, think, wait at a barrier, read."""

from naive_simulator.parts import COMMUNICATING, COMPUTING, NEVER, SYNCHRONIZING
from naive_simulator.processors import Processors

from workloads import blocking


class Programs(Processors):
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
            self.end_burst(processor, process)
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

    def end_burst(self, processor, process):
        job = process.job
        burst = self.now - process.wait_began
        job.bursts_ns.append(burst)
        process.wait_began = self.now
        if job.think_us == 0 or process.phase + 1 == job.phases:
            self.finish_phase(processor, process)
        else:
            process.phase += 1
            self.think(processor, process)

    def think(self, processor, process):
        process.activity = "thinking"
        process.alarm = self.now + round(process.job.think_us * 1e3)
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
        if process.activity == "reading" and process.job.served_by_network:
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
            self.local.unblock(process)
            if self.local.outranked(processor, process):
                self.preempt(processor)
                return
        if process.replied:
            self.proceed(processor, process)
        elif process.activity == "start" and process.job.think_us:
            self.think(processor, process)
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
        elif process.activity == "thinking":
            self.start_phase(processor, process)
        else:
            self.finish_phase(processor, process)
