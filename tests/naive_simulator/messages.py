"""What messages do: read requests, arrivals at the root of a barrier, and their replies."""

from naive_simulator.parts import COMMUNICATING, SYNCHRONIZING
from naive_simulator.programs import Programs

from workloads import blocking


class Messages(Programs):
    def receive(self, sender, is_reply):
        process = sender if is_reply else sender.target
        if not is_reply and sender.activity == "reading" and sender.job.served_by_network:
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
