"""Programs that were recorded: processes carry out steps, and messages go through channels."""

from functools import partial

from naive_simulator.wants import COMMUNICATING, SYNCHRONIZING
from step_lists import steps_of

from workloads import waiting_rules


class Channel:
    """Messages from one process to another. Each takes the latency, and none overtakes."""

    def __init__(self, sender, receiver, meets):
        self.ends = (sender, receiver)
        self.meets = meets
        self.came = [0, 0]
        self.arrivals = []
        self.waiting = {}

    def give(self, process):
        sender, receiver = self.ends
        self.came[self.ends.index(process)] += 1
        if not self.meets or (process is receiver and self.came[0] > len(self.arrivals)):
            self.depart()
        elif process is sender and self.came[1] > len(self.arrivals) and not receiver.word:
            receiver.word = "coming"
            sender.simulation.later(self.way_from_now(), partial(get_word, receiver))

    def way_from_now(self):
        simulation = self.ends[0].simulation
        hops = simulation.session.machine.hops(*(end.processor.number for end in self.ends))
        return simulation.now + simulation.cost["latency"] + hops * simulation.cost["hop_latency"]

    def depart(self):
        self.arrivals.append(max([self.way_from_now(), *self.arrivals[-1:]]))
        for end in self.ends[::-1] if self.meets else self.ends[1:]:
            if self.waiting.get(end) == len(self.arrivals) - 1:
                del self.waiting[end]
                end.simulation.answer(end, self.arrivals[-1])

    def take(self, process, number):
        """Whether the message has arrived; it comes otherwise."""
        if number >= len(self.arrivals):
            self.waiting[process] = number
        elif self.arrivals[number] > process.simulation.now:
            process.simulation.answer(process, self.arrivals[number])
        else:
            return True
        return False


def get_word(process):
    """Its peer offers it a large message. Who waits wakes to hear it; who computes hears it later."""
    process.word = "here"
    if process.state == "gone" or process.naps or (process.state == "running" and process.wait):
        hear(process)
    elif process.state == "asleep":
        process.processor.wake(process)


def hear(process):
    process.word = None
    for channel in process.job.channels:
        while channel.meets and channel.ends[1] is process and min(channel.came) > len(channel.arrivals):
            channel.depart()


def carry_out_steps(process):
    """What was recorded: it computes, gives a message, and takes one, for which it may have to wait."""
    channels = process.job.channels
    before = [0] * len(process.job.channels)
    for part in process.job.given.replay.parts:
        for _ in range(part.times):
            for step in steps_of(part.operations[process.rank]):
                yield from (process.sleep if step["sleeps"] else process.compute)(int(step["busy_ns"]))
                if process.word == "here":
                    hear(process)
                if step["outgoing"] >= 0:
                    channels[step["outgoing"]].give(process)
                if step["incoming"] >= 0:
                    number = before[step["incoming"]] + int(step["number"])
                    yield from take(process, channels[step["incoming"]], number, step)
            before = [old + new for old, new in zip(before, part.messages.tolist(), strict=True)]


def take(process, channel, number, step):
    """A message that a process needs now; it waits by the rule of the run, as for a read or at a barrier."""
    process.asked = next(end for end in channel.ends if end is not process)
    process.learns = bool(step["collective"])
    process.slept = False
    process.wait = "read"
    process.polls = bool(step["polls"])
    process.category = COMMUNICATING
    shares = process.job.rule.rule == waiting_rules.GLOBAL_ADAPTIVE
    if process.learns:
        process.wait = "closing"
        process.category = SYNCHRONIZING
    if not step["continues"]:
        process.began = process.simulation.now
        process.estimate = process.job.estimate if shares else process.estimate
        limit = waiting_rules.FOREVER_NS if step["polls"] else process.limit()
        limit += 1000 * int(step["carries_us"]) if 0 < limit < waiting_rules.FOREVER_NS else 0
        process.until = process.began + limit
    if channel.take(process, number):
        process.take_answer()
    else:
        process.processor.note(process.category)
        yield from process.await_answer(until=process.until)
    if process.learns and shares:  # rank 0 learns the longest wait since it last did
        job = process.job
        job.longest = max(job.longest, process.last_wait)
        if process.rank == 0:
            job.estimate = waiting_rules.learn(job.sample, job.longest)
            job.longest = -1
    process.wait = None
    process.answered = False
