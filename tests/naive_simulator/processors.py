"""The heap of events, and what a processor does: account its time, switch, be preempted."""

import heapq
import math

from naive_simulator.parts import CATEGORIES, COMMUNICATING, IDLE, NEVER, SWITCHING, SYNCHRONIZING

PLAN, MESSAGE, TIMER = range(3)


def following(number):
    """The next of a sequence of random numbers below 2**31."""
    return (1103515245 * number + 12345) % 2**31


class Processors:
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

    def charge(self, processor, category):
        processor.spent[processor.category] += self.now - processor.since
        processor.since, processor.category = self.now, category
        process = processor.current.number if processor.current else -1
        self.timeline.append((self.now, processor.number, process, CATEGORIES.index(category)))

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
        processor.current = self.local.best(processor)
        processor.switching = processor.current is not None
        if processor.current is None:
            self.charge(processor, IDLE)
            self.set_activity(processor, NEVER)
        else:
            processor.current.state = "taking over"
            processor.switches += 1
            cost_ns = self.switch_ns
            if processor.current.kernel:
                cost_ns += self.idle_wakeup_ns if processor.category == IDLE else self.wakeup_ns
            if self.changing:
                cost_ns += processor.slot_cost
            self.charge(processor, SWITCHING)
            self.set_activity(processor, cost_ns)

    def leave(self, processor, state):
        process = processor.current
        left = processor.activity - self.now
        self.local.stop(processor, blocks=state == "blocked")
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
            if self.local.best(processor):
                self.dispatch(processor)
        elif not processor.switching and (not current.allowed or self.local.outranked(processor, current)):
            self.preempt(processor)

    def block(self, processor):
        process = processor.current
        self.leave(processor, "blocked")
        process.blocked, process.kernel = True, False
        self.dispatch(processor)

    def wake(self, process):
        process.kernel = True
        self.local.wake(process)
        self.enqueue(process, first=False)
        self.reconsider(process.processor)

    def turn_over(self, processor):
        process = processor.current
        self.enqueue(process, first=False)
        if self.local.best(processor) is process:
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
        processor.tick += self.tick_ns
        self.set_timer(processor)
        if processor.current and not processor.switching and self.local.turn_ends(processor):
            self.turn_over(processor)
        self.local.after_tick(processor)

    def ring_alarms(self, processor):
        due = [process for process in processor.residents if process.alarm <= self.now]
        if processor.detour <= self.now:
            self.make_detour(processor)
        processor.alarm = NEVER
        for process in due:
            process.alarm = NEVER
            process.wait_began = self.now
            process.replied = True
            self.wake(process)
        processor.alarm = min([processor.detour, *(process.alarm for process in processor.residents)])
        self.set_timer(processor)

    def make_detour(self, processor):
        length = self.exponential(processor, self.detour_length)
        processor.detour = self.now + length + 1 + self.exponential(processor, self.detour_gap)
        if processor.current is None:
            return
        self.local.detour(processor, length)
        if processor.current.state == "running":
            processor.current.dispatched += length
        self.set_activity(processor, processor.activity - self.now + length)

    def exponential(self, processor, mean):
        processor.random = following(processor.random)
        return int(-math.log((processor.random + 1) / 2**31) * mean)

    def take_over(self, processor):
        process = processor.current
        processor.switching = False
        if not process.allowed or self.local.outranked(processor, process):
            self.enqueue(process, first=True)
            self.dispatch(processor)
            return
        process.state = "running"
        process.dispatched = self.now
        self.local.start(processor)
        if process.handling:
            at_barrier = process.activity in ("opening", "closing")
            self.charge(processor, SYNCHRONIZING if at_barrier else COMMUNICATING)
            self.set_activity(processor, process.handling_left)
        elif self.handle_inbox(processor, process):
            self.resume(processor, process)
