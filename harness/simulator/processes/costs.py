"""What chance decides: costs of a switch and of a send after an idle time, and how long a computation takes.

A process that waits has been idle since it last had a processor, and one that asks since its last wait ended.
Between two idle times of the machine chance decides which one's costs count.

The processors' caches: what a process pays to load its working set again.

Each processor has a cache. The sets of processes that ran on it last are there, the latest first, as
far as they fit. A process whose set is not there, or not whole, loads what is missing when it computes next;
so does one that has run elsewhere since, because it has changed its set there.

Source: Squillante and Lazowska 1993 (footprints), without partial walks: a process that gets the
processor brings its whole set.
"""

import math

from harness.simulator.compiled import hot, step
from harness.simulator.processes.model import (
    COMPUTE,
    DISPATCHES,
    IDLE,
    LEFT,
    NEW_SLOT,
    OVERRUNS,
    READING,
    YIELDED,
    Integers,
    Records,
    State,
)

PARTS = 4096  # into how many parts the time between two idle times is divided, to decide by chance


@hot
def following(source: Records) -> int:
    """The next random number of a processor or of the clock, below 2**31."""
    source.random = (source.random * 1103515245 + 12345) & 0x7FFFFFFF
    return int(source.random)


@hot
def below(source: Records, count: int) -> int:
    return (following(source) >> 8) % count


@step
def exponential_ns(source: Records, mean_ns: int) -> int:
    """A random time, exponential with mean ``mean_ns``."""
    return int(-math.log((following(source) + 1) / (1 << 31)) * mean_ns)


@hot
def drawn(source: Records, values: Integers) -> int:
    return int(values[below(source, len(values))])


@hot
def operation_of(state: State, q: int) -> Records:
    """The operation that process ``q`` has begun last; of a queue of tasks, the last that any has begun."""
    source = state.processes[q].source
    return state.operations[source, (state.processes[source].at - 1) & (state.operations.shape[1] - 1)]


@hot
def overrun_ns(state: State, p: int, operation: Records) -> int:
    """By how much longer than ``operation`` asks its computation on processor ``p`` takes."""
    prolonged = len(state.overrun_ns) > 0 and operation.marks & OVERRUNS
    return drawn(state.processors[p], state.overrun_ns) if prolonged else 0


@step
def drawn_idle_time(state: State, source: Records, lasted_ns: int) -> int:
    """Index of the calibrated idle time used for an idle time of ``lasted_ns``; -1 below the first.

    Between two neighbours chance decides, in proportion.
    """
    times_ns = state.idle_times_ns
    longer = 0
    while longer < len(times_ns) and times_ns[longer] <= lasted_ns:
        longer += 1
    if longer == len(times_ns):
        return longer - 1
    shorter_ns = times_ns[longer - 1] if longer > 0 else 0
    share = (lasted_ns - shorter_ns) * PARTS // (times_ns[longer] - shorter_ns)
    return longer if below(source, PARTS) < share else longer - 1


@hot
def switch_cost_ns(state: State, p: int, q: int, reason: int) -> int:
    """What it costs to switch processor ``p`` to process ``q`` for ``reason``.

    A yield costs less than other switches, which put one process to sleep and wake another one. It draws like
    them, although its own cost is fixed.
    """
    machine = state.machine
    process = state.processes[q]
    cost_ns = machine.context_switch_ns
    if len(state.switch_deviation_ns) > 0:
        cost_ns = drawn_switch_ns(state, p, q)
    if process.kernel:
        idle = state.processors[p].category == IDLE
        cost_ns += machine.idle_wakeup_beyond_switch_ns if idle else machine.wakeup_beyond_switch_ns
    elif reason == YIELDED and machine.yield_ns > 0:
        return int(machine.yield_ns)
    if reason == NEW_SLOT:
        cost_ns += state.processors[p].slot_cost_ns
    return int(cost_ns)


@step
def drawn_switch_ns(state: State, p: int, q: int) -> int:
    """What chance says that a switch of processor ``p`` to process ``q`` costs."""
    processor = state.processors[p]
    waits = state.processes[q].activity >= READING and state.accounts[q, DISPATCHES] > 0
    if waits and len(state.switch_after_idle_ns) > 0:
        index = drawn_idle_time(state, processor, state.clock.now_ns - state.accounts[q, LEFT])
        if index >= 0:
            return drawn(processor, state.switch_after_idle_ns[index])
    return max(0, int(state.machine.context_switch_ns) + drawn(processor, state.switch_deviation_ns))


@step
def send_cost_ns(state: State, p: int, q: int) -> int:
    """What it costs running process ``q`` to ask what it asks.

    The root of a barrier sends nothing, but has been idle like the others, and takes their messages in.
    """
    process = state.processes[q]
    silent = asks_itself(state, q)
    cost_ns = 0 if silent else int(state.machine.send_ns)
    of_others = process.activity != READING and state.jobs[process.job].processes > 1
    if len(state.send_after_idle_ns) > 0 and (of_others or not silent):
        index = drawn_idle_time(state, state.processors[p], state.clock.now_ns - process.wait_ended_ns)
        if index >= 0:
            cost_ns += drawn(state.processors[p], state.send_after_idle_ns[index])
    return cost_ns


@hot
def asks_itself(state: State, q: int) -> bool:
    """Whether process ``q``'s request is to itself and so needs no message."""
    return bool(state.processes[q].target == q and not state.machine.messages_to_self)


@step
def load_set(state: State, p: int, q: int) -> None:
    """Process ``q`` gets processor ``p``: note the time that it needs to load the missing part of its set.

    A process that computes needs this time at once, others when they compute next.
    """
    process = state.processes[q]
    state.processors[p].turns += 1
    if process.set_bytes > 0:
        cold_ns = int(missing_bytes(state, p, q) / state.machine.cache_bytes * state.machine.cache_reload_ns)
        process.warm_on = p
        if process.activity == COMPUTE:
            process.remaining_ns += cold_ns
        else:
            process.cold_ns = max(process.cold_ns, cold_ns)
    state.turns[p, q] = state.processors[p].turns


@step
def missing_bytes(state: State, p: int, q: int) -> int:
    """The part of ``q``'s working set that is not in ``p``'s cache but would fit."""
    process = state.processes[q]
    cache_bytes = state.machine.cache_bytes
    most = min(process.set_bytes, cache_bytes)
    if process.warm_on != p:
        return int(most)
    others = 0
    for other in range(len(state.processes)):
        if state.turns[p, other] > state.turns[p, q]:
            others += state.processes[other].set_bytes
    return int(min(most, max(0, others + process.set_bytes - cache_bytes))) if others > 0 else 0
