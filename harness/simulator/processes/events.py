"""The two queues of future events, and their total order.

A ring holds the messages under way. Usually all take the same time, and the first sent arrives first;
where hops take time, or a program is recorded, one passes those that it overtakes. Every other event is a
timer of a processor. A tournament over the processors' earliest timers finds the next one. A change of a
timer costs five comparisons without a branch, and rarely changes the winner of a later round; it is entered
once, after all that an event changes.

Events are ordered by time; at the same time slots come first, then messages in the order they were
sent, then processors by number. On one processor a tick comes before an alarm, and an alarm before the
end of an activity. Alarms of one processor at the same time are one event: a detour begins, then
processes wake in the order of their placement. Last of all, jobs arrive, and the policy decides once about
all that it learns at this time: departures, arrivals, and the end of a table.
"""

from harness.simulator.compiled import hot, step
from harness.simulator.processes.model import NEVER_NS, State

SURE_ROUNDS = 5  # rounds of the tournament that are played without a check whether they change anything


@hot
def send(state: State, message: int) -> None:
    """Put ``message`` on its way, now."""
    if state.machine.reorders:
        # It goes between the process that waits for its reply and the one that the process has asked.
        q = message >> 1
        insert(state, message, state.clock.now_ns + way_ns(state, q, state.processes[q].target))
        return
    mask = len(state.messages) - 1
    arrival_ns = state.clock.now_ns + state.machine.latency_ns
    state.messages[state.clock.tail & mask] = (arrival_ns << state.clock.shift) | message
    state.clock.tail += 1
    state.messages[state.clock.tail & mask] = NEVER_NS


@step
def way_ns(state: State, q: int, other: int) -> int:
    """How long a message is on its way between two processes."""
    time_ns: int = state.machine.latency_ns
    if state.machine.hop_latency_ns > 0:
        hops = state.hops[state.processes[q].processor, state.processes[other].processor]
        time_ns += hops * state.machine.hop_latency_ns
    return time_ns


@step
def insert(state: State, message: int, arrival_ns: int) -> None:
    """Put ``message`` into the ring behind all that arrive no later."""
    mask = len(state.messages) - 1
    place = state.clock.tail
    while place > state.clock.head and state.messages[(place - 1) & mask] >> state.clock.shift > arrival_ns:
        state.messages[place & mask] = state.messages[(place - 1) & mask]
        place -= 1
    state.messages[place & mask] = (arrival_ns << state.clock.shift) | message
    state.clock.tail += 1
    state.messages[state.clock.tail & mask] = NEVER_NS


@step
def set_next(state: State) -> None:
    """Note what is first: the end of the slot, its delay included, the caller's time or the quota's."""
    clock = state.clock
    clock.next_ns = min(clock.slot_end_ns + clock.late_ns, clock.until_ns, clock.quota_at_ns)


@hot
def mark(state: State, p: int) -> None:
    """Remember that the earliest of processor ``p``'s timers has changed."""
    processor = state.processors[p]
    if not processor.stale:
        processor.stale = 1
        state.stale[state.clock.stale] = p
        state.clock.stale += 1


@hot
def set_timers(state: State) -> None:
    """Enter the earliest timers of processors, where they have changed since the last call."""
    timers = state.timers
    while state.clock.stale > 0:
        state.clock.stale -= 1
        p = state.stale[state.clock.stale]
        processor = state.processors[p]
        processor.stale = 0
        time_ns = min(processor.activity_ns, processor.tick_ns, processor.alarm_ns)
        winner = (time_ns << state.clock.shift) | p
        place = (len(timers) >> 1) + p
        timers[place] = winner
        while place > 1:
            winner = min(winner, timers[place ^ 1])
            place >>= 1
            if place < len(timers) >> SURE_ROUNDS and timers[place] == winner:
                break
            timers[place] = winner


@step
def set_alarm(state: State, p: int) -> None:
    """Let processor ``p``'s alarm ring at the earliest of what it waits for."""
    processor = state.processors[p]
    processor.alarm_ns = min(
        processor.os_noise_at_ns,
        processor.deferral_ns,
        processor.activation_end_ns,
        processor.slice_end_ns,
        processor.yield_at_ns,
    )
    for k in range(processor.residents):
        processor.alarm_ns = min(processor.alarm_ns, state.processes[state.residents[p, k]].alarm_ns)
    mark(state, p)


@hot
def set_activity(state: State, p: int, after_ns: int) -> None:
    """Let processor ``p``'s activity end ``after_ns`` from now; NEVER_NS: not by itself."""
    state.processors[p].activity_ns = min(state.clock.now_ns + after_ns, state.clock.never_ns)
    mark(state, p)
