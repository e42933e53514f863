"""Recorded programs: processes that carry out steps one after the other instead of the phases of a pattern.

A step is processor time; then, if the step has one, a message to give; then one to take. A step that *sleeps*
is time without a processor instead, in MPI's own begin and end. Each channel has a sender and a receiver of
one job, and its messages arrive in the order in which the sender gives them. A message is on its way for the
machine's latency. On a channel that *meets*, a message begins its way when both have come to it, and both can
take it: a large message, whose sender waits, too. If the receiver comes first, the message goes when the
receiver notices that the sender has come: the receiver has to run and be in MPI.

A process that takes a message that has arrived goes on at once. Otherwise it waits by the rule of its job:
for a collective operation as at a barrier, else as for a read. While bytes of its own are on their way it
spins longer, as real waits do. A step that *continues* belongs to the wait of the step before it: its spin
limit counts from there. A step that *polls* spins, whatever the rule: only the program knows that it waits.
Only two things are events: a process gets a message for which it waits, and a receiver can notice that the
sender of a large message has come. Steps have all processor time; messages cost none.

By the global-adaptive rule rank 0 learns, at the end of each of its waits in collective operations, the
longest wait of any rank since it last learned; all ranks use its estimate (``workloads/native/wait.c``).
"""

from __future__ import annotations

from harness.simulator.compiled import hot, step
from harness.simulator.processes.alarms import sleep, wake
from harness.simulator.processes.events import distance_ns, insert
from harness.simulator.processes.messages import learn, spin_limit, take_reply
from harness.simulator.processes.model import (
    BLOCKED,
    CLOSING,
    COMMUNICATING,
    COMPUTE,
    FINISHED,
    NEVER_NS,
    NOBODY,
    READING,
    REFILL_ONE,
    RUNNING,
    SYNCHRONIZING,
    THINKING,
    Records,
    State,
)
from harness.simulator.processes.processor import charge, compute
from harness.simulator.processes.task_queue import finish
from workloads.blocking import GLOBAL_ADAPTIVE, UNKNOWN_NS

NO_WORD, COMING, HERE = range(3)
"""Word for a process that it is offered large messages for which it has asked."""


@hot
def step_of(state: State, q: int) -> Records:
    """The step at which process ``q`` is."""
    return state.steps[q, state.processes[q].phase & (state.steps.shape[1] - 1)]


@step
def start_step(state: State, p: int, q: int) -> None:
    """Begin the processor time of the next step, or leave after the last one.

    At the second half of the steps at hand the process asks for more.
    """
    process = state.processes[q]
    if process.phase + state.steps.shape[1] // 2 >= process.drawn:
        state.clock[0].status = REFILL_ONE
        state.clock[0].subject = q
    now = step_of(state, q)
    if now.ends:
        finish(state, p)
        return
    if now.sleeps:
        sleep(state, p, now.busy_ns)
        return
    process.activity = COMPUTE
    process.remaining_ns = now.busy_ns
    compute(state, p, process)


@step
def end_step(state: State, p: int, q: int) -> bool:
    """The processor time of a step is over: give, then take; False if the process has to wait."""
    now = step_of(state, q)
    if state.processes[q].offers == HERE:
        hear(state, q)
    if now.outgoing != NOBODY:
        give(state, q, now.outgoing)
    if now.incoming != NOBODY and not take(state, p, q):
        return False
    go_on(state, p, q)
    return True


@step
def go_on(state: State, p: int, q: int) -> None:
    """The step of process ``q`` is complete."""
    process = state.processes[q]
    if process.activity == CLOSING:
        observe(state, q)
    process.phase += 1
    start_step(state, p, q)


@step
def give(state: State, q: int, number: int) -> None:
    """Process ``q`` gives the next message of channel ``number``; or comes to it, as one of two."""
    channel = state.channels[number]
    if not channel.meets:
        depart(state, number)
    elif q != channel.sender:
        channel.posted += 1
        if channel.offered > channel.sent:
            depart(state, number)
    else:
        channel.offered += 1
        receiver = state.processes[channel.receiver]
        if channel.posted > channel.sent and receiver.offers == NO_WORD:
            receiver.offers = COMING
            insert(state, channel.receiver << 1, state.clock[0].now_ns + way_ns(state, number))


@step
def way_ns(state: State, number: int) -> int:
    """How long a message of channel ``number`` is on its way."""
    channel = state.channels[number]
    return int(state.machine[0].latency_ns + distance_ns(state, channel.sender, channel.receiver))


@step
def hear_word(state: State, q: int) -> None:
    """Word of a large message has come: process ``q`` hears it now if it runs and waits in MPI, else then.

    Who is blocked wakes up for it. A step that sleeps is MPI's own begin or end, in which messages go.
    """
    process = state.processes[q]
    process.offers = HERE
    waits = process.state == RUNNING and process.activity >= READING
    if waits or process.state == FINISHED or process.activity == THINKING:
        hear(state, q)
    elif process.state == BLOCKED:
        wake(state, q)


@step
def hear(state: State, q: int) -> None:
    """The large messages that process ``q`` is offered, and for which it has asked, begin their ways."""
    process = state.processes[q]
    process.offers = NO_WORD
    job = state.jobs[process.job]
    for number in range(job.channels_at, job.channels_at + job.channels):
        channel = state.channels[number]
        if channel.meets and channel.receiver == q:
            while min(channel.offered, channel.posted) > channel.sent:
                depart(state, number)


@step
def depart(state: State, number: int) -> None:
    """The next message of channel ``number`` begins its way."""
    channel = state.channels[number]
    arrivals = state.arrivals[number]
    mask = len(arrivals) - 1
    arrival_ns = state.clock[0].now_ns + way_ns(state, number)
    if channel.sent > 0:
        arrival_ns = max(arrival_ns, arrivals[(channel.sent - 1) & mask])
    arrivals[channel.sent & mask] = arrival_ns
    channel.sent += 1
    tell(state, channel.receiver, number, arrival_ns)
    if channel.meets:
        tell(state, channel.sender, number, arrival_ns)


@step
def tell(state: State, q: int, number: int, arrival_ns: int) -> None:
    """The last message of channel ``number`` has an arrival: process ``q`` may wait for it."""
    process = state.processes[q]
    if process.channel == number and step_of(state, q).number == state.channels[number].sent - 1:
        process.channel = NOBODY
        insert(state, q << 1 | 1, arrival_ns)


@step
def take(state: State, p: int, q: int) -> bool:
    """Process ``q`` takes a message; False if it has to wait for it."""
    process = state.processes[q]
    job = state.jobs[process.job]
    now = step_of(state, q)
    now_ns = state.clock[0].now_ns
    channel = state.channels[now.incoming]
    process.activity = CLOSING if now.collective else READING
    process.target = channel.sender if channel.receiver == q else channel.receiver
    process.blocked = 0
    if not now.continues:
        if job.rule == GLOBAL_ADAPTIVE:
            process.estimate_ns = job.estimate_ns
        process.wait_began_ns = now_ns
        process.remaining_ns = NEVER_NS if now.polls else spin_limit(job, process)
        if 0 < process.remaining_ns < NEVER_NS:
            process.remaining_ns += 1000 * now.carries_us
        process.spin_end_ns = now_ns + process.remaining_ns
    process.remaining_ns = process.spin_end_ns - now_ns
    if channel.sent > now.number:
        arrivals = state.arrivals[now.incoming]
        arrival_ns = arrivals[now.number & (len(arrivals) - 1)]
        # A message so old that its time is forgotten has arrived.
        if channel.sent - now.number > len(arrivals) or arrival_ns <= now_ns:
            take_reply(state, q)
            process.replied = 0
            return True
        insert(state, q << 1 | 1, arrival_ns)
    else:
        process.channel = now.incoming
    charge(state, p, SYNCHRONIZING if now.collective else COMMUNICATING)
    return False


@step
def observe(state: State, q: int) -> None:
    """Process ``q`` has waited in a collective operation: the job may learn from it."""
    process = state.processes[q]
    job = state.jobs[process.job]
    if job.rule != GLOBAL_ADAPTIVE:
        return
    job.greatest_report_ns = max(job.greatest_report_ns, process.previous_wait_ns)
    if process.rank == 0:
        job.estimate_ns = learn(state.samples[len(state.processes) + process.job], job.greatest_report_ns)
        job.greatest_report_ns = UNKNOWN_NS
